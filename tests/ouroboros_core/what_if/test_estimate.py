"""Prices of runs on other machines: small cases by hand, the recorded runs, and the presets."""

import json
import math
import re
from dataclasses import replace
from statistics import median

import pytest

from ouroboros_core.errors import InvalidInput
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Seconds, Step
from ouroboros_core.tree import Provenance, chain
from ouroboros_core.what_if import machines
from ouroboros_core.what_if.estimate import (
    Machine,
    ModelSize,
    Roofline,
    by_head,
    price,
    sized,
    skipping,
    work_of,
)
from tests.commands import Ask, words
from tests.ouroboros_core.what_if import recorded
from tests.traces import make_trace
from visualize.gallery import runs as gallery

# A pass reads 2000 bytes in 2 s, and multiplies 2000 operations a row: 0.5 s at most 4 rows.
TARGET = ModelSize("target", 1000, 10, 1, 1)
DRAFT = ModelSize("draft", 100, 1, 1, 1)
MACHINE = Machine("m", bandwidth=1000, flops=4000, layer_seconds=0.01, pass_seconds=0.1)
DRAFTED = Provenance(Source.DRAFT, step=0)


def two_steps(width: int) -> list[Step]:
    """Two drafted tokens, the first accepted, then one rejected."""
    first = Seconds(prefill=9, draft=9, verify=9, learn=0.25, host=0.5)
    return [
        Step(0, chain(2, [10, 11], DRAFTED), (1,), 12, width, first, draft_passes=2),
        Step(1, chain(12, [20], DRAFTED), (), 21, width, Seconds(draft=9), draft_passes=1),
    ]


def test_a_run_bound_by_bandwidth_costs_its_bytes_and_its_fixed_parts() -> None:
    trace = make_trace(two_steps(3))
    prompt = len(trace.prompt.tokens)
    priced = price(trace, Roofline(MACHINE, TARGET), Roofline(MACHINE, DRAFT))
    # KV: 2 x layers x heads x size x 2 bytes = 40 bytes a token of the target, 4 of the draft.
    fixed, small = 10 * 0.01 + 0.1, 0.01 + 0.1
    first, second = priced.steps
    assert first.target == pytest.approx((2000 + 40 * prompt) / 1000 + fixed)
    assert first.draft == pytest.approx(2 * ((200 + 4 * prompt) / 1000 + small))
    assert (first.host, second.host) == (0.75, 0)
    assert second.target == pytest.approx((2000 + 40 * (prompt + 2)) / 1000 + fixed)
    plain = sum((2000 + 40 * (prompt + n)) / 1000 + fixed for n in range(3))
    assert priced.plain_decode_seconds == pytest.approx(plain)
    assert priced.decode_speedup == pytest.approx(plain / priced.decode_seconds)


def test_a_run_bound_by_computing_costs_its_rows() -> None:
    trace = make_trace(two_steps(30))
    bare = replace(MACHINE, layer_seconds=0, pass_seconds=0)
    priced = price(trace, Roofline(bare, TARGET), Roofline(bare, DRAFT), batch=2)
    assert [step.target for step in priced.steps] == [2 * 1000 * 30 * 2 / 4000] * 2
    prompt = len(trace.prompt.tokens)
    reading, computing = 2000 / 1000, 2 * 1000 * prompt * 2 / 4000
    assert priced.plain_prefill == max(reading, computing)
    small = max(200 / 1000, 2 * 100 * prompt * 2 / 4000)
    assert priced.prefill == pytest.approx(priced.plain_prefill + small)


def test_the_draft_reads_what_it_has_not_read_and_what_it_drafted_on_from() -> None:
    steps = [
        Step(0, chain(2, [10, 11], DRAFTED), (1, 2), 12, 3, Seconds(), draft_passes=2),
        Step(1, chain(12, [20], DRAFTED), (1,), 21, 2, Seconds(), draft_passes=1),
        Step(2, chain(21, [], DRAFTED), (), 22, 1, Seconds()),
    ]
    # Root, then 10; all accepted, so 11 and 12 are new; then nothing is drafted.
    assert [one.draft_rows for one in work_of(make_trace(steps))] == [1, 2, 0]
    recorded = [replace(step, draft_rows=7 * step.draft_passes) for step in steps]
    assert [one.draft_rows for one in work_of(make_trace(recorded))] == [7, 7, 0]


@pytest.mark.parametrize("name", ["java-ouroboros", "river-sam", "sleep-eagle3"])
def test_a_larger_batch_is_never_faster_for_a_text_nor_slower_for_all(name: str) -> None:
    trace, machine, batches = gallery.trace(name), machines.machine("a100"), (1, 2, 4, 8, 16, 64)
    found = [machines.quote(trace, machine, "llama-3-8b", batch=n).priced for n in batches]
    seconds = [priced.seconds for priced in found]
    assert seconds == sorted(seconds) and seconds[0] < seconds[-1]
    together = [priced.tokens_per_second for priced in found]
    assert together == sorted(together)
    assert found[-1].speedup < found[0].speedup


def test_a_run_with_nothing_to_draft_costs_its_passes_and_its_host_alone() -> None:
    quoted = machines.quote(gallery.trace("river-prompt_lookup"), machines.machine("h100"), "own")
    assert quoted.draft is None
    assert all(step.draft == 0 and step.host > 0 for step in quoted.priced.steps)


def test_a_head_is_a_layer_of_the_target_and_a_target_that_skips_layers_is_part_of_it() -> None:
    h100, size = machines.machine("h100"), machines.model("llama-3-8b")
    head = machines.quote(gallery.trace("sleep-eagle3"), h100, "llama-3-8b").draft
    layer = (size.parameters - size.output_parameters) / 32
    assert head is not None and head.parameters == pytest.approx(layer + size.output_parameters)
    part = machines.quote(gallery.trace("fibonacci-draft_verify"), h100, "llama-3-8b").draft
    # Of 30 layers of SmolLM2 8 attentions and 4 MLPs are skipped; these are 884,736 and 2,654,208.
    share = 1 - (8 * 884_736 + 4 * 2_654_208) / (30 * 3_538_944)
    body = size.parameters - size.output_parameters
    assert part is not None
    assert part.parameters == pytest.approx(body * share + size.output_parameters)


def test_a_run_whose_amounts_were_auto_says_so() -> None:
    assert "auto" in sized(gallery.trace("stack-union"))
    assert sized(gallery.trace("java-speculative")) == ""


BILLIONS = {
    **{"llama-3-70b": 70.554, "llama-3-8b": 8.030, "llama-3.2-1b": 1.236, "qwen2.5-7b": 7.616},
    **{"qwen2.5-0.5b": 0.494, "llama-2-7b": 6.738, "vicuna-13b": 13.016, "smollm2-135m": 0.1345},
}


@pytest.mark.parametrize("name", BILLIONS)
def test_a_model_has_as_many_parameters_as_its_card_says(name: str) -> None:
    total = machines.sheets().models[name].total
    assert total == pytest.approx(BILLIONS[name] * 1e9, rel=1e-3)


def test_every_number_of_a_machine_has_a_source() -> None:
    sheets = machines.sheets()
    for sheet in sheets.machines.values():
        assert {"bandwidth", "flops"} <= set(sheet.numbers)
        for number in sheet.numbers.values():
            document, address = sheets.sources[number.source]
            assert address.startswith("https://") or "at commit " in document
    assert all(model.source[0] for model in sheets.models.values())


def test_the_cpu_has_the_numbers_that_the_runs_recorded_on_it_give() -> None:
    cpu = machines.machine(recorded.FITTED)
    assert (cpu.bandwidth, cpu.flops) == pytest.approx(recorded.fit(), rel=0.05)


def test_the_h200_is_what_the_passes_measured_there_say() -> None:
    """Milliseconds of a pass over one row, docs/gpu.md."""
    there = machines.machine("h200")
    for name, measured in {"llama-3-8b": 6.62, "llama-3.2-1b": 2.30, "smollm2-135m": 2.74}.items():
        modelled = Roofline(there, machines.model(name)).of(1, 100, 1)
        assert 1000 * modelled == pytest.approx(measured, rel=0.02)


def test_two_numbers_of_a_processor_tell_the_seconds_of_its_runs_roughly() -> None:
    """The larger of reading and computing is too little where both take long, a head's part of the
    output matrix is counted whole, and drawing tokens at random is not in it at all.
    docs/what-if.md has the errors."""
    there = "Intel(R) Xeon(R) Processor (amx_bf16)"
    runs = map(gallery.trace, recorded.names())
    there_run = (run for run in runs if run.environment.processor == there)
    errors = [error for error in map(recorded.error, there_run) if error is not None]
    assert len(errors) > 20 and median(map(abs, errors)) < 0.2
    assert all(-0.6 < error < 0.4 for error in errors)


H100 = machines.machine("h100")


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda t: machines.machine("h10"), "there is no machine 'h10'; there are xeon, laptop"),
        (lambda t: machines.model("x"), "there is no model 'x'"),
        (lambda t: machines.edited(H100, {"bandwidth": math.nan}), "bandwidth of H100: .*got nan"),
        (lambda t: machines.quote(t, H100, "llama-3-8b", batch=65), "batch must be between 1 and "),
        (lambda t: machines.quote(t, H100, "llama-3.2-1b"), "choose a draft"),
        (lambda t: machines.quote(replace(t, steps=()), H100, "own"), "no steps"),
    ],
)
def test_what_cannot_be_priced_is_refused_with_what_can(act, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInput, match=message):
        act(gallery.trace("java-speculative"))


def test_the_command_prints_what_the_library_says(ouroboros: Ask) -> None:
    numbers = ["bandwidth=1e12", "host=2", "target.layers=40", "draft.kv_number_bytes=1"]
    changed = " ".join(f"--set {one}" for one in numbers)
    command = f"what-if assets/traces/java-ouroboros.json --machine a100 --batch 4 {changed}"
    told = ouroboros(*words(f"{command} --json"))
    assert told.returncode == 0, told.stderr
    machine = replace(machines.machine("a100"), bandwidth=1e12, host=2)
    target = replace(machines.model("llama-3-70b"), layers=40)
    draft = replace(machines.model("llama-3-8b"), kv_number_bytes=1)
    trace = gallery.trace("java-ouroboros")
    quoted = machines.quote_sizes(trace, machine, target, draft, 4)
    host = sum(one.host for one in work_of(trace))
    found = json.loads(told.stdout)
    assert found["seconds"]["host"] == pytest.approx(2 * host)
    assert found["target"] == vars(target) and found["draft"] == vars(draft)
    assert found["modelled"] is True
    assert found["speedup"] == pytest.approx(quoted.priced.speedup)
    assert found["seconds"]["all"] == pytest.approx(sum(found["seconds"].values()) / 2)


def test_the_printed_speedup_names_the_pair_whose_acceptance_it_assumes(ouroboros: Ask) -> None:
    """The oracle is the trace's own models; the run is priced for others."""
    command = "what-if assets/traces/java-ouroboros.json --machine rtx-4090 --target qwen2.5-7b"
    trace, printed = gallery.trace("java-ouroboros"), ouroboros(*words(command)).stdout
    assert "times as fast, at the acceptance of the recorded pair." in printed
    assert f"is assumed, not measured: {trace.target} with {trace.draft}." in printed


@pytest.mark.parametrize(
    ("name", "numbers", "message"),
    [
        ("java-ouroboros", "bandwidth", "--set takes NAME=NUMBER"),
        ("java-ouroboros", "other.layers=3", "before the dot stands machine, target or draft"),
        ("java-ouroboros", "draft.layers=0", "layers of Llama-3 8B: .* got 0"),
        ("river-prompt_lookup", "draft.layers=3", "nothing drafts in this run"),
        ("java-ouroboros --target llama-3.2-1b", "draft.layers=3", "choose one with --draft"),
    ],
)
def test_a_number_that_cannot_be_set_is_refused(
    ouroboros: Ask, name: str, numbers: str, message: str
) -> None:
    run, *more = name.split()
    answer = ouroboros("what-if", f"assets/traces/{run}.json", *more, "--set", numbers)
    assert answer.returncode and re.search(message, " ".join(answer.stderr.split()))


@pytest.mark.parametrize(
    ("method", "draft", "head", "layers"),
    [
        ("speculative", "tiny", False, False),
        ("eagle3", "tiny-eagle3", True, False),
        ("eagle2", "tiny-eagle", True, False),
        ("medusa", "tiny-medusa", True, False),
        ("union", "tiny-eagle3", True, False),
        ("union", "tiny-eagle", True, False),
        ("union", "tiny", False, False),
        ("union", None, False, False),
        ("sam", "tiny-eagle3", True, False),
        ("draft_verify", "tiny, part of its layers", False, True),
    ],
)
def test_what_drafted_follows_from_the_method_and_the_name_of_its_draft(
    method: str, draft: str | None, head: bool, layers: bool
) -> None:
    run = replace(gallery.trace("java-speculative"), method=method, draft=draft)
    assert (by_head(run), skipping(run)) == (head, layers)
