"""Whoever guesses what comes next is checked as a draft is: one forward pass of the target, and the
normal walk down the tree. So a person can be compared with a draft model on the same positions.
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
"""Methods that guess from the same context, with the setting that says how far."""


@dataclass(frozen=True)
class Guess:
    """What one player proposed behind a context, and what the target made of it.

    tokens    of the branch that the target went along furthest, token ids
    accepted  how many of them, from the first
    target_token  correction or bonus; None where an accepted token ends the text
    rows      of the target's pass
    """

    tokens: tuple[int, ...]
    accepted: int
    target_token: int | None
    rows: int

    @property
    def emitted(self) -> tuple[int, ...]:
        """The tokens of the step, as of any other."""
        last = () if self.target_token is None else (self.target_token,)
        return self.tokens[: self.accepted] + last


def spellings(pair: Pair, text: str, typed: str, most: int) -> list[tuple[int, ...]]:
    """What was typed as token ids, at most so many; with a space before it, too, and that first,
    where neither the text ends nor what was typed begins with white space.

    Raises InvalidInput where nothing but white space was typed.
    """
    check_text(typed)
    if not typed.strip():
        raise InvalidInput("write at least one word: what may come next?")
    own = typed.rstrip()
    joined = not own[0].isspace() and not text[-1:].isspace()
    found = [" " + own, own] if joined else [own]
    ids = (tuple(pair.tokenizer(one, add_special_tokens=False).input_ids) for one in found)
    return list(dict.fromkeys(one[:most] for one in ids))


def tree_of(context: Sequence[int], branches: Iterable[Sequence[int]]) -> TokenTree:
    """The branches in one tree behind a context; what they begin with alike is one node."""
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
    """Judge a tree of branches by one forward pass, greedily; of branches that go equally far it is
    the first that counts."""
    choices = model.evaluate(context, tree).argmax()
    path, token = verify(tree, choices.__getitem__)
    kept, last = truncate(tree, path, token, stop_tokens, budget=len(path) + 1)
    written = tuple(tree.tokens[node] for node in kept)
    agree = [branch for branch in branches if tuple(branch[: len(written)]) == written]
    return Guess(tuple(agree[0]) if agree else (), len(written), last, len(tree))


def rivals(pair: Pair, context: tuple[int, ...], most: int) -> dict[str, TokenTree]:
    """What the draft model, where there is one, and prompt lookup propose behind a context: at most
    so many tokens each."""
    sampler = Sampler(Sampling(), pair.target.vocabulary)
    resources = Resources(sampler, pair.draft, pair.stop_tokens)
    found = {}
    for name, setting in RIVALS.items():
        kind = methods.get(name)
        if Need.DRAFT_MODEL in kind.needs and pair.draft is None:
            continue
        method = methods.create(kind, kind.Hyperparameters(**{setting: most}), resources)
        method.start(TokenizedPrompt(context), most + 1)
        found[name] = method.propose(Context(context, most + 1, 0))
    return found


def play(
    pair: Pair, context: Sequence[int], typed: Sequence[Sequence[int]], most: int
) -> dict[str, Guess]:
    """One round: by player, what was guessed behind a context and how far the target goes along.

    typed  the spellings of what the visitor wrote, all checked in one pass as branches of a tree
    Raises InvalidInput where context and guess do not fit the model.
    """
    text = tuple(context)
    check_length(text, most + 1, pair.target)
    outside = next((t for one in typed for t in one if t >= pair.target.vocabulary), None)
    if outside is not None:
        raise InvalidInput(
            f"what you wrote holds token id {outside}, beyond the vocabulary of "
            f"{pair.target.name}: write it another way"
        )
    pair.target.prefill(text)
    own = tree_of(text, typed)
    found = {YOU: check(pair.target, text, own, typed, pair.stop_tokens)}
    for name, tree in rivals(pair, text, most).items():
        branch = [tree.tokens[1:]]
        found[name] = check(pair.target, text, tree, branch, pair.stop_tokens)
    return found
