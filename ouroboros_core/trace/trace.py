"""What a run leaves behind: one Step per target pass, all of them in a Trace, which is JSON and
back without loss.

A fact is stored once; everything that can be derived is a property here or a function in `metrics`.

The file of a run is the JSON object of its Trace. It may have one more member, `baseline`, the
Trace of the plain run that it was compared with: `trace_io.read_trace` leaves it out,
`trace_io.read_run` reads both.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from ouroboros_core import rules
from ouroboros_core.environment import Environment
from ouroboros_core.methods.parts.base import Decision
from ouroboros_core.rules.parts.base import ALONE
from ouroboros_core.sources import Source
from ouroboros_core.tree import TokenTree

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from ouroboros_core.integrations.notebook import TreePicture

    Test = str
else:  # the names of the tests that the rules declare, so that a trace with another is refused
    Test = Literal[rules.tests()]

VERSION = 1

Ending = Literal["budget", "stop token", "cancelled"]
Kind = Literal["correction", "bonus"]


@dataclass(frozen=True)
class Seconds:
    """Wall-clock seconds of one step by phase.

    prefill          of both models; zero but in the first step
    draft            proposing a tree
    verify           the target's pass, and judging the tree by it
    learn            of the method, from the result
    host             what the loop itself takes
    draft_sampling   the part of `draft` in which tokens were drawn at random, after the model's
                     passes: softmax, noise, draws. Zero where the choice is greedy, and in a trace
                     of a version before 2.0.0
    verify_sampling  the same part of `verify`
    """

    prefill: float = 0.0
    draft: float = 0.0
    verify: float = 0.0
    learn: float = 0.0
    host: float = 0.0
    draft_sampling: float = 0.0
    verify_sampling: float = 0.0

    @property
    def phases(self) -> tuple[float, ...]:
        """Prefill, draft, verify, learn and host, which add up to the whole step."""
        return self.prefill, self.draft, self.verify, self.learn, self.host

    @property
    def decode(self) -> float:
        """All but prefill."""
        return sum(self.phases[1:])

    def times(self, factor: float) -> Seconds:
        """As on a machine that takes so many times as long."""
        return Seconds(*(factor * seconds for seconds in astuple(self)))


@dataclass(frozen=True)
class Trial:
    """One random trial of a candidate: kept if u < min(1, p/q), or if u < p and it was not drawn (q
    is None).

    node    the candidate
    chance  the probability that u was compared with, if another test judged the candidate
    rule    the test: `token`, or a joint test of the acceptance rule. `k-seq` judges one of several
            independent draws, kept if u < min(1, p / (rho q)); `block` judges a token of a block,
            which is also kept if a later one is
    """

    node: int
    u: float
    p: float
    q: float | None
    accepted: bool
    chance: float | None = None
    rule: Test = ALONE


@dataclass(frozen=True)
class Judged:
    """What the models thought of what comes after a node, where the target chose.

    tokens  ids: the ten likeliest of both models, what was proposed, and what was chosen
    target  the target's probability of each: that which is sampled from, or at temperature 1 where
            the choice is greedy
    draft   the draft's probability of each; empty if it was not asked
    noise   the Gumbel noise of each: the token with the largest log-probability plus noise is
            chosen. Sampled by `match` only
    trials  the candidates in the order in which they were judged. Not by `match`
    left    what was left of the target's probabilities after the last rejection, from which the
            correction was drawn
    """

    node: int
    tokens: tuple[int, ...]
    target: tuple[float, ...]
    draft: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()
    trials: tuple[Trial, ...] = ()
    left: tuple[float, ...] = ()


@dataclass(frozen=True)
class Step:
    """One target pass.

    tree          what was proposed and checked, without the lookahead window
    path          accepted nodes in text order, without the root
    target_token  the token the target added itself; None if the text ended inside the path
    width         rows in the pass, window included: its price
    draft_passes  passes of the draft model
    pool_size     phrases in the pool after the step; None for a method without one
    choice        what was decided about the step, where an amount is 'auto'
    writer        whose choice the target token is: the target's, but where the draft model writes
                  alone
    judged        what the models thought at each node of the walk, the root first; empty unless it
                  was recorded
    window        (token, parent) of the nodes of the lookahead window, numbered behind the tree's;
                  empty unless recorded
    draft_rows_saved  nodes whose row the draft model did not compute, because they equal others; of
                  the tree's drafted nodes those with a `match` were then copied behind them
    draft_rows    nodes that went through the draft passes; 0 in a trace of a version before 2.0.0
    """

    index: int
    tree: TokenTree
    path: tuple[int, ...]
    target_token: int | None
    width: int
    seconds: Seconds
    draft_passes: int = 0
    pool_size: int | None = None
    writer: Source = Source.TARGET
    choice: Decision | None = None
    judged: tuple[Judged, ...] = ()
    window: tuple[tuple[int, int], ...] = ()
    draft_rows_saved: int = 0
    draft_rows: int = 0

    @property
    def tokens(self) -> tuple[int, ...]:
        """The tokens this step emitted, in text order; at least one."""
        accepted = tuple(self.tree.tokens[node] for node in self.path)
        return accepted if self.target_token is None else (*accepted, self.target_token)

    @property
    def occurring(self) -> set[int]:
        """Every token id there is in this step."""
        seen = {token for judged in self.judged for token in judged.tokens} | {
            token for token, _ in self.window
        }
        return seen | {*self.tree.tokens, *self.tokens}

    @property
    def kind(self) -> Kind | None:
        """What the target token is: correction after a rejection, bonus where all of a branch that
        was checked is accepted, None if nothing was checked."""
        if self.target_token is None or len(self.tree) == 1:
            return None
        return "correction" if self.tree.children(self.path[-1] if self.path else 0) else "bonus"

    @property
    def tested(self) -> int:
        """Depth to which the draft was really judged: accepted tokens, and the rejected one if
        there was one."""
        return len(self.path) + (self.kind == "correction")


@dataclass(frozen=True)
class Prompt:
    """The prompt as typed, whether a chat template was put around it, and its token ids."""

    text: str
    chat: bool
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Trace:
    """A run.

    texts   the text each emitted token added; together the tokenizer's decoding of all of them, see
            `TextStream` (of a cancelled run: of those that were whole characters)
    pieces  the text of every token id that occurs in a tree, on its own: for pictures, where a
            token may be half a character
    prediction   the text that was expected, where one was given
    corpus  the corpus that the method could look into
    generation_config  the checkpoint's own generation settings that held, such as a penalty; empty
                       where it has none, they were switched off, or `custom_generate` applied them
    """

    method: str
    hyperparameters: dict[str, bool | int | float | str]
    sampling: dict[str, bool | int | float | str]
    target: str
    draft: str | None
    environment: Environment
    created: str
    prompt: Prompt
    max_new_tokens: int
    ending: Ending
    steps: tuple[Step, ...]
    texts: tuple[str, ...]
    pieces: dict[int, str] = field(default_factory=dict)
    prediction: str = ""
    corpus: str | None = None
    generation_config: dict[str, bool | int | float | str] = field(default_factory=dict)
    version: int = VERSION

    @property
    def tokens(self) -> tuple[int, ...]:
        """All emitted tokens."""
        return tuple(token for step in self.steps for token in step.tokens)

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
        """The file of this run, with its plain run where that is given."""
        text = adapter().dump_json(self).decode()
        return text if baseline is None else f'{text[:-1]},"baseline":{baseline.to_json()}}}'

    def tree(self, number: int) -> TreePicture:
        """The picture of a step's token tree, counted from 1 as a token's card counts; raises
        InvalidInput for a step that there is not."""
        from ouroboros_core.integrations.notebook import tree

        return tree(self, number)

    def _repr_html_(self) -> str:
        """In a notebook: coloured tokens, each with its card, and the trees."""
        from ouroboros_core.integrations.notebook import trace_html

        return trace_html(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Where a notebook shows text alone, and in IPython."""
        from ouroboros_core.integrations.notebook import trace_text

        printer.text(trace_text(self))


@cache
def adapter() -> TypeAdapter[Trace]:
    """What turns a trace into JSON; made when it is first needed, because importing pydantic takes
    its time."""
    from pydantic import TypeAdapter

    return TypeAdapter(Trace)
