"""The sweep: what it varies, that an interrupted one loses nothing, and that the best setting is
the one that is named best."""

import csv
import io
import json
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.benchmark.entrants import MethodEntrant, Request
from ouroboros_core.benchmark.prompts import Question, read
from ouroboros_core.benchmark.runner import Runner
from ouroboros_core.benchmark.store import Measurement
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, Placement, load_pair, with_draft
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import Value
from ouroboros_core.sweeps import cells
from ouroboros_core.sweeps.cells import CellRow, Ideal
from ouroboros_core.sweeps.grid import Axis, Grid, read_axis
from ouroboros_core.sweeps.sweep import open_sweep, seconds_left
from ouroboros_core.trace import metrics
from tests import tiny
from tests.commands import Ask, words
from tests.folders import save
from tests.ouroboros_core.benchmark.test_benchmark import run_of, write_prompts
from visualize.compare import figures

TEXTS = ("the cat", "the cat sat", "def f(x):")
QUESTIONS = [Question(n, "qa", (text,)) for n, text in enumerate(TEXTS)]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A tiny target, a draft that is its copy, and one that is not, on disk."""
    folder = tmp_path_factory.mktemp("pair")
    return {
        name: save(folder / name, seed=seed)
        for name, seed in (("target", 0), ("copy", 0), ("other", 1))
    }


@pytest.fixture(scope="module")
def pair(folders: dict[str, str]) -> Pair:
    return load_pair(folders["target"], folders["copy"], placement=Placement("cpu", "float32"))


def grid_of(*axes: str, method: str = "speculative", **more: Any) -> Grid:
    return Grid(method, tuple(map(read_axis, axes)), **more)


# ---------------------------------------------------------------- the grid


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("gamma=2,4,6", (2, 4, 6)),
        (" gamma = 2 , 4,", (2, 4)),
        ("gamma=2:5", (2, 3, 4, 5)),
        ("gamma=2:9:3", (2, 5, 8)),
        ("gamma=1,8:16:8,auto", (1, 8, 16, "auto")),
        ("temperature=0:0.3:0.1", (0.0, 0.1, 0.2, 0.3)),
        ("acceptance=match,rejection", ("match", "rejection")),
        ("draft=none,owner/name:file.gguf", ("none", "owner/name:file.gguf")),
        ("draft=12", ("12",)),
    ],
)
def test_an_axis_has_the_values_that_are_written_and_reads_itself_again(
    text: str, values: tuple[Value, ...]
) -> None:
    """The oracle is what a person would write out."""
    (axis,) = grid_of(text).axes
    assert axis.values == values
    assert [type(value) for value in axis.values] == [type(value) for value in values]
    assert grid_of(str(axis)).axes == (axis,)


@pytest.mark.parametrize(
    ("axes", "more", "message"),
    [
        ("", {}, "varies one or two settings, got 0"),
        ("gamma=1 seed=1 top_k=1", {}, "varies one or two settings, got 3"),
        ("gamma=1 gamma=2", {}, "gamma is on both axes"),
        ("gamma=2,4,02", {}, "gamma=2,4,02 has a value twice"),
        ("temperature=0.5,0.50", {}, "has a value twice"),
        ("radius=1", {}, "radius is nothing to vary for speculative; there is gamma, stop"),
        ("gamma=1,99", {}, "gamma must be auto, or between 1 and 32, got 99"),
        ("gamma=true", {}, "gamma must be auto, or between 1 and 32, got true"),
        ("temperature=hot", {}, "temperature must be between 0(.0)? and 2(.0)?, got hot"),
        ("gamma", {}, "expected name=value,value or name=first:last:step, got gamma"),
        ("gamma=", {}, "expected name=value"),
        ("gamma=2:x", {}, "gamma: expected first:last or first:last:step in numbers, got 2:x"),
        ("gamma=2:8:0", {}, "gamma: expected first:last|a step above 0"),
        ("gamma=8:2", {}, "gamma: a range goes upwards by a step above 0, got 8:2"),
        ("seed=1:1000", {}, "seed: 1:1000 are 1000 values"),
        ("gamma=1:11 seed=1:10", {}, "between 1 and 100 cells, got 110"),
        ("gamma=1", {"settings": {"gamma": 2}}, "gamma is varied and has a fixed value, 2"),
        ("seed=1", {"settings": {"radius": 2}}, "radius is not a setting here"),
        ("min_ngram=1,4", {"method": "prompt_lookup"}, "min_ngram must be at most max_ngram, got"),
        ("gamma=1", {"method": "telepathy"}, "method must be one of .*, got telepathy"),
    ],
)
def test_a_grid_that_cannot_be_is_refused_with_the_remedy(
    axes: str, more: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        grid_of(*axes.split(), **more)


def test_cells_are_the_product_of_the_axes_and_everything_else_is_as_given() -> None:
    """The oracle is itertools.product."""
    sampling = Sampling(seed=7, temperature=1.5)
    more: dict[str, Any] = {"settings": {"top_k_suffixes": "3"}, "sampling": sampling}
    grid = grid_of("gamma=2,4,auto", "temperature=0,0.5", method="ouroboros", **more)
    assert [cell.coordinates for cell in grid.cells] == list(product((2, 4, "auto"), (0.0, 0.5)))
    assert [cell.index for cell in grid.cells] == list(range(6))
    assert grid.settings == {"top_k_suffixes": 3}
    for cell in grid.cells:
        settings = cell.spec.hyperparameters.model_dump()
        assert (settings["gamma"], cell.spec.sampling.temperature) == cell.coordinates
        assert (settings["top_k_suffixes"], settings["window_size"]) == (3, "auto")
        assert (cell.spec.sampling.seed, cell.draft) == (7, None)
    assert grid.describe(grid.cells[1].coordinates) == "gamma=2, temperature=0.5"


def test_a_sweep_begins_with_the_settings_of_a_paper_but_for_what_it_varies() -> None:
    published = dict(methods.get("lookahead").published)
    axes = (read_axis("window_size=2,4"),)
    for name, text in (("lookahead[published]", ""), ("lookahead", " published ")):
        grid = Grid.read(name, axes, text)
        chosen = [cell.spec.hyperparameters.model_dump() for cell in grid.cells]
        assert chosen == [published | {"window_size": width} for width in (2, 4)]
        assert (grid.method, grid.label) == ("lookahead", "lookahead[published]")
    other = Grid.read("lookahead", axes, "published, ngram_size=4")
    assert other.cells[0].spec.hyperparameters.model_dump()["ngram_size"] == 4
    assert other.label == Grid.read("lookahead", axes, "").label == "lookahead"
    with pytest.raises(InvalidInput, match="window_size is varied and has a fixed value, 3"):
        Grid.read("lookahead", axes, "published, window_size=3")
    with pytest.raises(InvalidInput, match="union has no published settings"):
        Grid.read("union[published]", axes, "")


# ---------------------------------------------------------------- running


def test_a_resumed_sweep_has_the_same_grid_and_its_own_file(pair: Pair, tmp_path: Path) -> None:
    grid, path = grid_of("gamma=1,2"), tmp_path / "out.json"
    next(open_sweep(pair, grid, QUESTIONS, 1, 8, path).run())
    other = r"was measured with grid \['gamma=1,2'\], not \['gamma=2,1'\]: resume with the same"
    with pytest.raises(InvalidInput, match=other):
        open_sweep(pair, grid_of("gamma=2,1"), QUESTIONS, 1, 8, path, resume=True)
    path.write_text(path.read_text(encoding="utf-8").replace('"points"', '"runs"'), "utf-8")
    with pytest.raises(InvalidInput, match="is not a sweep's JSON"):
        open_sweep(pair, grid, QUESTIONS, 1, 8, path)


def test_a_prompt_that_one_cell_cannot_run_counts_for_none(
    pair: Pair, folders: dict[str, str], tmp_path: Path
) -> None:
    """A draft with few positions writes alone."""
    short = save(tmp_path / "short", max_position_embeddings=40)
    grid = grid_of(f"draft={folders['copy']},{short}", method="draft_only")
    swept = open_sweep(pair, grid, [Question("long", "qa", ("the cat " * 20,)), *QUESTIONS], 1, 8)
    list(swept.run())
    assert swept.store.lines[1].startswith(f"question long, turn 1, draft_only[draft={short}]: the")
    assert {run.question for run in swept.store.fair} == {0, 1, 2}


def test_a_copy_of_the_target_is_always_right_and_another_draft_hardly_ever(
    pair: Pair, folders: dict[str, str]
) -> None:
    grid = grid_of("gamma=2,5", f"draft=copy,{folders['other']}")
    swept = open_sweep(pair, grid, QUESTIONS, 1, 16)
    list(swept.run())
    for row in cells.summary(swept.store.fair, grid):
        copied = row.coordinates[1] == "copy"
        assert row.acceptance_rate is not None
        assert row.acceptance_rate == 1.0 if copied else row.acceptance_rate < 0.5
        assert (row.acceptance_length > 1.5) == copied
        assert (row.runs, row.equal) == (3, 3)


def test_every_temperature_is_compared_with_its_own_plain_run(pair: Pair) -> None:
    """The oracle for the text is one token at a time, the whole text anew each time, with the same
    noise."""
    grid, question = grid_of("temperature=0,0.7,1.5", "seed=1,2"), QUESTIONS[1]
    swept = open_sweep(pair, grid, [question], 1, 12)
    list(swept.run())
    by_name = {run.method: run for run in swept.store.fair}
    assert len(by_name) == 2 * len(grid.cells)
    ids = pair.encode(question.turns[0], chat=False)
    for entrant in swept.entrants:
        assert isinstance(entrant, MethodEntrant)
        stops = pair.stop_tokens
        plain = tiny.plain(pair.target.model, tuple(ids), 12, entrant.sampling, stops)
        run, text = by_name[entrant.label], entrant.run(Request(question.turns[0], 12)).tokens
        assert list(text) == plain and run.tokens == len(plain)
        assert run.compared and run.difference is None
    grid = grid_of("acceptance=match,rejection", sampling=Sampling(temperature=1))
    swept = open_sweep(pair, grid, QUESTIONS, 1, 8)
    list(swept.run())
    rules = {(run.method, run.compared) for run in swept.store.fair}
    assert rules == {
        ("autoregressive", True),
        ("speculative[acceptance=match]", True),
        ("speculative[acceptance=rejection]", False),
    }


def test_plain_decoding_runs_once_for_all_cells_that_share_it(pair: Pair) -> None:
    said: list[str] = []
    grid = grid_of("gamma=1,2,3", "temperature=0,1")
    list(open_sweep(pair, grid, QUESTIONS, 2, 4).run(said.append))
    assert said.pop(0) == "warming up"
    assert sum("autoregressive" in what for what in said) == 3 * 2 * 2
    assert len(said) == 3 * 2 * (2 + 6)
    assert "question 1, speculative[gamma=2,temperature=1.0]" in said


def test_another_draft_shares_the_target_which_scores_all_of_its_tokens_with_any(
    folders: dict[str, str], tmp_path: Path
) -> None:
    """Three drafts padded differently: whichever was loaded last, each runs and writes the target's
    own text."""
    size = load_pair(
        folders["target"], "none", placement=Placement("cpu", "float32")
    ).target.vocabulary
    wide, narrow = (save(tmp_path / f"plus{more}", vocab_size=size + more) for more in (2, 1))
    target = save(tmp_path / "target", vocab_size=size + 2)
    pair = load_pair(target, wide, placement=Placement("cpu", "float32"))
    sampling = Sampling(temperature=1)
    grid = grid_of(f"draft=plus2,{narrow},{folders['other']}", sampling=sampling)
    swept = open_sweep(pair, grid, QUESTIONS, 1, 12)
    _, *pairs = (entrant._pair for entrant in swept.entrants if isinstance(entrant, MethodEntrant))
    sizes = [other.draft and other.draft.vocabulary for other in pairs]
    assert sizes == [size + 2, size + 1, size]
    assert all(other.target.vocabulary == size + 2 for other in pairs)
    list(swept.run())
    assert all(run.compared and run.difference is None for run in swept.store.fair)
    assert with_draft(pair, "plus2") is pair
    without = with_draft(pair, "none")
    assert (without.draft, without.target) == (None, pair.target)
    assert without.costs.draft is None


def test_what_cannot_run_is_named_before_anything_runs(pair: Pair) -> None:
    long = [Question("x", "qa", ("the cat " * 200,))]
    missing = r"speculative\[draft=none\] needs a draft model: name one with --draft"
    for axis, questions, message in (
        ("draft=copy,none", QUESTIONS, missing),
        ("gamma=1", long, r"question x, turn 1: the prompt has \d+ tokens"),
        ("gamma=1", [], "there is no prompt to measure on"),
    ):
        with pytest.raises(InvalidInput, match=message):
            open_sweep(pair, grid_of(axis), questions)


def test_the_estimate_counts_every_run_as_plain_decoding(pair: Pair) -> None:
    """By hand: each a prompt's pass and 10 passes over one row; 2 cells have 1 or 2 plain runs."""
    pair = replace(pair, costs=Costs(PassCosts((1, 101), (0.5, 10.5))))
    question = QUESTIONS[0]
    length = len(pair.encode(question.turns[0], chat=False))
    once = 0.5 + (length - 1) * 0.1 + 10 * 0.5
    for axis, repeats, runs in (("temperature=0,1", 3, 3 * 4), ("gamma=1,2", 1, 3)):
        work = open_sweep(pair, grid_of(axis), [question], repeats, 10)
        assert seconds_left(work) == pytest.approx(runs * once)
    work = open_sweep(pair, grid_of("gamma=1,2"), [question], 2, 10)
    next(work.run())
    assert seconds_left(work) == pytest.approx(3 * once)


# ---------------------------------------------------------------- the numbers


def runs_of(
    grid: Grid, cell: int, question: int, seconds: float, plain: float, **more: Any
) -> list[Measurement]:
    """Return a run of a cell, and plain decoding's beside it."""
    counts: dict[str, Any] = {"draft_passes": 20, "accepted": 5, "tested": 8, "depth": 20}
    beside = {name: more[name] for name in ("tokens", "repeat") if name in more}
    spec = grid.cells[cell].spec
    own = run_of(spec.text, question, seconds, **counts | more)
    return [own, run_of(spec.plain, question, plain, **beside)]


def test_a_cell_that_is_not_lossless_is_never_the_best() -> None:
    grid, other = grid_of("gamma=2,4"), {"compared": False, "lossless": False}
    points = [*runs_of(grid, 0, 1, 2.0, 4.0), *runs_of(grid, 1, 1, 1.0, 4.0, **other)]
    best = cells.best(cells.summary(points, grid))
    assert best is not None and best.cell == 0


def test_rows_are_the_formulas_of_their_docstring() -> None:
    """By hand; the numbers that a benchmark's rows have, too, are tested there."""
    grid, nothing = grid_of("gamma=2,4", "seed=0,1"), {"draft_passes": 0, "tested": 0}
    points = [
        *runs_of(grid, 2, 1, 1.0, 4.0),
        *runs_of(grid, 2, 2, 2.0, 4.0, tokens=20),
        *runs_of(grid, 2, 2, 100.0, 4.0, tokens=20, repeat=1),
        runs_of(grid, 0, 1, 4.0, 4.0, **nothing)[0],
    ]
    plain, row = cells.summary(points, grid)
    assert (plain.cell, plain.coordinates, plain.speedup) == (0, (2, 0), 1.0)
    assert (plain.acceptance_rate, plain.draft_cost) == (None, None)
    assert (row.cell, row.coordinates, row.runs, row.tokens) == (2, (4, 0), 3, 50)
    assert row.speedup == pytest.approx((30 / 3) / (30 / 8))
    assert row.acceptance_length == pytest.approx(50 / 15)
    assert row.acceptance_rate == pytest.approx(15 / 24)
    assert row.draft_length == pytest.approx(60 / 15)
    assert row.draft_cost == pytest.approx((0.3 * 103 / 60) / (9.6 / 50))
    assert cells.best([plain, row]) is row
    assert cells.best([]) is None


@pytest.mark.parametrize("cost", [0.001, 0.05, 0.17, 0.5, 2.0])
def test_the_ideal_gamma_is_that_of_a_search_over_simulated_steps(cost: float) -> None:
    """The oracle sums the chances of every outcome of a step instead of using the closed form."""
    for alpha in (0.0, 0.2, 0.62, 0.9, 1.0):

        def speed(gamma: int, alpha: float = alpha) -> float:
            stops = sum((n + 1) * alpha**n * (1 - alpha) for n in range(gamma))
            return (stops + (gamma + 1) * alpha**gamma) / (gamma * cost + 1)

        gamma, speedup = metrics.ideal_gamma(alpha, cost, 32)
        assert speedup == pytest.approx(max(speed(g) for g in range(1, 33)))
        assert speed(gamma) == pytest.approx(speedup)


def test_theory_is_asked_for_every_value_of_the_other_axis() -> None:
    """alpha and c by hand; what follows from them is tested above."""
    grid = grid_of("gamma=2,4", "temperature=0,1")
    drawn = ((0, 6), (2, 4), (3, 8))
    runs = [runs_of(grid, cell, 1, 1.0, 4.0, accepted=accepted) for cell, accepted in drawn]
    points = [*chain(*runs)]
    cold, hot = cells.ideal(points, grid)
    assert (cold.others, hot.others) == ((0.0,), (1.0,))
    cost = (0.3 / 20) / (3.2 / 10)
    assert (cold.alpha, hot.alpha) == (10 / 16, 1.0)
    assert [cold.cost, hot.cost] == pytest.approx([cost, cost])
    assert (cold.gamma, cold.speedup) == metrics.ideal_gamma(10 / 16, cold.cost, 32)
    assert hot.gamma == 32
    copies = grid_of("num_tokens=2", method="prompt_lookup")
    assert cells.ideal(runs_of(copies, 0, 1, 1.0, 4.0), copies) == []
    table = grid_of("gamma=2", method="ngram")
    assert cells.ideal(runs_of(table, 0, 1, 1.0, 4.0, draft_passes=0), table) == []
    rows, theory = cells.summary(points, grid), f"{cold.gamma}: {cold.speedup:.2f}×."
    cost_words = "acceptance 0.62 and draft passes that cost 0.05 plain steps"
    assert cells.conclusions(rows, [cold], grid, 1) == [
        "Measured best: gamma=2, temperature=0.0, 4.00×.",
        f"By theory, at temperature 0.0, with {cost_words}, the best draft length is {theory}",
        "Every prompt ran once, so no spread is known yet; use three repeats to see it.",
    ]
    assert cells.about_spread(rows, 3).endswith("no spread is known yet; 3 repeats will show it.")


def test_repeats_have_a_spread_and_one_under_way_does_not_count() -> None:
    """Computed by hand: two questions of 4 s plain, in 2 and 2 s, then 1 and 1 s; the third repeat
    has one of them only."""
    grid = grid_of("gamma=2", "temperature=0")
    runs = [(0, 1, 2.0), (0, 2, 2.0), (1, 1, 1.0), (1, 2, 1.0), (2, 1, 0.5)]
    points = [
        run
        for repeat, question, seconds in runs
        for run in runs_of(grid, 0, question, seconds, 4.0, repeat=repeat)
    ]
    (row,) = cells.summary(points, grid)
    assert row.repeats == (2.0, 4.0) and row.between == " (2.00–4.00)"
    assert cells.conclusions([row], [], grid, 3) == [
        f"Measured best: gamma=2, temperature=0.0, {row.speedup:.2f}×"
        f"{cells.interval(row)} (2.00–4.00).",
        "In round brackets: the least and the largest speedup of 2 repeats.",
    ]
    slower = replace(row, cell=1, speedup=row.speedup - 0.1, repeats=(1.0, 2.0))
    far = replace(slower, repeats=(1.0, 1.9))
    doubt = "It is not clearly the best: 1 other setting came as far in one of its repeats."
    assert cells.conclusions([row, slower], [], grid, 3)[1] == doubt
    assert doubt not in cells.conclusions([row, far], [], grid, 3)
    (line,) = csv.DictReader(io.StringIO(cells.to_csv([row], grid.axes)))
    assert (line["repeats_low"], line["repeats_high"]) == ("2.0", "4.0")


def test_csv_has_a_column_for_every_axis_and_number() -> None:
    grid = grid_of("gamma=2,4", "draft=none,x")
    points = [*runs_of(grid, 1, 1, 1.0, 4.0), *runs_of(grid, 2, 1, 2.0, 4.0)]
    rows = cells.summary(points, grid)
    lines = list(csv.DictReader(io.StringIO(cells.to_csv(rows, grid.axes))))
    shown = [(line["gamma"], line["draft"], line["speedup"]) for line in lines]
    assert shown == [("2", "x", "4.0"), ("4", "none", "2.0")]
    assert (lines[0]["ci95_low"], lines[0]["acceptance_length"]) == ("4.0", "2.0")


# ---------------------------------------------------------------- the figures


def row_of(cell: int, coordinates: tuple[Value, ...], speedup: float) -> CellRow:
    interval = (speedup - 0.1, speedup + 0.2)
    return CellRow(cell, coordinates, 3, 30, 12.0, speedup, interval, 2.1, 0.5, 4.0, 0.2, 3, 0, 0)


AXES = (Axis("gamma", (2, 4, "auto")), Axis("draft", ("a/b/one", "a/b/two")))
SPEEDUPS = {(2, "a/b/one"): 0.8, (2, "a/b/two"): 1.0, (4, "a/b/two"): 1.34}
ROWS = [row_of(n, key, SPEEDUPS[key]) for n, key in zip((0, 1, 3), SPEEDUPS, strict=True)]


def named(figure: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [trace for trace in figure["data"] if name in trace.get("name", "")]


def grid_values(figure: dict[str, Any], name: str = "z") -> list[list[Any]]:
    return [list(line) for line in figure["data"][0][name]]


def test_the_heatmap_shows_every_row_in_its_place_and_leaves_the_others_empty() -> None:
    ideal = [Ideal(("a/b/two",), 3, 1.28, 0.62, 0.17), Ideal(("a/b/one",), 9, 1.0, 0.5, 0.1)]
    figure = figures.heatmap(ROWS, AXES, ideal)
    assert grid_values(figure) == [[0.8, 1.0], [None, 1.34], [None, None]]
    assert grid_values(figure, "customdata") == [[0, 1], [None, 3], [None, None]]
    drawn, layout = figure["data"][0], figure["layout"]
    assert drawn["text"][1][1] == "1.34×<br>2.10 tokens"
    share, colour = drawn["colorscale"][1]
    assert share * drawn["zmax"] + drawn["zmin"] == 1.0 and colour == figures.AS_FAST
    assert layout["yaxis"]["ticktext"] == ["2", "4", "auto"]
    assert layout["xaxis"]["ticktext"] == ["one", "two"]
    (star,) = named(figure, "measured best")
    assert (round(star["x"][0]), star["y"][0], star["customdata"][0]) == (1, 1, 3)
    diamonds = named(figure, "best draft length by theory")
    places = [(round(d["x"][0]), d["y"][0]) for d in diamonds]
    assert places == [(1, 0.5), (0, 1.4)], "between 2 and 4; beyond 4"
    assert [d["showlegend"] for d in diamonds] == [True, False]
    turned = [replace(row, coordinates=row.coordinates[::-1]) for row in ROWS]
    other = figures.heatmap(turned, AXES[::-1], [Ideal(("a/b/two",), 4, 1.28, 0.62, 0.17)])
    (diamond,) = named(other, "best draft length by theory")
    assert (diamond["x"][0], round(diamond["y"][0])) == (1, 1)
    assert grid_values(other) == [[0.8, None, None], [1.0, 1.34, None]]
    json.dumps(figure)


def test_a_trade_off_has_yield_cost_and_their_quotient_with_its_interval() -> None:
    axis = Axis("gamma", (2, 4, "auto"))
    places = zip((ROWS[0], ROWS[2], ROWS[1]), axis.values, strict=True)
    rows = [replace(row, coordinates=(value,)) for row, value in places]
    figure = figures.trade_off(rows, [axis], [Ideal((), 2, 1.5, 0.62, 0.17)])
    names = ("tokens per pass", "cost of a step", "speedup")
    gains, costs, speedups = (named(figure, name)[0] for name in names)
    for line in (gains, costs, speedups):
        assert list(line["x"]) == [0, 1, None, 2], "what is chosen step by step is no number"
        assert list(line["customdata"]) == [0, 3, None, 1]
    assert list(speedups["y"]) == [0.8, 1.34, None, 1.0]
    for at in (0, 1, 3):
        assert gains["y"][at] / costs["y"][at] == pytest.approx(speedups["y"][at])
    errors = [speedups["error_y"][name][1] for name in ("array", "arrayminus")]
    assert errors == pytest.approx([0.2, 0.1])
    (star,) = named(figure, "measured best")
    assert (star["x"][0], star["y"][0]) == (1, 1.34)
    assert figure["layout"]["shapes"][0]["y0"] == 1
    ideal = [Ideal((5,), 2, 1.5, 0.62, 0.17)]
    seeds = figures.trade_off([row_of(0, (5,), 1.1)], [Axis("seed", (5,))], ideal)
    assert not named(seeds, "theory"), "gamma is not on the axis"
    assert "Nothing is measured yet" in str(figures.trade_off([], [axis]))
    assert "Nothing is measured yet" in str(figures.heatmap([], AXES))


def test_words_on_an_axis_are_labelled_points_whose_slope_is_their_speedup() -> None:
    """Words have no order: no line joins them. The oracle is the quotient of a point's places."""
    axis = Axis("stop", ("fixed", "p_min", "entropy", "ema"))
    speedups, lengths = (1.1, 1.6, 1.5, 0.9), (3.0, 2.4, 2.4, 2.0)
    rows = [
        replace(row_of(cell, (value,), speedup), acceptance_length=length)
        for cell, (value, speedup, length) in enumerate(
            zip(axis.values, speedups, lengths, strict=True)
        )
    ]
    for figure in (
        figures.trade_off(rows, [axis], [Ideal(("fixed",), 2, 1.5, 0.6, 0.2)]),
        figures.page(rows, [axis], [], "here").to_dict(),
    ):
        (points,) = named(figure, "stopping rule (stop)")
        assert tuple(points["text"]) == axis.values
        assert tuple(points["y"]) == lengths and list(points["customdata"]) == [0, 1, 2, 3]
        for x, y, speedup in zip(points["x"], points["y"], speedups, strict=True):
            assert y / x == pytest.approx(speedup)
        errors = points["error_x"]
        for at, (x, y, speedup) in enumerate(zip(points["x"], lengths, speedups, strict=True)):
            ends = y / (x + errors["array"][at]), y / (x - errors["arrayminus"][at])
            assert ends == pytest.approx((speedup - 0.1, speedup + 0.2))
        (star,) = named(figure, "measured best")
        assert star["y"][0] / star["x"][0] == pytest.approx(1.6)
        rays = named(figure, "equal speedup")
        slopes = {ray["text"][1]: ray["y"][1] / ray["x"][1] for ray in rays}
        assert {"1×", "1.5×"} <= set(slopes)
        assert all(float(text[:-1]) == pytest.approx(slope) for text, slope in slopes.items())
        assert not named(figure, "theory"), "gamma is not on the axis"
    switches = [row_of(0, (False,), 1.2), row_of(1, (True,), 1.1)]
    (points,) = named(figures.trade_off(switches, [Axis("adaptive", (False, True))]), "adaptive")
    assert tuple(points["text"]) == ("false", "true")


def test_labels_of_points_that_lie_near_each_other_stand_on_different_sides() -> None:
    axis = Axis("stop", ("fixed", "ema"))
    rows = [row_of(0, ("fixed",), 1.5), row_of(1, ("ema",), 1.51)]
    (points,) = named(figures.trade_off(rows, [axis]), "stop")
    assert len({*points["textposition"]}) == 2


def test_the_curves_of_the_theory_are_those_of_the_paper() -> None:
    """Leviathan et al.: (1 - alpha^(gamma + 1)) / (1 - alpha) tokens for 1 + gamma c."""
    axis = Axis("gamma", (1, 3))
    rows = [row_of(cell, (value,), 1.1) for cell, value in enumerate(axis.values)]
    figure = figures.trade_off(rows, [axis], [Ideal((), 2, 1.5, 0.5, 0.25)])
    *curves, best = ([*line["y"]] for line in named(figure, "theory"))
    tokens, costs, speedups = curves
    assert best == [1.5], "the best draft length by theory is marked"
    assert (tokens[0], tokens[-1]) == pytest.approx((1.5, 1.875))
    assert (costs[0], costs[-1]) == pytest.approx((1.25, 1.75))
    assert speedups[-1] == pytest.approx(1.875 / 1.75)


def test_a_value_between_two_others_lies_between_them() -> None:
    axis = Axis("gamma", ("auto", 2, 4, 8))
    places: dict[Any, float] = {"auto": 0, 2: 1, 3: 1.5, 5: 2.25, 8: 3, 1: 0.6, 32: 3.4}
    assert {value: figures.slot(axis, value) for value in places} == places
    assert figures.labels(Axis("draft", ("x/one", "y/one"))) == ["x/one", "y/one"]


# ---------------------------------------------------------------- the command


def command(folders: dict[str, str], arguments: str) -> list[str]:
    models = f"--target {folders['target']} --draft {folders['copy']} --dtype float32 --device cpu"
    return words(f"sweep {models} --max-new-tokens 8 --repeats 1 {arguments}")


def test_the_command_prints_writes_and_resumes(
    folders: dict[str, str], tmp_path: Path, ouroboros: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after a question, gone on with, and once more when complete."""
    out, table, figure = (tmp_path / f"out.{end}" for end in ("json", "csv", "html"))
    grid_ = "--method speculative --grid gamma=1,4 --grid seed=1,2 --temperature 1"
    files = f"--json {out} --csv {table} --figure {figure}"
    prompts = f"--prompts {write_prompts(tmp_path / 'p.jsonl', 3)}"
    asked, run = command(folders, f"{grid_} {prompts} {files}"), Runner.run

    def stopped(self: Runner, progress: Any) -> Any:
        yield next(run(self, progress))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Runner, "run", stopped)
        said = ouroboros(*asked)
    assert said.returncode == 130
    assert "12 runs of up to 8 tokens, and plain decoding beside them" in said.stderr
    assert f"stopped after 1 of 3 questions; {out} keeps them: --resume continues" in said.stderr
    assert "Measured best" in said.stdout
    said = ouroboros(*asked)
    assert said.returncode == 2 and "add --resume" in said.stderr
    said = ouroboros(*asked, "--resume")
    assert said.returncode == 0 and "continuing after 1 of 3 questions" in said.stderr
    data = json.loads(out.read_text(encoding="utf-8"))
    assert (data["complete"], len(data["points"])) == (True, 3 * (4 + 2))
    assert data["settings"]["grid"] == ["gamma=1,4", "seed=1,2"]
    assert [row["coordinates"] for row in data["rows"]] == [[1, 1], [1, 2], [4, 1], [4, 2]]
    assert all(row["differences"] == 0 for row in data["rows"])
    assert [found["others"] for found in data["ideal"]] == [[1], [2]]
    assert data["environment"]["dtype"] == "float32"
    grid = Grid("speculative", tuple(map(read_axis, data["settings"]["grid"])))
    points = TypeAdapter(list[Measurement]).validate_python(data["points"])
    rows = cells.summary(points, grid)
    assert [row.speedup for row in rows] == [row["speedup"] for row in data["rows"]]
    best = max(rows, key=lambda row: row.speedup)
    (line,) = (line for line in said.stdout.splitlines() if line.startswith("gamma=4, seed=2"))
    assert f"{rows[-1].speedup:.2f}×" in line and f"{rows[-1].acceptance_length:.2f}" in line
    assert f"Measured best: {grid.describe(best.coordinates)}, {best.speedup:.2f}×" in said.stdout
    assert "By theory, at seed 1, with acceptance 1.00" in said.stdout
    assert len(list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))) == 4
    assert "parcoords" in figure.read_text(encoding="utf-8")
    before = out.read_text(encoding="utf-8")
    said = ouroboros(*asked, "--resume")
    assert said.returncode == 0 and f"{out} is complete: nothing is measured" in said.stderr
    assert out.read_text(encoding="utf-8") == before


def test_without_prompts_six_of_the_own_are_read(
    folders: dict[str, str], ouroboros: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = "ouroboros_core.benchmark.prompts.own_prompts"
    monkeypatch.setattr(own, lambda limit: read(write_prompts(tmp_path / "p", limit)))
    settings = "--settings top_k_suffixes=0,window_size=3"
    said = ouroboros(*command(folders, f"--method ouroboros --grid gamma=2 {settings}"))
    assert said.returncode == 0 and "6 of 6 questions" in said.stderr
    assert "6 equal" in said.stdout and "By theory, with acceptance" in said.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "varies one or two settings, got 0"),
        ("--grid gamma=2 --knobs gamma", "expected setting=value, got gamma"),
        ("--grid gamma=2 --repeats 0", "repeats must be a whole number of at least 1, got 0"),
        ("--grid draft=nowhere", "nowhere"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    folders: dict[str, str], arguments: str, message: str, ouroboros: Ask
) -> None:
    said = ouroboros(*command(folders, f"--method ouroboros {arguments}"))
    assert (said.returncode, said.stdout, message in said.stderr) == (2, "", True), said.stderr
