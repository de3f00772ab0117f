"""Jacobi decoding on a target that is a function typed by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ouroboros_core.methods.jacobi import Jacobi
from ouroboros_core.methods.parts.base import (
    Context,
    Resources,
    Sizing,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.tree import Evaluation

Next = Callable[[Sequence[int]], int]


class Outputs:
    """The target's choice after each node of a chain."""

    def __init__(self, following: Next, context: Sequence[int], chain: Sequence[int]) -> None:
        texts = [[*context, *chain[1 : end + 1]] for end in range(len(chain))]
        self.chosen = [following(text) for text in texts]

    def argmax(self) -> list[int]:
        return self.chosen


def blocks(following: Next, prompt: tuple[int, ...], size: int, length: int) -> list[list[int]]:
    """Return the guesses before each step, and check that the text is the target's."""
    method = Jacobi(Jacobi.Hyperparameters(block_size=size), Resources())
    method.start(TokenizedPrompt(prompt), length)
    text, guesses = list(prompt), []
    while len(text) < len(prompt) + length:
        guesses.append(list(method.guesses))
        context = Context(tuple(text), len(prompt) + length - len(text), len(guesses) - 1)
        tree = method.propose(context)
        evaluation: Any = Outputs(following, text, tree.tokens)
        pairs = zip(tree.tokens[1:], evaluation.chosen, strict=False)
        accepted = len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))
        path, target_token = tuple(range(1, accepted + 1)), evaluation.chosen[accepted]
        result = VerificationResult.whole_step(context, tree, evaluation, path, target_token)
        method.learn(result)
        text += result.emitted
    expected = list(prompt)
    while len(expected) < len(text):
        expected.append(following(expected))
    assert text == expected
    return guesses


def test_the_next_guesses_are_the_outputs_behind_the_first_wrong_guess() -> None:
    """The target counts up by one. Guesses 9 9 9 are answered by 10 10 10: after the root 4 the
    text gets 5, and what stands behind the wrong guesses is guessed next."""
    first, second, *_ = blocks(lambda text: text[-1] + 1, (9, 4), size=3, length=8)
    assert set(first) <= {9, 4}
    assert second[:2] == [guess + 1 for guess in first[:2]]


def test_a_target_that_looks_at_positions_alone_is_guessed_right_from_the_second_pass_on() -> None:
    """Period 2: outputs do not depend on the guesses, so one pass settles the whole block."""
    steps = blocks(lambda text: 7 + len(text) % 2, (1, 2, 3), size=4, length=20)
    assert steps[1][:3] == [7, 8, 7]
    assert len(steps) < 12


def test_there_are_never_more_passes_than_tokens() -> None:
    assert len(blocks(lambda text: sum(text) % 13, (3, 5), size=6, length=30)) <= 30


def test_where_every_row_costs_time_one_token_is_guessed_by_itself() -> None:
    method = Jacobi(Jacobi.Hyperparameters(), Resources(sizing=Sizing(target_rows=1)))
    method.start(TokenizedPrompt((1, 2)), 8)
    context = Context((1, 2), 8, 0)
    tree = method.propose(context)
    assert len(tree.proposals) == 1 and method.adjustable
    outputs: Any = Outputs(lambda text: 5, (1, 2), (2,))
    plain = VerificationResult.whole_step(context, tree.only([]), outputs, (), 5)
    method.learn(plain.of(tree, {0: 0}))
    assert set(method.guesses) <= {1, 2}, "nothing was put out behind a guess that is left out"


class Flat:
    """Outputs of a target that gives every token of a vocabulary of 50 the same logit."""

    def logits(self, node: int) -> npt.NDArray[np.floating]:
        return np.zeros(50)


def test_sampled_guesses_are_chosen_with_the_noise_of_their_own_positions() -> None:
    """With equal logits the noise alone decides, so the guesses are what the target writes next."""
    sampler = Sampler(Sampling(temperature=1.0, seed=4), 50)
    method = Jacobi(Jacobi.Hyperparameters(block_size=5), Resources(sampler))
    method.start(TokenizedPrompt((1, 2, 3)), 20)
    context = Context((1, 2, 3), 20, 0)
    tree, evaluation = method.propose(context), cast(Evaluation, Flat())
    choose = sampler.chooser(evaluation, tree, root_position=2)
    assert choose(0) != tree.tokens[1], "nothing is accepted"
    method.learn(VerificationResult.whole_step(context, tree, evaluation, (), choose(0)))
    after = method.propose(Context((1, 2, 3, choose(0)), 19, 1))
    later = sampler.chooser(evaluation, after, root_position=3)
    assert [later(node) for node in range(4)] == list(after.tokens[1:5])
