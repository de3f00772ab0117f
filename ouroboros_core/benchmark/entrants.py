"""Entrants of a benchmark: our methods, and the records of their runs.

A method is named as on the command line, with its settings in brackets:
`ouroboros[gamma=6,top_k_suffixes=3]`; `ouroboros[published]` has the settings of its paper, and
others may follow. Besides the method's settings there are `warm=true`, which keeps the method's
memory from prompt to prompt, and `acceptance=rejection`. The baseline's rule is always `match`: it
proposes nothing, and its text is the one that others are compared with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Protocol

from ouroboros_core import methods, rules
from ouroboros_core.decoding.generation import Generation, Task, lacking
from ouroboros_core.decoding.loop import check_length
from ouroboros_core.errors import InvalidInput
from ouroboros_core.lookup.memory import Memory
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import Hyperparameters
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Seconds, Step, Trace

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

BASELINE = methods.PLAIN


def left_out(pair: Pair) -> str:
    """Say which generation settings of the checkpoint a benchmark leaves out; '' if none."""
    if not pair.generation_config:
        return ""
    words = metrics.in_words(pair.generation_config)
    return (
        f"the generation_config.json of {pair.target.name} ({words}) is left out, for every method "
        "and peer alike"
    )


@dataclass(frozen=True)
class Spec:
    """A method with its settings, and the text that names it. `plain`: the text of the baseline
    that it is compared with."""

    text: str
    method: str
    hyperparameters: Hyperparameters
    sampling: Sampling
    warm: bool = False
    plain: str = BASELINE

    def task(self, prompt: str, **fields: Any) -> Task:
        """Return the method's task for a prompt; `fields` are other fields of the task."""
        return Task(prompt, self.method, self.hyperparameters, self.sampling, **fields)


@dataclass(frozen=True)
class Request:
    """A prompt to continue.

    history     earlier turns, user and assistant alternately
    prediction  the expected text, for an entrant that can use one
    """

    prompt: str
    max_new_tokens: int
    history: Sequence[str] = ()
    prediction: str = ""

    def ids(self, pair: Pair) -> list[int]:
        """Return the prompt's token ids, with the chat template if there is one. Raises
        InvalidInput if they leave no room for the new tokens."""
        chat = bool(pair.tokenizer.chat_template)
        tokens = pair.encode(self.prompt, chat=chat, history=self.history)
        check_length(tokens, self.max_new_tokens, pair.target)
        return tokens


@dataclass(frozen=True)
class Spent:
    """Tokens and costs of one step, or of several together. `passes` and `rows` are the target's,
    without prefill; seconds are wall-clock.

    accepted, tested  as in Step: accepted / tested is the acceptance rate
    depth             of a step's deepest branch; the mean over all passes is the draft length
    """

    tokens: int
    passes: int
    rows: int
    draft_passes: int
    seconds: Seconds
    accepted: int = 0
    tested: int = 0
    depth: int = 0

    @classmethod
    def total(cls, parts: Iterable[Spent]) -> Spent:
        """Return several together."""
        every = [*parts]
        names = [f.name for f in fields(Spent) if f.name != "seconds"]
        counts: dict[str, Any] = {n: sum(getattr(part, n) for part in every) for n in names}
        phases = [f.name for f in fields(Seconds)]
        seconds = {n: sum(getattr(part.seconds, n) for part in every) for n in phases}
        return Spent(**counts, seconds=Seconds(**seconds))


@dataclass(frozen=True)
class Outcome:
    """The record of one run, step by step. `tokens` is empty where only their number is known."""

    tokens: tuple[int, ...]
    steps: tuple[Spent, ...]

    @property
    def total(self) -> Spent:
        """All steps together."""
        return Spent.total(self.steps)

    @property
    def first(self) -> Spent:
        """The first step, prefill included: its seconds are those to the first token."""
        return self.steps[0]

    def before(self, count: int) -> Outcome:
        """The run up to `count` tokens; the step that reaches them counts whole."""
        steps: list[Spent] = []
        for step in self.steps:
            left = count - sum(earlier.tokens for earlier in steps)
            if left <= 0:
                break
            steps.append(replace(step, tokens=min(step.tokens, left)))
        return Outcome(self.tokens[:count], tuple(steps))


class Entrant(Protocol):
    """Something that continues a prompt."""

    label: str
    """The name of its rows."""
    setting: str
    """What tells it from entrants of the same label, of which the best counts; or empty."""
    plain: str
    """The label of the baseline that it is compared with."""
    repeats_plain_text: bool
    """Whether its text must equal the baseline's."""
    separate: bool
    """Whether it runs in a process of its own, whose memory is not measured."""
    lossless: bool
    """Whether its text follows the probabilities of the model that is its target."""

    def run(self, request: Request) -> Outcome:
        """Continue the prompt."""
        ...


def split(text: str) -> list[str]:
    """The parts of a list with commas; those inside brackets do not split."""
    items, depth, current = [], 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            items.append(current)
            current = ""
        else:
            current += letter
    return [item.strip() for item in (*items, current) if item.strip()]


def parse(text: str, sampling: Sampling) -> list[Spec]:
    """Return the methods of a list, the baseline first; raises InvalidInput."""
    specs = [read_spec(item, sampling) for item in split(text)]
    if BASELINE not in {spec.text for spec in specs}:
        specs.insert(0, read_spec(BASELINE, sampling))
    names = [spec.text for spec in specs]
    double = next((name for name in names if names.count(name) > 1), None)
    if double:
        raise InvalidInput(
            f"{double} is named twice; each method with the same settings runs once (see --repeats)"
        )
    return specs


def read_spec(text: str, sampling: Sampling) -> Spec:
    """One method with its settings in brackets; raises InvalidInput."""
    name, bracket, rest = text.partition("[")
    if bracket and not rest.endswith("]"):
        raise InvalidInput(
            f"{text}: the bracket is not closed, as in ouroboros[gamma=6,top_k_suffixes=3]"
        )
    kind = methods.get(name)
    try:
        settings = methods.read_settings(kind, rest.removesuffix("]"))
    except InvalidInput as error:
        raise InvalidInput(f"{text}: {error}") from None
    warm = settings.pop("warm", "false")
    if warm not in ("true", "false"):
        raise InvalidInput(f"{text}: warm must be true or false, got {warm}")
    if warm == "true" and Need.MEMORY not in kind.uses:
        raise InvalidInput(
            f"{text}: {kind.id} keeps nothing that could be warm; {methods.able(Need.MEMORY)} do"
        )
    rule = settings.pop("acceptance", rules.DEFAULT if text == BASELINE else sampling.acceptance)
    chosen = Sampling.parse({**sampling.model_dump(), "acceptance": rule})
    return Spec(text, kind.id, kind.Hyperparameters.parse(settings), chosen, warm == "true")


class MethodEntrant:
    """One of our methods on a pair; a warm one keeps its memory."""

    setting = ""

    def __init__(self, pair: Pair, spec: Spec) -> None:
        kind = methods.get(spec.method)
        need = lacking(pair, kind, spec.hyperparameters)
        if need is not None:
            wanting = methods.wanting(need, pair.foreign, f"name one with {need.flag}")
            raise InvalidInput(f"{spec.text} needs {wanting}, or leave the method out")
        self.label, self.plain, self.sampling = spec.text, spec.plain, spec.sampling
        checked = kind.writer is Source.TARGET
        self.separate = False
        self.repeats_plain_text = checked and spec.sampling.repeats_plain_text
        self.lossless = checked and spec.sampling.lossless
        self.memory: Memory | None = None
        self._pair, self._spec = pair, spec
        self.reset()

    def reset(self) -> None:
        """Start over: empties a warm memory."""
        spec = self._spec
        if spec.warm:
            kind, fingerprint = methods.get(spec.method), self._pair.fingerprint
            self.memory = kind.new_memory(spec.hyperparameters, fingerprint)

    def run(self, request: Request) -> Outcome:
        return outcome_of(self.trace(request))

    def trace(self, request: Request) -> Trace:
        return self.generation(request).run()

    def generation(self, request: Request) -> Generation:
        """Return a run that has not begun; raises InvalidInput for what cannot run."""
        uses = methods.get(self._spec.method).uses
        task = self._spec.task(
            request.prompt,
            max_new_tokens=request.max_new_tokens,
            chat=bool(self._pair.tokenizer.chat_template),
            history=tuple(request.history),
            prediction=request.prediction if Need.PREDICTED_OUTPUT in uses else "",
            generation_config=False,
        )
        return Generation(self._pair, task, self.memory)


def outcome_of(trace: Trace) -> Outcome:
    return Outcome(trace.tokens, tuple(map(_spent, trace.steps)))


def _spent(step: Step) -> Spent:
    written = step.writer is Source.TARGET
    return Spent(
        tokens=len(step.tokens),
        passes=int(written),
        rows=step.width if written else 0,
        draft_passes=step.draft_passes + (not written),
        seconds=step.seconds,
        accepted=len(step.path),
        tested=step.tested,
        depth=max(step.tree.depths),
    )
