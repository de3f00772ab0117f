"""Traces: JSON and back, metrics that add up, views and figures made of them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ouroboros_core import sources
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence, compare, divergence, ulp
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Trace
from ouroboros_core.tree import Learned
from tests import tiny
from tests.traces import make_trace, real_trace, typed_trace
from visualize.run import figures
from visualize.run import view as views


@pytest.mark.parametrize("make", [typed_trace, real_trace], ids=["typed", "real"])
def test_a_trace_survives_json_with_its_types(make: Callable[[], Trace]) -> None:
    trace = make()
    again = read_trace(trace.to_json())
    assert again == trace
    assert [type(v) for v in again.hyperparameters.values()] == [int, bool]
    assert json.loads(trace.to_json())["steps"][0]["tree"]["provenance"][1]["source"] == "draft"


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"steps": 3}', '{"version": 1}'])
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="this is not a trace"):
        read_trace(text)


def test_a_trace_of_another_version_is_refused() -> None:
    data = json.loads(typed_trace().to_json()) | {"version": 99}
    with pytest.raises(InvalidInput, match="schema version 99; this program reads version 1"):
        read_trace(json.dumps(data))


def test_a_broken_tree_is_refused() -> None:
    data = json.loads(typed_trace().to_json())
    data["steps"][0]["tree"]["parents"] = [-1, 5, 0]
    with pytest.raises(InvalidInput, match=r"this is not a trace: steps.0.tree"):
        read_trace(json.dumps(data))


@pytest.mark.parametrize(
    ("where", "value", "message"),
    [
        ("path", [99], "steps.0.path is no walk"),
        ("path", [2], "steps.0.path is no walk"),
        ("target_token", None, "7 tokens|6 tokens"),
    ],
)
def test_a_trace_whose_parts_do_not_fit_is_refused(where: str, value: object, message: str) -> None:
    data = json.loads(typed_trace().to_json())
    data["steps"][0][where] = value
    with pytest.raises(InvalidInput, match=message):
        read_trace(json.dumps(data))


def test_kinds_and_numbers_of_a_trace_typed_by_hand() -> None:
    trace = typed_trace()
    assert trace.tokens == (10, 12, 20, 21, 22, 30, 31)
    assert [step.kind for step in trace.steps] == ["correction", "bonus", None]
    assert [step.tested for step in trace.steps] == [2, 2, 2]
    assert metrics.mean_acceptance_length(trace) == 7 / 3
    assert metrics.draft_acceptance_rate(trace.steps) == 5 / 6
    assert metrics.proposal_acceptance_rate(trace.steps) == 5 / sum(
        len(step.tree.tokens) - 1 for step in trace.steps
    )
    assert metrics.target_passes_saved(trace) == 4
    assert metrics.draft_passes_per_draft_token(trace) == 5 / 5
    assert [s.value for s in metrics.token_sources(trace)] == [
        "draft",
        "target",
        "draft",
        "suffix",
        "target",
        "draft",
        "draft",
    ]
    assert metrics.accepted_by_learned(trace) == {Learned.HISTORY: 1}
    assert metrics.acceptance_by_position(trace) == [(3, 3), (3, 2)]
    assert metrics.decode_seconds(trace) == pytest.approx(0.8)
    assert metrics.total_seconds(trace) == pytest.approx(1.3)
    assert metrics.tokens_per_second(trace) == pytest.approx(7 / 1.3)
    assert metrics.seconds_to_token(trace) == pytest.approx([0.9, 0.9, 1.1, 1.1, 1.1, 1.3, 1.3])


def test_tokens_by_source_add_up_and_nothing_is_accepted_that_was_not_proposed() -> None:
    trace = real_trace()
    accepted, proposed = metrics.accepted_by_source(trace), metrics.proposed_by_source(trace)
    assert accepted.total() == metrics.new_tokens(trace) == len(trace.tokens) == len(trace.texts)
    assert all(accepted[s] <= proposed[s] for s in accepted if s is not Source.TARGET)


def test_the_view_of_a_run_carries_every_token_with_its_origin() -> None:
    trace = typed_trace()
    view = views.run_view(Summary(trace, trace), run="r", seq=1, badge_text=views.badge(trace))
    shown = [token for step in view["steps"] for token in step["tokens"]]
    nodes = [step["nodes"] for step in view["steps"] for _ in step["tokens"]]
    shown = [(nodes[n][t["node"] - 1] if "node" in t else {}) | t for n, t in enumerate(shown)]
    assert [t["id"] for t in shown] == list(trace.tokens)
    assert "".join(t["text"] for t in shown) == trace.text
    assert [t["look"] for t in shown] == [
        "draft",
        "correction",
        "draft",
        "suffix",
        "bonus",
        "draft",
        "draft",
    ]
    assert [t["source"] for t in shown if "kind" in t] == ["target", "target"]
    assert shown[3]["learned"] == "history"
    assert (
        views.steps_view(trace.steps, trace.texts, Sampling(), views.piece_of(trace), 1)
        == view["steps"][1:]
    )
    assert [tile["value"] for tile in view["tiles"]] == ["5.4", "1.00×", "2.33", "4 of 7", "yes"]
    json.dumps(view)


def test_a_text_that_differs_says_where_or_why() -> None:
    trace = typed_trace()
    other = make_trace(list(trace.steps[:2]))
    assert views.tiles(Summary(trace, other))[-1]["value"] == "no, from token 6 on"
    pieces = trace.pieces | other.pieces
    tie, error = (Divergence(5, 7, 8, gap, gap / 0.0625, "bfloat16") for gap in (0.125, 0.25))
    assert (tie.tie, error.tie) == (True, False)
    shown = views.tiles(Summary(trace, other, tie))[-1]
    assert (shown["label"], shown["value"], shown["note"]) == (
        "Identical text",
        "up to a tie",
        tie.sentence(pieces),
    )
    assert tie.sentence({7: " x", 8: " y"}).startswith(
        "It differs from plain decoding from token 6 on: ' x' here, ' y' there. The two tie (0.125 "
        "logits, 2 ulp of bfloat16)"
    )
    assert "on: '\u2068 كتاب\u2069' here, ' \\n' there." in tie.sentence({7: " كتاب", 8: " \n"})
    assert views.tiles(Summary(trace, other, error))[-1]["value"] == "no, from token 6 on"
    assert (
        "0.25 logits, 4 ulp of bfloat16 below the best: more than rounding explains"
        in error.sentence(pieces)
    )
    ended = Divergence(5, None, 8, math.inf, math.inf, "float32")
    assert "the end here, ' y' there. One text ends where the other goes on" in ended.sentence(
        {8: " y"}
    )
    assert (
        views.tiles(Summary(trace))[-1]["value"] == views.tiles(Summary(trace))[1]["value"] == "–"
    )


def test_charts_show_what_the_trace_says() -> None:
    trace = typed_trace()
    bars = {bar["name"]: list(bar["y"]) for bar in figures.acceptance_length(trace.steps)["data"]}
    assert bars == {
        "● draft model": [1, 1, 2],
        "▲ corrected by target": [1, 0, 0],
        "◆ accepted candidate suffix": [0, 1, 0],
        "★ bonus from target": [0, 1, 0],
    }
    run, plain = figures.tokens_against_time(trace, trace)["data"]
    assert list(run["y"]) == list(plain["y"]) == [0, 2, 5, 7]
    assert list(run["x"]) == pytest.approx([0.5, 0.9, 1.1, 1.3])
    assert list(figures.speedup_by_token(trace, trace)["data"][0]["y"]) == pytest.approx([1.0] * 7)
    json.dumps(figures.speedup_by_token(trace, trace))


def test_every_source_has_a_look_of_its_own() -> None:
    keys = [sources.key_of(s) for s in Source if s not in (Source.CONTEXT, Source.WINDOW)]
    assert all(key in sources.LOOKS for key in keys)
    assert len({look.glyph for look in sources.LOOKS.values()}) == len(sources.LOOKS)
    assert len({look.colour for look in sources.LOOKS.values()}) == len(sources.LOOKS)


def test_a_divergence_is_measured_in_units_in_the_last_place() -> None:
    assert ulp(17.5, "bfloat16") == 0.125
    assert ulp(15.9, "bfloat16") == 0.0625
    assert ulp(17.5, "float32") == 2**-19
    models = tiny.pair("llama", "sdpa")
    for sampling in (Sampling(), Sampling(temperature=0.8, seed=3)):
        run = make_trace(
            tiny.run(models, "ouroboros", tiny.prompt(), 20, sampling), sampling=sampling
        )
        plain = make_trace(
            tiny.run(models, "autoregressive", tiny.prompt(), 20, sampling), sampling=sampling
        )
        assert divergence(models[0], run, plain) is None
        wrong = plain.steps[3]
        token = (plain.tokens[3] + 1) % tiny.VOCABULARY
        other = replace(run, steps=(*plain.steps[:3], replace(wrong, target_token=token)))
        found = divergence(models[0], other, plain)
        assert found is not None
        assert (found.position, found.token, found.other, found.tie) == (
            3,
            token,
            plain.tokens[3],
            False,
        )
        assert found.gap > 0


class Wobbly:
    """A model whose own pass is off by up to `wobble` from its plain one."""

    vocabulary = 3

    def __init__(self, logits: list[float], wobble: float) -> None:
        self.known, self.wobble = np.array(logits), wobble

    def plain(self, _: Any) -> Any:
        return self.known

    def evaluate(self, *_: Any) -> Any:
        return self

    def logits(self, _: int) -> Any:
        return self.known + np.array([self.wobble, -self.wobble, 0.0])


@pytest.mark.parametrize(("wobble", "tie"), [(0.3, True), (0.2, False), (0.0, False)])
def test_what_two_passes_over_one_text_differ_by_is_a_tie_and_more_is_not(
    wobble: float, tie: bool
) -> None:
    """The gap of half a logit is eight units of bfloat16 at 14, far more than rounding of a single
    number."""
    model: Any = Wobbly([14.0, 13.5, 1.0], wobble)
    found = compare(model, (1, 2), (0, 1), (0, 0), "bfloat16", Sampling())
    assert found is not None and found.gap == 0.5 and found.ulps == 8
    assert found.tie is tie and found.moved == pytest.approx(wobble)
    assert ("more than rounding explains" in found.sentence({})) is not tie
    assert (f"differ there by up to {wobble:.3g} logits" in found.sentence({})) is bool(wobble)
