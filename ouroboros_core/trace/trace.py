"""The record of a run: a Trace with one Step per target pass. JSON keeps it without loss.

A fact is stored once. Everything that follows from it is a property here, a function in `metrics`
or a figure in `summary`.

The file of a run is the JSON object of its Trace. It may have one more member, `baseline`: the
Trace of the plain run that it was compared with. `file.read_trace` leaves it out, `file.read_run`
reads both.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import MaxLen

from ouroboros_core import bounds, methods, rules
from ouroboros_core.bounds import AddedText, Count, LongText, Name, Noise, Piece, Share, TokenId
from ouroboros_core.environment import Environment
from ouroboros_core.errors import InvalidInput
from ouroboros_core.messages import allowed
from ouroboros_core.methods.parts.base import Decision
from ouroboros_core.rules.parts.base import ALONE
from ouroboros_core.sources import Source, key_of
from ouroboros_core.tree import TokenTree

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    Test = str
else:  # the names of the tests that the rules declare, so that a trace with another is refused
    Test = Literal[rules.tests()]

VERSION = 1

Ending = Literal["budget", "stop token", "cancelled"]
Kind = Literal["correction", "bonus"]


@dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds of one step by phase.

    prefill          prefill of both models; zero after the first step
    draft            proposing a tree
    verify           the target's pass, and judging the tree by it
    learn            the method's learning from the result
    host             the rest, in the loop itself
    draft_sampling   the part of `draft` in which tokens were drawn at random, after the model's
                     passes: softmax, noise, draws. Zero if the choice is greedy, and in a trace of
                     a version before 2.0.0
    verify_sampling  the same part of `verify`
    """

    prefill: bounds.Seconds = 0.0
    draft: bounds.Seconds = 0.0
    verify: bounds.Seconds = 0.0
    learn: bounds.Seconds = 0.0
    host: bounds.Seconds = 0.0
    draft_sampling: bounds.Seconds = 0.0
    verify_sampling: bounds.Seconds = 0.0

    @property
    def phases(self) -> tuple[float, ...]:
        """Prefill, draft, verify, learn and host, which add up to the whole step."""
        return self.prefill, self.draft, self.verify, self.learn, self.host

    @property
    def decode(self) -> float:
        """All but prefill."""
        return sum(self.phases[1:])

    def times(self, factor: float) -> Seconds:
        """Return the seconds on a machine that takes `factor` times as long."""
        return Seconds(*(factor * seconds for seconds in astuple(self)))


@dataclass(frozen=True)
class Trial:
    """One random trial of a candidate: kept if u < min(1, p/q), or if u < p and it was not drawn (q
    is None).

    node    the candidate
    chance  the probability that u was compared with, if another test judged the candidate
    rule    the test: `token`, or another one of the acceptance rule. `k-seq` judges one of several
            independent draws, kept if u < min(1, p / (rho q)); `block` judges a token of a block,
            which is also kept if a later one is
    """

    node: int
    u: Share
    p: Share
    q: Share | None
    accepted: bool
    chance: float | None = None
    rule: Test = ALONE


@dataclass(frozen=True)
class Judged:
    """The models' opinions on the next token after a node at which the target chose.

    tokens  ids: the ten likeliest tokens of both models, the proposed ones and the chosen one
    target  the target's probability of each, after temperature, top-k and top-p; at temperature 1
            if the choice is greedy
    draft   the draft's probability of each; empty if it was not asked
    noise   the Gumbel noise of each: the token with the largest log-probability plus noise is
            chosen. Sampled by `match` only
    trials  the candidates in the order in which they were judged. Not by `match`
    left    the residual probabilities after the last rejection, from which the correction was
            drawn
    """

    node: int
    tokens: Annotated[tuple[TokenId, ...], MaxLen(bounds.MAX_ROWS)]
    target: tuple[Share, ...]
    draft: tuple[Share, ...] = ()
    noise: tuple[Noise, ...] = ()
    trials: tuple[Trial, ...] = ()
    left: tuple[Share, ...] = ()


@dataclass(frozen=True)
class Step:
    """One target pass.

    tree          the proposal that was checked, without the lookahead window
    path          accepted nodes in text order, without the root
    target_token  the token the target added itself; None if the text ended inside the path
    width         rows in the pass, window included: its price
    draft_passes  passes of the draft model
    pool_size     phrases in the pool after the step; None for a method without one
    choice        the decision about the step, if an amount is 'auto'
    writer        the model that chose the target token: the draft model if it writes alone, else
                  the target
    judged        the models' opinions at each node of the walk, the root first; empty unless they
                  were recorded
    window        (token, parent) of the nodes of the lookahead window, numbered after the tree's
                  nodes; empty unless recorded
    draft_rows_saved  nodes whose row the draft model did not compute, because they equal others;
                  drafted nodes with a `match` were then copied after them
    draft_rows    nodes that went through the draft passes; 0 in a trace of a version before 2.0.0
    """

    index: int
    tree: TokenTree
    path: tuple[int, ...]
    target_token: TokenId | None
    width: Count
    seconds: Seconds
    draft_passes: Count = 0
    pool_size: Count | None = None
    writer: Source = Source.TARGET
    choice: Decision | None = None
    judged: tuple[Judged, ...] = ()
    window: Annotated[tuple[tuple[int, int], ...], MaxLen(bounds.MAX_NODES)] = ()
    draft_rows_saved: Count = 0
    draft_rows: Count = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens this step emitted, in text order; at least one."""
        accepted = tuple(self.tree.tokens[node] for node in self.path)
        return accepted if self.target_token is None else (*accepted, self.target_token)

    @property
    def looks(self) -> tuple[str, ...]:
        """The key of the look (`sources.LOOKS`) of each of `tokens`."""
        accepted = tuple(key_of(self.tree.provenance[node].source) for node in self.path)
        if self.target_token is None:
            return accepted
        return (*accepted, key_of(self.writer, self.kind))

    @property
    def occurring(self) -> set[int]:
        """Every token id that occurs in this step."""
        listed = {token for judged in self.judged for token in judged.tokens}
        return listed | {token for token, _ in self.window} | {*self.tree.tokens, *self.tokens}

    @property
    def kind(self) -> Kind | None:
        """The kind of the target token: a correction after a rejection, a bonus after a branch that
        was accepted to its end, None if nothing was checked."""
        if self.target_token is None or len(self.tree) == 1:
            return None
        return "correction" if self.tree.children(self.path[-1] if self.path else 0) else "bonus"

    @property
    def tested(self) -> int:
        """Depth to which the draft was judged: accepted tokens, and a rejected one if any."""
        return len(self.path) + (self.kind == "correction")


@dataclass(frozen=True)
class Prompt:
    """The prompt as typed, whether a chat template was put around it, and its token ids."""

    text: LongText
    chat: bool
    tokens: Annotated[tuple[TokenId, ...], MaxLen(bounds.MAX_TOKENS)]


@dataclass(frozen=True)
class Trace:
    """A run.

    texts   the text each emitted token added; together the tokenizer's decoding of all of them, see
            `TextStream` (after a cancelled run: of the tokens that were whole characters)
    pieces  the text of every token id that occurs in a tree, on its own: for pictures, where a
            token may be half a character
    prediction   the expected text, if one was given
    corpus  the corpus that the method could look into
    generation_config  the checkpoint's own generation settings in force, such as a penalty; empty
                       if it has none, they were switched off, or `custom_generate` applied them
    grammar  the grammar that the text follows, as {kind: text}, see `models.grammar`; empty without
    costs   cost of a target pass by its rows, as automatic settings assumed it: seconds, or only
            their proportions where no pass was timed
    """

    method: Name
    hyperparameters: dict[str, bool | int | float | str]
    sampling: dict[str, bool | int | float | str]
    target: Name
    draft: Name | None
    environment: Environment
    created: Name
    prompt: Prompt
    max_new_tokens: Count
    ending: Ending
    steps: Annotated[tuple[Step, ...], MaxLen(bounds.MAX_STEPS)]
    texts: tuple[AddedText, ...]
    pieces: dict[TokenId, Piece] = field(default_factory=dict)
    prediction: LongText = ""
    corpus: Name | None = None
    generation_config: dict[str, bool | int | float | str] = field(default_factory=dict)
    grammar: dict[Name, LongText] = field(default_factory=dict)
    costs: dict[bounds.Rows, bounds.Cost] = field(default_factory=dict)
    version: int = VERSION

    @property
    def is_plain(self) -> bool:
        """Whether it is a run of plain decoding."""
        return self.method == methods.PLAIN

    @property
    def tokens(self) -> tuple[int, ...]:
        """All emitted tokens."""
        return tuple(token for step in self.steps for token in step.tokens)

    @property
    def looks(self) -> tuple[str, ...]:
        """The key of the look of each emitted token."""
        return tuple(look for step in self.steps for look in step.looks)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def ended_at_once(self) -> bool:
        """Whether the answer is empty: blanks at most, and then the end of the text."""
        return (
            self.ending == "stop token"
            and bool(self.texts)
            and not "".join(self.texts[:-1]).strip()
        )

    def to_json(self, baseline: Trace | None = None) -> str:
        """Return the file of this run, with its plain run if one is given."""
        text = adapter().dump_json(self).decode()
        return text if baseline is None else f'{text[:-1]},"baseline":{baseline.to_json()}}}'

    def tree(self, number: int) -> StepTree:
        """Return the token tree of a step, which a notebook shows as a picture.

        number  of the step, counted from 1 as on a token's card

        Raises InvalidInput if the run has no such step.
        """
        if not 1 <= number <= len(self.steps):
            steps = allowed(1, len(self.steps), "absent: there is no step")
            raise InvalidInput(f"the number of a step must be {steps}, got {number}")
        return StepTree(number, self)


@dataclass(frozen=True)
class StepTree:
    """The token tree of one step of a run.

    number  of the step, counted from 1
    """

    number: int
    trace: Trace = field(repr=False)

    @property
    def step(self) -> Step:
        return self.trace.steps[self.number - 1]


@cache
def adapter() -> TypeAdapter[Trace]:
    """Return the JSON codec of a trace; pydantic is imported at the first call."""
    from pydantic import TypeAdapter

    return TypeAdapter(Trace)
