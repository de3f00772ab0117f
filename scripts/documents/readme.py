"""The generated parts of README.md."""

from __future__ import annotations

from ouroboros_core import methods
from ouroboros_core.trace.summary import Summary
from scripts import measured_tables
from visualize.gallery import runs as gallery
from visualize.live.packing import runs_in_browser


def method_count() -> str:
    """Return a sentence with the number of methods (README.md)."""
    kinds = methods.available().values()
    borrowed = [kind.id for kind in kinds if kind.id.startswith("hf_")]
    others = [kind.id for kind in kinds if not kind.proposes]
    written = [kind for kind in kinds if kind.id not in {*borrowed, *others}]
    ours = [f"`{kind.id}`" for kind in written if not kind.paper]
    programs = [kind for kind in written if kind.paper.startswith("https://github.com/")]
    papers = len(written) - len(ours) - len(programs)
    return (
        f"{len(kinds)} methods in one decoding loop: {papers} after papers, {len(programs)} after "
        f"other programs, {len(borrowed)} of transformers, our own {', '.join(ours)}, and "
        f"{len(others)} to compare with.\n"
    )


def live_methods() -> str:
    """Return a sentence with the number of methods of the live page (README.md)."""
    count = sum(runs_in_browser(kind) for kind in methods.available().values())
    return (
        f"`make static` writes a site that needs no server: {count} methods run live in the "
        "visitor's browser ([Deployment](docs/deployment.md)).\n"
    )


HERO = "java-ouroboros"
"""The recorded run of the README's animation: it has all three origins."""


def opening() -> str:
    """Return the caption of the animation that README.md begins with."""
    run, speedup = gallery.trace(HERO), gallery.speedup(HERO)
    summary = Summary(run, gallery.baseline(HERO))
    if speedup is None or summary.first_difference is not None:
        raise ValueError(f"the caption of README.md does not fit the run {HERO}")
    target, draft = (str(name).rpartition("/")[2] for name in (run.target, run.draft))
    settings, usual = measured_tables.measured(target, run.method)
    return (
        f"*A recorded run of the method Ouroboros on two CPU cores: {target} writes "
        f"{summary.tokens} tokens in {summary.steps} passes, {speedup.median:.2f} times as fast as "
        f"plain decoding, with the same text. Blue tokens are guesses of {draft}, green ones "
        "phrases appended to its drafts, orange ones the target's corrections, pink ones its bonus "
        "tokens. Prompt and settings were chosen; with automatic settings, over "
        f"{settings['questions']} prompts and {settings['max_new_tokens']} tokens, this method "
        f"reaches {usual:.2f} times ([How fast](#how-fast)).*\n"
    )
