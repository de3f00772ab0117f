"""Files of a run that the browser saves (trace, replay, table), and the link to its inputs."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from ouroboros_core.decoding.generation import Task
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.trace import Step, Trace
from visualize.deploy.static_site import replay_html
from visualize.run import permalink

TYPES = {"json": "application/json", "html": "text/html", "csv": "text/csv"}
"""The type of each kind of file."""


def link(task: Task, model: str = "") -> dict[str, Any]:
    """Return the value of a SaveView with a link to the inputs of a task; raises InvalidInput."""
    said = f"It holds these inputs, run with {model}." if model else "It holds these inputs."
    return {"link": permalink.query(permalink.of_task(task, model)), "said": said}


def file(
    kind: str, trace: Trace, baseline: Trace | None, difference: Divergence | None = None
) -> dict[str, Any]:
    """Return the value of a SaveView with name, type and text of a file of a run."""
    if kind not in TYPES or not trace.steps:
        return {"problem": "There is no run to save yet: generate one, or open one."}
    if kind == "json":
        text = trace.to_json(baseline)
    elif kind == "csv":
        text = to_csv(trace, baseline)
    else:
        text = replay_html(trace, baseline, difference)
    stamp = trace.created[:19].replace(":", "").replace("-", "")
    return {"name": f"{trace.method}-{stamp}.{kind}", "type": TYPES[kind], "text": text}


COLUMNS = (
    "token",
    "step",
    "text",
    "id",
    "source",
    "kind",
    "learned",
    "choice",
    "seconds",
    "width",
    "draft_passes",
)


def to_csv(trace: Trace, baseline: Trace | None = None) -> str:
    """One row per emitted token, with a header.

    token, step   numbered from 1
    text          the text that the token added, as a JSON string: `json.loads` gives it back.
                  So it always begins with a quotation mark, and no spreadsheet takes `=1+1` or
                  `@cell` for a formula; a line break is `\\n`, and every token one line
    id            the token id
    source        who proposed it; target for the target's own, draft where the draft model wrote
                  alone
    kind          correction or bonus, of the target's own; empty if nothing was checked
    learned       where the phrase it comes from was learned
    choice        accepted, or own: the writer's own choice
    seconds       from the start, prefill included, until it was there, to a microsecond
    width, draft_passes   rows of the target pass of its step, and passes of the draft model
    baseline_seconds      only with a baseline: when plain decoding had the same text up to here;
                          empty if its text is another
    """
    theirs = metrics.seconds_to_token(baseline) if baseline is not None else []
    where = (
        metrics.first_difference(trace.tokens, baseline.tokens) if baseline is not None else None
    )
    same = len(theirs) if where is None else where
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(COLUMNS if baseline is None else (*COLUMNS, "baseline_seconds"))
    facts = ((step, nth) for step in trace.steps for nth in range(len(step.tokens)))
    columns = zip(
        facts,
        trace.texts,
        metrics.token_sources(trace),
        metrics.seconds_to_token(trace),
        strict=True,
    )
    for index, ((step, nth), text, source, seconds) in enumerate(columns):
        kind, learned, choice = _origin(step, nth)
        row = [
            index + 1,
            step.index + 1,
            json.dumps(text, ensure_ascii=False),
            step.tokens[nth],
            source.value,
        ]
        row += [kind, learned, choice, f"{seconds:.6f}", step.width, step.draft_passes]
        if baseline is not None:
            row.append(f"{theirs[index]:.6f}" if index < same else "")
        table.writerow(row)
    return lines.getvalue()


def _origin(step: Step, index: int) -> tuple[str, str, str]:
    """Kind, where learned, and who chose the token at an index of a step, 0 being the first."""
    if index >= len(step.path):
        return step.kind or "", "", "own"
    learned = step.tree.provenance[step.path[index]].learned
    return "", learned.value if learned else "", "accepted"
