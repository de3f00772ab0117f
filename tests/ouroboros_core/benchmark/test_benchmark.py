"""The benchmark: what it reads, what it counts, and that an interrupted one loses nothing."""

import csv
import gzip
import io
import itertools
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.benchmark import entrants, peers, prompts, report
from ouroboros_core.benchmark.entrants import MethodEntrant, Outcome, Request
from ouroboros_core.benchmark.runner import Runner, stretch
from ouroboros_core.benchmark.store import BenchSettings, Measurement, Store
from ouroboros_core.cli import bench
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, Placement, load_pair
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace import metrics
from ouroboros_core.trace.equality import Divergence
from ouroboros_core.trace.summary import Summary
from ouroboros_core.trace.trace import Seconds, Trace
from tests.commands import Ask, running, words
from tests.folders import save

COUNTS = words("method setting repeat question turn group tokens passes rows draft_passes compared")
COUNTS += words("accepted tested depth")

WMT = {"de": "Ja", "en": "Yes"}
CHEAP = Costs(PassCosts((1, 64), (1.0, 1.0001)), PassCosts((1,), (1e-6,)))
"""Rows and drafts that cost next to nothing."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A tiny pair on disk; the draft is the target, so that drafts are accepted."""
    folder = tmp_path_factory.mktemp("pair")
    return save(folder / "target"), save(folder / "draft")


@pytest.fixture(scope="module")
def pair(folders: tuple[str, str]) -> Pair:
    return load_pair(*folders, placement=Placement("cpu", "float32"))


def write_prompts(path: Path, count: int = 6) -> Path:
    categories = ("writing", "qa", "rag")
    texts = [[f"the cat {'sat on ' * n}the mat", "def f(x):"] for n in range(count)]
    facts = ((n, categories[n % 3], turns) for n, turns in enumerate(texts))
    names = ("question_id", "category", "turns")
    write_lines(path, *(dict(zip(names, line, strict=True)) for line in facts))
    return path


def write_lines(path: Path, *lines: dict[str, Any]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


# ---------------------------------------------------------------- prompts


def test_the_projects_own_prompts_are_as_spec_bench_has_them() -> None:
    questions = prompts.own_prompts()
    assert [q.id for q in questions] == list(range(1, 73))
    assert [q.group for q in questions] == [group for group in prompts.GROUPS for _ in range(8)]
    assert tuple(q.category for q in questions[:8]) == prompts.MT_BENCH
    assert {len(q.turns) for q in questions[:8]} == {2}
    lengths = [len(q.turns[0].split()) for q in questions if q.group in ("summarization", "rag")]
    assert min(lengths) >= 300
    assert max(lengths) <= 600
    few = ["mt_bench", "mt_bench", "translation", "translation", *prompts.GROUPS[2:]]
    assert [q.group for q in prompts.own_prompts(11)] == few


def test_a_file_to_edit_has_its_old_version_as_the_expected_text() -> None:
    edits = [q for q in prompts.own_prompts() if q.prediction]
    assert {q.group for q in edits} == {"edit"} and len(edits) == 8
    for question in edits:
        assert question.turns[0].endswith(f"\n{question.prediction}```")
        assert 20 <= question.prediction.count("\n") <= 60
    assert prompts.digest(edits) != prompts.digest(replace(q, prediction="") for q in edits)


def test_alike_questions_are_more_alike_than_others() -> None:
    """The words that two neighbours share, of all they have."""
    questions = prompts.own_prompts()

    def shared(group: str) -> float:
        words = [set(q.turns[0].split()) for q in questions if q.group == group]
        pairs = list(itertools.pairwise(words))
        return sum(len(a & b) / len(a | b) for a, b in pairs) / len(pairs)

    assert shared("similar") > 0.6
    assert max(shared(group) for group in prompts.SPEC_BENCH) < 0.4


def test_only_who_can_use_an_expected_text_is_given_it(pair: Pair, tmp_path: Path) -> None:
    """The oracle is the trace: what it says was expected, and copied from there, at the first turn
    alone. The first run is the one that warms up."""
    line = {"turns": ["the cat", "and"], "prediction": "the mat and the mat"}
    write_lines(tmp_path / "p.jsonl", line)
    (question,) = prompts.read(tmp_path / "p.jsonl")
    assert question.prediction == line["prediction"]
    without_history(pair)
    specs = entrants.parse("sam,ngram", Sampling())
    field = [MethodEntrant(pair, spec) for spec in specs]
    told: dict[str, list[str]] = {spec.text: [] for spec in specs}

    def expecting(label: str, run: Callable[..., Trace], *given: Any) -> Trace:
        trace = run(*given)
        told[label].append(trace.prediction)
        return trace

    for entrant in field:
        entrant.trace = partial(expecting, entrant.label, entrant.trace)  # type: ignore[method-assign]
    store = Store(make_settings(methods=list(told), questions=1, repeats=1))
    assert len(list(Runner(pair, field, [question], store).run())) == 1
    assert told == {"autoregressive": ["", "", ""], "ngram": ["", "", ""]} | {
        "sam": ["", question.prediction, ""]
    }


@pytest.mark.parametrize(
    ("line", "field", "expected"),
    [
        ({"question_id": 7, "category": "qa", "turns": ["a", "b"]}, None, (7, "qa", ("a", "b"))),
        ({"task_id": "H/0", "prompt": "def f():"}, None, ("H/0", "HumanEval", ("def f():",))),
        ({"task_id": 2, "text": "Write f."}, None, (2, "MBPP", ("Write f.",))),
        ({"question": "How many?", "answer": "4"}, None, (1, "GSM8K", ("How many?",))),
        ({"id": "x", "article": "News."}, None, ("x", "CNN/DM", ("Summarize: News.",))),
        ({"translation": WMT}, None, (1, "WMT", ("Translate from de to en: Ja",))),
        ({"translation": WMT}, "translation.de", (1, "translation.de", ("Ja",))),
        ({"article": "News.", "story": "Once"}, "story", (1, "story", ("Once",))),
        ({"prompt": "1\u20282\u00853"}, None, (1, "HumanEval", ("1\u20282\u00853",))),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_files_of_known_benchmarks_are_understood(
    line: dict[str, Any], field: str | None, expected: tuple[Any, ...], zipped: bool, tmp_path: Path
) -> None:
    path = tmp_path / ("p.jsonl.gz" if zipped else "p.jsonl")
    content = (json.dumps(line, ensure_ascii=False) + "\n\n").encode()
    path.write_bytes(gzip.compress(content) if zipped else content)
    (question,) = prompts.read(path, field)
    assert (question.id, question.category, question.turns) == expected


@pytest.mark.parametrize(
    ("content", "field", "message"),
    [
        ('{"turns": ["a"]}\n{"a": 1}', None, "line 2: no prompt in any of the fields turns, prom"),
        ('{"turns": []}', None, "line 1: no prompt .* Name a field with --field"),
        ('{"turns": ["a"], "prediction": [1]}', None, r"line 1: prediction must be a text, got \["),
        ('{"prompt": 5}', None, "line 1: no prompt"),
        ('{"prompt": "a"}', "text", "line 1: no prompt in the field text"),
        ("[1]", None, "line 1: no prompt in .*; there is no object"),
        ("{", None, "line 1 is not JSON"),
        ("", None, "holds no prompts"),
        ('{"id": 1, "prompt": "a"}\n{"id": 1, "prompt": "b"}', None, "1 questions have an id that"),
    ],
)
def test_a_file_without_prompts_is_refused(
    content: str, field: str | None, message: str, tmp_path: Path
) -> None:
    (tmp_path / "p.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(InvalidInput, match=message):
        prompts.read(tmp_path / "p.jsonl", field)
    with pytest.raises(InvalidInput, match="there is no file"):
        prompts.read(tmp_path / "none.jsonl")
    with pytest.raises(InvalidInput, match="cannot be read: "):
        prompts.read(tmp_path)


# ---------------------------------------------------------------- methods


def test_commas_in_brackets_do_not_split_and_the_baseline_is_added() -> None:
    names = ["ouroboros[gamma=6,top_k_suffixes=3]", "lookahead[warm=true]"]
    names += ["speculative[acceptance=rejection]"]
    specs = entrants.parse(", ".join(names), Sampling(temperature=0.5, seed=3))
    assert [spec.text for spec in specs] == ["autoregressive", *names]
    assert specs[1].hyperparameters.model_dump()["gamma"] == 6
    assert [spec.warm for spec in specs] == [False, False, True, False]
    assert specs[3].sampling == Sampling(temperature=0.5, seed=3, acceptance="rejection")
    nested = "sam[auxiliary=speculative[gamma=2,x=1]]"
    assert entrants.split(f"{nested},b") == [nested, "b"]
    again = entrants.parse("draft_only,autoregressive", Sampling())
    assert [spec.text for spec in again] == ["draft_only", "autoregressive"]
    matched = Sampling(temperature=0.7, acceptance="rejection")
    rules = [one.sampling.acceptance for one in entrants.parse("sam,autoregressive", matched)]
    assert rules == ["rejection", "match"], "the baseline matches whatever the others do"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("telepathy", "method must be one of .*, got telepathy"),
        ("speculative[gamma=99]", "gamma must be auto, or between 1 and 32, got 99"),
        ("speculative[gamma]", "expected setting=value, got gamma"),
        ("speculative[gamma=2", "the bracket is not closed"),
        ("speculative[gamma=2,gamma=3]", "gamma is set twice"),
        ("speculative[warm=true]", "speculative keeps nothing that could be warm; .*sam.* do"),
        ("ouroboros[warm=maybe]", "warm must be true or false, got maybe"),
        ("ouroboros[acceptance=never]", "acceptance must be one of match, rejection, block, typi"),
        ("speculative,speculative", "speculative is named twice"),
    ],
)
def test_a_wrong_list_of_methods_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        entrants.parse(text, Sampling())


# ---------------------------------------------------------------- running


def make_settings(**more: Any) -> BenchSettings:
    names = ["autoregressive", "speculative", "ouroboros[warm=true,gamma=3]", "draft_only"]
    values: dict[str, Any] = {"methods": names, "peers": [], "prompts": "x", "questions": 6}
    values |= {"max_new_tokens": 12, "sampling": Sampling().model_dump(), "turns": True}
    values |= {"repeats": 2, "target": "t", "draft": "d", "environment": {"dtype": "float32"}}
    return BenchSettings(**values | more)


def make_runner(pair: Pair, path: Path | None, folder: Path, *, resume: bool = False) -> Runner:
    settings = make_settings()
    specs = entrants.parse(",".join(settings.methods), Sampling())
    field = [MethodEntrant(pair, spec) for spec in specs]
    store = Store.open(settings, path, resume=resume)
    return Runner(pair, field, prompts.read(write_prompts(folder / "p.jsonl")), store)


def counts(store: Store) -> list[tuple[Any, ...]]:
    return [tuple(getattr(m, name) for name in COUNTS) for m in store.measurements]


def without_history(pair: Pair) -> Pair:
    """The tiny tokenizer has no chat template, and raw prompts have no earlier turns; this one has
    a template."""
    pair.tokenizer.chat_template = "{% for m in messages %}<{{ m.content }}>{% endfor %}"
    return pair


def test_a_resumed_benchmark_has_the_counts_of_an_uninterrupted_one(
    pair: Pair, tmp_path: Path
) -> None:
    without_history(pair)
    whole = make_runner(pair, None, tmp_path)
    assert len(list(whole.run())) == 12
    assert len(whole.store.measurements) == 12 * 2 * 4
    path = tmp_path / "out.json"
    list(itertools.islice(make_runner(pair, path, tmp_path).run(), 5))
    assert len(json.loads(path.read_text(encoding="utf-8"))["units"]) == 5
    second = make_runner(pair, path, tmp_path, resume=True)
    assert len(second.left) == 7
    assert len(list(second.run())) == 7
    assert counts(second.store) == counts(whole.store)


def test_every_kind_of_memory_is_kept_over_an_interruption(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle is the benchmark that was not interrupted; asked again, what was kept saves
    passes, most of all in the loops that the tiny model ends in."""
    monkeypatch.setattr(metrics, "loop_start", lambda _: None)
    pair = replace(pair, costs=CHEAP)  # by its own, on a busy machine, not all of them propose
    kinds = "lookahead[extended=true", "prompt_lookup[", "token_recycling[", "sam["
    warm = [f"{name},warm=true]".replace("[,", "[") for name in kinds]
    names = ["autoregressive", *warm]
    without_history(pair)

    def runner(path: Path | None, resume: bool = False) -> Runner:
        settings = make_settings(methods=names, questions=2, turns=False, max_new_tokens=16)
        field = [MethodEntrant(pair, spec) for spec in entrants.parse(",".join(names), Sampling())]
        questions = prompts.read(write_prompts(tmp_path / "p.jsonl", 2))
        opened = Store.open(settings, path, resume=resume)
        return Runner(pair, field, questions, opened)

    whole, path = runner(None), tmp_path / "out.json"
    assert len(list(whole.run())) == 4
    next(iter(runner(path).run()))
    assert json.loads(path.read_text(encoding="utf-8"))["memories"].keys() == {*warm}
    resumed = runner(path, resume=True)
    assert len(list(resumed.run())) == 3
    assert counts(resumed.store) == counts(whole.store)
    passes: Counter[tuple[str, int]] = Counter()
    for run in whole.store.measurements:
        passes[run.method, run.repeat] += run.passes
    assert all(passes[name, 1] < passes[name, 0] for name in warm), passes


def test_a_warm_row_stands_beside_the_cold_one() -> None:
    names = ["autoregressive", "sam", "sam[alpha=2]", "union", "sam[alpha=2,warm=true]"]
    names += ["lookahead[warm=true]", "sam[warm=true]"]
    runs = [run_of(name, 1, 1.0) for name in names]
    assert [row.method for row in report.rows(runs) if row.group == "overall"] == [
        *("autoregressive", "sam", "sam[warm=true]", "sam[alpha=2]", "sam[alpha=2,warm=true]"),
        *("union", "lookahead[warm=true]"),
    ]


def test_counts_are_those_of_the_traces(pair: Pair, tmp_path: Path) -> None:
    pair = replace(pair, costs=CHEAP)  # by its own, a draft as large as its target does not pay
    without_history(pair)
    work = make_runner(pair, None, tmp_path)
    list(work.run())
    by_method: dict[str, list[Measurement]] = {}
    for one in work.store.measurements:
        by_method.setdefault(one.method, []).append(one)
    entrant = next(e for e in work.entrants if e.label == "speculative")
    assert isinstance(entrant, MethodEntrant)
    trace = entrant.trace(Request("the cat the mat", 12))
    drafted = by_method["speculative"]
    run = next(m for m in drafted if (m.question, m.turn, m.repeat) == (0, 0, 0))
    assert (run.tokens, run.passes) == (metrics.new_tokens(trace), len(trace.steps))
    assert run.rows == sum(step.width for step in trace.steps)
    assert run.draft_passes == sum(step.draft_passes for step in trace.steps) > 0
    summary = Summary(trace)
    assert run.accepted / run.tested == summary.acceptance_rate
    assert run.depth / run.passes == summary.proposal_depth
    assert run.passes < run.tokens, "the draft is the target's copy: drafts must have been accepted"
    assert run.peak_memory_mb > 10
    for m in by_method["autoregressive"]:
        assert m.tokens == m.passes == m.rows and m.difference is None and m.compared
    for m in by_method["draft_only"]:
        assert not (m.compared or m.passes or m.rows) and m.draft_passes == m.tokens


def test_the_order_is_mixed_so_that_none_always_follows_the_same_one(
    pair: Pair, tmp_path: Path
) -> None:
    without_history(pair)
    work = make_runner(pair, None, tmp_path)
    list(work.run())
    labels = [entrant.label for entrant in work.entrants]
    ran = [run.method for run in work.store.measurements if run.turn == 0]
    units = [ran[n : n + len(labels)] for n in range(0, len(ran), len(labels))]
    assert units[0] == labels, "in which the tables have them"
    assert {tuple(sorted(unit)) for unit in units} == {tuple(sorted(labels))}
    plain = [(unit, unit.index("autoregressive")) for unit in units]
    assert len({unit[0] for unit in units}) > 1
    assert len({unit[place - 1] for unit, place in plain if place}) > 1


def test_a_question_that_cannot_run_is_named_before_any_work(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_history(pair)
    entrants_ = [MethodEntrant(pair, spec) for spec in entrants.parse("", Sampling())]
    long = [prompts.Question("x", "qa", ("the cat " * 200,))]
    with pytest.raises(InvalidInput, match=r"question x, turn 1: the prompt has \d+ tokens"):
        Runner(pair, entrants_, long, Store(make_settings()))
    monkeypatch.setattr(pair.tokenizer, "chat_template", None)
    two = [prompts.Question(1, "qa", ("a", "b"))]
    with pytest.raises(InvalidInput, match="no chat template, which later turns need: leave --tu"):
        Runner(pair, entrants_, two, Store(make_settings()))


class Choosy:
    """A method that cannot run some prompts."""

    setting, plain, memory = "", "autoregressive", None
    repeats_plain_text, lossless, separate = True, True, False

    def __init__(self, inner: MethodEntrant, refuses: str) -> None:
        self.label, self._inner, self._refuses = f"choosy {refuses}", inner, refuses

    def run(self, request: Request) -> Outcome:
        if self._refuses in (request.prompt, *request.history):
            raise InvalidInput("it cannot read this")
        return self._inner.run(request)


def test_what_one_method_cannot_run_is_left_out_for_all_and_stays_out(
    pair: Pair, tmp_path: Path
) -> None:
    """The oracle of the table is a benchmark of the turns alone that all can run."""
    without_history(pair)
    plain, other = (MethodEntrant(pair, spec) for spec in entrants.parse("ngram", Sampling()))
    turns = {"a": ("x", "y"), "b": ("bad", "y"), "c": ("z", "worse", "y"), "d": ("w " * 900, "y")}
    asked = [prompts.Question(n, "qa", text) for n, text in turns.items()]
    field: list[Any] = [plain, other, Choosy(other, "bad"), Choosy(other, "worse")]
    path, settings = tmp_path / "a.json", make_settings(repeats=2, max_new_tokens=3)
    measured = Store(settings, path)
    first = Runner(pair, field, asked, measured)
    list(first.run())
    assert [(one.question, one.turn) for one in measured.left_out] == [("d", 0), ("b", 0), ("c", 1)]
    assert measured.lines[0].startswith("3 questions were left out, or the later turns")
    assert "question b, turn 1, choosy bad: it cannot read this" in measured.lines
    assert "question c, turn 2, choosy worse: it cannot read this" in measured.lines
    able = {("a", 0), ("a", 1), ("c", 0)}
    for label in (one.label for one in field):
        runs = [run for run in measured.fair if run.method == label]
        assert {(run.question, run.turn) for run in runs} == able and len(runs) == 6
    alone = Store(make_settings(repeats=2, max_new_tokens=3))
    fit = [prompts.Question("a", "qa", ("x", "y")), prompts.Question("c", "qa", ("z",))]
    list(Runner(pair, [plain, other], fit, alone).run())
    both = [
        {(row.method, row.group): (row.questions, row.tokens) for row in report.rows(runs)}
        for runs in (measured.fair, alone.measurements)
    ]
    assert both[1].items() <= both[0].items()
    for complete in (False, True):
        measured.complete = complete
        measured.save({})
        again = Store.open(settings, path, resume=True)
        assert again.left_out == measured.left_out
        assert Runner(pair, field, asked, again).left == []
        assert len(again.fair) == len(measured.fair)


@pytest.mark.parametrize("why", ["too long", "the template refuses"])
def test_a_benchmark_of_several_turns_survives_one_that_cannot_run(
    ouroboros: Ask, tmp_path: Path, why: str
) -> None:
    folder = save(tmp_path / "t", eos_token_id=None)
    template = "{% for m in messages %}<{{ m.content }}>{% endfor %}"
    if why == "the template refuses":
        refuse = "{{ raise_exception('no empty answers') }}{% endif %}"
        later_turn = "{% if messages|length > 1 and 'dog' in messages[0].content %}"
        template = later_turn + refuse + template
    (tmp_path / "t" / "chat_template.jinja").write_text(template, encoding="utf-8")
    later = "the cat " * (900 if why == "too long" else 1)
    path, out = tmp_path / "p.jsonl", tmp_path / "a.json"
    turns = [["the cat", "sat"], ["the dog", later], ["a mat", "sat"]]
    write_lines(path, *({"turns": texts} for texts in turns))
    asked = f"bench --target {folder} --dtype float32 --device cpu --turns --prompts {path}"
    more = f"--methods ngram --max-new-tokens 5 --json {out}"
    reasons = {"too long": "has room for 256", "the template refuses": "no empty answers"}
    for resume in ("", "--resume"):
        told = ouroboros(*words(f"{asked} {more} {resume}"))
        assert told.returncode == 3, told.stderr
        *_, header, reason = told.stdout.splitlines()
        assert header.startswith("1 question was left out, or the later turns, for every method")
        assert reason.startswith("question 2, turn 2: ") and reasons[why] in reason
        data = json.loads(out.read_text("utf-8"))
        assert data["complete"] and [one["turn"] for one in data["left_out"]] == [1]
        overall = [row for row in data["rows"] if row["group"] == "overall"]
        asked_ = {row["method"]: row["questions"] for row in overall}
        assert asked_ == {"autoregressive": 5, "ngram": 5}
    assert "nothing is measured again" in told.stderr


def test_nothing_is_lost_or_mixed(pair: Pair, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    store = Store(make_settings(), path)
    store.add((0, 1), [], {})
    with pytest.raises(InvalidInput, match=r"interrupted benchmark \(1 questions done\): add --r"):
        Store.open(make_settings(), path, resume=False)
    with pytest.raises(InvalidInput, match="with max_new_tokens 12, not 13: resume with the same"):
        Store.open(make_settings(max_new_tokens=13), path, resume=True)
    store.complete = True
    store.save({"rows": []})
    assert Store.open(make_settings(), path, resume=False).units == []
    path.write_text('{"version": 2}', encoding="utf-8")
    with pytest.raises(InvalidInput, match="has version 2, this program reads 1"):
        Store.open(make_settings(), path, resume=True)
    for wrong in ("{}", "not JSON", '{"version": 1, "complete": false, "settings": {}}'):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(InvalidInput, match="is not a benchmark's JSON"):
            Store.open(make_settings(), path, resume=True)


# ---------------------------------------------------------------- the report


def run_of(method: str, question: int, seconds: float, **more: Any) -> Measurement:
    values: dict[str, Any] = {"setting": "", "repeat": 0, "turn": 0, "group": "qa", "tokens": 10}
    values |= {"passes": 5, "rows": 20, "draft_passes": 4, "peak_memory_mb": 100.0}
    values |= {"compared": True, "first_seconds": 0.2 * seconds, **more}
    timed = Seconds(prefill=0.2 * seconds, draft=0.3 * seconds, verify=0.5 * seconds)
    return Measurement(method=method, question=question, seconds=timed, **values)


def test_a_row_under_typical_acceptance_is_marked_as_not_lossless() -> None:
    """The rule is the method's own or that of the whole benchmark; the baseline's is exact."""
    for text, rule in (("ngram[acceptance=typical]", "match"), ("ngram", "typical")):
        sampling = Sampling(temperature=1.0, acceptance=rule)
        spec = entrants.read_spec(text, sampling).sampling
        assert not spec.lossless and not spec.repeats_plain_text
        assert entrants.read_spec("autoregressive", sampling).sampling.lossless
    runs = [run_of("autoregressive", 1, 2.0), run_of("rejected", 1, 1.0, compared=False)]
    runs += [run_of("typical", 1, 0.5, compared=False, lossless=False)]
    found = {row.method: row for row in report.rows(runs)}
    assert report.equality(found["typical"]) == "its own, not lossless"
    assert report.equality(found["rejected"]) == "its own"


def test_rows_are_the_formulas_of_their_docstring() -> None:
    tie, error = (Divergence(3, 1, 2, gap, gap, "float32") for gap in (1.0, 9.0))
    once: dict[str, Any] = {"passes": 10, "rows": 10, "draft_passes": 0}
    runs = [run_of("autoregressive", q, 2.0, **once) for q in (1, 2)]
    runs += [run_of("autoregressive", 3, 4.0, **once, group="rag")]
    runs += [run_of("fast", 1, 1.0), run_of("fast", 2, 1.0, difference=tie)]
    runs += [run_of("fast", 3, 1.0, group="rag", difference=error)]
    groups = {1: "qa", 2: "qa", 3: "rag"}
    runs += [run_of("hf-greedy", q, 4.0, group=groups[q], compared=False) for q in groups]
    table = {(row.method, row.group): row for row in report.rows(runs)}
    names = ("autoregressive", "fast", "hf-greedy")
    assert list(table) == [*itertools.product(names, ("qa", "rag", "overall"))]
    row = table["fast", "overall"]
    assert (row.tokens_per_pass, row.rows_per_token, row.draft_passes_per_token) == (2.0, 2.0, 0.4)
    assert row.tokens_per_second == pytest.approx(10.0)
    assert row.decode_tokens_per_second == pytest.approx(30 / 2.4)
    assert row.speedup == pytest.approx(8 / 3)
    assert row.speedup_hf == pytest.approx(4.0)
    assert (row.equal, row.ties, row.differences, row.largest_ulps) == (1, 1, 1, 9.0)
    assert row.ci95 == pytest.approx((2.0, 4.0))
    phases = {"prefill": 0.6, "draft": 0.9, "verify": 1.5, "learn": 0, "host": 0}
    assert row.seconds == pytest.approx(phases | {"draft_sampling": 0, "verify_sampling": 0})
    assert table["fast", "qa"].speedup == pytest.approx(2.0)
    assert table["fast", "rag"].ci95 == pytest.approx((4.0, 4.0))
    assert table["hf-greedy", "qa"].equal is None
    assert table["autoregressive", "overall"].speedup == 1.0


def test_decoding_is_what_comes_behind_the_first_token_for_all_alike() -> None:
    """By hand. transformers finds the first token within prefill, we find it a pass later."""
    runs = [
        run_of(name, q, 4.0, first_tokens=first, first_seconds=seconds, cut=3 if q == 2 else 0)
        for name, first, seconds in (("autoregressive", 1, 2.2), ("fast", 2, 3.2))
        for q in (1, 2)
    ]
    runs += [run_of("hf-greedy", q, 8.0, first_tokens=1, first_seconds=4.4) for q in (1, 2)]
    rows = {row.method: row for row in report.rows(runs) if row.group == "overall"}
    assert rows["autoregressive"].decode_tokens_per_second == pytest.approx(9 / 1.8)
    assert rows["fast"].decode_speedup == pytest.approx((8 / 0.8) / (9 / 1.8))
    assert rows["fast"].decode_speedup_hf == pytest.approx((8 / 0.8) / (9 / 3.6))
    assert rows["fast"].speedup == pytest.approx(1.0)
    assert [row.first_token_seconds for row in rows.values()] == [2.2, 3.2, 4.4]
    assert (rows["fast"].cut, rows["hf-greedy"].cut) == (1, 0)
    said = report.loops(report.rows(runs))
    assert said.startswith("1 of 2 texts (50%: qa 1) run into a repetition loop")
    _, *cells = bench._cells(rows["fast"], None)
    assert cells[3:5] == ["3.20", "2.5"], "first token, tokens/s"
    assert cells[6] == "1.00 [1.00, 1.00]" and cells[7:11] == ["2.00", "2.00", "4.00", "2 equal"]
    assert report.both_speedups(rows["fast"]) == "1.00 / 2.00"


def test_a_run_cut_at_n_tokens_has_the_counts_of_one_that_may_write_n(pair: Pair) -> None:
    """The oracle is that run."""
    (spec,) = entrants.parse("autoregressive", Sampling())
    entrant = MethodEntrant(replace(pair, stop_tokens=frozenset()), spec)
    whole, short = (entrant.run(Request("the cat the mat", count)) for count in (24, 9))
    part = whole.before(9)
    assert part.tokens == short.tokens and part.total.tokens == 9
    assert (part.total.passes, part.total.rows) == (short.total.passes, short.total.rows)
    loops = replace(whole, tokens=(1, 2, *(7, 8) * 11))
    assert stretch(loops, loops.tokens, 24).cut == 20
    assert stretch(loops, loops.tokens, 24).tokens == stretch(whole, loops.tokens, 24).tokens == 4
    assert (stretch(loops, loops.tokens, 9).cut, stretch(loops, loops.tokens, 9).tokens) == (0, 9)


def test_a_step_that_reaches_the_cut_counts_whole_and_its_tokens_as_far_as_that() -> None:
    steps = [entrants.Spent(3, 1, 4, 2, Seconds(prefill=p, verify=1)) for p in (2.0, 0, 0)]
    part = entrants.Outcome((5, 6, 7, 8, 9, 1, 2, 3, 4), tuple(steps)).before(4)
    assert part.tokens == (5, 6, 7, 8)
    assert part.total == entrants.Spent(4, 2, 8, 4, Seconds(prefill=2, verify=2))


def test_repeats_count_by_their_median_and_a_peers_best_setting_is_named() -> None:
    times = enumerate((2.0, 100.0, 2.0))
    runs = [run_of("autoregressive", 1, seconds, repeat=n) for n, seconds in times]
    runs += [run_of("hf-assisted", 1, 4.0, setting="slow")]
    runs += [run_of("hf-assisted", 1, 1.0, setting="quick")]
    rows = {row.method: row for row in report.rows(runs) if row.group == "overall"}
    assert rows["autoregressive"].tokens_per_second == pytest.approx(5.0)
    assert rows["hf-assisted"].setting == "quick"
    assert rows["hf-assisted"].speedup == pytest.approx(2.0)
    assert bench._cells(rows["hf-assisted"], None)[0] == "hf-assisted (quick)"


def test_the_widest_tie_and_every_difference_are_said_in_words() -> None:
    def differing(question: int, gap: float, words_: str) -> Measurement:
        apart = Divergence(3, 1, 2, gap, gap, "float32")
        return run_of("fast", question, 1.0, difference=apart, explanation=words_)

    runs = [differing(0, 0.5, "tie 0.5"), differing(1, 1.5, "tie 1.5")]
    assert report.explanations(runs) == ["fast, question 1: tie 1.5"]
    runs.append(differing(7, 9.0, "differs"))
    assert report.explanations(runs) == ["fast, question 7: differs"]


def test_csv_has_a_column_for_every_number() -> None:
    table = report.rows([run_of("autoregressive", 1, 2.0)])
    lines = list(csv.DictReader(io.StringIO(report.to_csv(table))))
    assert len(lines) == 2
    assert float(lines[0]["tokens_per_pass"]) == 2.0
    assert float(lines[0]["ci95_low"]) == 1.0
    assert float(lines[0]["verify_seconds"]) == 1.0


# ---------------------------------------------------------------- the command


def options(folders: tuple[str, str], *arguments: str) -> list[str]:
    """Of the command `bench` on the tiny pair."""
    pair = f"bench --target {folders[0]} --draft {folders[1]} --dtype float32 --device cpu"
    return [*words(f"{pair} --max-new-tokens 24"), *arguments]


TIMED = {
    *words("host seconds peak_memory_mb tokens_per_second decode_tokens_per_second ci95 setting"),
    *words("first_seconds first_token_seconds speedup speedup_hf decode_speedup decode_speedup_hf"),
    "plain_tokens_per_second",
}


def facts(path: Path) -> Any:
    """Everything in the file that does not depend on time or place."""
    data = json.loads(path.read_text(encoding="utf-8"))
    rows = [{k: v for k, v in row.items() if k not in TIMED} for row in data["rows"]]
    runs = [{k: v for k, v in run.items() if k not in TIMED - {"setting"}} for run in data["runs"]]
    return rows, sorted(runs, key=str)


def test_the_command_measures_methods_and_peers(
    ouroboros: Ask, folders: tuple[str, str], tmp_path: Path
) -> None:
    ours = ["speculative", "ouroboros[gamma=3,top_k_suffixes=2]", "draft_only"]
    theirs = ["hf-greedy", "hf-assisted", "hf-prompt-lookup"]
    out, sheet, figure = (tmp_path / f"a.{end}" for end in ("json", "csv", "html"))
    prompts_ = f"--prompts {write_prompts(tmp_path / 'p.jsonl')}"
    field = f"--methods {','.join(ours)} --peers {','.join(theirs)}"
    files = f"--json {out} --csv {sheet} --figure {figure}"
    alone = ouroboros(*options(folders, *words(f"{prompts_} {field} {files}")))
    assert alone.returncode == 0, alone.stderr
    assert "ouroboros[gamma=3,top_k_suffixes=2]" in alone.stdout
    data = json.loads(out.read_text(encoding="utf-8"))
    names, groups = ["autoregressive", *ours, *theirs], ("mt_bench", "qa", "rag", "overall")
    rows = [(row["method"], row["group"]) for row in data["rows"]]
    assert rows == [*itertools.product(names, groups)]
    overall = {row["method"]: row for row in data["rows"] if row["group"] == "overall"}
    for name, row in overall.items():
        assert row["differences"] == (None if name == "draft_only" else 0), row
        assert row["speedup_hf"] > 0
    assert overall["hf-greedy"]["tokens_per_pass"] == overall["hf-greedy"]["rows_per_token"] == 1
    assert overall["hf-assisted"]["tokens_per_pass"] > 1
    assert overall["hf-assisted"]["draft_passes_per_token"] > 0
    assert overall["autoregressive"]["tokens"] == overall["hf-greedy"]["tokens"]
    assert data["environment"]["dtype"] == "float32"
    lines = list(csv.DictReader(io.StringIO(sheet.read_text(encoding="utf-8"))))
    assert len(lines) == len(data["rows"])
    assert "plotly" in figure.read_text(encoding="utf-8")


def test_two_limits_have_a_table_each_of_the_same_runs(
    ouroboros: Ask, folders: tuple[str, str], tmp_path: Path
) -> None:
    """The oracle is the run that may write no more than the smaller limit; and a file that was
    begun by an earlier version goes on."""
    path, out = write_prompts(tmp_path / "p.jsonl", 2), tmp_path / "a.json"
    asked = options(folders, *words(f"--prompts {path} --methods ngram --json {out}"))
    found = {}
    for limits in ("8,24", "8"):
        told = ouroboros(*asked, "--max-new-tokens", limits)
        assert told.returncode == 0, told.stderr
        titles = [f"overall, {n} new tokens at most" for n in limits.split(",")]
        assert len(titles) == 1 or all(title in told.stdout for title in titles)
        found[limits] = json.loads(out.read_text(encoding="utf-8"))
    twice, alone = found["8,24"], found["8"]
    assert (twice["settings"]["max_new_tokens"], twice["settings"]["shorter"]) == (24, [8])
    counted = [
        [row["tokens"] for row in rows if row["method"] == "autoregressive"]
        for rows in (twice["shorter"]["8"], alone["rows"])
    ]
    assert counted[0] == counted[1]
    del alone["settings"]["shorter"]
    out.write_text(json.dumps(alone), encoding="utf-8")
    again = ouroboros(*asked, "--max-new-tokens", "8", "--resume")
    assert again.returncode == 0 and "nothing is measured again" in again.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(
    ouroboros: Ask, folders: tuple[str, str], tmp_path: Path
) -> None:
    path, out, other = write_prompts(tmp_path / "p.jsonl", 12), tmp_path / "a.json", tmp_path / "b"
    methods_ = "speculative[gamma=3],lookahead[window_size=4]"
    asked = options(folders, *words(f"--prompts {path} --methods {methods_} --json {out}"))
    # A shell that put us in the background made us ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with running([sys.executable, "-m", "ouroboros_core", *asked]) as process:
        signal.signal(signal.SIGINT, before)
        for _ in range(2400):
            if out.exists() or process.poll() is not None:
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    done = len(json.loads(out.read_text(encoding="utf-8"))["units"])
    assert 0 < done < 12
    assert f"stopped after {done} of 12 questions" in stderr
    assert "speculative" in stdout
    fewer = ouroboros(*asked, "--limit", "7", "--resume")
    assert "was measured with questions 12, not 7" in fewer.stderr
    refused = ouroboros(*asked)
    assert (refused.returncode, "add --resume" in refused.stderr) == (2, True)
    resumed = ouroboros(*asked, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert f"continuing after {done} of 12 questions" in resumed.stderr
    assert ouroboros(*asked[:-1], str(other)).returncode == 0
    assert facts(out) == facts(other)


def test_without_a_draft_the_methods_that_need_none_run(
    ouroboros: Ask, folders: tuple[str, str], tmp_path: Path
) -> None:
    path, out = write_prompts(tmp_path / "p.jsonl"), tmp_path / "a.json"
    more = words(f"--prompts {path} --limit 2 --draft none --json {out}")
    result = ouroboros(*options(folders, *more))
    assert result.returncode == 0, result.stderr
    data = json.loads(out.read_text(encoding="utf-8"))
    there = {Need.SELF_DRAFT, Need.GENERATE, Need.EARLY_EXIT}
    kinds = methods.available().values()
    able = {m.id for m in kinds if methods.needed(m, m.Hyperparameters()) <= there}
    assert {row["method"] for row in data["rows"]} == able
    assert {run["question"] for run in data["runs"]} == {0, 1}, "one of each of two groups"


@pytest.mark.slow
@pytest.mark.parametrize("alphabet", ["ACGT-NRYKMSW", "ACDEFGHIKLMNPQRSTVWY.-XBZUO<>?*"])
def test_a_vocabulary_of_a_few_letters_runs_with_every_method_that_needs_no_training(
    ouroboros: Ask, tmp_path: Path, alphabet: str
) -> None:
    """DNA and proteins. The oracle is transformers' greedy generation; of a few letters there are
    fewer than `top_k`, than the columns of a tree and than the rows of a timed pass."""
    pair = [save(tmp_path / name, alphabet=alphabet, eos_token_id=None) for name in ("t", "d")]
    text, corpus, out = (str(tmp_path / name) for name in ("text.txt", "corpus.npz", "a.json"))
    prompt = "GATTACACATTAG"
    Path(text).write_text(prompt * 20, encoding="utf-8")
    built = ouroboros("sam", "build", text, "--target", pair[0], "--out", corpus)
    assert built.returncode == 0, built.stderr
    (tmp_path / "p.jsonl").write_text(json.dumps({"turns": [prompt]}), encoding="utf-8")
    more = ("--prompts", str(tmp_path / "p.jsonl"), "--corpus", corpus, "--max-new-tokens", "9")
    result = ouroboros(*options((pair[0], pair[1]), *more, "--peers", "hf-greedy", "--json", out))
    assert result.returncode == 0, result.stderr
    rows = {row["method"]: row for row in json.loads(Path(out).read_text("utf-8"))["rows"]}
    trained = {"eagle2", "eagle3", "mtp", "medusa", "glide", "parallel_spec", "dspark"}
    trained |= {"hf_candidates", "hf_mtp", "hf_dflash"}
    assert rows.keys() == {*methods.available(), "hf-greedy"} - trained
    assert {row["tokens"] for row in rows.values()} == {9}
    assert {rows[name]["differences"] for name in rows if name != "draft_only"} == {0}
    sampled = ("--temperature", "1.2", "--top-k", "50", "--max-new-tokens", "9")
    told = ("--target", pair[0], "--draft", pair[1], "--raw", "--prompt", prompt, *sampled)
    result = ouroboros("generate", *told, "--method", "multi_candidate", "--compare")
    assert result.returncode == 0 and "identical to plain decoding" in result.stderr, result


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--methods telepathy", "method must be one of"),
        ("--peers hf-magic", "peers must be among hf-greedy, hf-assisted, hf-prompt-lookup, llama"),
        ("--prompts nowhere.jsonl", "there is no file nowhere.jsonl"),
        ("--resume", "--resume continues with the results in a file: name it with --json"),
        ("--json no/such/folder.json", "the folder of no/such/folder.json does not exist: make it"),
        ("--max-new-tokens 8,x", "max_new_tokens must be a whole number of at least 1, got x"),
        ("--draft none --methods speculative", "speculative needs a draft model"),
        ("--draft none --methods ngram --peers hf-assisted", "hf-assisted needs a draft model"),
    ],
)
def test_bad_input_is_refused_before_anything_runs(
    ouroboros: Ask, folders: tuple[str, str], arguments: str, message: str
) -> None:
    result = ouroboros(*options(folders, *words(arguments)))
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.embedded
def test_peers_write_what_transformers_writes_and_count_its_passes(
    embedded_pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oracle counts by itself: a wrapper around the model's forward."""
    ids = torch.tensor([embedded_pair.encode("Name three birds.", chat=True)])
    model = embedded_pair.target.model
    config = model.generation_config
    rows: list[int] = []
    forward = model.forward

    def counted(*positional: Any, **named: Any) -> Any:
        rows.append(named["input_ids"].shape[1])
        return forward(*positional, **named)

    given = {"attention_mask": torch.ones_like(ids), "do_sample": False, "max_new_tokens": 16}
    with monkeypatch.context() as patch:
        patch.setattr(model, "forward", counted)
        expected = model.generate(ids, **given, prompt_lookup_num_tokens=3)
    # As some checkpoints come: not what greedy means here.
    monkeypatch.setattr(config, "repetition_penalty", 1.5)
    field = peers.peers(["hf-prompt-lookup"], embedded_pair, Sampling())
    peer = next(one for one in field if one.setting == "num_tokens=3")
    outcome = peer.run(Request("Name three birds.", 16))
    assert (model.generation_config, config.repetition_penalty) == (config, 1.5)
    assert outcome.tokens == tuple(expected[0, ids.shape[1] :].tolist())
    total = outcome.total
    assert (total.passes, total.rows) == (len(rows), sum(rows) - ids.shape[1] + 1)
    assert total.seconds.prefill > 0
    assert total.seconds.verify > 0
    assert replace(total.seconds, host=0) != Seconds()


def test_transformers_own_sampling_has_a_seed_for_each_prompt(pair: Pair) -> None:
    without_history(pair)
    (peer,) = peers.peers(["hf-greedy"], pair, Sampling(temperature=1.0, seed=3))
    texts, seeds = [], []
    for prompt in ("the cat", "the mat", "the cat"):
        texts.append(peer.run(Request(prompt, 8)).tokens)
        seeds.append(torch.initial_seed())
    assert (texts[0], seeds[0]) == (texts[2], seeds[2])
    assert seeds[0] != seeds[1]
