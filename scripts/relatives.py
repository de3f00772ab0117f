"""Union with other drafts: tokens per pass, and speed by the cost model.

python -m scripts.relatives [--limit 8] [--max-new-tokens 48] [--temperature 0] [--costs FILE]

What hangs beside copies, recycled candidates and phrases is the EAGLE head's tree, as it is; the
draft and its suffixes, as it is without a head; that draft with the draft model's runner-up beside
each token, which costs no pass; a multi-candidate tree of the draft model instead; and this beside
the draft.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ouroboros_core import methods
from ouroboros_core.benchmark.prompts import own_prompts, spread
from ouroboros_core.cli import options
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.costs import read_costs
from ouroboros_core.methods.ouroboros import Ouroboros
from ouroboros_core.methods.parts.base import Context, Method, Resources
from ouroboros_core.methods.parts.combine import Combination
from ouroboros_core.methods.union import Union
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.tree import Provenance, TokenTree, TreeBuilder
from scripts.price_runs import seconds

Member = tuple[str, dict[str, Any]]
"""A method's id, and its settings."""
OUROBOROS: Member = ("ouroboros", {"lookahead_phrases": False, "extended": True})
TREE: Member = ("multi_candidate", {})
DRAFTS: dict[str, list[Member]] = {
    "EAGLE head": [],
    "draft and suffixes": [OUROBOROS],
    "the same with siblings": [OUROBOROS],
    "multi-candidate tree": [TREE],
    "both": [OUROBOROS, TREE],
}


def with_siblings(tree: TokenTree, count: int = 1) -> TokenTree:
    """A tree with the draft model's runners-up beside each of its tokens, from the outputs that it
    has already; behind all other nodes, whose numbers stay."""
    builder = TreeBuilder(tree.tokens[0])
    builder.graft(tree)
    for node in range(len(tree)):
        output = tree.draft_output(node)
        if output is None:
            continue
        evaluation, row = output
        for token, share in evaluation.scored([row], 1 + count)[0]:
            origin = Provenance(Source.DRAFT, rank=1, confidence=round(share, 2))
            if tree.child(node, token) is None:
                builder.add(token, node, origin)
    return builder.build()


@contextmanager
def drafting(name: str) -> Iterator[None]:
    """Union with these drafts."""
    members, created, propose = Union.members, Combination.__init__, Ouroboros.propose
    wanted = DRAFTS[name]

    def chosen(
        cls: type[Union], hyperparameters: Any, resources: Resources
    ) -> dict[str, tuple[str, dict[str, Any]]]:
        found: dict[str, Member] = members.__func__(cls, hyperparameters, resources)  # type: ignore[attr-defined]
        if wanted:
            found["draft"] = wanted[0]
        return found | {f"draft{n}": one for n, one in enumerate(wanted[1:])}

    def made(self: Any, settings: Any, resources: Resources, parts: Any, **more: Any) -> None:
        others: list[Method] = [m for role, m in resources.members.items() if role[5:].isdigit()]
        created(self, settings, resources, [*others, *parts], **more)

    def wider(self: Ouroboros, context: Context) -> TokenTree:
        return with_siblings(propose(self, context))

    Union.members = classmethod(chosen)  # type: ignore[assignment]
    Combination.__init__ = made  # type: ignore[assignment, method-assign]
    if name.endswith("siblings"):
        Ouroboros.propose = wider  # type: ignore[method-assign]
    try:
        yield
    finally:
        Union.members, Combination.__init__ = members, created  # type: ignore[method-assign]
        Ouroboros.propose = propose  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_pair(parser)
    parser.add_argument("--limit", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=48)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--costs", metavar="FILE", help="costs that were measured before")
    arguments = parser.parse_args()
    pair = options.load_pair(arguments)
    if arguments.costs:
        pair = replace(
            pair, costs=read_costs(json.loads(Path(arguments.costs).read_text(encoding="utf-8")))
        )
    sampling = Sampling(temperature=arguments.temperature)
    settings = methods.get("union").Hyperparameters()
    questions = spread(own_prompts(), arguments.limit)
    tasks = [
        Task(one.turns[0], "union", settings, sampling, arguments.max_new_tokens)
        for one in questions
    ]
    plain = []
    kind = methods.get("autoregressive").Hyperparameters()
    for task in tasks:
        bare = replace(task, method="autoregressive", hyperparameters=kind)
        plain.append(seconds(pair, Generation(pair, bare).run()))
    for name, drafts in DRAFTS.items():
        drafted = replace(pair, heads={}) if drafts else pair
        with drafting(name):
            traces = [Generation(drafted, task).run() for task in tasks]
        speeds = [one / seconds(drafted, trace) for one, trace in zip(plain, traces, strict=True)]
        steps = [step for trace in traces for step in trace.steps]
        tokens = sum(len(step.tokens) for step in steps) / len(steps)
        rows = statistics.fmean(step.width for step in steps)
        passes = statistics.fmean(step.draft_passes for step in steps)
        offered = statistics.fmean(step.choice.offered for step in steps if step.choice)
        print(
            f"{name:24} {tokens:.2f} tokens/pass {offered:5.2f} offered {rows:5.2f} rows "
            f"{passes:.2f} draft passes {statistics.fmean(speeds):.3f} x (least {min(speeds):.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main()
