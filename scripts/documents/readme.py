"""The generated parts of README.md."""

from __future__ import annotations

from ouroboros_core import methods
from ouroboros_core.environment import processor_name
from ouroboros_core.methods.parts.needs import Need
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
    in_python = sum(Need.CANDIDATES in kind.needs for kind in kinds)
    live = sum(runs_in_browser(kind) for kind in kinds)
    return (
        f"{len(kinds)} methods share one decoding loop: {papers} from papers, {len(programs)} from "
        f"other programs, {len(borrowed)} from transformers ({in_python} in Python only), our own "
        f"{', '.join(ours)}, and {len(others)} for comparison. `make static` builds a site that "
        f"needs no server: {live} of them run in the visitor's browser "
        "([Deployment](docs/deployment.md)).\n"
    )


HERO = "stack-union"
"""The recorded run of the README's animation: the default method at automatic settings."""
COMPARED = "palindrome-"
"""What the names of the runs in the README's picture of Compare begin with."""


def opening() -> str:
    """Return the caption of the animation that README.md begins with."""
    run, speedup = gallery.trace(HERO), gallery.speedup(HERO)
    summary = Summary(run, gallery.baseline(HERO))
    if speedup is None or summary.first_difference is not None:
        raise ValueError(f"the caption of README.md does not fit the run {HERO}")
    target, draft = (str(name).rpartition("/")[2] for name in (run.target, run.draft))
    size = draft.removesuffix("-Instruct").rpartition("-")[2]
    settings, usual = measured_tables.measured(target, run.method)
    processor = processor_name(run.environment.processor)
    return (
        f"*A recorded run of the default method, `{run.method}`, on two cores of an {processor}: "
        f"{target.removesuffix('-Instruct')}, with drafts by the {size} model, writes "
        f"{summary.tokens} tokens in {summary.steps} passes, {speedup.median:.2f} times as fast as "
        "plain decoding, with the same text. Much of the answer is copied from the prompt: a best "
        f"case. On another machine, over {settings['questions']} prompts, it reaches {usual:.2f} "
        "times ([How fast](#how-fast)).*\n"
    )


def compared() -> str:
    """Return the caption of README's picture of Compare: its longest and its shortest draft, and
    its fastest run."""
    names = [name for name in gallery.runs() if name.startswith(COMPARED)]
    reached = {name: speedup.median for name in names if (speedup := gallery.speedup(name))}
    long, short = (f"{COMPARED}speculative-{length}" for length in (8, 1))
    runs = {name: Summary(gallery.trace(name)) for name in (long, short)}
    yields = {name: run.tokens / run.steps for name, run in runs.items()}
    if yields[long] < yields[short] or reached[long] > reached[short]:
        raise ValueError("the caption of Compare in README.md does not fit its recorded runs")
    fastest = gallery.trace(max(reached, key=reached.__getitem__)).method
    return (
        "**Compare** methods and settings. One prompt, on the embedded 135M model. Each block is "
        "a step, its width the time it took, scaled to the same plain run. The figures are the "
        "speedup over plain decoding and the range of three rounds. More tokens per pass need not "
        f"be faster: draft length 8 writes {yields[long]:.2f} and reaches {reached[long]:.2f} "
        f"times, draft length 1 writes {yields[short]:.2f} and reaches {reached[short]:.2f}. "
        f"`{fastest}` is fastest.\n"
    )
