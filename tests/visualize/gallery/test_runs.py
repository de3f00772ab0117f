"""The recorded runs: texts that do not loop, speedups that can be, and which is shown for what."""

import re
from collections import Counter
from dataclasses import replace
from statistics import median
from typing import Any

import pytest

from ouroboros_core.locations import assets
from ouroboros_core.messages import table
from ouroboros_core.sources import LOOKS, Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.trace import Step, Trace
from scripts import record
from visualize.gallery import runs as gallery
from visualize.run.strip import strip
from visualize.watch.examples import EXAMPLES
from visualize.watch.inputs import CARDS
from visualize.watch.tab import RECORDED

RUNS = sorted(gallery.runs())
METHODS = [name for name in RUNS if gallery.runs()[name]["method"] != gallery.PLAIN]
LOOPS = 0.2
"""Share of 4-grams that stood in the text before, above which it is said to loop."""
CODER = {"Qwen/Qwen2.5-Coder-1.5B-Instruct", "Qwen/Qwen2.5-Coder-0.5B-Instruct"}


def repeated(run: Trace) -> float:
    """Share of a text's 4-grams of tokens that stood in it before."""
    tokens = run.tokens
    grams = [tokens[n : n + 4] for n in range(len(tokens) - 3)]
    return 1 - len(set(grams)) / len(grams)


def beyond(name: str, speedup: float) -> bool:
    """Whether no saved passes can explain a speedup: without a draft model or head, a step is never
    cheaper than a plain one."""
    run = gallery.trace(name)
    return run.draft is None and speedup > 1.05 * metrics.mean_acceptance_length(run)


def test_all_that_is_planned_is_recorded_and_nothing_else() -> None:
    files = {file.stem for file in (assets() / "traces").glob("*.json")}
    assert files == {*gallery.runs(), "gallery", "measured"}
    missing = {*gallery.plan()["runs"]} - files
    first, *_ = gallery.plan()["grid"]["prompts"]
    grid = {name for name, of in gallery.plan()["runs"].items() if of["prompt"] == first}
    assert missing in (set(), grid), "the comparison is recorded whole"
    assert set(gallery.measured()) == set(METHODS)


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_run_is_what_the_plan_says(name: str) -> None:
    assert not record.stale(name)


@pytest.mark.parametrize("name", METHODS)
def test_beside_another_run_of_its_prompt_a_runs_seconds_fit_its_speedup(name: str) -> None:
    """The oracle is the card's speedup, the median of rounds that alternated."""
    plain = gallery.trace(f"{gallery.runs()[name]['prompt']}-autoregressive")
    found = metrics.speedup(gallery.paced(name), plain)
    told = gallery.speedup(name)
    assert found is not None and told is not None
    assert found == pytest.approx(told.median, rel=0.02)


@pytest.mark.parametrize("name", RUNS)
def test_no_recorded_text_loops(name: str) -> None:
    run = gallery.trace(name)
    assert repeated(run) <= LOOPS
    assert metrics.loop_start(run.tokens) is None, "its end only repeats itself"


def test_a_text_that_loops_would_be_seen() -> None:
    """Such as `private int maxSizeMaxMax`."""
    plain = gallery.trace("java-autoregressive")
    start = plain.steps[:8]
    loops = replace(plain, steps=start * 8, texts=plain.texts[:8] * 8)
    assert repeated(loops) > 0.8 > LOOPS > repeated(plain)


@pytest.mark.parametrize("name", METHODS)
def test_every_speedup_is_the_median_of_three_and_one_that_can_be(name: str) -> None:
    found = gallery.speedups(name)
    run, plain = gallery.trace(name), gallery.baseline(name)
    assert plain is not None and len(found) >= 3
    assert metrics.speedup(run, plain) == pytest.approx(median(found), abs=1e-3)
    assert gallery.facts(name)["speedup"] == pytest.approx(median(found), abs=1e-3)
    assert not any(beyond(name, speedup) for speedup in found)
    assert metrics.busy(run, plain) is None, "measured on a busy machine"


def test_an_impossible_speedup_would_be_seen() -> None:
    name = "river-prompt_lookup"
    length = metrics.mean_acceptance_length(gallery.trace(name))
    assert beyond(name, 1.06 * length) and not beyond(name, 1.04 * length)


@pytest.mark.parametrize("name", [name for name in METHODS if f"gallery.{name}" in table()])
def test_a_card_says_speed_spread_and_models(name: str) -> None:
    entry = next(entry for entry in gallery.entries() if entry["name"] == name)
    found = gallery.speedups(name)
    shown = f"{median(found):.2f}× plain decoding ({found[0]:.2f}–{found[-1]:.2f})"
    assert entry["numbers"].endswith(shown)
    run = gallery.trace(name)
    if run.target in CODER:
        assert f"--target {run.target}" in entry["pair"] and "--draft" in entry["pair"]
        assert "4-bit" in entry["pair"], "its weights are not those of the repository"
    else:
        assert "embedded" in entry["pair"]
    tile = gallery.view(name)["tiles"][gallery.SPEEDUP]
    note, spread = tile["note"], tile["spread"]
    assert spread == f"({found[0]:.2f}–{found[-1]:.2f}), {len(found)} rounds"
    assert note.endswith(f"{found[0]:.2f}× to {found[-1]:.2f}×.")


@pytest.mark.parametrize("name", ["java-ouroboros", "stack-union", "java-autoregressive"])
def test_the_strip_of_a_card_has_as_many_tokens_of_each_source_as_the_trace(name: str) -> None:
    runs = [run for _, run in strip(gallery.trace(name))["steps"]]
    looks = [*LOOKS]
    shown: Counter[str] = Counter()
    for letter, count in re.findall(r"([a-z])(\d+)", "".join(runs)):
        shown[looks[ord(letter) - 97]] += int(count)
    told = Counter(
        source.value if source is not Source.TARGET or step.kind is None else step.kind
        for step in gallery.trace(name).steps
        for source in (
            *(step.tree.provenance[node].source for node in step.path),
            *([] if step.target_token is None else [step.writer]),
        )
    )
    assert shown == told


def test_at_least_six_runs_are_of_the_real_pair_and_name_it_as_the_hub_does() -> None:
    real = [name for name in RUNS if gallery.trace(name).target in CODER]
    assert len(real) >= 6
    java = (gallery.PLAIN, "speculative", "ouroboros", "union")
    assert {f"java-{method}" for method in java} <= {*real}
    for name in RUNS:
        run = gallery.trace(name)
        assert run.target in CODER or "/" not in run.target, "a Hub id, or the embedded model"
        if run.target in CODER and run.draft is not None:
            assert run.draft in CODER, "not the folder it was loaded from"


def test_in_the_java_run_of_ouroboros_all_three_colours_occur() -> None:
    run = gallery.trace("java-ouroboros")
    assert {source.value for source in metrics.token_sources(run)} == {"draft", "suffix", "target"}
    assert any(step.kind == "correction" for step in run.steps)


def test_the_traces_are_small() -> None:
    sizes = [file.stat().st_size for file in (assets() / "traces").glob("*.json")]
    assert sum(sizes) < 4_700_000
    assert max(sizes) < 250_000


def test_the_examples_are_prompts_that_were_recorded_and_read() -> None:
    """With the embedded pair and the chat template; so what they lead to was seen. That of one
    method is run by `tests/visualize/watch/test_examples.py`."""
    known = {
        prompt["text"]
        for prompt in gallery.plan()["prompts"].values()
        if "pair" not in prompt and prompt.get("chat", True)
    }
    assert all(example.chat for example in EXAMPLES)
    assert all(example.prompt in known for example in EXAMPLES if not example.method)


def paced(trace: Trace, factor: float) -> Trace:
    def slowed(step: Step) -> Step:
        return replace(step, seconds=replace(step.seconds, verify=factor * step.seconds.verify))

    return replace(trace, steps=tuple(slowed(step) for step in trace.steps))


def unseen(step: Step) -> Step:
    return replace(step, judged=())


def test_a_round_on_a_busy_machine_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round whose plain passes are 15% slower than the fastest ones is measured again; a machine
    that stays busy is refused."""
    name = "fibonacci-speculative"
    plain, run = gallery.baseline(name), gallery.trace(name)
    assert plain is not None
    row = median(step.seconds.verify for step in plain.steps)
    paces: list[float] = []

    def recorded(pair: Any, facts: Any, *, observed: bool = True) -> Trace:
        if facts["method"] == gallery.PLAIN:
            return paced(plain, paces.pop(0))
        slower = paced(run, 1.01)
        return run if observed else replace(slower, steps=tuple(map(unseen, slower.steps)))

    class Nothing:
        def __init__(self, *_: Any) -> None:
            pass

        def run(self) -> None:
            pass

    monkeypatch.setattr(record, "record", recorded)
    monkeypatch.setattr(record, "Generation", Nothing)
    pair: Any = None
    paces[:] = [1.0, 1.3, 1.05, 1.2, 1.08]
    facts = gallery.runs()[name]
    repeats = record.repeats(pair, facts)
    rounds, seen = repeats.rounds, repeats.trace
    timed = rounds[1].traces[record.METHOD]
    assert [step.seconds for step in seen.steps] == [step.seconds for step in timed.steps]
    assert [step.judged for step in seen.steps] == [step.judged for step in run.steps]
    with pytest.raises(RuntimeError, match="the steps of equal runs differ"):
        record.timed_as(seen, replace(timed, steps=timed.steps[:-1]))
    paces_of = [record.plain_pass(turn) / row for turn in rounds]
    assert paces_of == pytest.approx([1.0, 1.05, 1.08])
    speedups = [turn.speedup(record.METHOD) for turn in rounds]
    assert speedups == sorted(speedups)
    paces[:] = [1.0, *[1.3] * record.ROUNDS]
    with pytest.raises(RuntimeError, match="the machine is busy"):
        record.repeats(pair, facts)


def test_a_prompt_and_a_method_have_one_recorded_run_that_began_cold_and_greedy() -> None:
    heap = gallery.trace("java-union").prompt.text
    assert gallery.of_prompt(heap, "ouroboros") == "java-ouroboros", "the warm run knew phrases"
    assert gallery.of_prompt(heap, "eagle3") is None
    gravity = gallery.trace("sampled-match").prompt.text
    assert gallery.of_prompt(gravity, "speculative") is None, "its only run is sampled"
    for prompt, names in gallery.methods_by_prompt().items():
        traces = [gallery.trace(str(gallery.of_prompt(prompt, name))) for name in names]
        assert {trace.prompt.text for trace in traces} == {prompt}
        assert [trace.method for trace in traces] == names
        assert len({trace.target for trace in traces}) == 1, "one model for each prompt"


def test_the_cards_of_watch_are_recordings_of_one_prompt() -> None:
    recorded = gallery.methods_by_prompt()[gallery.trace(RECORDED).prompt.text]
    assert {card["id"] for card in CARDS} <= set(recorded)
