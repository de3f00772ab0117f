"""Two runs of one prompt under two settings: the same text, cut where both began a step, and where
one of them saved steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from ouroboros_core.errors import InvalidInput
from ouroboros_core.messages import counted, isolated
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Trace
from visualize.run.view import View, title

SHOWN = 10
"""Segments listed of those that saved steps, and of those that lost some."""
QUOTED = 40
"""Characters of a segment's text in a sentence or a row."""
HEAD = ("tokens", "text", "steps of A", "steps of B", "saved")


@dataclass(frozen=True)
class Segment:
    """A stretch of the common text before which, and after which, both runs had a step's end.

    start   index of its first token among the emitted ones, from 0
    tokens  how many it has
    text    what they added
    a, b    steps that each run took for them
    """

    start: int
    tokens: int
    text: str
    a: int
    b: int

    @property
    def saved(self) -> int:
        """Steps that B took fewer than A; negative where it took more."""
        return self.a - self.b

    @property
    def positions(self) -> str:
        """Its tokens, counted from 1."""
        return (
            f"{self.start + 1}"
            if self.tokens == 1
            else f"{self.start + 1}–{self.start + self.tokens}"
        )

    @property
    def quoted(self) -> str:
        """Its text in one line, cut, its line ends to be seen."""
        text = self.text if len(self.text) <= QUOTED else self.text[: QUOTED - 1] + "…"
        return f"‘{isolated(text)}’".replace("\n", "↵").replace("\t", "⇥")


@dataclass(frozen=True)
class Diff:
    """How B differs from A. All is counted over the common text: the tokens up to the first
    difference, or the end of one run.

    segments  in text order; together they are the common text. Of a step in which the texts part,
              its part before that position counts as a step: the common text needed it
    """

    a: Trace
    b: Trace
    segments: tuple[Segment, ...]

    @cached_property
    def tokens(self) -> int:
        """Tokens of the common text."""
        return sum(segment.tokens for segment in self.segments)

    @property
    def text(self) -> str:
        return "".join(segment.text for segment in self.segments)

    @property
    def steps(self) -> tuple[int, int]:
        """Steps of A and of B."""
        return sum(segment.a for segment in self.segments), sum(
            segment.b for segment in self.segments
        )

    @property
    def saved(self) -> int:
        """Steps that B took fewer than A."""
        return sum(segment.saved for segment in self.segments)

    @property
    def seconds(self) -> tuple[float, float]:
        """Seconds from the start, prefill included, until A and B had the common text; 0 if
        there is none."""
        if not self.tokens:
            return 0.0, 0.0
        return metrics.seconds_to_token(self.a)[self.tokens - 1], metrics.seconds_to_token(self.b)[
            self.tokens - 1
        ]

    @property
    def parted(self) -> bool:
        """Whether both go on, each with another token; otherwise one ends where the common text
        ends."""
        return self.tokens < min(metrics.new_tokens(self.a), metrics.new_tokens(self.b))

    @property
    def gains(self) -> list[Segment]:
        """Segments that saved steps, those that saved most first."""
        return sorted((s for s in self.segments if s.saved > 0), key=lambda s: -s.saved)

    @property
    def losses(self) -> list[Segment]:
        """Segments that lost steps, those that lost most first."""
        return sorted((s for s in self.segments if s.saved < 0), key=lambda s: s.saved)


def diff(a: Trace, b: Trace) -> Diff:
    """Where B needed fewer steps than A, or more, for the same text; raises InvalidInput for runs
    of two prompts or models."""
    _check_alike(a, b)
    where = metrics.first_difference(a.tokens, b.tokens)
    longer = a if metrics.new_tokens(a) >= metrics.new_tokens(b) else b
    common = metrics.new_tokens(a) if where is None else where
    return Diff(a, b, tuple(_merged(_segments(_ends(a), _ends(b), common, longer.texts))))


def _check_alike(a: Trace, b: Trace) -> None:
    if a.target != b.target:
        raise InvalidInput(
            f"the traces are of two models, {a.target} and {b.target}: compare runs of one target "
            "model"
        )
    if a.prompt.chat != b.prompt.chat:
        raise InvalidInput(
            "one trace has a chat template around its prompt, the other has none: compare runs of "
            "one prompt"
        )
    if a.prompt.tokens != b.prompt.tokens:
        first = metrics.first_difference(a.prompt.tokens, b.prompt.tokens)
        assert first is not None
        raise InvalidInput(
            f"the traces have two prompts, which differ from token {first + 1} on: compare runs of "
            "one prompt under two settings"
        )


def _ends(trace: Trace) -> list[int]:
    """Tokens there after 0, 1, 2 ... steps."""
    return [0, *accumulate(len(step.tokens) for step in trace.steps)]


def _segments(a: list[int], b: list[int], common: int, texts: tuple[str, ...]) -> Iterator[Segment]:
    """The stretches between neighbouring positions at which both had a step's end, and what is left
    behind the last of them."""
    cuts = sorted({end for end in {*a} & {*b} if end < common} | {common})
    steps_of_a, steps_of_b = _steps_until(a, cuts), _steps_until(b, cuts)
    for (start, a0, b0), (end, a1, b1) in pairwise(zip(cuts, steps_of_a, steps_of_b, strict=True)):
        yield Segment(start, end - start, "".join(texts[start:end]), a1 - a0, b1 - b0)


def _steps_until(ends: list[int], positions: list[int]) -> list[int]:
    """Steps needed until there were so many tokens, for each of some rising numbers of them."""
    steps, found = 0, []
    for position in positions:
        while ends[steps] < position:
            steps += 1
        found.append(steps)
    return found


def _merged(segments: Iterator[Segment]) -> Iterator[Segment]:
    """Neighbours without a difference made into one."""
    held: Segment | None = None
    for segment in segments:
        if held is not None and held.saved == segment.saved == 0:
            tokens, text = held.tokens + segment.tokens, held.text + segment.text
            held = Segment(held.start, tokens, text, held.a + segment.a, held.b + segment.b)
            continue
        if held is not None:
            yield held
        held = segment
    if held is not None:
        yield held


def sentences(difference: Diff) -> list[str]:
    """The difference in words, the whole first."""
    if not difference.tokens:
        return [f"A and B have no token in common. {_parting(difference)}".rstrip()]
    gains, losses = difference.gains, difference.losses
    lines = [_whole(difference)]
    if gains and losses:
        won = sum(s.saved for s in gains)
        lost = -sum(s.saved for s in losses)
        saved = f"{counted(won, 'step')} in {counted(len(gains), 'segment')}"
        more = f"{counted(lost, 'step')} in {counted(len(losses), 'segment')}"
        lines.append(f"B saved {saved} and lost {more}.")
    mine, theirs = difference.seconds
    alike = difference.a.environment == difference.b.environment
    if not alike:
        note = (
            " They were not measured on the same machine, so the seconds tell nothing of the "
            "settings."
        )
    elif difference.saved * (mine - theirs) < 0:
        fewer = "B" if difference.saved > 0 else "A"
        note = f" {fewer} takes fewer steps, but each of them takes longer."
    else:
        note = ""
    lines.append(
        f"The whole text was there after {mine:.2f} s in A and after {theirs:.2f} s in B, "
        f"the time to read the prompt included.{note}"
    )
    parting = _parting(difference)
    return [*lines, parting] if parting else lines


def _whole(difference: Diff) -> str:
    (a, b), saved = difference.steps, difference.saved
    text = "the same token" if difference.tokens == 1 else f"the same {difference.tokens} tokens"
    if not saved:
        return f"A and B needed as many steps, {a}, for {text}."
    best = (difference.gains if saved > 0 else difference.losses)[0]
    most = abs(best.saved)
    more, what = ("fewer", "saving") if saved > 0 else ("more", "loss")
    return (
        f"B needed {counted(abs(saved), f'{more} step')} than A for {text} ({b} instead of {a}); "
        f"the largest {what}, {counted(most, 'step')}, is in {best.quoted}."
    )


def _parting(difference: Diff) -> str:
    """Where the texts part, and what may be the reason; empty if they are equal."""
    a, b = difference.a, difference.b
    if not difference.parted:
        more = metrics.new_tokens(b) - metrics.new_tokens(a)
        longer = "B" if more > 0 else "A"
        rest = counted(abs(more), "more token")
        return f"{longer} goes on for {rest}, which are not compared." if more else ""
    samplings = Sampling.model_validate(a.sampling), Sampling.model_validate(b.sampling)
    rules = [sampling.rule for sampling in samplings if not sampling.repeats_plain_text]
    lossy = [rule for rule in rules if not rule.lossless]
    if lossy:
        why = f"{lossy[0].name} is not lossless: what is proposed decides what is written"
    elif rules:
        why = f"under {rules[0].name} every setting draws a text of its own"
    elif samplings[0] != samplings[1]:
        why = "the two were sampled in different ways"
    elif a.generation_config != b.generation_config:
        why = "the checkpoint's own generation settings held for one of them, or were others"
    elif a.environment.dtype != b.environment.dtype or a.environment.passes != b.environment.passes:
        why = "the two were computed in different ways"
    else:
        why = (
            "as two nearly equal choices can, since passes over more or fewer tokens round "
            "differently"
        )
    return f"The texts part at token {difference.tokens + 1}: {why}. What follows is not compared."


def _lane(name: str, trace: Trace, steps: int, seconds: float) -> View:
    sampling = Sampling.model_validate(trace.sampling)
    how = sampling.kind
    if sampling.temperature:
        changed = sampling.model_dump(exclude_defaults=True)
        how = ", ".join(f"{setting} {value}" for setting, value in changed.items())
    return {
        "name": name,
        "settings": f"{title(trace)}, {how}",
        "steps": steps,
        "seconds": round(seconds, 6),
    }


def view(difference: Diff) -> View:
    """Plain data for the browser: title and status; the two lanes; all segments; the rows of a
    table under `head`, those that saved most and then those that lost most; and the sentences
    behind the first, which is the status."""
    listed = [*difference.gains[:SHOWN], *difference.losses[:SHOWN]]
    lanes = zip(
        "AB", (difference.a, difference.b), difference.steps, difference.seconds, strict=True
    )
    told = sentences(difference)
    if max(len(difference.gains), len(difference.losses)) > SHOWN:
        told.append(f"The table lists the {SHOWN} largest of each kind.")
    return {
        "title": "B compared with A: where steps were saved",
        "status": told[0],
        "lines": told[1:],
        "lanes": [_lane(*lane) for lane in lanes],
        "segments": [
            {"text": s.text, "tokens": s.tokens, "a": s.a, "b": s.b, "saved": s.saved}
            for s in difference.segments
        ],
        "head": list(HEAD),
        "rows": [[s.positions, s.quoted, s.a, s.b, str(s.saved).replace("-", "−")] for s in listed],
    }
