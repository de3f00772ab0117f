"""What can run in a benchmark: our methods, and what a run of one leaves behind.

A method is named as on the command line, with its settings in brackets:
`ouroboros[gamma=6,top_k_suffixes=3]`; `ouroboros[published]` has those of its paper, and others
may follow. Besides the method's own settings there are `warm=true`, which keeps what the method
learns from prompt to prompt, and `acceptance=rejection`. The baseline's rule is always `match`: it
proposes nothing, and its text is the one that others are compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ouroboros_core import methods
from ouroboros_core.decoding.trace import Seconds, Trace
from ouroboros_core.errors import InvalidInput
from ouroboros_core.hyperparameters import Hyperparameters
from ouroboros_core.lookup.memory import Memory
from ouroboros_core.methods.base import Need
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

BASELINE = "autoregressive"


@dataclass(frozen=True)
class Spec:
    """A method with its settings, and the text that names it."""

    text: str
    method: str
    hyperparameters: Hyperparameters
    sampling: Sampling
    warm: bool = False


@dataclass(frozen=True)
class Outcome:
    """The record of one run. `passes` and `rows` are the target's, without prefill; seconds are
    wall-clock."""

    tokens: tuple[int, ...]
    passes: int
    rows: int
    draft_passes: int
    seconds: Seconds


class Entrant(Protocol):
    """Something that continues a prompt."""

    label: str
    """The name of its rows."""
    setting: str
    """What distinguishes it from other entrants with the same label, of which the best counts;
    empty if it is the only one."""
    repeats_plain_text: bool
    """Whether its text must equal the baseline's."""

    def run(
        self, prompt: str, history: Sequence[str], max_new_tokens: int, prediction: str = ""
    ) -> Outcome:
        """Continue the prompt, which follows `history` (user and assistant in turn). prediction:
        the text that is expected, for whoever can use one; empty if nothing is."""
        ...


def split(text: str) -> list[str]:
    """The parts of a list with commas; those inside brackets do not split."""
    parts, depth, current = [], 0, ""
    for letter in text:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += letter
    return [part.strip() for part in (*parts, current) if part.strip()]


def parse(text: str, sampling: Sampling) -> list[Spec]:
    """The methods of a list, the baseline first; raises InvalidInput for what is no method or no
    setting of it."""
    specs = [read_spec(part, sampling) for part in split(text)]
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
    rule = settings.pop("acceptance", "match" if text == BASELINE else sampling.acceptance)
    chosen = Sampling.parse({**sampling.model_dump(), "acceptance": rule})
    assert isinstance(chosen, Sampling)
    return Spec(text, kind.id, kind.Hyperparameters.parse(settings), chosen, warm == "true")


class MethodEntrant:
    """One of our methods on a pair; a warm one keeps its memory."""

    setting = ""

    def __init__(self, pair: Pair, spec: Spec) -> None:
        kind = methods.get(spec.method)
        from ouroboros_core.decoding.generation import lacking

        need = lacking(pair, kind, spec.hyperparameters)
        if need is not None:
            raise InvalidInput(
                f"{spec.text} needs {need.phrase}: name one with {need.flag}, or leave the method "
                "out"
            )
        self.label = spec.text
        self.repeats_plain_text = kind.writer is Source.TARGET and not spec.sampling.rejects
        self.memory: Memory | None = None
        self._pair, self._spec = pair, spec
        self.reset()

    def reset(self) -> None:
        """Start over: empties a warm memory."""
        spec = self._spec
        if spec.warm:
            kind, fingerprint = methods.get(spec.method), self._pair.fingerprint
            self.memory = kind.new_memory(spec.hyperparameters, fingerprint)

    def run(
        self, prompt: str, history: Sequence[str], max_new_tokens: int, prediction: str = ""
    ) -> Outcome:
        return outcome_of(self.trace(prompt, history, max_new_tokens, prediction))

    def trace(
        self, prompt: str, history: Sequence[str], max_new_tokens: int, prediction: str = ""
    ) -> Trace:
        from ouroboros_core.decoding.generation import Generation, Task

        spec, chat = self._spec, bool(self._pair.tokenizer.chat_template)
        task = Task(
            prompt,
            spec.method,
            spec.hyperparameters,
            spec.sampling,
            max_new_tokens,
            chat,
            tuple(history),
            prediction if Need.EXPECTED_TEXT in methods.get(spec.method).uses else "",
        )
        return Generation(self._pair, task, self.memory).run()


def outcome_of(trace: Trace) -> Outcome:
    """What a benchmark keeps of a trace."""
    steps = trace.steps
    phases = {
        name: sum(getattr(s.seconds, name) for s in steps)
        for name in ("prefill", "draft", "verify", "learn", "host")
    }
    passes = [step for step in steps if step.writer is Source.TARGET]
    drafts = sum(step.draft_passes for step in steps) + len(steps) - len(passes)
    return Outcome(
        trace.tokens, len(passes), sum(step.width for step in passes), drafts, Seconds(**phases)
    )
