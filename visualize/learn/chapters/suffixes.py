"""Suffixes: phrases from a pool lengthen a draft, and discarded drafts fill the pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ouroboros_core.messages import say
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Step, Trace
from ouroboros_core.tree import Learned
from visualize.gallery import runs as gallery
from visualize.learn.numbers import CHAIN, SISTERS, pass_facts, quoted, step_facts
from visualize.learn.pictures import offered_runs, plain_of, race_figure
from visualize.learn.stops import Chapter, Stop, at, final, first_step, make_chapter, span

TREE = "fibonacci-multi_candidate"
"""A tree by the draft model of the chain, of the same prompt."""
COMBINED = ("speculative", "lookahead", "ouroboros", "union")
"""Methods whose recorded runs are offered."""
DISCARDED = "fibonacci-ouroboros"
"""Its drafts are long enough for a phrase to come out of one that is thrown away."""


def chapter() -> Chapter:
    name = "java-ouroboros"
    trace, pair, discarded = (gallery.trace(run) for run in (name, SISTERS, DISCARDED))
    step = first_step(trace, lambda s: len(_from(s, Source.SUFFIX, s.path)) >= 2)
    hung = len(_from(step, Source.SUFFIX, range(len(step.tree))))
    learned = metrics.accepted_by_learned(trace)
    facts: dict[str, Any] = gallery.facts(name) | step_facts(step)
    facts |= {
        "hung": hung,
        "drafted": len(step.tree) - 1 - hung,
        "used": len(_from(step, Source.SUFFIX, step.path)),
        "passes": step.draft_passes,
        "suffixes": sum(learned.values()),
        "window": learned[Learned.LOOKAHEAD],
        "per_token": metrics.draft_passes_per_draft_token(trace),
        "gamma": trace.hyperparameters["gamma"],
        "pair_gamma": pair.hyperparameters["gamma"],
    }
    for key, run in (("pair", SISTERS), ("chain", CHAIN), ("tree", TREE)):
        numbers = gallery.facts(run)
        facts |= {f"{key}_length": numbers["length"], f"{key}_speedup": numbers["speedup"]}
        facts |= {f"{key}_rows": pass_facts(run)["rows"]}
    late, fragment = _fragment(discarded)
    facts |= _fragment_facts(discarded, late, fragment)
    second = first_step(gallery.trace(TREE), lambda s: bool(s.path) and s.path[0] != 1)
    stops: list[Stop] = [
        {"at": at(step, "draft"), "spot": ".ouro-tree [data-look='draft'][data-node]"},
        {"at": at(step, "draft"), "spot": ".ouro-tree [data-look='suffix'][data-node]"},
        {"run": DISCARDED, "at": final(discarded), "figure": "mask"},
        {
            "at": at(step, "commit"),
            "spot": span(step, ' [data-source="suffix"]'),
            "card": {"step": step.index, "node": step.path[-1]},
        },
        {"run": TREE, "at": at(second, "commit"), "spot": ".ouro-tree"},
        {"at": final(trace), "spot": ".ouro-numbers"},
        {"run": DISCARDED, "at": at(late, "commit"), "figure": "snake"},
        {"at": final(trace), "figure": "race"},
        {"at": final(trace), "figure": "runs"},
    ]
    figures = {"mask": _mask_figure(discarded), "runs": offered_runs(name, COMBINED)}
    figures |= {"snake": _snake_figure(discarded, late, fragment)}
    figures |= {"race": race_figure([plain_of(name), SISTERS, name])}
    return make_chapter(__name__, name, stops, facts, figures=figures)


def _from(step: Step, source: Source, nodes: Sequence[int]) -> list[int]:
    """Those of some nodes of a proposal that come from a source."""
    return [n for n in nodes if step.tree.provenance[n].source is source]


def _mask_figure(trace: Trace) -> dict[str, Any]:
    """The proposal with the most branches, and of those the one with the most words: {run, step,
    tokens, parents, looks}, the root first."""

    def branches_and_words(step: Step) -> tuple[int, float]:
        tokens = [trace.pieces[token] for token in step.tree.tokens]
        leaves = set(range(len(tokens))) - set(step.tree.parents)
        return len(leaves), sum(any(map(str.isalpha, text)) for text in tokens) / len(tokens)

    step = max(trace.steps, key=branches_and_words)
    return {
        "kind": "mask",
        "run": say(f"gallery.{DISCARDED}.title"),
        "step": step.index,
        "tokens": [trace.pieces[token] for token in step.tree.tokens],
        "parents": list(step.tree.parents),
        "looks": [origin.source.value for origin in step.tree.provenance],
    }


def _fragment(trace: Trace) -> tuple[Step, int]:
    """The first step that accepts tokens of a phrase which verification took out of a draft that
    was thrown away, and the last of them."""
    for step in trace.steps:
        origins = step.tree.provenance
        learned = [n for n in step.path if origins[n].learned is Learned.VERIFICATION]
        if learned and _in_discarded_draft(trace, step, learned[-1]):
            return step, learned[-1]
    raise LookupError("no phrase out of a discarded draft is accepted")


def _phrase(trace: Trace, step: Step, node: int) -> tuple[Step, list[int], list[int]]:
    """Of the phrase that ends in a node: the step that taught it, its nodes, and the token behind
    which it hangs with its own."""
    tree, learned = step.tree, step.tree.provenance[node].step
    assert learned is not None, "it was learned in this run"
    nodes = _from(step, Source.SUFFIX, tree.path_to(node))
    tokens = [tree.tokens[n] for n in (tree.parents[nodes[0]], *nodes)]
    return trace.steps[learned], nodes, tokens


def _in_discarded_draft(trace: Trace, step: Step, node: int) -> bool:
    """Whether the phrase that ends in a node, but for its last token, stood behind its first token
    in the part that was thrown away of the draft of the step that taught it."""
    taught, _, (*wanted, _) = _phrase(trace, step, node)
    drafted = _from(taught, Source.DRAFT, range(len(taught.tree)))
    tokens = [taught.tree.tokens[n] for n in drafted if n not in taught.path]
    size = len(wanted)
    return any(tokens[i : i + size] == wanted for i in range(len(tokens) - size + 1))


def _fragment_facts(trace: Trace, step: Step, node: int) -> dict[str, Any]:
    """Facts of a phrase that ends in a node: its text, its last token, its key, the key with all
    but the last token, where it was learned and is proposed, and how many tokens are accepted."""
    taught, nodes, tokens = _phrase(trace, step, node)
    pieces = [trace.pieces[token] for token in tokens]
    return {
        "fragment_begin": quoted("".join(pieces[:-1])),
        "fragment_phrase": quoted("".join(pieces[1:])),
        "fragment_last": quoted(pieces[-1]),
        "fragment_key": quoted(pieces[0]),
        "fragment_learned": taught.index + 1,
        "fragment_step": step.index + 1,
        "fragment_accepted": len(set(step.path).intersection(nodes)),
    }


def _snake_figure(trace: Trace, step: Step, node: int) -> dict[str, Any]:
    """How a phrase that ends in a node was thrown away, kept and accepted: {places: [{title,
    tokens: [{text, look}]}]}, four of them."""
    taught, nodes, phrase = _phrase(trace, step, node)
    drafted = _from(taught, Source.DRAFT, range(len(taught.tree)))
    tokens = [taught.tree.tokens[n] for n in drafted]
    size = len(phrase) - 1
    begun = next(n for n in range(len(tokens)) if tokens[n : n + size] == phrase[:-1])
    looks = ["accepted" if n in taught.path else "discarded" for n in drafted]
    looks[begun + 1 : begun + size] = ["discarded phrase"] * (size - 1)
    written = [step.tree.tokens[n] for n in step.path if n not in nodes]

    def chips(ids: Sequence[int], kinds: Sequence[str]) -> list[dict[str, str]]:
        pairs = zip(ids, kinds, strict=True)
        return [{"text": trace.pieces[token], "look": look} for token, look in pairs]

    pooled = chips(phrase, ["key", *["phrase"] * size])
    accepted = chips(written, ["accepted"] * len(written))
    places = [
        (f"Step {taught.index + 1}: a discarded draft", chips(tokens, looks)),
        ("The target's answers in it", pooled),
        ("The phrase pool", pooled),
        (f"Step {step.index + 1}: the phrase is accepted", accepted + pooled[1:]),
    ]
    shown = [{"title": title, "tokens": tokens} for title, tokens in places]
    return {"kind": "snake", "places": shown}
