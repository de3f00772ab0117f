"""Generate parts of README.md and docs/: tables of methods and settings, pictures of token trees,
commands, names, the trace's schema, measured tables.

    python -m scripts.documents            writes them
    python -m scripts.documents --check    names stale files; the exit status is 1 if there is one

A generated part is between `<!-- NAME: begin ... -->` and `<!-- NAME: end -->`. A method without a
page gets a first one.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import ouroboros_core
from ouroboros_core import cli, methods, rules
from ouroboros_core.cli.methods import describe
from ouroboros_core.integrations.tree_svg import parse, picture
from ouroboros_core.locations import assets
from ouroboros_core.sources import LOOKS
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import adapter
from ouroboros_core.training.folder import agreement_of
from ouroboros_core.what_if import machines
from scripts import measured_tables
from visualize.drafts.tab import records
from visualize.gallery import runs as gallery
from visualize.learn import lessons
from visualize.live.packing import runs_in_browser
from visualize.run.figures import FIRST_CHARTS, MORE_CHARTS

ROOT = assets().parent
COMMAND = "python -m scripts.documents"
STUB = """\
# {name}

{summary}

<!-- facts: begin ({command}) -->
<!-- facts: end -->

## Settings

<!-- settings: begin ({command}) -->
<!-- settings: end -->
"""
"""The first page of a method."""


def _part(name: str) -> re.Pattern[str]:
    """Match a generated part with its markers, in Markdown or in YAML."""
    return re.compile(
        rf"(?P<begin>^[ ]*(?:<!--|#) {name}: begin[^\n]*\n)(?P<content>.*?)"
        rf"(?P<end>^[ ]*(?:<!--|#) {name}: end)",
        re.DOTALL | re.MULTILINE,
    )


def section(text: str, name: str) -> str:
    """Return the content of a generated part; raises ValueError if there is no such part."""
    match = _part(name).search(text)
    if not match:
        raise ValueError(f"there is no part <!-- {name}: begin --> ... <!-- {name}: end -->")
    return match["content"]


def filled(text: str, name: str, content: str) -> str:
    """Return the text with other content in a generated part."""
    section(text, name)
    return _part(name).sub(lambda match: match["begin"] + content + match["end"], text, count=1)


def default_of(setting: dict[str, Any]) -> str:
    value = setting["default"]
    return str(value).lower() if setting["type"] == "bool" else str(value)


def allowed_of(setting: dict[str, Any]) -> str:
    bounds = f"{setting['min']} to {setting['max']}" if setting["min"] is not None else ""
    if setting["type"] == "bool":
        bounds = "true or false"
    if setting["type"] == "str" and setting["auto"]:
        bounds = f"such as `{setting['fixed']}`"
    bounds = ", ".join(f"`{choice}`" for choice in setting["choices"]) or bounds
    return f"{bounds}, or `auto`" if setting["auto"] else bounds


ON_OTHER_PAGES = ("sam", "serve", "train", "what-if")
"""Commands that other pages than docs/command-line.md explain."""


def method_count() -> str:
    """Return a sentence with the number of methods (README.md)."""
    kinds = methods.available().values()
    borrowed = [kind.id for kind in kinds if kind.id.startswith("hf_")]
    others = {"autoregressive", "draft_only"}
    written = [kind for kind in kinds if kind.id not in {*borrowed, *others}]
    ours = [f"`{kind.id}`" for kind in written if not kind.paper]
    programs = [kind for kind in written if kind.paper.startswith("https://github.com/")]
    papers = len(written) - len(ours) - len(programs)
    return (
        f"{len(kinds)} methods share one decoding loop, so their numbers can be compared: {papers} "
        f"are written anew after their papers and {len(programs)} after other programs, "
        f"{', '.join(ours)} is our own, {len(borrowed)} run transformers' own generators, "
        f"{len(others)} are there to compare with.\n"
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
    prompts, usual = measured_tables.measured(target, run.method)
    return (
        f"*A recorded run of the method Ouroboros on two CPU cores: {target} writes "
        f"{summary.tokens} tokens in {summary.steps} passes, {speedup.median:.2f} times as fast as "
        f"plain decoding, with the same text. Blue tokens are guesses of {draft}, green ones "
        f"phrases appended to its drafts. The prompt was chosen; over {prompts} prompts this "
        f"method reaches {usual:.2f} times ([How fast](#how-fast)).*\n"
    )


def sampled_answer() -> str:
    """Return what the default method gains in sampling (docs/faq.md)."""
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
    verb = "is ahead" if ours > chain else "is not ahead"
    lengths = [
        gallery.trace(name).hyperparameters["gamma"]
        for name in ("java-ouroboros", "java-speculative")
    ]
    return (
        _filled(
            f"On one recorded prompt (*java*, Qwen2.5-Coder) it {verb}: {ours:.2f} times plain "
            f"decoding with draft length {lengths[0]} (and {warm:.2f} with the pool of an earlier "
            f"run of this prompt), against {chain:.2f} for speculative decoding with draft length "
            f"{lengths[1]}."
        )
        + "\n"
    )


def methods_table() -> str:
    lines = ["| method | needs | what it does |", "|---|---|---|"]
    for method in describe():
        mark = " (default)" if method["default"] else ""
        paper = f" ([source]({method['paper']}))" if method["paper"] else ""
        lines.append(
            f"| [`{method['id']}`]({method['id']}.md){mark}: {method['name']}{paper} | "
            f"{', '.join(method['needs'])} | {method['summary']} |"
        )
    return "\n".join(lines) + "\n"


def facts_of(method: dict[str, Any]) -> str:
    source = f"[{method['paper'].removeprefix('https://')}]({method['paper']})"
    needs = ", ".join(method["needs"]) or "nothing but the target model"
    name = f"`{method['id']}`" + (" (the default method)" if method["default"] else "")
    source = source if method["paper"] else "this project"
    return _filled(f"{name}. Needs: {needs}. Source: {source}.") + "\n"


def settings_of(method: dict[str, Any]) -> str:
    """Return the settings of a method, and the values of its paper."""
    if not method["knobs"]:
        return "This method has no settings.\n"
    lines = ["| setting | default | allowed | what it is |", "|---|---|---|---|"]
    lines += [
        f"| `{name}` | `{default_of(setting)}` | {allowed_of(setting)} | {setting['help']} |"
        for name, setting in method["knobs"].items()
    ]
    if method["published"]:
        values = (
            f"`{name}={str(value).lower() if isinstance(value, bool) else value}`"
            for name, value in method["published"].items()
        )
        lines += ["", f"Preset `published`: {', '.join(values)}."]
    return "\n".join(lines) + "\n"


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


def drafts_section() -> str:
    """Return the drafts that ship, by the records of their training."""
    lines = [
        "| folder | what | answer tokens trained on | minutes, CPU and GPU runs together | "
        "held-out agreement, 1, 2, 3 tokens ahead | MB |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, record in records().items():
        folder = assets() / "models" / name
        last = record["curve"][-1]
        size = sum(file.stat().st_size for file in folder.iterdir()) / 1e6
        agreement = ", ".join(f"{share:.0%}" for share in agreement_of(last))
        shape = record["shape"].partition(";")[0]
        lines.append(
            f"| [{name}](../assets/models/{name}/README.md) | {shape} | "
            f"{last['tokens']:,} | {last['seconds'] / 60:.0f} | {agreement} | {size:.1f} |"
        )
    return "\n".join([*lines, ""])


def shapes_table() -> str:
    """Return the speeds of drafts of several shapes, the fastest first (docs/training.md)."""
    file = assets() / "models" / "shapes.json"
    drafts = json.loads(file.read_text(encoding="utf-8"))["drafts"]
    lines = ["| draft | c | agreement | speedup |", "|---|---:|---:|---:|"]
    for draft in sorted(drafts, key=lambda draft: -max(draft["speed"].values())):
        lines.append(
            f"| {draft['shape'].partition(';')[0]} | {draft['cost']:.3f} | "
            f"{draft['agreement']:.1%} | {max(draft['speed'].values()):.2f} |"
        )
    return "\n".join([*lines, ""])


def _quoted(numbers: dict[str, Any], name: str, scale: float) -> str:
    number = numbers.get(name)
    return f"{number.value * scale:.4g}" if number else "–"


def machines_table() -> str:
    """Return the machines that a run can be priced on, with sources."""
    sheets = machines.sheets()
    lines = [
        "| id | machine | GB/s | TFLOPS | GB | share of bandwidth reached | µs per layer | "
        "sources |",
        "|---|---|---:|---:|---:|---:|---:|---|",
    ]
    used: dict[str, int] = {}
    for name, sheet in sheets.machines.items():
        numbers = sheet.numbers
        marks = [used.setdefault(n.source, len(used) + 1) for n in numbers.values()]
        cells = [
            _quoted(numbers, field, scale)
            for field, scale in (
                ("bandwidth", 1e-9),
                ("flops", 1e-12),
                ("memory", 1e-9),
                ("bandwidth_share", 1),
                ("layer_seconds", 1e6),
            )
        ]
        cells.append(", ".join(f"[{n}]" for n in sorted(set(marks))))
        lines.append(f"| `{name}` | {sheet.name} | {' | '.join(cells)} |")
    lines.append("")
    for source, number in used.items():
        document, address = sheets.sources[source]
        lines.append(f"{number}. {document}{f': <{address}>' if address else ''}")
    return "\n".join(lines) + "\n"


def models_table() -> str:
    """Return the models that a run can be priced with, by their configurations."""
    sheets = machines.sheets()
    lines = [
        "| id | model | parameters | of them in a pass | layers | KV bytes per token | "
        "usual draft | source |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    for name, sheet in sheets.models.items():
        document, address = sheet.source
        source = f"[{document}]({address})" if address else document
        draft = f"`{sheet.draft}`" if sheet.draft else ""
        lines.append(
            f"| `{name}` | {sheet.name} | {sheet.total / 1e9:.3g} B | "
            f"{sheet.size.parameters / 1e9:.3g} B | {sheet.layers} | {sheet.size.kv_bytes:,.0f} | "
            f"{draft} | {source} |"
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


def unnamed() -> str:
    """Return the methods that the table of other engines' modes does not name."""
    text = (ROOT / "docs" / "field.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\|.*$", text, re.MULTILINE))))
    ids = ", ".join(f"`{method}`" for method in methods.available() if method not in named)
    return f"No row for {ids}.\n"


def lossless_modes() -> str:
    """Return which modes of transformers keep the target's distribution when they sample."""
    file = ROOT / "assets" / "hf_lossless.json"
    result = json.loads(file.read_text(encoding="utf-8"))
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


def commands() -> str:
    """Return the help of the commands, in paragraphs. One that several commands have comes once;
    settings of methods stand on the methods' pages."""
    helps = {
        name: _help(command)
        for name, command in cli.commands().items()
        if name not in ON_OTHER_PAGES
    }
    counts = Counter(paragraph for paragraphs in helps.values() for paragraph in paragraphs)
    shared = [paragraph for paragraph, count in counts.items() if count > 1]
    sections = [_block("For several commands:", shared)]
    for name, paragraphs in helps.items():
        also = ", ".join(p.partition(":")[0] for p in paragraphs if p in shared)
        text = cli.summary(cli.commands()[name]) + (f" Also: {also}." if also else "")
        own = [paragraph for paragraph in paragraphs if paragraph not in shared]
        sections.append(f"## {name}\n\n{_block(_filled(text), own)}")
    return "\n".join(sections)


def _help(command: ModuleType) -> list[str]:
    """Return the paragraphs of a command's help."""
    form = partial(argparse.HelpFormatter, width=110)
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, add_help=False, formatter_class=form)
    command.add(parser)
    text = re.sub(r"(--[\w-]+) [A-Z]+, (?=--)", r"\1, ", parser.format_help())  # as from 3.13 on
    text = re.sub(",\\s+".join(methods.available()), "the id of a method", text)
    paragraphs = text.strip().split("\n\n")
    return [p for p in paragraphs if not p.startswith("settings of the method")]


def _block(text: str, paragraphs: Sequence[str]) -> str:
    return "\n".join([f"{text}\n", "```text", "\n\n".join(paragraphs), "```", ""])


def _item(text: str) -> str:
    """Return an item of a list in lines of at most 140 characters."""
    return _filled(f"* {text}", "  ")


def _filled(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, 140, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False
    )


def _cell(text: str) -> str:
    """Escape a text for a cell of a table."""
    return re.sub(r"([|<>*_\[\]])", r"\\\1", " ".join(text.split()))


def names() -> str:
    """Return the public names, for mkdocstrings."""
    lines = []
    for name, home in sorted(ouroboros_core._HOMES.items()):
        lines += [f"::: ouroboros_core.{home}.{name}", ""]
    return "\n".join(lines)


def schema() -> dict[str, Any]:
    """Return the JSON schema of a trace."""
    return adapter().json_schema()


def schema_tables() -> str:
    """Return every object of a trace with its fields."""
    trace = schema()
    lines = []
    for name, entry in {"Trace": trace, **trace.get("$defs", {})}.items():
        description = entry.get("description") or ""
        lines.append(f"### {name}\n\n{_cell(description.partition(chr(10) * 2)[0])}\n")
        if "enum" in entry:
            lines.append("One of " + ", ".join(f"`{value}`" for value in entry["enum"]) + ".\n")
            continue
        helps = _field_helps(description)
        for field, kind in entry.get("properties", {}).items():
            default = "" if field in entry.get("required", ()) else f" (default {_value(kind)})"
            text = f": {helps[field]}" if field in helps else ""
            lines.append(_item(f"`{field}`, {_kind(kind)}{default}{text}"))
        lines.append("")
    return "\n".join(lines)


def _value(kind: dict[str, Any]) -> str:
    return f"`{json.dumps(kind['default'])}`" if "default" in kind else "empty"


def _field_helps(description: str) -> dict[str, str]:
    """Return a docstring's text about each field: `name   text`, over one line or several."""
    helps: dict[str, str] = {}
    field = ""
    for line in description.split("\n\n", 1)[-1].splitlines():
        match = re.match(r"^(\w+) {2,}(\S.*)$", line)
        if match:
            field = match[1]
            helps[field] = match[2]
        elif field and line.startswith(" "):
            helps[field] += " " + line.strip()
        else:
            field = ""
    return {name: _cell(text) for name, text in helps.items()}


def _kind(kind: dict[str, Any]) -> str:
    if "$ref" in kind:
        name = kind["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(_kind(choice) for choice in kind["anyOf"])
    if "enum" in kind:
        return ", ".join(f"`{json.dumps(value)}`" for value in kind["enum"])
    if "prefixItems" in kind:
        return "(" + ", ".join(_kind(item) for item in kind["prefixItems"]) + ")"
    if kind.get("type") == "array":
        return f"list of {_kind(kind.get('items', {}))}"
    if kind.get("type") == "object" and isinstance(kind.get("additionalProperties"), dict):
        return f"object of {_kind(kind['additionalProperties'])}"
    return str(kind.get("type", "any"))


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


PARTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "opening": opening,
        "methods": method_count,
        "live": live_methods,
        "result": measured_tables.result,
    },
    "mkdocs.yml": {"methods": nav},
    "docs/methods/index.md": {"methods": methods_table, "tasks": measured_tables.tasks_section},
    "docs/losslessness.md": {"rules": rules_table},
    "docs/page.md": {"legend": legend, "charts": charts},
    "docs/benchmarks.md": {
        "bench": measured_tables.bench_section,
        "pairs": measured_tables.pairs_section,
        "warm": measured_tables.warm_section,
    },
    "docs/faq.md": {"sampled": sampled_answer},
    "docs/limits.md": {"worst": measured_tables.worst},
    "docs/methods/ouroboros.md": {"java": java_runs},
    "docs/field.md": {"unnamed": unnamed},
    "docs/transformers.md": {"lossless": lossless_modes},
    "docs/training.md": {"drafts": drafts_section, "shapes": shapes_table},
    "docs/command-line.md": {"commands": commands},
    "docs/python-api.md": {"names": names},
    "docs/teaching.md": {"questions": questions},
    "docs/trace-format.md": {"schema": schema_tables},
    "docs/what-if.md": {"machines": machines_table, "models": models_table},
}
"""File -> its generated parts, without the pages of the methods."""


def documents(root: Path = ROOT) -> dict[str, str]:
    """Return the right text of every file that has generated parts."""
    texts: dict[str, str] = {"docs/trace.schema.json": json.dumps(schema(), indent=1) + "\n"}
    for name, text in measured_tables.csv_files(root / "assets").items():
        texts[f"assets/{name}"] = text
    for name, parts in PARTS.items():
        text = (root / name).read_text(encoding="utf-8")
        for part, make in parts.items():
            text = filled(text, part, make())
        texts[name] = text
    for method in describe():
        name = f"docs/methods/{method['id']}.md"
        page = root / name
        if name not in texts:
            first = STUB.format(**method, command=COMMAND)
            texts[name] = page.read_text(encoding="utf-8") if page.exists() else first
        texts |= _page(name, texts[name], method)
    return texts


def _page(name: str, text: str, method: dict[str, Any]) -> dict[str, str]:
    """Return a method's page, and the picture of the tree that its text has a notation of."""
    text = filled(text, "facts", facts_of(method))
    text = filled(text, "settings", settings_of(method))
    files = {name: text}
    tree = re.search(r"^<!-- tree: (.+?) -->$", text, re.MULTILINE)
    if tree:
        title = f"A proposal of {method['name']}"
        files[f"docs/methods/{method['id']}.svg"] = picture(parse(tree[1]), title)
    return files


def stale(root: Path = ROOT) -> list[str]:
    return [
        name
        for name, text in documents(root).items()
        if not (root / name).exists() or (root / name).read_text(encoding="utf-8") != text
    ]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog=COMMAND, description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing, name stale files")
    arguments = parser.parse_args(argv)
    names = stale()
    if arguments.check:
        sys.exit(f"stale: {', '.join(names)}; run: {COMMAND}" if names else 0)
    texts = documents()
    for name in names:
        (ROOT / name).write_text(texts[name], encoding="utf-8")
        print(name)


if __name__ == "__main__":
    main()
