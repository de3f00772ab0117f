"""Guesses of the next tokens, checked like drafts: one forward pass of the target, one walk down
the tree. So a person and a draft model are compared on the same positions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ouroboros_core import methods
from ouroboros_core.decoding.loop import check_length
from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import LanguageModel
from ouroboros_core.loading.capacity import check_text
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.methods.parts.base import Context, Resources, TokenizedPrompt
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.rules.match import verify
from ouroboros_core.sampling import Sampler, Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder, truncate

YOU = "you"
"""The player who types."""
RIVALS = {"speculative": "gamma", "prompt_lookup": "num_tokens"}
"""Methods that guess from the same context, with their setting for the draft length."""


@dataclass(frozen=True)
class Guess:
    """The proposal of one player behind a context, judged by the target.

    tokens        token ids of the branch that the target followed furthest
    accepted      how many of them, from the first
    target_token  correction or bonus; None if an accepted token ends the text
    rows          of the target's pass
    """

    tokens: tuple[int, ...]
    accepted: int
    target_token: int | None
    rows: int

    @property
    def emitted(self) -> tuple[int, ...]:
        """Return the tokens of the step, as in any run."""
        last = () if self.target_token is None else (self.target_token,)
        return self.tokens[: self.accepted] + last


def spellings(pair: Pair, text: str, typed: str, longest: int) -> list[tuple[int, ...]]:
    """Return the typed words as token ids, at most `longest`, in one or two spellings.

    If there is no white space between text and words, the spelling with a space comes first.
    Raises InvalidInput if only white space was typed.
    """
    check_text(typed)
    if not typed.strip():
        raise InvalidInput("write at least one word: what may come next?")
    words = typed.rstrip()
    touches = not words[0].isspace() and not text[-1:].isspace()
    texts = [" " + words, words] if touches else [words]
    ids = (tuple(pair.template.as_text(text)) for text in texts)
    return list(dict.fromkeys(tokens[:longest] for tokens in ids))


def tree_of(context: Sequence[int], branches: Iterable[Sequence[int]]) -> TokenTree:
    """Return one tree of branches behind a context; equal beginnings share their nodes."""
    builder = TreeBuilder(context[-1])
    for branch in branches:
        builder.add_path(branch, 0, Provenance(Source.DRAFT))
    return builder.build()


def check(
    model: LanguageModel,
    context: Sequence[int],
    tree: TokenTree,
    branches: Sequence[Sequence[int]],
    stop_tokens: AbstractSet[int] = frozenset(),
) -> Guess:
    """Judge a tree of branches by one forward pass, greedily.

    Of branches that the target follows equally far, the first counts.
    """
    choices = model.evaluate(context, tree).argmax()
    path, token = verify(tree, choices.__getitem__)
    nodes, last = truncate(tree, path, token, stop_tokens, budget=len(path) + 1)
    written = tuple(tree.tokens[node] for node in nodes)
    agree = [branch for branch in branches if tuple(branch[: len(written)]) == written]
    return Guess(tuple(agree[0]) if agree else (), len(written), last, len(tree))


def rivals(pair: Pair, context: tuple[int, ...], longest: int) -> dict[str, TokenTree]:
    """Return the proposals of the draft model, if there is one, and of prompt lookup.

    longest  tokens of each
    """
    sampler = Sampler(Sampling(), pair.target.vocabulary)
    resources = Resources(sampler, pair.draft, pair.stop_tokens)
    trees = {}
    for name, setting in RIVALS.items():
        kind = methods.get(name)
        if Need.DRAFT_MODEL in kind.needs and pair.draft is None:
            continue
        method = methods.create(kind, kind.Hyperparameters(**{setting: longest}), resources)
        method.start(TokenizedPrompt(context), longest + 1)
        trees[name] = method.propose(Context(context, longest + 1, 0))
    return trees


def play(
    pair: Pair, context: Sequence[int], typed: Sequence[Sequence[int]], longest: int
) -> dict[str, Guess]:
    """Play one round and return the guesses by player.

    typed    the spellings of the visitor's words, checked in one pass as branches of a tree
    longest  tokens of a rival's guess
    Raises InvalidInput if context and guess do not fit the model.
    """
    text = tuple(context)
    check_length(text, longest + 1, pair.target)
    outside = next((t for tokens in typed for t in tokens if t >= pair.target.vocabulary), None)
    if outside is not None:
        raise InvalidInput(
            f"what you wrote holds token id {outside}, beyond the vocabulary of "
            f"{pair.target.name}: write it another way"
        )
    pair.target.prefill(text)
    tree = tree_of(text, typed)
    guesses = {YOU: check(pair.target, text, tree, typed, pair.stop_tokens)}
    for name, tree in rivals(pair, text, longest).items():
        branch = [tree.tokens[1:]]
        guesses[name] = check(pair.target, text, tree, branch, pair.stop_tokens)
    return guesses
