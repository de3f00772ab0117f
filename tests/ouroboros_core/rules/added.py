"""Print as JSON the texts of the command line, the page, the documents and a run, with a rule more.

    python -m tests.ouroboros_core.rules.added FOLDER

FOLDER has the file of the rule `lenient`. Everything else is imported after the rule is in place,
as it is when the file lies in `ouroboros_core/rules`.
"""

import json
import sys
from typing import Any

from ouroboros_core import rules


def options() -> dict[str, Any]:
    """Return the rule that the command line reads, and the table of its options."""
    from ouroboros_core.cli import build_parser
    from scripts.documents.command_line import commands
    from scripts.documents.pages import rules_table

    arguments = ["generate", "--acceptance", "lenient", "--prompt", "a"]
    chosen = build_parser().parse_args(arguments).acceptance
    return {"flag": chosen, "help": commands(), "table": rules_table()}


def page() -> dict[str, Any]:
    """Return the choices of Watch and Proof, and the map of the methods."""
    import gradio

    from visualize.learn.method_map import field_map
    from visualize.proof.tab import ProofPanel
    from visualize.watch.settings_view import run_settings

    runner: Any = None
    with gradio.Blocks():
        proof = ProofPanel(runner, gradio.State(""))
    (watch,) = (one["choices"] for one in run_settings(256) if one["name"] == "acceptance")
    return {"proof": proof.rule.choices, "watch": watch, "map": field_map()}


def run() -> dict[str, Any]:
    """Return the status and the reasons of a run, and the ranks of its accepted tokens among the
    target's recorded probabilities, from 0."""
    from ouroboros_core.sampling import Sampling
    from ouroboros_core.trace.summary import Summary
    from tests import tiny, traces
    from visualize.run.view import run_view

    sampling = Sampling(temperature=1.5, seed=3, acceptance="lenient")
    models = tiny.pair("llama", "sdpa")
    steps = tiny.run(models, "speculative", tiny.prompt(), 40, sampling, record=True, gamma=3)
    plain = tiny.plain(models[0].model, tiny.prompt(), 40, sampling)
    trace = traces.make_trace(steps, "speculative", sampling)
    view: dict[str, Any] = run_view(Summary(trace), run="r", seq=1, badge_text="")
    reasons = [token["why"] for step in view["steps"] for token in step["tokens"]]
    reasons += [node["why"] for step in view["steps"] for node in step["nodes"] if "why" in node]
    ranks = []
    for step in steps:
        for judged, node in zip(step.judged, step.path, strict=False):
            chances = dict(zip(judged.tokens, judged.target, strict=True))
            descending = sorted(chances.values(), reverse=True)
            ranks.append(descending.index(chances[step.tree.tokens[node]]))
    differs = tiny.emitted(steps) != plain
    return {"status": view["status"], "reasons": reasons, "ranks": ranks, "differs": differs}


if __name__ == "__main__":
    rules.__path__.append(sys.argv[1])
    print(json.dumps(options() | page() | run()))
