"""The views of a run: the oracle is the trace that they are made of."""

import json
import math
from dataclasses import replace

import pytest

from ouroboros_core import methods
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import AUTO
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.speedup import Speedup
from ouroboros_core.trace.summary import Summary
from tests.commands import words
from tests.traces import make_trace, plain_trace, typed_trace
from visualize.gallery import runs as gallery
from visualize.kit import labels
from visualize.run import view as views


def test_the_view_of_a_run_carries_every_token_with_its_origin() -> None:
    trace = typed_trace()
    view = views.run_view(Summary(trace, trace), run="r", seq=1, badge_text=views.badge(trace))
    shown = [token for step in view["steps"] for token in step["tokens"]]
    nodes = [step["nodes"] for step in view["steps"] for _ in step["tokens"]]
    shown = [(nodes[n][t["node"] - 1] if "node" in t else {}) | t for n, t in enumerate(shown)]
    assert [t["id"] for t in shown] == list(trace.tokens)
    assert "".join(t["text"] for t in shown) == trace.text
    looks = words("draft correction draft suffix bonus draft draft")
    assert [t["look"] for t in shown] == looks
    assert [t["source"] for t in shown if "kind" in t] == ["target", "target"]
    assert shown[3]["learned"] == "history"
    later = views.steps_view(trace.steps, trace.texts, Sampling(), views.piece_of(trace), 1)
    assert later == view["steps"][1:]
    assert [tile["value"] for tile in view["tiles"]] == ["5.4", "1.00×", "2.33", "4 of 7", "yes"]
    json.dumps(view)


@pytest.mark.parametrize(
    ("each", "more", "told", "beside"),
    [
        ((0.91, 0.9, 0.94), False, "slower than plain decoding: 0.91×", "Why: drafting costs most"),
        ((0.97, 0.94, 1.02), False, "0.97× as fast", ""),
        ((2.0, 2.1, 2.2), False, "2.10× as fast", ""),
        ((3.31,), True, "", "So far about 3.3× as fast: 1 round."),
    ],
)
def test_a_speedup_is_told_when_it_may_stay_and_a_loss_with_its_reason(
    each: tuple[float, ...], more: bool, told: str, beside: str
) -> None:
    """The run drafts for three plain steps in each of its three steps."""
    view = views.run_view(
        Summary(typed_trace(), plain_trace(), rounds=Speedup(each, more)),
        run="r",
        seq=1,
        badge_text="live",
    )
    assert (f", {told}," in view["sentence"]) if told else ("×" not in view["sentence"])
    assert [one["words"].startswith(beside) for one in view["notices"]] == [True] * bool(beside)


def test_plain_decoding_stands_beside_a_run_with_its_own_seconds() -> None:
    """The oracle: ten tokens, after 0.5 s of prefill one each tenth of a second."""
    view, alone = (
        views.run_view(Summary(typed_trace(), plain), run="r", seq=1, badge_text="recorded")
        for plain in (plain_trace(), None)
    )
    assert view["rival"]["seconds"] == pytest.approx([0.6 + n / 10 for n in range(10)])
    assert len(view["rival"]["texts"]) == 10
    assert "rival" not in alone and alone["charts"].keys() == view["charts"].keys()


def test_a_text_that_differs_says_where_or_why() -> None:
    trace = typed_trace()
    other = make_trace(list(trace.steps[:2]))
    assert views.tiles(Summary(trace, other))[-1]["value"] == "no, from token 6 on"
    pieces = trace.pieces | other.pieces
    tie, error = (Divergence(5, 7, 8, gap, gap / 0.0625, "bfloat16") for gap in (0.125, 0.25))
    assert (tie.tie, error.tie) == (True, False)
    shown = views.tiles(Summary(trace, other, tie))[-1]
    assert (shown["label"], shown["value"]) == ("Identical text", "up to a tie")
    assert shown["note"] == tie.sentence(pieces)
    assert tie.sentence({7: " x", 8: " y"}).startswith(
        "It differs from plain decoding from token 6 on: ' x' here, ' y' there. The two tie (0.125 "
        "logits, 2 ulp of bfloat16)"
    )
    assert "on: '\u2068 كتاب\u2069' here, ' \\n' there." in tie.sentence({7: " كتاب", 8: " \n"})
    assert views.tiles(Summary(trace, other, error))[-1]["value"] == "no, from token 6 on"
    below = "0.25 logits, 4 ulp of bfloat16 below the best: more than rounding explains"
    assert below in error.sentence(pieces)
    ended = Divergence(5, None, 8, math.inf, math.inf, "float32").sentence({8: " y"})
    assert "the end here, ' y' there. One text ends where the other goes on" in ended
    alone = views.tiles(Summary(trace))
    assert alone[-1]["value"] == alone[1]["value"] == "–"


def test_the_line_of_a_run_has_its_preset() -> None:
    published = dict(methods.get("lookahead").published)
    told = views.describe("lookahead", published, "T")
    assert told == ("Lookahead decoding, as published, window size 15, guess set size 15, on T")
    extended = methods.get("lookahead").Hyperparameters.parse({"extended": True}).model_dump()
    assert views.describe("lookahead", extended, "T") == "Lookahead decoding, extended, on T"


def test_the_line_of_a_run_has_words_and_no_names_of_code() -> None:
    """The oracle: what `Hyperparameters` calls its fields, and the ids of the methods."""
    union = methods.get("union").Hyperparameters().model_dump()
    for method, settings, models, line in (
        ("union", union, ("owner/T", "owner/D", None), "Union of all sources, on T with D"),
        ("union", union | {"tree_size": 12}, ("T",), "Union of all sources, tree size 12, on T"),
        ("speculative", {"gamma": 3}, ("T",), "Speculative decoding, draft length 3, on T"),
        ("autoregressive", {}, ("T",), "Plain decoding, on T"),
    ):
        assert views.describe(method, settings, *models) == line
    assert views.describe("of another program", {"size": 3}, "T").startswith("of another program")
    assert labels.run("union", union | {"window_size": "auto"}).endswith(", window size auto")
    assert labels.label("gamma") == "Draft length (gamma)", "messages call it gamma"
    assert labels.label("window_size") == "Window size"
    for kind in methods.available().values():
        told = labels.run(kind.id, kind.Hyperparameters().model_dump())
        assert "_" not in told and told.startswith(kind.name), told


def test_every_setting_that_is_not_its_default_is_in_the_line_of_a_run() -> None:
    for kind in methods.available().values():
        defaults = kind.Hyperparameters().model_dump()
        for name, setting in kind.Hyperparameters.settings().items():
            value = setting.default
            other = not value if isinstance(value, bool) else f"another {value}"
            line = labels.run(kind.id, defaults | {name: other})
            assert labels.setting(name) in line.removeprefix(kind.name), (kind.id, name)
    union = methods.get("union").Hyperparameters().model_dump()
    alone = labels.run("union", union | {"copying": False, "tree_size": 8})
    assert alone == "Union of all sources, tree size 8, without copying"


@pytest.mark.parametrize(
    ("processor", "short"),
    [
        ("Intel(R) Xeon(R) Processor (amx_bf16)", "Intel Xeon"),
        ("Intel(R) Core(TM) i7-9750H CPU @ 2.60GHz", "Intel Core i7-9750H"),
        ("AMD EPYC 7B13 64-Core Processor", "AMD EPYC 7B13 64-Core"),
        ("NVIDIA H200", "NVIDIA H200"),
    ],
)
def test_a_recorded_run_says_on_which_processor_in_few_words(processor: str, short: str) -> None:
    trace = gallery.trace("story-speculative-8")
    there = replace(trace, environment=replace(trace.environment, processor=processor))
    named = f"recorded on {short}, {trace.created[:10]}"
    assert views.badge(there) == named
    assert views.badge(there, model=True).startswith("recorded with SmolLM2-135M-Instruct on ")


def test_the_caption_of_a_run_marks_what_is_not_the_pages_default() -> None:
    greedy = views.caption(gallery.trace("java-union"))["conditions"]
    assert greedy == [{"words": "greedy", "changed": False}]
    sampled = views.caption(gallery.trace("sampled-block"))["conditions"]
    assert sampled == [
        {"words": "temperature 0.8, top p 0.95, seed 7, acceptance block", "changed": True},
        {"words": "at most 64 tokens", "changed": True},
    ]
    seeded = replace(gallery.trace("java-union"), sampling={"seed": 3, "top_p": 0.5})
    assert views.caption(seeded)["conditions"] == [views.condition("greedy, seed 3")]
    copied = replace(gallery.trace("java-union"), prediction="public class")
    assert views.caption(copied)["conditions"][1:] == [views.condition("with a predicted output")]


def test_the_title_of_the_curves_promises_a_speedup_only_where_there_is_one() -> None:
    titles = {
        name: views.caption(gallery.trace(name))["curves"]
        for name in ("java-autoregressive", "java-union", "sampled-block")
    }
    assert titles == {
        "java-autoregressive": "Tokens against time",
        "java-union": "Speedup over greedy: tokens against time",
        "sampled-block": "Speedup over plain decoding: tokens against time",
    }


def test_a_method_that_auto_switches_off_says_so_and_offers_to_be_shown() -> None:
    trace = gallery.trace("java-autoregressive")
    off = replace(trace, method="lookahead", hyperparameters={"window_size": AUTO})
    assert not views.notices(Summary(trace), True), "plain decoding guesses nothing by itself"
    (notice,) = views.notices(Summary(off), True)
    assert "Lookahead decoding switched itself off" in notice["words"]
    assert (notice["act"], notice["label"]) == ("fixed", "Show it anyway")
    assert "act" not in views.notices(Summary(off), False)[0], "a recorded run is not run again"
    fixed = replace(off, hyperparameters={"window_size": 4})
    assert not views.notices(Summary(fixed), True)
    busy = replace(gallery.trace("java-union"), hyperparameters={"tree_size": AUTO})
    assert not views.notices(Summary(busy), True), "it guesses in nearly every step"
