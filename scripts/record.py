"""Record the runs that page, lessons and gallery show: python -m scripts.record [PROMPT ...]

What is run is said in assets/traces/gallery.json; each run is written beside it, with the
environment it was made in. Without prompts all are made anew.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from ouroboros_core import methods
from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.decoding.trace import Trace
from ouroboros_core.loading.pairs import Pair, load_pair
from ouroboros_core.locations import assets
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.sampling import Sampling

WARM_UP_TOKENS = 8

load = cache(load_pair)


def folder() -> Path:
    return assets() / "traces"


def main(names: list[str]) -> None:
    """Record in the machine's own dtype; all runs of a prompt in float32 where their texts part at
    a rounding tie."""
    gallery = json.loads((folder() / "gallery.json").read_text())
    for name in gallery["prompts"]:
        runs = {run: facts for run, facts in gallery["runs"].items() if facts["prompt"] == name}
        if names and name not in names:
            continue
        traces = {run: record(load(), gallery, facts) for run, facts in runs.items()}
        if not _agree(traces, runs):
            print(f"{name}: texts part at a rounding tie; once more in float32")
            traces = {
                run: record(load(dtype="float32"), gallery, facts) for run, facts in runs.items()
            }
            assert _agree(traces, runs), "in float32 nothing differs"
        for run, trace in traces.items():
            (folder() / f"{run}.json").write_text(trace.to_json() + "\n")
            rate, length = metrics.tokens_per_second(trace), metrics.mean_acceptance_length(trace)
            print(
                f"{run}, {trace.environment.dtype}: {rate:.1f} tokens/s, {length:.2f} tokens per "
                "pass"
            )


def _agree(traces: dict[str, Trace], runs: dict[str, dict[str, Any]]) -> bool:
    """Whether all that must be the same text are."""
    return (
        len(
            {
                trace.tokens
                for name, trace in traces.items()
                if runs[name].get("acceptance") != "rejection"
            }
        )
        <= 1
    )


def record(pair: Pair, gallery: dict[str, Any], facts: dict[str, Any]) -> Trace:
    """One run of the gallery, once the process is warm. Its settings are fixed, so that much is
    seen, unless `facts` asks for automatic ones."""
    prompt = gallery["prompts"][facts["prompt"]]
    kind = methods.get(facts["method"])
    given = facts.get("knobs", {})
    settings = kind.Hyperparameters.parse(
        given if facts.get("automatic") else kind.Hyperparameters.fixed(**given)
    )
    rule = {"acceptance": facts["acceptance"]} if "acceptance" in facts else {}
    sampling = Sampling.model_validate(prompt.get("sampling", {}) | rule)

    def task(of: dict[str, Any], count: int) -> Task:
        return Task(of["text"], kind.id, settings, sampling, count, of["chat"], record=True)

    Generation(pair, task(prompt, WARM_UP_TOKENS)).run()
    pool = None
    if "after" in facts:
        known: Any = settings
        pool = PhrasePool(known.ngram_size, known.guess_set_size, fingerprint=pair.fingerprint)
        before = gallery["prompts"][facts["after"]]
        Generation(pair, task(before, before["tokens"]), pool).run()
    return Generation(pair, task(prompt, prompt["tokens"]), pool).run()


if __name__ == "__main__":
    main(sys.argv[1:])
