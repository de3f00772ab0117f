"""Choosing a token: greedy, or exact sampling with noise keyed by absolute position.

A token is chosen at text position n by `argmax(log p / T + g_n)`, where g_n is Gumbel noise drawn
for (seed, prompt, n) alone (the Gumbel-max trick). The choice then depends on the position and on
the target's distribution, never on how the position was reached: under the rule `match` every
method writes the text of plain sampling with the same seed, token for token. Two prompts have
different noise under one seed, so that samples of several prompts are independent. A draft model
that chooses with the same noise agrees with a probability of at least (1 - TV) / (1 + TV), where TV
is the total variation distance of p and q; rejection sampling accepts 1 - TV, which is the most
that is possible (Daliri et al., "Coupling without communication and drafter-invariant speculative
decoding", arXiv 2408.07978).

All arithmetic is numpy in float64 on the rows that the walk visits: the same logits mean the same
choice on every device. A model that draws its tokens itself (`tree.DrawsTokens`) uses the same
noise.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, TypeAlias, cast
from weakref import ReferenceType, ref

from pydantic import Field

from ouroboros_core import rules
from ouroboros_core.arrays import np, npt
from ouroboros_core.rules.parts.base import Rule, Target, Witness
from ouroboros_core.settings import Hyperparameters
from ouroboros_core.tree import Draw, DrawsTokens, Evaluation, Probabilities, TokenTree

Scores: TypeAlias = "npt.NDArray[np.float64]"

if TYPE_CHECKING:
    Acceptance = str
else:  # the ids of the rules, so that pydantic checks a value and names the allowed ones
    Acceptance = Literal[tuple(rules.available())]


class Sampling(Hyperparameters):
    """Settings of the target's choice; temperature 0 is greedy."""

    temperature: float = Field(
        0.0, ge=0.0, le=2.0, allow_inf_nan=False, description="0 is greedy; higher is more random."
    )
    top_k: int = Field(
        0, ge=0, le=1_000_000, description="Keep the k most probable tokens; 0 keeps all."
    )
    top_p: float = Field(
        1.0,
        gt=0.0,
        le=1.0,
        allow_inf_nan=False,
        description="Keep the most probable tokens of this total mass.",
    )
    seed: int = Field(
        0,
        ge=0,
        le=2**32 - 1,
        description="Seed of the noise, and of the lookahead window's first tokens.",
    )
    acceptance: Acceptance = Field(
        rules.DEFAULT, description=f"How a sampled draft is judged: {rules.explained()}."
    )

    @property
    def rule(self) -> Rule:
        """The acceptance rule that judges drafts; greedy, it is always the default."""
        return rules.get(rules.DEFAULT if self.temperature == 0 else self.acceptance)

    @property
    def lossless(self) -> bool:
        """Whether the text follows the target's probabilities."""
        return self.rule.lossless

    @property
    def repeats_plain_text(self) -> bool:
        """Whether the text is that of plain decoding with the same seed."""
        return self.rule.repeats_plain_text

    def plain(self) -> Sampling:
        """Return the settings of plain decoding, which knows only the default rule."""
        return self.model_copy(update={"acceptance": rules.DEFAULT})

    @property
    def kind(self) -> str:
        """The name of plain decoding under these settings."""
        return "greedy" if self.temperature == 0 else "plain sampling"


TINY = 1e-100
"""Below this temperature a division by it may overflow."""


def process(logits: npt.NDArray[np.floating], sampling: Sampling) -> Scores:
    """Return scores [vocabulary] after temperature, top-k and top-p in Hugging Face's order; an
    excluded token has -inf.

    Needs temperature > 0. Ties at the edge of top-k stay, as in Hugging Face's TopKLogitsWarper.
    """
    scores: Scores = np.array(logits, dtype=np.float64)
    if sampling.temperature < TINY:
        scores -= scores.max()
    with np.errstate(over="ignore"):  # of a tiny temperature, towards -inf
        scores /= sampling.temperature
    if 0 < sampling.top_k < len(scores):
        edge = np.partition(scores, -sampling.top_k)[-sampling.top_k]
        scores = np.where(scores < edge, -np.inf, scores)
    return _nucleus(scores, sampling.top_p) if sampling.top_p < 1.0 else scores


FEW = 256
"""If the FEW most probable tokens have enough mass, no others are sorted."""


def _nucleus(scores: Scores, top_p: float) -> Scores:
    """Return scores [vocabulary]; -inf outside the most probable tokens with a mass of `top_p`."""
    weights = _weights(scores)
    total = weights.sum()
    left_out = (1.0 - top_p) * total
    # All tokens below an equal share of the excluded mass have less than that mass together, so
    # they are excluded. All but the FEW most probable are excluded if they have no more than it.
    # Only the other candidates are sorted; weights that are not numbers are among them.
    candidates = np.flatnonzero(~(weights < left_out / len(weights)))
    if len(candidates) > FEW:
        few = candidates[weights[candidates] >= np.partition(weights[candidates], -FEW)[-FEW]]
        if total - weights[few].sum() <= left_out:
            candidates = few
    order = candidates[np.argsort(scores[candidates], kind="stable")]
    mass = total - weights[candidates].sum() + np.cumsum(weights[order])
    nucleus = np.full_like(scores, -np.inf)
    inside = order[np.count_nonzero(mass[:-1] <= left_out) :]
    nucleus[inside] = scores[inside]
    return nucleus


def _weights(scores: Scores) -> Scores:
    """Return exp(scores) [vocabulary], scaled so that the largest is 1."""
    possible = np.flatnonzero(scores != -np.inf)
    largest = scores.max()
    if len(possible) == len(scores):
        weights: Scores = np.exp(scores - largest)
    else:  # numpy's exp is slow at -inf
        weights = np.zeros_like(scores)
        weights[possible] = np.exp(scores[possible] - largest)
    return weights


def softmax(scores: Scores) -> Scores:
    """Return probabilities [vocabulary] from scores."""
    weights = _weights(scores)
    result: Scores = weights / weights.sum()
    return result


def likely(p: Probabilities, least: float) -> Probabilities:
    """Return p [vocabulary] without the tokens below a share `least` of the largest probability,
    normalised."""
    if least <= 0:
        return p
    likely_p: Probabilities = np.where(p < least * p.max(), 0.0, p)
    likely_p /= likely_p.sum()
    return likely_p


def without(q: Probabilities, token: int) -> Probabilities:
    """Return q [vocabulary] after a token was drawn without replacement: the other tokens,
    normalised. All zero if no other token is possible."""
    rest = q.copy()
    rest[token] = 0.0
    total = rest.sum()
    return rest / total if total > 0 else rest


def question_of(prompt: Sequence[int]) -> int:
    """Return a hash of 63 bits of a prompt, given as token ids."""
    ids = struct.pack(f"<{len(prompt)}q", *prompt)
    return int.from_bytes(blake2b(ids, digest_size=8).digest(), "little") >> 1


def generator(
    seed: int, position: int, stream: int = 0, run: int = 0, draw: int = 0, question: int = 0
) -> np.random.Generator:
    """Return random numbers that depend on the arguments alone, from a counter-based generator.

    stream    0 or 1
    question  the hash of the prompt (`question_of`); 0 without a prompt
    """
    key = np.array([seed, position], dtype=np.uint64)
    counter = np.array([0, draw, run, question << 1 | stream], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def gumbel(
    seed: int, position: int, size: int, run: int = 0, draw: int = 0, question: int = 0
) -> Scores:
    """Return Gumbel noise [size] for one text position."""
    random = generator(seed, position, run=run, draw=draw, question=question)
    noise: Scores = -np.log(random.standard_exponential(size))
    return noise


class Stopwatch:
    """Count the seconds that it runs."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._since: float | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run in this context; a running stopwatch continues."""
        if self._since is not None:
            yield
            return
        self._since = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - self._since
            self._since = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop in this context; a stopped stopwatch stays stopped."""
        if self._since is None:
            yield
            return
        self.seconds += time.perf_counter() - self._since
        self._since = None
        try:
            yield
        finally:
            self._since = time.perf_counter()


class Sampler:
    """Make the random choices of one run.

    vocabulary  the target's size; a smaller draft vocabulary uses the first part of the noise
    run         number of earlier runs with the same phrases, for a rule that needs the draft's
                probabilities: the phrases depend on the randomness of those runs, so this run needs
                other random numbers. Under other rules it changes nothing
    """

    def __init__(self, sampling: Sampling, vocabulary: int, run: int = 0) -> None:
        self.sampling = sampling
        self.rule = sampling.rule
        self.vocabulary = vocabulary
        self._run = run if self.rule.needs_probabilities else 0
        self._question = 0
        self.drawing = Stopwatch()
        """Runs while something is drawn at random, but not while a model computes."""
        self._noise: dict[tuple[int, int], Scores] = {}
        self._latest: tuple[ReferenceType[Evaluation], int, Scores] | None = None
        """The latest evaluation, node and scores: drawing a token under `rejection` also needs its
        probabilities."""

    def begin(self, prompt: Sequence[int]) -> None:
        """Begin a text with a prompt (token ids)."""
        self._question = question_of(prompt)
        self._noise.clear()

    def noise(self, position: int, draw: int = 0) -> Scores:
        """Return the noise of a position, from a small cache: draft and target need the same."""
        key = position, draw
        if key not in self._noise:
            if len(self._noise) >= 64:
                self._noise.pop(next(iter(self._noise)))
            self._noise[key] = gumbel(
                self.sampling.seed, position, self.vocabulary, self._run, draw, self._question
            )
        return self._noise[key]

    def probabilities(self, evaluation: Evaluation, node: int) -> Probabilities:
        """Return probabilities [vocabulary] after a node, with temperature, top-k and top-p; needs
        temperature > 0."""
        with self.drawing.running():
            return softmax(self._scores(evaluation, node))

    def _scores(self, evaluation: Evaluation, node: int) -> Scores:
        """Return the scores [vocabulary] of `process` after a node. Do not change them."""
        if self._latest is not None:
            latest_evaluation, latest_node, scores = self._latest
            if latest_evaluation() is evaluation and latest_node == node:
                return scores
        with self.drawing.paused():
            logits = evaluation.logits(node)
        scores = process(logits, self.sampling)
        self._latest = ref(evaluation), node, scores
        return scores

    def generator(self, position: int) -> np.random.Generator:
        """Return random numbers to judge drafts at a text position, independent of its noise."""
        return generator(
            self.sampling.seed, position, stream=1, run=self._run, question=self._question
        )

    def chooser(
        self, evaluation: Evaluation, tree: TokenTree, root_position: int, draw: int = 0
    ) -> Callable[[int], int]:
        """Return the function from a node to the token chosen after it.

        root_position  text position of the tree's root
        draw           0 draws with the target's noise, each other number with different noise
        """
        if self.sampling.temperature == 0:
            # The ids are the target's, even if a draft scores only a part of the vocabulary, and
            # the nodes are all nodes, even if the tree has grown: models/forward.py.
            return evaluation.argmax().__getitem__
        if (drawn := self._drawer(evaluation, tree, root_position, draw)) is not None:
            return lambda node: drawn(node, 1)[0]

        def choose(node: int) -> int:
            with self.drawing.running():
                scores = self._scores(evaluation, node)
                position = root_position + tree.depths[node] + 1
                return int(np.argmax(scores + self.noise(position, draw)[: len(scores)]))

        return choose

    def _drawer(
        self, evaluation: Evaluation, tree: TokenTree, root_position: int, turn: int
    ) -> Callable[[int, int], list[int]] | None:
        """Return a function of a node and k: the k tokens that the model draws after it, the choice
        first. None if the model does not draw, or if the rule needs probabilities."""
        if self.rule.needs_probabilities or not hasattr(evaluation, "drawn"):
            return None
        model, settings = cast(DrawsTokens, evaluation), self.sampling
        amounts = settings.temperature, settings.top_k, settings.top_p, settings.seed

        def drawn(node: int, k: int) -> list[int]:
            position = root_position + tree.depths[node] + 1
            with self.drawing.running():
                return model.drawn(node, k, Draw(*amounts, position, turn, self._question))

        return drawn

    def judge(
        self,
        tree: TokenTree,
        evaluation: Evaluation,
        root_position: int,
        witness: Witness | None = None,
    ) -> tuple[tuple[int, ...], int]:
        """Judge a tree by the acceptance rule. Return the accepted path, as node indices without
        the root, and the target token that follows it.

        root_position  text position of the tree's root
        witness        receives every random trial
        """
        target = Target(
            self.chooser(evaluation, tree, root_position),
            lambda node: self.probabilities(evaluation, node),
            lambda node: self.generator(root_position + tree.depths[node] + 1),
        )
        if self.sampling.temperature == 0:
            return self.rule.judge(tree, target, witness)
        with self.drawing.running():
            return self.rule.judge(tree, target, witness)

    def ranker(
        self,
        evaluation: Evaluation,
        tree: TokenTree,
        root_position: int,
        k: int,
        draw: int = 0,
        least: float = 0.0,
    ) -> Callable[[int], list[int]]:
        """Return the function from a node to k different tokens after it, or to all possible tokens
        if there are fewer. The first is the choice of `chooser`.

        Greedy, they are the likeliest ones. Sampled, they are the largest by log-probability plus
        noise: drawn one after the other without replacement (the Gumbel-top-k trick, Kool et al.,
        arXiv 1903.06059). With `least` they are drawn from the result of `likely`, in which the
        choice of `chooser` may be missing; greedy, it changes nothing.
        """
        if self.sampling.temperature == 0:
            return evaluation.likeliest(k).__getitem__
        drawn = self._drawer(evaluation, tree, root_position, draw)
        if drawn is not None and not least:
            return lambda node: drawn(node, k)

        def rank(node: int) -> list[int]:
            with self.drawing.running():
                scores = self._scores(evaluation, node)
                if least > 0:
                    scores = np.where(likely(softmax(scores), least) > 0, scores, -np.inf)
                position = root_position + tree.depths[node] + 1
                perturbed = scores + self.noise(position, draw)[: len(scores)]
                count = min(k, len(scores))
                best = np.argpartition(-perturbed, count - 1)[:count]
                ordered = best[np.argsort(-perturbed[best], kind="stable")]
                possible: list[int] = ordered[softmax(scores)[ordered] > 0].tolist()
                return possible

        return rank
