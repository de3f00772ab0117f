"""The generated parts of pages that have one or two: tables, lists and single sentences."""

from __future__ import annotations

import json

import ouroboros_core
from ouroboros_core import methods, rules
from ouroboros_core.cli.methods import describe
from ouroboros_core.environment import processor_name
from ouroboros_core.locations import assets
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.summary import Summary
from ouroboros_core.training.folder import agreement_of
from scripts.documents.markdown import table, wrapped
from scripts.documents.measured import measured
from visualize.drafts.tab import records
from visualize.gallery import runs as gallery
from visualize.learn import lessons
from visualize.live.packing import runs_in_browser
from visualize.run.figures import FIRST_CHARTS, MORE_CHARTS

HERO = "stack-union"
"""The recorded run of the README's animation: the default method at automatic settings."""
COMPARED = "palindrome-"
"""What the names of the runs in the README's picture of Compare begin with."""


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


def opening() -> str:
    """Return the caption of the animation that README.md begins with."""
    run, speedup = gallery.trace(HERO), gallery.speedup(HERO)
    summary = Summary(run, gallery.baseline(HERO))
    if speedup is None or summary.first_difference is not None:
        raise ValueError(f"the caption of README.md does not fit the run {HERO}")
    target, draft = (str(name).rpartition("/")[2] for name in (run.target, run.draft))
    size = draft.removesuffix("-Instruct").rpartition("-")[2]
    benchmark, usual = measured(target, run.method)
    processor = processor_name(run.environment.processor)
    return (
        f"*A recorded run of the default method, `{run.method}`, on two cores of an {processor}: "
        f"{target.removesuffix('-Instruct')}, with drafts by the {size} model, writes "
        f"{summary.tokens} tokens in {summary.steps} passes, {speedup.median:.2f} times as fast as "
        "plain decoding, with the same text. Much of the answer is copied from the prompt: a best "
        f"case. On another machine, over {benchmark.settings['questions']} prompts, it reaches "
        f"{usual:.2f} times ([How fast](#how-fast)).*\n"
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


def java_runs() -> str:
    """Return what Ouroboros reaches on one recorded prompt (docs/methods/ouroboros.md)."""
    ours, warm, chain = (
        speedup.median
        for name in ("java-ouroboros", "java-ouroboros-warm", "java-speculative")
        if (speedup := gallery.speedup(name))
    )
    lengths = [
        gallery.trace(name).hyperparameters["gamma"]
        for name in ("java-ouroboros", "java-speculative")
    ]
    return (
        wrapped(
            f"On one recorded prompt (*java*, Qwen2.5-Coder) it reaches {ours:.2f} times plain "
            f"decoding with draft length {lengths[0]} (and {warm:.2f} with the pool of an earlier "
            f"run of this prompt), against {chain:.2f} for speculative decoding with draft length "
            f"{lengths[1]}. The lengths differ, so this compares settings as well as methods."
        )
        + "\n"
    )


def rules_table() -> str:
    """Return the acceptance rules with their guarantees and sources (docs/losslessness.md)."""
    rows = []
    for rule in rules.available().values():
        default = " (default)" if rule.id == rules.DEFAULT else ""
        links = ", ".join(f"[{paper}](https://arxiv.org/abs/{paper})" for paper in rule.papers)
        guarantee = "the target's distribution" if rule.lossless else "nothing: it is not lossless"
        if rule.repeats_plain_text:
            guarantee = "the text of plain sampling with the same seed, token by token"
        sources = f" ({links})" if links else ""
        rows.append((f"`{rule.id}`{default}: {rule.name}{sources}", rule.explanation, guarantee))
    return table("rule | how it judges a draft | what it guarantees", rows)


def legend() -> str:
    rows = ((look.glyph, look.label, look.sentence) for look in LOOKS.values())
    return table("sign | token | what it says", rows)


def charts() -> str:
    rows = ((chart.label, chart.title) for chart in (*FIRST_CHARTS, *MORE_CHARTS))
    return table("button | chart", rows)


def lossless_modes() -> str:
    """Return which modes of transformers keep the target's distribution when they sample."""
    result = json.loads((assets() / "hf_lossless.json").read_text(encoding="utf-8"))
    rows = []
    for name, mode in result["modes"].items():
        verdict = "found" if mode["p"] < 1e-4 else "not found"
        chance = "< 0.0001" if verdict == "found" else f"{mode['p']:.2g}"
        rows.append((name, chance, verdict))
    samples = max(mode["samples"] for mode in result["modes"].values())
    below = (
        f"transformers {result['transformers']}, {samples} texts of {result['length']} tokens "
        f"each, {result['tokens']} tokens in the vocabulary, commit {result['commit']} "
        "(`python -m scripts.measure lossless_modes`)."
    )
    for name, example in result["counterexamples"].items():
        keys = ("p", "reported", "true", "text")
        numbers = {key: ", ".join(map(str, example[key])) for key in keys}
        below += (
            f"\n\nSmallest counterexample of {name}: with p = ({numbers['p']}) and a draft "
            f"drawn by ({numbers['true']}), the rule gets q = ({numbers['reported']}), and the "
            f"text gets ({numbers['text']})."
        )
    return f"{table('mode | p | difference', rows)}\n{below}\n"


def names() -> str:
    """Return the public names, for mkdocstrings."""
    lines = []
    for name, home in sorted(ouroboros_core._HOMES.items()):
        lines += [f"::: ouroboros_core.{home}.{name}", ""]
    return "\n".join(lines)


def nav() -> str:
    """Return the pages of the methods, for mkdocs.yml."""
    return "".join(
        f"      - {method['name']}: methods/{method['id']}.md\n" for method in describe()
    )


def questions() -> str:
    """Return the questions at the end of Learn, and the stops that answer them."""
    rows = []
    for number, question in enumerate(lessons.questions(), 1):
        title = lessons.chapters()[question["chapter"]]["title"]
        stop = f"*{title}*, stop {question['stop'] + 1}"
        cells = (str(number), question["words"], stop)
        rows.append([cell.replace("|", "\\|") for cell in cells])
    return table(": | question | answer", rows)


def drafts_section() -> str:
    """Return the drafts that ship, by the records of their training."""
    rows = []
    for name, record in records().items():
        folder = assets() / "models" / name
        last = record["curve"][-1]
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        agreement = ", ".join(f"{share:.0%}" for share in agreement_of(last))
        shape = record["shape"].partition(";")[0]
        about = f"[{name}](../assets/models/{name}/README.md)", shape, f"{last['tokens']:,}"
        rows.append((*about, f"{last['seconds'] / 60:.0f}", agreement, f"{size:.1f}"))
    heads = (
        "folder | what | answer tokens trained on: | minutes, CPU and GPU runs together: | "
        "held-out agreement, 1, 2, 3 tokens ahead: | MB:"
    )
    return table(heads, rows)


def shapes_table() -> str:
    """Return the speeds of drafts of several shapes, the fastest first (docs/training.md)."""
    file = assets() / "models" / "shapes.json"
    drafts = json.loads(file.read_text(encoding="utf-8"))["drafts"]
    rows = []
    for draft in sorted(drafts, key=lambda draft: -max(draft["speed"].values())):
        numbers = f"{draft['cost']:.3f}", f"{draft['agreement']:.1%}"
        speedup = f"{max(draft['speed'].values()):.2f}"
        rows.append((draft["shape"].partition(";")[0], *numbers, speedup))
    return table("draft | c: | agreement: | speedup:", rows)
