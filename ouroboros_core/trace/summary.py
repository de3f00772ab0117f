"""The figures of a run, for whoever shows one: the page, the terminal, a notebook."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

from ouroboros_core import methods
from ouroboros_core.messages import counted
from ouroboros_core.methods.parts.base import NO_DRAFT, NO_WINDOW
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.trace import Trace


class Verdict(Enum):
    """How the text of a run compares with that of plain decoding.

    NOT_COMPARED     there is no plain run
    IN_DISTRIBUTION  the acceptance rule keeps the target's probabilities, not the text of a seed
    NOT_LOSSLESS     the acceptance rule keeps neither
    SAME             all tokens are equal
    TIE              the first difference is explained by rounding
    DIFFERENT        the texts differ, and rounding does not explain it or nobody judged it yet
    """

    NOT_COMPARED = "not compared"
    IN_DISTRIBUTION = "in distribution"
    NOT_LOSSLESS = "not lossless"
    SAME = "same"
    TIE = "tie"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Summary:
    """The figures of one run. Each is computed when it is first read, and then stored.

    baseline    the run of plain decoding in the same round
    difference  where the text first differs from the text of the baseline, judged
    rounds      the speedups of all rounds; both runs are of the one that has the median. None if
                there is only this round
    """

    trace: Trace
    baseline: Trace | None = None
    difference: Divergence | None = None
    rounds: Speedup | None = None

    # Of the run alone.

    @cached_property
    def sampling(self) -> Sampling:
        return Sampling.model_validate(self.trace.sampling)

    @cached_property
    def tokens(self) -> int:
        return metrics.new_tokens(self.trace)

    @property
    def steps(self) -> int:
        """Steps, each with one pass of the target, or of a draft model that writes alone."""
        return len(self.trace.steps)

    @cached_property
    def draft_passes(self) -> int:
        return sum(step.draft_passes for step in self.trace.steps)

    @property
    def passes_saved(self) -> int:
        """Passes that plain decoding would have needed beyond these."""
        return self.tokens - self.steps

    @cached_property
    def prefill_seconds(self) -> float:
        return sum(step.seconds.prefill for step in self.trace.steps)

    @cached_property
    def seconds(self) -> float:
        return metrics.total_seconds(self.trace)

    @property
    def tokens_per_second(self) -> float:
        """Emitted tokens / seconds, prefill included; 0 for an empty run."""
        return self.tokens / self.seconds if self.seconds else 0.0

    @property
    def tokens_per_pass(self) -> float:
        """The mean acceptance length: emitted tokens / steps; 0 for an empty run."""
        return self.tokens / self.steps if self.steps else 0.0

    @cached_property
    def rows_per_pass(self) -> float:
        """Rows of a target pass, the mean; 0 for an empty run."""
        rows = sum(step.width for step in self.trace.steps)
        return rows / self.steps if self.steps else 0.0

    @cached_property
    def acceptance_rate(self) -> float | None:
        """Accepted / tested proposals along the walk: the alpha of the theory (arXiv 2211.17192,
        section 3.1), which does not count what stands behind a rejection; None if nothing was
        tested."""
        tested = sum(step.tested for step in self.trace.steps)
        return sum(len(step.path) for step in self.trace.steps) / tested if tested else None

    @cached_property
    def proposal_acceptance_rate(self) -> float | None:
        """Accepted / all proposed tokens, see `metrics.proposal_acceptance_rate`."""
        return metrics.proposal_acceptance_rate(self.trace.steps)

    @cached_property
    def proposal_depth(self) -> float:
        """gamma: proposed tokens along the deepest branch, the mean over all steps."""
        depths = sum(max(step.tree.depths) for step in self.trace.steps)
        return depths / self.steps if self.steps else 0.0

    @cached_property
    def written_alone(self) -> bool:
        """Whether the draft model wrote tokens that no target checked."""
        return any(step.writer is not Source.TARGET for step in self.trace.steps)

    @property
    def lossless(self) -> bool:
        """Whether the text follows the target's probabilities."""
        return not self.written_alone and self.sampling.lossless

    @cached_property
    def skipped(self) -> str:
        """The parts that 'auto' left out of the whole run, in words; empty if none."""
        chosen = [step.choice for step in self.trace.steps if step.choice is not None]
        nothing = not any(choice.offered for choice in chosen)
        omissions = [NO_WINDOW] if chosen and all(choice.window == 0 for choice in chosen) else []
        drafts_asked = {choice.asked for choice in chosen} - {None}  # none is of use at the end
        omissions += [NO_DRAFT] if nothing and drafts_asked == {False} else []
        words = "; ".join(omissions)
        return f"{words}, and so there was nothing to propose" if omissions and nothing else words

    @property
    def figures(self) -> list[str]:
        """The amounts of the run in words: tokens, seconds, speed, passes."""
        passes = [f"{self.steps} draft passes, no target pass"]
        if not self.written_alone:
            passes = [f"{self.steps} forward pass{'' if self.steps == 1 else 'es'}"]
            passes += [f"{self.tokens_per_pass:.2f} tokens per pass"] if self.steps else []
        spent = f"{counted(self.tokens, 'token')} in {self.seconds:.2f} s"
        return [spent, f"{self.tokens_per_second:.1f} tokens/s", *passes]

    @property
    def name(self) -> str:
        """The method with its settings, and whether it is not lossless."""
        label = methods.label(self.trace.method, self.trace.hyperparameters)
        return label if self.lossless else f"{label} (not lossless)"

    # Beside plain decoding. None if there is no plain run, or one of the two is empty.

    @cached_property
    def plain(self) -> Summary | None:
        return None if self.baseline is None else Summary(self.baseline)

    @cached_property
    def speedup(self) -> float | None:
        """The speedup, see `ouroboros_core.trace.speedup`; of several rounds the median."""
        if self.rounds is not None:
            return self.rounds.median
        if self.baseline is None:
            return None
        return metrics.speedup(self.trace, self.baseline)

    @property
    def is_slower(self) -> bool:
        """Whether every round was slower than plain decoding, as far as the digits shown tell."""
        most = self.rounds.spread[1] if self.rounds else self.speedup
        return most is not None and round(most, 2) < 1

    @property
    def is_provisional(self) -> bool:
        """Whether the speedup may still be withdrawn."""
        return self.rounds is not None and self.rounds.is_provisional

    @cached_property
    def busy(self) -> tuple[metrics.Sign, float] | None:
        """The sign that the machine was busy meanwhile, with its number; see `metrics.busy`."""
        return None if self.baseline is None else metrics.busy(self.trace, self.baseline)

    @property
    def why_busy(self) -> str:
        return metrics.why_busy(*self.busy) if self.busy else ""

    @property
    def _plain_step(self) -> float:
        return metrics.plain_step_seconds(self.baseline) if self.baseline else 0.0

    @cached_property
    def step_cost(self) -> float | None:
        """Seconds of a step / of a plain step, without prefill: tokens that pay for it."""
        if not (self._plain_step and self.steps):
            return None
        return metrics.decode_seconds(self.trace) / self.steps / self._plain_step

    @cached_property
    def draft_cost(self) -> float | None:
        """c: seconds of a draft pass / of a plain step; None without draft passes."""
        if not (self._plain_step and self.draft_passes):
            return None
        drafting = sum(step.seconds.draft for step in self.trace.steps)
        return drafting / self.draft_passes / self._plain_step

    @cached_property
    def first_difference(self) -> int | None:
        """Index of the first token that differs from plain decoding's; None if none does."""
        if self.baseline is None:
            return None
        return metrics.first_difference(self.trace.tokens, self.baseline.tokens)

    @cached_property
    def verdict(self) -> Verdict:
        if self.baseline is None:
            return Verdict.NOT_COMPARED
        if not self.written_alone:
            if not self.sampling.lossless:
                return Verdict.NOT_LOSSLESS
            if not self.sampling.repeats_plain_text:
                return Verdict.IN_DISTRIBUTION
        if self.first_difference is None:
            return Verdict.SAME
        tie = self.difference is not None and self.difference.tie and not self.written_alone
        return Verdict.TIE if tie else Verdict.DIFFERENT

    @property
    def difference_sentence(self) -> str:
        """The judged difference in a sentence; empty if none was judged."""
        if self.difference is None or self.baseline is None:
            return ""
        return self.difference.sentence(self.trace.pieces | self.baseline.pieces)

    @property
    def verdict_words(self) -> str:
        """The verdict on the text in a word or two."""
        if self.verdict is Verdict.DIFFERENT:
            assert self.first_difference is not None, "the texts differ"
            return f"no, from token {self.first_difference + 1} on"
        return _VERDICTS[self.verdict]

    @property
    def verdict_sentence(self) -> str:
        """The explanation of the verdict."""
        match self.verdict:
            case Verdict.NOT_COMPARED:
                return "The text compared token by token with plain decoding."
            case Verdict.IN_DISTRIBUTION:
                return (
                    "This acceptance rule keeps the target's probabilities; the text of a seed is "
                    "another one."
                )
            case Verdict.NOT_LOSSLESS:
                rule = self.sampling.rule
                words = f"{rule.title} {rule.explanation}"
                return f"{words}; the target alone need not write this text."
            case Verdict.SAME:
                return "The text is identical to plain decoding, token by token."
        if self.verdict is Verdict.DIFFERENT and self.written_alone:
            return "The draft model wrote this alone; nobody checked it."
        report = " Please report this." if self.verdict is Verdict.DIFFERENT else ""
        return f"{self.difference_sentence}{report}" if self.difference else "Not judged yet."


_VERDICTS = {
    Verdict.NOT_COMPARED: "–",
    Verdict.IN_DISTRIBUTION: "in distribution",
    Verdict.NOT_LOSSLESS: "not lossless",
    Verdict.SAME: "yes",
    Verdict.TIE: "up to a tie",
}
