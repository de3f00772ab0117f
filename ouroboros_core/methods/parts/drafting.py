"""The draft model of a method: reads the prompt when that is due, and evaluates trees; and the
chain that a drafter writes."""

from __future__ import annotations

from collections.abc import Iterator

from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.methods.parts.base import Context, Resources, TokenizedPrompt
from ouroboros_core.sources import Source
from ouroboros_core.tree import Evaluation, Provenance, TokenTree, TreeBuilder

Frontier = dict[int, float]
"""The nodes behind which a tree is to grow, with the probability of each path to them."""

Level = tuple[Evaluation, TokenTree]
"""What a draft pass says, and the tree that it says it of."""


class DraftModel:
    """One text's draft model."""

    def __init__(self, resources: Resources, adjustable: bool) -> None:
        """adjustable: whether the draft length is 'auto'; the prompt is then read when the first
        draft is asked for."""
        assert resources.draft_model is not None
        self.model: LanguageModel = resources.draft_model
        self._adjustable = adjustable
        self._skipped = 0

    def start(self, prompt: TokenizedPrompt, max_new_tokens: int) -> None:
        """Begin a new text; reads the prompt at once where the draft length is fixed. Of a text
        that is longer than the model has positions for it gets the end: at least as much of the
        prompt as half of them."""
        length, most = len(prompt.tokens), self.model.max_length
        self._skipped = max(0, length - max(most - max_new_tokens, most // 2))
        self.model.forget()
        self.model.reserve(length - self._skipped + max_new_tokens)
        if not self._adjustable:
            self.model.prefill(prompt.tokens[self._skipped :])

    def evaluate(self, text: tuple[int, ...], tree: TokenTree) -> Evaluation:
        """The outputs after every node of a tree at the end of the text."""
        return self.model.evaluate(text[self._skipped :], tree)

    def extend(self, evaluation: Evaluation, tree: TokenTree) -> Evaluation:
        """The outputs after every node of a tree that goes on where `evaluation` ends."""
        return self.model.extend(evaluation, tree)

    def levels(
        self, context: Context, builder: TreeBuilder, frontier: Frontier, depth: int
    ) -> Iterator[Level]:
        """Draft a tree level by level, one draft pass for each: gives the outputs after the nodes
        of `frontier`, and its user grows the tree there and puts the new nodes into it.

        builder   the tree, with its root alone in the beginning
        frontier  node -> the probability, by the draft's own account, that the text goes on through
                  it; {0: 1.0} in the beginning. Where it is empty nothing more is drafted
        depth     levels at most; fewer where the text ends or another pass is not worth its time
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
    """The outputs after every node of a tree, by one draft pass over those that are new."""
    if evaluation is None:
        return drafter.evaluate(tokens, tree)
    return drafter.extend(evaluation, tree)


def drafted_chain(
    resources: Resources,
    drafter: Drafter | DraftModel,
    context: Context,
    longest: int,
    least: float = 0.0,
) -> TokenTree:
    """At most `longest` tokens, drafted one after the other by growing one tree; ends behind a stop
    token and the first one whose probability in the draft is below `least`, where the text ends
    (the target adds the last token), and where another pass is not worth its time."""
    builder, reach = TreeBuilder(context.root), 1.0
    evaluation: Evaluation | None = None
    # In a chain the tip's node number is its depth.
    for tip in range(min(longest, context.deepest)):
        # Without limit where the length is fixed; otherwise the controller's `PricedBudget`.
        if not context.budget.allows_pass(reach):
            break
        tree = builder.build()
        evaluation = _grown(drafter, evaluation, context.tokens, tree)
        root_position = len(context.tokens) - 1
        # Greedy the most probable token. Otherwise one that noise picks: the target's own, or
        # another where a rule rejects (`Resources.chooser`).
        token = resources.chooser(evaluation, tree, root_position, context.step)(tip)
        confidence = evaluation.confidence(tip, token)
        origin = Provenance(Source.DRAFT, step=context.step, confidence=round(confidence, 2))
        builder.note_output(tip, (evaluation, tip))
        builder.add(token, tip, origin, resources.drawn_from(evaluation, tip))
        reach *= confidence
        if token in resources.stop_tokens or confidence < least:
            break
    return builder.build()
