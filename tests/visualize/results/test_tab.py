"""Results: the figures of a benchmark's file equal its report, and every published number has its
source. The oracle is the report."""

import json
import random
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.benchmark import report
from ouroboros_core.benchmark.repeats import repeats, whole
from ouroboros_core.benchmark.report import Row
from ouroboros_core.benchmark.store import Measurement, Store
from ouroboros_core.sources import LOOKS
from tests.ouroboros_core.benchmark.test_benchmark import make_settings, run_of
from tests.traces import PLACE
from tests.visitor import open_tab
from visualize.drafts import figures as record_figures
from visualize.kit import palette
from visualize.results import data as results
from visualize.results import figures as result_figures
from visualize.results.data import Bar, Benchmark, Family, Over
from visualize.results.tab import APART, benchmark, published_table, top

GROUPS = ("qa", "rag", "code")
SPEEDS = {
    "autoregressive": 1.0,
    "draft_only": 6.0,
    "ouroboros": 1.3,
    "sam[auxiliary=eagle3]": 1.6,
    "prompt_lookup[warm=true]": 1.4,
    "lookahead[published]": 0.7,
    "union": 1.5,
    "hf-greedy": 0.5,
    "hf-prompt-lookup": 0.6,
}
OTHERS = {
    "llama.cpp": 1.2,
    "speculative": 1.1,
    "speculative[gamma=8]": 0.9,
    "speculative[published]": 1.0,
    "speculative[gamma=1]": 1.1,
}
"""Over plain decoding, about: no two prompts are alike."""


def measurements(*names: str) -> list[Measurement]:
    chance = random.Random(3)
    found = []
    for name in names:
        speed, alone = (SPEEDS | OTHERS)[name], name == "draft_only"
        passes = 0 if alone else round(32 / max(1.0, speed))
        for question in range(12):
            seconds = 2.0 / speed * chance.uniform(0.8, 1.2)
            counts = {"group": GROUPS[question % 3], "tokens": 32, "passes": passes}
            found.append(run_of(name, question, seconds, **counts, compared=not alone))
    return found


def write(path: Path, names: Any = tuple(SPEEDS), *, complete: bool = True) -> tuple[Row, ...]:
    """A benchmark's file as the program writes it; its rows."""
    peers = [name for name in names if name.startswith("hf-")]
    settings = make_settings(
        questions=12,
        max_new_tokens=32,
        repeats=1,
        target="target",
        draft="draft",
        environment=asdict(replace(PLACE, dtype="float32", processor="A processor")),
        methods=[name for name in names if name not in peers],
        peers=peers,
    )
    runs = measurements(*names)
    store = Store(settings, path, measurements=runs, complete=complete)
    rows = report.rows(runs)
    told = {"command": "bench <here> & there", "rows": [asdict(row) for row in rows]}
    store.save(told if complete else {})
    return tuple(rows)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Benchmark, tuple[Row, ...]]:
    path = tmp_path_factory.mktemp("results") / "benchmark.json"
    rows = write(path)
    return Benchmark.read(path), rows


def drawn(figure: dict[str, Any]) -> dict[int, tuple[float, float, float]]:
    """By row of the chart: the bar's length, and the ends of its interval."""
    found = {}
    for trace in figure["data"]:
        if trace["type"] == "bar":
            ends = zip(trace["error_x"]["arrayminus"], trace["error_x"]["array"], strict=True)
            assert trace["width"] < 1, "a bar stays in its row, however few its family has"
            for place, long, (less, more) in zip(trace["y"], trace["x"], ends, strict=True):
                found[place] = (long, long - less, long + more)
    return found


@pytest.mark.parametrize("over", list(Over))
def test_bars_are_sorted_and_have_the_reports_speedup_and_interval(
    measured: tuple[Benchmark, tuple[Row, ...]], over: Over
) -> None:
    benchmark, rows = measured
    overall = [row for row in rows if row.group == "overall" and row.method != "draft_only"]
    wanted = {
        row.method: row.speedup if over is Over.PLAIN else row.speedup_hf or 0 for row in overall
    }
    bars = benchmark.bars(over)
    assert [bar.row.method for bar in bars] == sorted(wanted, key=lambda name: -wanted[name])
    shown = drawn(result_figures.speedups(bars, over))
    assert len(shown) == len(bars) == len(SPEEDS) - 1
    for place, bar in enumerate(bars):
        assert shown[place][0] == pytest.approx(wanted[bar.row.method], abs=1e-3)
        assert shown[place][1:] == pytest.approx(interval(bar, over), abs=2e-3)
        assert bar.low <= bar.speedup <= bar.high


def test_the_figure_of_a_benchmark_has_the_bars_of_the_page(
    measured: tuple[Benchmark, tuple[Row, ...]],
) -> None:
    benchmark, rows = measured
    bars = results.bars([row for row in rows if row.group == "overall"])
    assert bars == benchmark.bars(Over.PLAIN)
    page = result_figures.page(bars, "here").to_dict()
    assert drawn(page) == drawn(result_figures.speedups(bars, Over.PLAIN))
    assert page["layout"]["title"]["text"] == "here"


def interval(bar: Bar, over: Over) -> tuple[float, float]:
    method, reference = (
        [run for run in measurements(*SPEEDS) if run.method == name]
        for name in (bar.row.method, over)
    )
    return repeats(method, reference, whole).ci95


def test_the_fastest_is_on_top_and_its_label_says_what_it_is(
    measured: tuple[Benchmark, tuple[Row, ...]],
) -> None:
    benchmark, _ = measured
    bars = benchmark.bars(Over.HF)
    axis = result_figures.speedups(bars, Over.HF)["layout"]["yaxis"]
    assert axis["range"][0] > axis["range"][1], "row 0 is on top"
    assert axis["ticktext"][0].startswith("SAM-Decoding")
    assert "auxiliary EAGLE-3" in axis["ticktext"][0]
    told = {bar.row.method: (bar.name, bar.setting, bar.family) for bar in bars}
    assert told == {
        "autoregressive": ("Plain", "", Family.PLAIN),
        "ouroboros": ("Ouroboros", "", Family.DRAFT),
        "sam[auxiliary=eagle3]": ("SAM-Decoding", "auxiliary EAGLE-3", Family.HEAD),
        "prompt_lookup[warm=true]": ("Prompt lookup", "warm", Family.NONE),
        "lookahead[published]": ("Lookahead", "as published", Family.NONE),
        "union": ("Union", "", Family.UNION),
        "hf-greedy": ("greedy", "transformers", Family.PEER),
        "hf-prompt-lookup": ("prompt lookup", "transformers", Family.PEER),
    }


def test_every_method_that_can_run_has_a_family_of_its_own_look() -> None:
    for kind in methods.available().values():
        assert results.family(kind.id) in Family, kind.id
    assert results.family("medusa") is results.family("glide") is Family.HEAD
    assert results.family("cape") is Family.DRAFT
    assert results.family("unheard_of[gamma=2]") is Family.NONE
    looks = [result_figures.LOOK[family] for family in Family]
    assert len({colour for colour, _ in looks}) == len({glyph for _, glyph in looks}) == len(looks)
    tokens = {look.colour for look in LOOKS.values()}, {look.glyph for look in LOOKS.values()}
    own = {
        family
        for family, look in result_figures.LOOK.items()
        if any(sign in of for sign, of in zip(look, tokens, strict=True))
    }
    assert own == {Family.DRAFT, Family.PLAIN}, "a sign of a class of tokens means that class"


def test_a_group_of_prompts_has_the_reports_numbers_for_it(
    measured: tuple[Benchmark, tuple[Row, ...]],
) -> None:
    benchmark, rows = measured
    assert benchmark.groups == ["qa", "rag", "code"]
    for group in benchmark.groups:
        speedups = {row.method: row.speedup_hf for row in rows if row.group == group}
        for bar in benchmark.bars(Over.HF, group):
            assert bar.speedup == speedups[bar.row.method]
            assert bar.low <= bar.speedup <= bar.high
    whole, part = (benchmark.bars(Over.HF, group)[0] for group in ("overall", "qa"))
    assert (whole.low, whole.high) != (part.low, part.high), "an interval of its own prompts"


def test_a_training_curve_breaks_where_other_texts_or_another_loss_begin() -> None:
    """By hand: the record says that the run went on after 20 tokens; after 40 the loss rises."""
    losses = {10: 5.0, 20: 4.0, 30: 4.1, 40: 3.0, 50: 3.4}
    curve = [{"tokens": n, "loss": loss, "agreement": [0.5]} for n, loss in losses.items()]
    record = {"curve": curve, "earlier": 20}
    (line,) = record_figures.training_loss(record)["data"]
    assert [*line["y"]] == [5.0, 4.0, None, 4.1, 3.0, None, 3.4]
    (line,) = record_figures.training_agreement(record)["data"]
    assert [*line["y"]] == [0.5, 0.5, None, 0.5, 0.5, None, 0.5]


def test_methods_come_with_their_defaults_and_a_small_picture_has_few_rows() -> None:
    found = benchmark()
    assert found is not None
    bars = found.bars(Over.PLAIN)
    few = result_figures.few(bars)
    assert len(few) == result_figures.FEW < len([bar for bar in bars if bar.main]) < len(bars)
    assert all(bar.main for bar in few)
    assert {bar.family for bar in few} >= {Family.PLAIN, Family.PEER}
    assert sum(bar.family is Family.PEER for bar in few) == 1, "the fastest of transformers'"
    assert few[0] == max(bars, key=lambda bar: (bar.main, bar.speedup))


@pytest.mark.browser
@pytest.mark.embedded
def test_the_page_shows_ten_rows_for_any_group_and_offers_all_rows_as_files(page: Any) -> None:
    open_tab(page, "Results")
    ticks = page.locator("#chart-speedups .ytick")
    ticks.first.wait_for()
    assert ticks.count() == result_figures.FEW
    first = ticks.all_inner_texts()
    page.locator("#results-group input").click()
    page.get_by_role("option", name="code", exact=True).click()
    page.wait_for_function(
        """first => {
          const ticks = [...document.querySelectorAll('#chart-speedups .ytick')];
          const texts = ticks.map((tick) => tick.textContent);
          return texts.length === first.length && texts.join() !== first.join();
        }""",
        arg=first,
    )
    found = benchmark()
    assert found is not None
    with page.expect_download() as download:
        page.get_by_role("button", name="benchmark.csv: ").click()
    lines = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + len(found.rows)


def test_a_file_that_is_still_being_measured_is_read_from_its_runs(
    measured: tuple[Benchmark, tuple[Row, ...]], tmp_path: Path
) -> None:
    path = tmp_path / "half.json"
    write(path, complete=False)
    assert "rows" not in json.loads(path.read_text(encoding="utf-8"))
    assert Benchmark.read(path).rows == measured[0].rows


def test_without_transformers_own_the_speedup_is_over_plain_decoding(tmp_path: Path) -> None:
    path = tmp_path / "alone.json"
    write(path, ("autoregressive", "ouroboros"))
    benchmark = Benchmark.read(path)
    assert benchmark.overs == [Over.PLAIN]
    assert "as fast as our plain decoding (95%" in results.headline(benchmark)


def test_the_first_sentence_is_the_result_and_its_command_is_text(
    measured: tuple[Benchmark, tuple[Row, ...]],
) -> None:
    benchmark, _ = measured
    bars = benchmark.bars(Over.PLAIN)
    best = next(bar for bar in bars if bar.row.method == "union")
    assert bars[0].row.method == "sam[auxiliary=eagle3]", "faster, but with a setting"
    html = top(benchmark)
    assert (
        f"{best.name} is {best.speedup:.2f}× as fast as our plain decoding "
        f"(95% interval {best.low:.2f} to {best.high:.2f}), and {best.row.speedup_hf:.2f}× as fast "
        "as transformers' greedy generation." in html
    )
    assert "over 12 prompts; 12 of 12 texts are identical to plain decoding's." in html
    assert "Measured with target with the draft model draft on A processor, 2 threads" in html
    assert "bench &lt;here&gt; &amp; there" in html


def test_every_benchmark_is_a_table_under_the_name_of_its_file(tmp_path: Path) -> None:
    rows = write(tmp_path / "benchmark-small.json")
    write(tmp_path / "benchmark.json", ("autoregressive", "union"))
    tables = results.tables(tmp_path)
    assert list(tables) == ["benchmark", "benchmark-small"]
    assert tables["benchmark-small"].rows == rows
    where = "target with the draft model draft on A processor, 2 threads"
    assert results.measured_on(tables["benchmark"]).startswith(where)


def test_what_is_measured_apart_is_said_where_a_bar_is_pointed_at(tmp_path: Path) -> None:
    path = tmp_path / "engine.json"
    write(path, ("autoregressive", "union", "hf-greedy", "llama.cpp"))
    bars = Benchmark.read(path).bars(Over.HF)
    (engine,) = (bar for bar in bars if bar.family is Family.ENGINE)
    assert (engine.name, engine.setting) == ("llama.cpp", "8-bit activations")
    figure = result_figures.speedups(bars, Over.HF)
    hovers = [text for trace in figure["data"] for text in trace.get("hovertext") or ()]
    assert len(hovers) == 4 and all("× decoding only" in text for text in hovers)


def test_every_published_number_has_a_source_and_is_shown() -> None:
    rows = results.published()
    html = published_table(rows, results.without())
    assert APART in html
    assert html.count("<tr data-method=") == len(rows) > 30
    for row in rows:
        assert row.method in methods.available()
        assert 1.0 < row.speedup < 7.0 and row.bound in ("", "up to", "over")
        assert row.source.paper and row.source.where
        assert row.source.url.startswith(("https://arxiv.org/abs/", "https://github.com/"))
        assert f'href="{row.source.url}"' in html and f"{row.speedup:.2f}×" in html
    named = {row.method for row in rows} | {one["method"] for one in results.without()}
    assert named >= {
        *("ouroboros", "speculative", "lookahead", "eagle2", "medusa", "rest", "token_recycling"),
        *("sam", "prompt_lookup", "spectr", "multi_candidate", "cape", "glide", "draft_verify"),
        *("parallel_spec", "cascade"),
    }


def test_the_page_has_the_styles_of_every_place() -> None:
    style = palette.style()
    assert all(name in style for name in (".ouro-result-top", ".ouro-compare-row", ".ouro-strip"))
    assert style.index(".ouro-scroll") < style.index(".ouro-compare-row"), "base.css comes before"
