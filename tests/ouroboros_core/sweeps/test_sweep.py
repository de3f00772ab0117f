"""The sweep: what it varies, that an interrupted one loses nothing, and that the best setting is
the one that is named best."""

import csv
import io
import json
from dataclasses import replace
from itertools import islice, product
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.benchmark.prompts import Question, read
from ouroboros_core.benchmark.report import equality
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, load_pair, with_draft
from ouroboros_core.sampling import Sampling
from ouroboros_core.settings import Value
from ouroboros_core.sweeps import cells
from ouroboros_core.sweeps.cells import CellRow, Ideal, Point
from ouroboros_core.sweeps.grid import Axis, Grid, read_axis
from ouroboros_core.sweeps.sweep import Sweep
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Seconds
from tests import tiny
from tests.commands import Ask, words
from tests.folders import save
from tests.ouroboros_core.benchmark.test_benchmark import write_prompts
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
    return load_pair(folders["target"], folders["copy"], device="cpu", dtype="float32")


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
        settings = cell.hyperparameters.model_dump()
        assert (settings["gamma"], cell.sampling.temperature) == cell.coordinates
        assert (settings["top_k_suffixes"], settings["window_size"]) == (3, "auto")
        assert (cell.sampling.seed, cell.draft) == (7, None)
    assert grid.describe(grid.cells[1].coordinates) == "gamma=2, temperature=0.5"


def test_a_sweep_begins_with_the_settings_of_a_paper_but_for_what_it_varies() -> None:
    published = dict(methods.get("lookahead").published)
    axes = (read_axis("window_size=2,4"),)
    for name, text in (("lookahead[published]", ""), ("lookahead", " published ")):
        grid = Grid.read(name, axes, text)
        chosen = [cell.hyperparameters.model_dump() for cell in grid.cells]
        assert chosen == [published | {"window_size": width} for width in (2, 4)]
        assert (grid.method, grid.label) == ("lookahead", "lookahead[published]")
    other = Grid.read("lookahead", axes, "published, ngram_size=4")
    assert other.cells[0].hyperparameters.model_dump()["ngram_size"] == 4
    assert other.label == Grid.read("lookahead", axes, "").label == "lookahead"
    with pytest.raises(InvalidInput, match="window_size is varied and has a fixed value, 3"):
        Grid.read("lookahead", axes, "published, window_size=3")
    with pytest.raises(InvalidInput, match="union has no published settings"):
        Grid.read("union[published]", axes, "")


# ---------------------------------------------------------------- running


def facts(points: list[Point]) -> list[Point]:
    """Everything that does not depend on time."""
    return [replace(point, seconds=Seconds(), plain_seconds=Seconds()) for point in points]


def test_an_interrupted_sweep_goes_on_and_has_the_counts_of_an_uninterrupted_one(
    pair: Pair, tmp_path: Path
) -> None:
    """Three by three cells on three prompts; the oracle is a sweep that nobody interrupted."""
    grid = grid_of("gamma=1,3,5", "top_k_suffixes=0,1,2", method="ouroboros")
    path = tmp_path / "out.json"
    whole = Sweep(pair, grid, QUESTIONS, 1, 10)
    assert len(list(whole.run())) == whole.total == whole.done == 9 * 3
    first = Sweep(pair, grid, QUESTIONS, 1, 10, path)
    assert len([*islice(first.run(), 13)]) == 13
    assert (first.done, len(json.loads(path.read_text(encoding="utf-8"))["points"])) == (13, 13)
    second = Sweep(pair, grid, QUESTIONS, 1, 10, path, resume=True)
    assert (second.done, second.total) == (13, 27)
    assert len(list(second.run())) == 27 - 13
    read_back = Sweep(pair, grid, QUESTIONS, 1, 10, path, resume=True)
    assert facts(second.points) == facts(read_back.points) == facts(whole.points)
    firsts = [point.cell for point in whole.points][::9]
    assert firsts == [0, 1, 2], "the order rotates, so that none is always first"


def test_nothing_is_lost_or_mixed(pair: Pair, tmp_path: Path) -> None:
    grid, path = grid_of("gamma=1,2"), tmp_path / "out.json"
    begun = Sweep(pair, grid, QUESTIONS, 1, 8, path)
    next(begun.run())
    interrupted = r"holds an interrupted sweep \(1 runs done\): add --resume"
    with pytest.raises(InvalidInput, match=interrupted):
        Sweep(pair, grid, QUESTIONS, 1, 8, path)
    other = r"was measured with grid \['gamma=1,2'\], not \['gamma=2,1'\]: resume with the same"
    with pytest.raises(InvalidInput, match=other):
        Sweep(pair, grid_of("gamma=2,1"), QUESTIONS, 1, 8, path, resume=True)
    begun.store.complete = True
    begun.store.save({})
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace('"points"', '"runs"'), encoding="utf-8")
    with pytest.raises(InvalidInput, match="is not a sweep's JSON"):
        Sweep(pair, grid, QUESTIONS, 1, 8, path)


def test_a_prompt_that_one_cell_cannot_run_counts_for_none(
    pair: Pair, folders: dict[str, str], tmp_path: Path
) -> None:
    """A draft with few positions writes alone; the oracle is a sweep of the other prompts."""
    short = save(tmp_path / "short", max_position_embeddings=40)
    grid = grid_of(f"draft={folders['copy']},{short}", method="draft_only")
    long = Question("long", "qa", ("the cat sat on " * 20,))
    beyond = Question("beyond", "qa", ("the cat sat on " * 900,))
    path = tmp_path / "out.json"
    swept = Sweep(pair, grid, [QUESTIONS[0], long, beyond, QUESTIONS[1]], 2, 8, path)
    assert [one.question for one in swept.store.left_out] == ["beyond"]
    list(swept.run())
    assert [one.question for one in swept.store.left_out] == ["beyond", "long"]
    assert f"draft={short}: the prompt has" in swept.store.lines[2]
    alone = Sweep(pair, grid, QUESTIONS[:2], 2, 8)
    list(alone.run())
    assert facts(swept.points) == facts(alone.points)
    again = Sweep(pair, grid, [QUESTIONS[0], long, beyond, QUESTIONS[1]], 2, 8, path, resume=True)
    assert again.seconds_left == 0 and again.points == swept.points


def test_the_command_writes_the_table_without_what_cannot_run(
    ouroboros: Ask, folders: dict[str, str], tmp_path: Path
) -> None:
    path, out = tmp_path / "p.jsonl", tmp_path / "a.json"
    lines = [json.dumps({"turns": [text]}) for text in ("the cat", "the dog " * 900)]
    path.write_text("\n".join(lines), encoding="utf-8")
    asked = f"sweep --target {folders['target']} --method ngram --grid gamma=1,2 --device cpu"
    more = f"--prompts {path} --max-new-tokens 5 --dtype float32 --repeats 1 --json {out}"
    told = ouroboros(*words(f"{asked} {more}"))
    assert told.returncode == 3, told.stderr
    assert "question 2, turn 1: the prompt has" in told.stdout.splitlines()[-1]
    assert [row["runs"] for row in json.loads(out.read_text("utf-8"))["rows"]] == [1, 1]


def test_points_are_the_sums_of_their_traces(pair: Pair, folders: dict[str, str]) -> None:
    """The oracles are the functions of `metrics` on the same trace. A copy of the target is always
    right, by construction; another random model hardly ever."""
    grid = grid_of("gamma=2,5", f"draft=copy,{folders['other']}")
    swept = list(Sweep(pair, grid, QUESTIONS, 1, 16).run())
    for point, trace, _ in swept:
        assert (point.tokens, point.passes) == (len(trace.tokens), len(trace.steps))
        assert point.accepted / point.tested == Summary(trace).acceptance_rate
        assert point.depth_sum / point.passes == Summary(trace).proposal_depth
        assert point.draft_passes == sum(step.draft_passes for step in trace.steps) > 0
        seconds = point.seconds.prefill + point.seconds.decode
        assert seconds == pytest.approx(metrics.total_seconds(trace))
        assert (point.identical, point.plain_tokens) == (True, point.tokens)
        assert (point.tested > point.accepted) == (trace.draft == "other")
        assert (point.passes < point.tokens) == (trace.draft == "copy")
    rows = cells.summary([point for point, *_ in swept], grid)
    for row in rows:
        copied = row.coordinates[1] == "copy"
        assert row.acceptance_rate is not None
        assert row.acceptance_rate == 1.0 if copied else row.acceptance_rate < 0.5


def test_every_temperature_is_compared_with_its_own_plain_run(pair: Pair) -> None:
    """The oracle for the text is one token at a time, the whole text anew each time, with the same
    noise."""
    grid = grid_of("temperature=0,0.7,1.5", "seed=1,2")
    for point, trace, _ in Sweep(pair, grid, QUESTIONS[:2], 1, 12).run():
        sampling = Sampling.model_validate(trace.sampling)
        plain = tiny.plain(pair.target.model, trace.prompt.tokens, 12, sampling, pair.stop_tokens)
        assert list(trace.tokens) == plain
        assert (point.identical, point.plain_tokens) == (True, len(plain))
    grid = grid_of("acceptance=match,rejection", sampling=Sampling(temperature=1))
    rules = {(one.cell, one.identical) for one, *_ in Sweep(pair, grid, QUESTIONS, 1, 8).run()}
    assert rules == {(0, True), (1, None)}


def test_plain_decoding_runs_once_for_all_cells_that_share_it(pair: Pair) -> None:
    said: list[str] = []
    list(Sweep(pair, grid_of("gamma=1,2,3", "temperature=0,1"), QUESTIONS, 2, 4).run(said.append))
    assert sum("plain decoding" in what for what in said) == 3 * 2 * 2
    assert len(said) == 3 * 2 * (2 + 6)
    assert "question 1, gamma=2, temperature=1.0" in said


def test_another_draft_shares_the_target_which_scores_all_of_its_tokens_with_any(
    folders: dict[str, str], tmp_path: Path
) -> None:
    """Three drafts padded differently: whichever was loaded last, each runs and writes the target's
    own text."""
    size = load_pair(folders["target"], "none", device="cpu", dtype="float32").target.vocabulary
    wide, narrow = (save(tmp_path / f"plus{more}", vocab_size=size + more) for more in (2, 1))
    target = save(tmp_path / "target", vocab_size=size + 2)
    pair = load_pair(target, wide, device="cpu", dtype="float32")
    sampling = Sampling(temperature=1)
    grid = grid_of(f"draft=plus2,{narrow},{folders['other']}", sampling=sampling)
    sweep = Sweep(pair, grid, QUESTIONS, 1, 12)
    sizes = [other.draft and other.draft.vocabulary for other in sweep._pairs.values()]
    assert sizes == [size + 2, size + 1, size]
    assert all(other.target.vocabulary == size + 2 for other in sweep._pairs.values())
    assert all(point.identical for point, *_ in sweep.run())
    assert with_draft(pair, "plus2") is pair
    without = with_draft(pair, "none")
    assert (without.draft, without.target) == (None, pair.target)
    assert without.costs.draft is None


def test_what_cannot_run_is_named_before_anything_runs(pair: Pair) -> None:
    long = [Question("x", "qa", ("the cat " * 200,))]
    missing = "draft=none: speculative needs a draft model: name one with --draft"
    for axis, questions, message in (
        ("draft=copy,none", QUESTIONS, missing),
        ("gamma=1", long, r"question x, turn 1: the prompt has \d+ tokens"),
        ("gamma=1", [], "there is no prompt to measure on"),
    ):
        with pytest.raises(InvalidInput, match=message):
            Sweep(pair, grid_of(axis), questions)


def test_the_estimate_counts_every_run_as_plain_decoding(pair: Pair) -> None:
    """By hand: 3 cells at 2 temperatures, so 3 runs and 2 plain ones, of a prompt's pass and 10
    passes over one row."""
    pair = replace(pair, costs=Costs(PassCosts((1, 101), (0.5, 10.5))))
    question = QUESTIONS[0]
    length = len(pair.encode(question.turns[0], chat=False))
    once = 0.5 + (length - 1) * 0.1 + 10 * 0.5
    for axis, repeats, runs in (("temperature=0,1", 3, 3 * 4), ("gamma=1,2", 1, 3)):
        sweep = Sweep(pair, grid_of(axis), [question], repeats, 10)
        assert sweep.seconds_left == pytest.approx(runs * once)
    sweep = Sweep(pair, grid_of("gamma=1,2"), [question], 1, 10)
    assert sweep.seconds_left == pytest.approx(3 * once)
    next(sweep.run())
    assert sweep.seconds_left == pytest.approx(2 * once)
    assert sweep.done == 1


# ---------------------------------------------------------------- the numbers


def point_of(cell: int, question: int, seconds: float, plain: float, **more: Any) -> Point:
    values: dict[str, Any] = {"repeat": 0, "tokens": 10, "passes": 5, "draft_passes": 20}
    values |= {"accepted": 5, "tested": 8, "depth_sum": 20, "plain_tokens": 10, "compared": True}
    timed = Seconds(prefill=0.2 * seconds, draft=0.3 * seconds, verify=0.5 * seconds)
    values |= {"seconds": timed, "plain_seconds": Seconds(prefill=0.5 * plain, verify=0.5 * plain)}
    return Point(cell, question, **values | more)


def test_a_cell_that_is_not_lossless_is_marked_and_never_the_best() -> None:
    points = [point_of(0, 1, 2.0, 4.0), point_of(1, 1, 1.0, 4.0, compared=False, lossless=False)]
    found = cells.summary(points, grid_of("gamma=2,4"))
    assert [equality(row) for row in found] == ["1 equal", "its own, not lossless"]
    best = cells.best(found)
    assert best is not None and best.cell == 0


def test_rows_are_the_formulas_of_their_docstring() -> None:
    """Computed by hand from three points and a repeat."""
    grid = grid_of("gamma=2,4", "seed=0,1")
    tie, error = (Divergence(3, 1, 2, gap, gap, "float32") for gap in (1.0, 9.0))
    longer: dict[str, Any] = {"tokens": 20, "plain_tokens": 20}
    points = [
        point_of(2, 1, 1.0, 4.0),
        point_of(2, 2, 2.0, 4.0, **longer, difference=tie),
        point_of(2, 2, 100.0, 4.0, **longer, repeat=1, difference=error),
        point_of(2, 2, 2.0, 4.0, **longer, repeat=2),
        point_of(0, 1, 4.0, 4.0, compared=False, draft_passes=0, tested=0, accepted=0),
    ]
    plain, row = cells.summary(points, grid)
    assert (plain.cell, plain.coordinates, plain.speedup) == (0, (2, 0), 1.0)
    assert (plain.acceptance_rate, plain.draft_cost) == (None, None)
    assert (plain.equal, plain.differences) == (None, None)
    assert (row.cell, row.coordinates, row.runs, row.tokens) == (2, (4, 0), 4, 70)
    assert row.tokens_per_second == pytest.approx(30 / 3)
    assert row.speedup == pytest.approx((30 / 3) / (30 / 8))
    assert row.ci95 == pytest.approx((2.0, 4.0))
    assert row.acceptance_length == pytest.approx(70 / 20)
    assert row.acceptance_rate == pytest.approx(20 / 32)
    assert row.draft_length == pytest.approx(80 / 20)
    assert row.draft_cost == pytest.approx((0.3 * 105 / 80) / (8.0 / 70))
    assert (row.equal, row.ties, row.differences) == (2, 1, 1)
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
    points = [point_of(cell, 1, 1.0, 4.0, accepted=accepted) for cell, accepted in drawn]
    cold, hot = cells.ideal(points, grid)
    assert (cold.others, hot.others) == ((0.0,), (1.0,))
    cost = (0.3 / 20) / (2.0 / 10)
    assert (cold.alpha, hot.alpha) == (10 / 16, 1.0)
    assert [cold.cost, hot.cost] == pytest.approx([cost, cost])
    assert (cold.gamma, cold.speedup) == metrics.ideal_gamma(10 / 16, cold.cost, 32)
    assert hot.gamma == 32
    copies = grid_of("num_tokens=2", method="prompt_lookup")
    assert cells.ideal([point_of(0, 1, 1.0, 4.0)], copies) == []
    undrafted = [point_of(0, 1, 1.0, 4.0, draft_passes=0)]
    assert cells.ideal(undrafted, grid_of("gamma=2", method="ngram")) == []
    rows, theory = cells.summary(points, grid), f"gamma {cold.gamma}, {cold.speedup:.2f}×."
    assert cells.conclusions(rows, [cold], grid, 1) == [
        "Measured best: gamma=2, temperature=0.0, 4.00×.",
        f"By theory, at temperature=0.0 (alpha 0.62, c 0.07): {theory}",
        "Every prompt ran once, so no spread is known yet; use three repeats to see it.",
    ]
    assert cells.about_spread(rows, 3).endswith("no spread is known yet; 3 repeats will show it.")


def test_repeats_have_a_spread_and_one_under_way_does_not_count() -> None:
    """Computed by hand: two questions of 4 s plain, in 2 and 2 s, then 1 and 1 s; the third repeat
    has one of them only."""
    grid = grid_of("gamma=2", "temperature=0")
    runs = [(0, 1, 2.0), (0, 2, 2.0), (1, 1, 1.0), (1, 2, 1.0), (2, 1, 0.5)]
    points = [
        replace(point_of(0, question, seconds, 4.0), repeat=repeat)
        for repeat, question, seconds in runs
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
    rows = cells.summary([point_of(1, 1, 1.0, 4.0), point_of(2, 1, 2.0, 4.0)], grid)
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


def test_the_curves_of_the_theory_are_those_of_the_paper() -> None:
    """Leviathan et al.: (1 - alpha^(gamma + 1)) / (1 - alpha) tokens for 1 + gamma c."""
    axis = Axis("gamma", (1, 3))
    rows = [row_of(cell, (value,), 1.1) for cell, value in enumerate(axis.values)]
    figure = figures.trade_off(rows, [axis], [Ideal((), 2, 1.5, 0.5, 0.25)])
    tokens, costs, speedups = ([*line["y"]] for line in named(figure, "theory"))
    assert (tokens[0], tokens[-1]) == pytest.approx((1.5, 1.875))
    assert (costs[0], costs[-1]) == pytest.approx((1.25, 1.75))
    assert speedups[-1] == pytest.approx(1.875 / 1.75)
    sentence = "with acceptance 0.50 and draft passes that cost 0.25 plain steps"
    assert sentence in figures.by_theory([Ideal((), 2, 1.5, 0.5, 0.25)], [axis])[0]


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
    """Interrupted after four runs, gone on with, and once more when complete."""
    out, table, figure = (tmp_path / f"out.{end}" for end in ("json", "csv", "html"))
    grid_ = "--method speculative --grid gamma=1,4 --grid seed=1,2 --temperature 1"
    files = f"--json {out} --csv {table} --figure {figure}"
    prompts = f"--prompts {write_prompts(tmp_path / 'p.jsonl', 3)}"
    asked, run = command(folders, f"{grid_} {prompts} {files}"), Sweep.run

    def stopped(self: Sweep, progress: Any) -> Any:
        yield from islice(run(self, progress), 4)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Sweep, "run", stopped)
        said = ouroboros(*asked)
    assert said.returncode == 130
    assert "12 runs of up to 8 tokens, and plain decoding beside them" in said.stderr
    assert f"stopped after 4 of 12 runs; {out} keeps them: --resume continues" in said.stderr
    assert "Measured best" in said.stdout
    said = ouroboros(*asked)
    assert said.returncode == 2 and "add --resume" in said.stderr
    said = ouroboros(*asked, "--resume")
    assert said.returncode == 0 and "continuing after 4 of 12 runs" in said.stderr
    data = json.loads(out.read_text(encoding="utf-8"))
    assert (data["complete"], len(data["points"])) == (True, 12)
    assert data["settings"]["grid"] == ["gamma=1,4", "seed=1,2"]
    assert [row["coordinates"] for row in data["rows"]] == [[1, 1], [1, 2], [4, 1], [4, 2]]
    assert all(row["differences"] == 0 for row in data["rows"])
    assert [found["others"] for found in data["ideal"]] == [[1], [2]]
    assert data["environment"]["dtype"] == "float32"
    grid = Grid("speculative", tuple(map(read_axis, data["settings"]["grid"])))
    for point in data["points"]:
        point |= {name: Seconds(**point[name]) for name in ("seconds", "plain_seconds")}
    rows = cells.summary([Point(**point) for point in data["points"]], grid)
    assert [row.speedup for row in rows] == [row["speedup"] for row in data["rows"]]
    best = max(rows, key=lambda row: row.speedup)
    assert f"* {best.speedup:.2f}x {best.acceptance_length:.2f}" in said.stdout
    assert f"Measured best: {grid.describe(best.coordinates)}, {best.speedup:.2f}×" in said.stdout
    assert "By theory, at seed=1 (alpha 1.00" in said.stdout
    assert len(list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))) == 4
    assert "parcoords" in figure.read_text(encoding="utf-8")
    before = out.read_text(encoding="utf-8")
    said = ouroboros(*asked, "--resume")
    assert said.returncode == 0 and f"{out} is complete: nothing is measured" in said.stderr
    assert out.read_text(encoding="utf-8") == before


def test_one_axis_is_a_list_and_without_prompts_six_of_the_own_are_read(
    folders: dict[str, str], ouroboros: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = "ouroboros_core.benchmark.prompts.own_prompts"
    monkeypatch.setattr(own, lambda limit: read(write_prompts(tmp_path / "p", limit)))
    settings = "--settings top_k_suffixes=0,window_size=3"
    said = ouroboros(*command(folders, f"--method ouroboros --grid gamma=2 {settings}"))
    assert said.returncode == 0 and "6 of 6 runs" in said.stderr
    assert "6 equal" in said.stdout and "By theory (alpha" in said.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "varies one or two settings, got 0"),
        ("--grid gamma=2 --knobs gamma", "expected setting=value, got gamma"),
        ("--grid gamma=2 --resume", "--resume continues with the results in a file: name it with"),
        ("--grid gamma=2 --csv no/such/folder.csv", "the folder of no/such/folder.csv does not"),
        ("--grid gamma=2 --repeats 0", "repeats must be a whole number of at least 1, got 0"),
        ("--grid draft=nowhere", "nowhere"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    folders: dict[str, str], arguments: str, message: str, ouroboros: Ask
) -> None:
    said = ouroboros(*command(folders, f"--method ouroboros {arguments}"))
    assert (said.returncode, said.stdout, message in said.stderr) == (2, "", True), said.stderr
