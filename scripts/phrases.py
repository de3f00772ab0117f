"""What each source of phrases contributes to Ouroboros: the table of docs/methods/ouroboros.md.

    python -m scripts.phrases [--limit 12] [--max-new-tokens 128]

Each setting runs over the same prompts; counts are exact and repeat, whatever the machine. *Warm*
means one pool over all prompts, seen twice: the second time is counted.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.benchmark.prompts import Question, own_prompts
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.tree import Learned

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

SETTINGS: dict[str, dict[str, Any]] = {
    "all sources": {},
    "no lookahead phrases": {"lookahead_phrases": False},
    "no verification phrases": {"verification_phrases": False},
    "neither": {"lookahead_phrases": False, "verification_phrases": False},
    "no suffixes (K = 0)": {"top_k_suffixes": 0},
    "extended": {"extended": True},
    "guess set of 20": {"guess_set_size": 20},
}


@dataclass
class Tally:
    """Sums over prompts."""

    tokens: int = 0
    passes: int = 0
    draft_passes: int = 0
    drafted: int = 0
    accepted: Counter[Source] = field(default_factory=Counter)
    suffixes: Counter[Learned] = field(default_factory=Counter)

    @property
    def tokens_per_pass(self) -> float:
        return self.tokens / self.passes if self.passes else 0.0

    @property
    def draft_passes_per_draft_token(self) -> float:
        return self.draft_passes / self.drafted if self.drafted else 0.0


def tally(
    pair: Pair,
    questions: Sequence[Question],
    count: int,
    pool: PhrasePool | None = None,
    **settings: Any,
) -> Tally:
    """Run Ouroboros over the first turns and add up what the traces say."""
    kind = methods.get("ouroboros")
    hyperparameters = kind.Hyperparameters.parse(kind.Hyperparameters.fixed(**settings))
    result = Tally()
    for question in questions:
        trace = Generation(
            pair, Task(question.turns[0], kind.id, hyperparameters, max_new_tokens=count), pool
        ).run()
        result.tokens += metrics.new_tokens(trace)
        result.passes += len(trace.steps)
        result.draft_passes += sum(step.draft_passes for step in trace.steps)
        result.drafted += metrics.proposed_by_source(trace)[Source.DRAFT]
        result.accepted += metrics.accepted_by_source(trace)
        result.suffixes += metrics.accepted_by_learned(trace)
    return result


def warm_tally(pair: Pair, questions: Sequence[Question], count: int, **settings: Any) -> Tally:
    """The second time over the same prompts with one pool."""
    defaults = methods.get("ouroboros").Hyperparameters.parse(settings).model_dump()
    pool = PhrasePool(
        defaults["ngram_size"], defaults["guess_set_size"], fingerprint=pair.fingerprint
    )
    tally(pair, questions, count, pool, **settings)
    return tally(pair, questions, count, pool, **settings)


HEADER = (
    "| setting | tokens per target pass | draft passes per draft token | accepted: draft | suffix "
    "| of these lookahead | "
    "verification | history | prompt | text |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def row(name: str, result: Tally) -> str:
    """One line of the table."""
    kinds = Learned.LOOKAHEAD, Learned.VERIFICATION, Learned.HISTORY, Learned.PROMPT, Learned.TEXT
    learned = " | ".join(str(result.suffixes[kind]) for kind in kinds)
    accepted = f"{result.accepted[Source.DRAFT]} | {result.accepted[Source.SUFFIX]}"
    return (
        f"| {name} | {result.tokens_per_pass:.2f} | {result.draft_passes_per_draft_token:.2f} | "
        f"{accepted} | {learned} |"
    )


def main() -> None:
    from ouroboros_core.loading.pairs import load_pair

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--limit", type=int, default=12, help="prompts, from all groups alike (default: 12)"
    )
    parser.add_argument("--max-new-tokens", type=int, default=128, help="default: 128")
    arguments = parser.parse_args()
    pair = load_pair()
    questions = own_prompts(arguments.limit)
    print(HEADER, flush=True)
    for name, settings in SETTINGS.items():
        print(
            row(f"cold, {name}", tally(pair, questions, arguments.max_new_tokens, **settings)),
            flush=True,
        )
    for name in ("all sources", "no suffixes (K = 0)", "guess set of 20"):
        print(
            row(
                f"warm, {name}",
                warm_tally(pair, questions, arguments.max_new_tokens, **SETTINGS[name]),
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
