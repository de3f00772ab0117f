"""The generated parts of README.md."""

from __future__ import annotations

from ouroboros_core import methods
from ouroboros_core.environment import processor_name
from ouroboros_core.trace.summary import Summary
from scripts import measured_tables
from visualize.gallery import runs as gallery
from visualize.live.packing import runs_in_browser


def method_count() -> str:
    """Return how many methods there are, and how many run in a browser (README.md)."""
    kinds = methods.available().values()
    borrowed = [kind.id for kind in kinds if kind.id.startswith("hf_")]
    others = [kind.id for kind in kinds if not kind.proposes]
    written = [kind for kind in kinds if kind.id not in {*borrowed, *others}]
    ours = [f"`{kind.id}`" for kind in written if not kind.paper]
    programs = [kind for kind in written if kind.paper.startswith("https://github.com/")]
    papers = len(written) - len(ours) - len(programs)
    live = sum(runs_in_browser(kind) for kind in kinds)
    return (
        f"{len(kinds)} methods share one decoding loop: {papers} from papers, {len(programs)} from "
        f"other programs, {len(borrowed)} from transformers, our own {', '.join(ours)}, and "
        f"{len(others)} for comparison. `make static` builds a site that needs no server: {live} "
        "of them run in the visitor's browser ([Deployment](docs/deployment.md)).\n"
    )


HERO = "stack-union"
"""The recorded run of the README's animation: the default method at automatic settings."""


def opening() -> str:
    """Return the caption of the animation that README.md begins with."""
    run, speedup = gallery.trace(HERO), gallery.speedup(HERO)
    summary = Summary(run, gallery.baseline(HERO))
    if speedup is None or summary.first_difference is not None:
        raise ValueError(f"the caption of README.md does not fit the run {HERO}")
    target, draft = (str(name).rpartition("/")[2] for name in (run.target, run.draft))
    settings, usual = measured_tables.measured(target, run.method)
    processor = processor_name(run.environment.processor)
    return (
        f"*A recorded run of the default method, `{run.method}`, on two cores of an {processor}: "
        f"{target}, with drafts from {draft}, writes {summary.tokens} tokens in {summary.steps} "
        f"passes, {speedup.median:.2f} times as fast as plain decoding, with the same text. Much "
        "of the answer is copied from the prompt: a best case. On another machine, over "
        f"{settings['questions']} prompts, it reaches {usual:.2f} times ([How fast](#how-fast)).*\n"
    )
