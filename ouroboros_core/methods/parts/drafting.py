"""The draft model of a method, and the chain that a drafter writes."""

from __future__ import annotations

from collections.abc import Iterator

from ouroboros_core.interfaces import Drafter, LanguageModel, SeesSkipped
from ouroboros_core.methods.parts.base import Context, Resources, TokenizedPrompt
from ouroboros_core.methods.parts.stopping import Stop
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Provenance, TokenTree, TreeBuilder

Frontier = dict[int, float]
"""Nodes after which a tree will grow, each with the probability of the path to it."""

Level = tuple[Evaluation, TokenTree]
"""The outputs of a draft pass, and the tree that it evaluated."""


class DraftModel:
    """A draft model that reads one text and evaluates trees at its end."""

    def __init__(self, resources: Resources, adjustable: bool) -> None:
        """adjustable: the draft length is 'auto', so the prompt is read at the first draft."""
        assert resources.draft_model is not None
        self.model: LanguageModel = resources.draft_model
        self._adjustable = adjustable
        self._skipped = 0

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        """Begin a new text; read the prompt at once if the draft length is fixed.

        The model reads the end of a text that is longer than it has positions for; at least half of
        the positions are left for the prompt.
        """
        length, positions = len(prompt.tokens), self.model.max_length
        self._skipped = max(0, length - max(positions - max_new_tokens, positions // 2))
        if isinstance(self.model, SeesSkipped):
            self.model.skipped = prompt.tokens[: self._skipped]
        self.model.forget()
        self.model.reserve(length - self._skipped + max_new_tokens)
        if not self._adjustable:
            self.model.prefill(prompt.tokens[self._skipped :])

    def evaluate(self, text: tuple[int, ...], tree: TokenTree) -> Evaluation:
        """Return the outputs after every node of a tree at the end of the text."""
        return self.model.evaluate(text[self._skipped :], tree)

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> Evaluation:
        """Return the outputs after every node of a tree that extends the one of `evaluation`."""
        return self.model.extend(evaluation, tree)

    def levels(
        self, context: Context, builder: TreeBuilder, frontier: Frontier, depth: int
    ) -> Iterator[Level]:
        """Draft a tree level by level, with one draft pass for each. Yield the outputs after the
        nodes of `frontier`; the caller adds nodes to the tree and puts them into `frontier`.

        builder   the tree, at first with its root only
        frontier  node -> probability, estimated by the draft, that the text continues through it;
                  at first {0: 1.0}. Drafting ends if it is empty
        depth     largest number of levels; fewer if the text ends or a pass is not worth its time
        """
        evaluation: Evaluation | None = None
        for _ in range(min(depth, context.deepest)):
            reach = sum(frontier.values())
            if not frontier or not context.budget.allows_pass(reach, len(frontier)):
                return
            tree = builder.build()
            evaluation = _grown(self, evaluation, context.tokens, tree)
            for node in frontier:
                builder.note_output(node, (evaluation, node))
            yield evaluation, tree


def _grown(
    drafter: Drafter | DraftModel,
    evaluation: Evaluation | None,
    tokens: tuple[int, ...],
    tree: TokenTree,
) -> Evaluation:
    """Return the outputs after every node of a tree, by one draft pass over the new nodes."""
    if evaluation is None:
        return drafter.evaluate(tokens, tree)
    return drafter.extend(evaluation, tree)


def drafted_chain(
    resources: Resources, drafter: Drafter | DraftModel, context: Context, stop: Stop
) -> TokenTree:
    """Return a chain of draft tokens, by one pass for each.

    The chain ends where `stop` says, after a stop token, where the text ends (the target adds the
    last token), and if another pass is not worth its time.
    """
    builder, reach = TreeBuilder(context.root), 1.0
    evaluation: Evaluation | None = None
    # The node number of a chain's last node is its depth.
    for tip in range(min(stop.length(), context.deepest)):
        # No limit if the length is fixed; otherwise the controller's `PricedBudget`.
        if not context.budget.allows_pass(reach):
            break
        tree = builder.build()
        evaluation = _grown(drafter, evaluation, context.tokens, tree)
        if stop.before(evaluation, tip):
            break
        root_position = len(context.tokens) - 1
        # Greedy: the most probable token. Sampled: chosen with the target's noise, or with other
        # noise if the acceptance rule rejects (`Resources.chooser`).
        token = resources.chooser(evaluation, tree, root_position, context.step)(tip)
        confidence = evaluation.confidence(tip, token)
        origin = Provenance(Source.DRAFT, step=context.step, confidence=round(confidence, 2))
        builder.note_output(tip, (evaluation, tip))
        builder.add(token, tip, origin, resources.drawn_from(evaluation, tip))
        reach *= confidence
        if token in resources.stop_tokens or stop.behind(evaluation, tip, confidence):
            break
    return builder.build()
