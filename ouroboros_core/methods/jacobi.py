"""Jacobi decoding: the target's own outputs of the last pass are the next guesses
(Santilli et al. 2023, arXiv 2305.10427, algorithm 1).

A block of guesses follows the text. One pass gives the target's choice after every guess; these
choices are the next block, moved on by the tokens that were written. A wrong guess spoils all
behind it, so without training little is gained. Lookahead decoding grew from it.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Le
from pydantic import Field

from ouroboros_core import settings
from ouroboros_core.methods.parts.base import (
    Adjustable,
    Context,
    Guesser,
    Method,
    Resources,
    Shape,
    TokenizedPrompt,
    VerificationResult,
)
from ouroboros_core.settings import AUTO, Auto, fixed_values
from ouroboros_core.sources import Source
from ouroboros_core.tree import Learned, Provenance, TokenTree, TreeBuilder

LARGEST = 15
"""Guesses at most where their number is 'auto'."""


class Jacobi(Method):
    """The block begins with random tokens of the prompt, and so does what a step leaves empty."""

    id = "jacobi"
    name = "Jacobi decoding"
    paper = "https://arxiv.org/abs/2305.10427"
    summary = (
        "No draft model: guesses a block of tokens and takes the target's own outputs as the next "
        "guesses, until they no longer change."
    )
    order = 19
    on_map = (Guesser.TARGET, Shape.CHAIN)

    published = fixed_values(block_size=16)
    """The block of the trajectories that the authors of CLLM published (arXiv 2403.00835)."""

    class Hyperparameters(settings.Hyperparameters):
        block_size: Annotated[int, Ge(1), Le(64)] | Auto = Field(
            AUTO,
            examples=[7],
            description="Guesses per step; auto has as many as cost no extra time, at least one.",
        )

    def __init__(self, hyperparameters: Hyperparameters, resources: Resources) -> None:
        super().__init__(hyperparameters, resources)
        size, free = hyperparameters.block_size, resources.sizing.target_rows - 1
        self.size = max(1, min(LARGEST, free)) if size == AUTO else size

    @property
    def adjustable(self) -> Adjustable | None:
        """Where a second row costs time, a controller decides whether the one guess is checked. A
        larger block is always checked whole: it gets better even if nothing is accepted."""
        is_dear = self.resources.sizing.target_rows == 1
        return Adjustable() if is_dear and self.hyperparameters.block_size == AUTO else None

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        self._rng, self._prompt = self.resources.rng(), prompt.tokens
        self.guesses = self._filled([])

    def _filled(self, guesses: list[int]) -> list[int]:
        """Return a whole block: guesses, then random tokens of the prompt."""
        missing = self.size - len(guesses)
        return guesses + [self._rng.choice(self._prompt) for _ in range(missing)]

    def propose(self, context: Context) -> TokenTree:
        builder = TreeBuilder(context.root, max_depth=context.deepest)
        origin = Provenance(Source.PHRASE, Learned.JACOBI, step=context.step)
        builder.add_path(self.guesses, 0, origin)
        return builder.build()

    def learn(self, result: VerificationResult) -> None:
        """Take the outputs behind the first guess that was not accepted."""
        tree, context = result.tree, result.context
        behind = sorted({*range(len(result.path) + 1, len(tree))} - result.unchecked)
        if self.resources.sampler.rule.needs_probabilities:
            outputs = result.evaluation.argmax()
            guesses = [outputs[node] for node in behind]
        else:  # with the noise that the target will choose with at these positions
            position = len(context.tokens) - 1
            choose = self.resources.chooser(result.evaluation, tree, position, context.step)
            guesses = [choose(node) for node in behind]
        self.guesses = self._filled(guesses)
