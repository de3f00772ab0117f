"""`compare` and `sweep`, the calls for notebooks: what they measure, in which order, and what they
show of it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from ouroboros_core import compare, sweep
from ouroboros_core.benchmark import entrants
from ouroboros_core.benchmark.comparison import Comparison
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, Placement, load_pair
from ouroboros_core.methods import get
from ouroboros_core.notebook import tables
from ouroboros_core.notebook.runs import safe
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from tests.folders import save
from tests.ouroboros_core.notebook.test_runs import Read

PROMPT = "the cat sat on the mat"
METHODS = ("speculative[gamma=2]", "prompt_lookup")
LANES = ["autoregressive", *METHODS]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """A tiny target and a draft that is not its copy."""
    folder = tmp_path_factory.mktemp("pair")
    paths = [save(folder / name, seed=seed) for name, seed in (("target", 0), ("other", 1))]
    return load_pair(*paths, placement=Placement("cpu", "float32"))


@pytest.fixture(scope="module", autouse=True)
def never_busy() -> Iterator[None]:
    """Whatever else this machine is doing: a busy round is measured again, which has tests of its
    own."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(metrics, "busy", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def found(pair: Pair) -> Comparison:
    return compare(PROMPT, METHODS, pair=pair, max_new_tokens=12, rounds=3)


def test_plain_decoding_is_the_first_lane_and_every_text_is_its_own(
    pair: Pair, found: Comparison
) -> None:
    """The oracle is a plain run by itself."""
    kind = get("autoregressive")
    chat = bool(pair.tokenizer.chat_template)
    alone = Task(PROMPT, kind.id, kind.Hyperparameters(), Sampling(), 12, chat)
    plain = Generation(pair, alone).run()
    assert [lane.name for lane in found.lanes] == LANES
    assert found.baseline is found["autoregressive"]
    for lane in found.lanes:
        assert [trace.tokens for trace in lane.traces] == [plain.tokens] * 3
        assert lane.identical is True and lane.difference == ""


def test_a_lanes_numbers_are_those_of_the_round_that_has_its_median_speedup(
    found: Comparison,
) -> None:
    for lane in found.lanes:
        speedups = [
            metrics.speedup(mine, plain) or 0.0
            for mine, plain in zip(lane.traces, found.baseline.traces, strict=True)
        ]
        assert list(lane.rounds.each) == speedups and lane.speedup == median(speedups)
        assert lane.seconds == metrics.total_seconds(lane.trace)
        assert lane.plain_seconds / lane.seconds == pytest.approx(lane.speedup)
    assert found.baseline.rounds.each == (1, 1, 1)
    assert found.baseline.seconds == median(found.baseline.all_seconds)
    with pytest.raises(KeyError, match="the lanes are autoregressive, speculative"):
        found["union"]


def test_every_round_runs_each_once_and_begins_with_another_one(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[str] = []
    measured = entrants.MethodEntrant.trace

    def trace(self: entrants.MethodEntrant, request: entrants.Request) -> Any:
        ran.append(self.label)
        return measured(self, request)

    monkeypatch.setattr(entrants.MethodEntrant, "trace", trace)
    compare(PROMPT, METHODS, pair=pair, max_new_tokens=4, rounds=3)
    first, second, third = LANES
    assert ran[:3] == [*LANES], "each warms up once"
    assert ran[3:] == [*LANES, second, third, first, third, second, first]


def test_a_text_that_is_another_one_is_told(pair: Pair) -> None:
    told = compare(PROMPT, "draft_only", pair=pair, max_new_tokens=12, rounds=1)
    assert told["draft_only"].identical is None
    wrong = replace(told["draft_only"], identical=False, difference="token 3 <differs>")
    page = tables.comparison_html(replace(told, lanes=(told.baseline, wrong)))
    assert "DIFFERS" in page and "token 3 &lt;differs&gt;" in page


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prompt": ""}, "the prompt is empty"),
        ({"rounds": 0}, "rounds must be at least 1, got 0"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, got 0"),
        ({"methods": ["nonsense"]}, "nonsense"),
        ({"methods": ["prompt_lookup[num_tokens=0]"]}, "num_tokens must be"),
        ({"methods": ["prompt_lookup[warm=true]"]}, "copy its own answer"),
        ({"methods": ["eagle2"]}, "eagle2 needs"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    pair: Pair, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        compare(**{"prompt": PROMPT, "pair": pair, **given})


def test_the_race_shows_every_lane_its_numbers_and_its_tokens_in_time(found: Comparison) -> None:
    page = tables.comparison_html(found)
    shown = Read(page)
    assert [name for name in LANES if f"<strong>{name}</strong>" not in page] == []
    assert "script" not in {tag for tag, _ in shown.found}
    assert not re.search(r"https?://", page)
    count = sum(len(lane.trace.tokens) for lane in found.lanes)
    assert len(shown.tokens) == count
    times = [float(str(at["style"]).removeprefix("--at:").removesuffix("s")) for at in shown.tokens]
    lane = found.baseline.trace
    assert times[: len(lane.tokens)] == [round(s, 2) for s in metrics.seconds_to_token(lane)]
    assert safe(lane.text) in "".join(shown.told)


def test_in_letters_a_comparison_is_a_table(found: Comparison) -> None:
    lines = tables.comparison_text(found).splitlines()
    assert lines[0].startswith("medians of 3 rounds in turn; ")
    assert [line.split()[0] for line in lines[1:5]] == ["method", *LANES]
    assert "identical" in lines[3]


def test_a_sweep_by_one_call_has_a_row_for_each_value(pair: Pair) -> None:
    """The same as the command: rows in the order of the values, texts equal to plain decoding's."""
    prompts = [PROMPT, "a dog"]
    told = sweep("speculative", {"gamma": [1, 3]}, prompts=prompts, pair=pair, max_new_tokens=8)
    assert [row.coordinates for row in told.rows] == [(1,), (3,)]
    assert [(row.runs, row.equal) for row in told.rows] == [(6, 6), (6, 6)]
    assert told.best is not None and told.best.speedup == max(row.speedup for row in told.rows)
    page = tables.sweep_html(told)
    assert "Measured best" in page and Read(page) and 'scope="row">3</th>' in page
    assert "gamma=3" in tables.sweep_text(told)


def test_two_settings_are_a_grid_and_the_others_stay(pair: Pair) -> None:
    varied = {"gamma": [1, 2], "temperature": [0, 1]}
    told = sweep("speculative", varied, prompts=[PROMPT], pair=pair, max_new_tokens=4)
    single = sweep("speculative", {"gamma": [1]}, prompts=PROMPT, pair=pair, max_new_tokens=4)
    assert [row.runs for row in single.rows] == [3], "a text is one prompt, not one a letter"
    page = tables.sweep_html(told)
    assert page.count("<td>") == 4 and page.count("★") >= 1
    wrong: dict[str, dict[str, Any]] = {
        "gamma is varied and has a fixed value": {"settings": {"gamma": 2}},
        "repeats must be at least 1, got 0": {"repeats": 0},
        "max_new_tokens must be at least 1, got 0": {"max_new_tokens": 0},
        "there is no prompt": {"prompts": []},
    }
    for message, given in wrong.items():
        with pytest.raises(InvalidInput, match=message):
            sweep("speculative", {"gamma": [1]}, pair=pair, **given)
