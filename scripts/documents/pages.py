"""The generated parts of pages that have one or two: tables, lists and single sentences."""

from __future__ import annotations

import json

import ouroboros_core
from ouroboros_core import methods, rules
from ouroboros_core.cli.methods import describe
from ouroboros_core.locations import assets
from ouroboros_core.sources import LOOKS
from scripts import measured_tables
from scripts.documents.markdown import wrapped
from visualize.gallery import runs as gallery
from visualize.learn import lessons
from visualize.run.figures import FIRST_CHARTS, MORE_CHARTS


def sampled_answer() -> str:
    """Return the speedups of the default method in sampling (docs/faq.md)."""
    gains = measured_tables.sampled_speedups(methods.DEFAULT)
    by_rule = " and ".join(f"{speedup:.2f} times by `{rule}`" for rule, speedup in gains.items())
    name = methods.DEFAULT
    return (
        f"In the benchmark at temperature 0.8, the speedup of `{name}` over plain decoding is "
        f"{by_rule}.\n"
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
    lines = ["| rule | how it judges a draft | what it guarantees |", "|---|---|---|"]
    for rule in rules.available().values():
        default = " (default)" if rule.id == rules.DEFAULT else ""
        links = ", ".join(f"[{paper}](https://arxiv.org/abs/{paper})" for paper in rule.papers)
        guarantee = "the target's distribution" if rule.lossless else "nothing: it is not lossless"
        if rule.repeats_plain_text:
            guarantee = "the text of plain sampling with the same seed, token by token"
        sources = f" ({links})" if links else ""
        lines.append(
            f"| `{rule.id}`{default}: {rule.name}{sources} | {rule.explanation} | {guarantee} |"
        )
    return "\n".join(lines) + "\n"


def legend() -> str:
    lines = ["| sign | token | what it says |", "|---|---|---|"]
    lines += [f"| {look.glyph} | {look.label} | {look.sentence} |" for look in LOOKS.values()]
    return "\n".join(lines) + "\n"


def charts() -> str:
    lines = ["| button | chart |", "|---|---|"]
    lines += [f"| {chart.label} | {chart.title} |" for chart in (*FIRST_CHARTS, *MORE_CHARTS)]
    return "\n".join(lines) + "\n"


def lossless_modes() -> str:
    """Return which modes of transformers keep the target's distribution when they sample."""
    result = json.loads((assets() / "hf_lossless.json").read_text(encoding="utf-8"))
    lines = ["| mode | p | difference |", "|---|---|---|"]
    for name, mode in result["modes"].items():
        verdict = "found" if mode["p"] < 1e-4 else "not found"
        chance = "< 0.0001" if verdict == "found" else f"{mode['p']:.2g}"
        lines.append(f"| {name} | {chance} | {verdict} |")
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
    return "\n".join(lines) + f"\n\n{below}\n"


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
    lines = ["| | question | answer |", "|---:|---|---|"]
    for number, question in enumerate(lessons.questions(), 1):
        title = lessons.chapters()[question["chapter"]]["title"]
        stop = f"*{title}*, stop {question['stop'] + 1}"
        cells = (str(number), question["words"], stop)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"
