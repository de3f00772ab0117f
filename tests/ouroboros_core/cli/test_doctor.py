"""`ouroboros doctor` says what there is and finds what is broken; its script for a GPU runs without
one."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from ouroboros_core.benchmark import doctor as checkup
from ouroboros_core.benchmark import peers
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading import check, embedded, pairs
from ouroboros_core.loading.drafts import ForeignDraft
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.models.engines.native import build, decoder, pages
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.equality import Divergence
from tests import tiny
from tests.commands import Ask


def facts(ouroboros: Ask) -> dict[str, Any]:
    said = ouroboros("doctor", "--facts", "--json")
    return {one["name"]: one for one in json.loads(said.stdout)}


def test_the_facts_need_no_models(ouroboros: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "load_pair", lambda *_, **__: pytest.fail("it loads a pair"))
    said = ouroboros("doctor", "--facts")
    assert said.returncode == 0, said.stdout
    for section in ("machine", "packages", "passes", "weights"):
        assert f"\n{section}\n" in said.stdout
    assert "0 things broken" in said.stdout


def test_what_is_gone_is_broken_with_its_remedy(
    ouroboros: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embedded, "head_folder", lambda: tmp_path / "none")
    monkeypatch.setattr(checkup, "PACKAGES", ("torch", "no-such-package"))
    found = facts(ouroboros)
    head = found["EAGLE-3 head"]
    assert (head["state"], head["reason"]) == ("broken", "it is gone")
    assert found["no-such-package"]["remedy"] == "pip install no-such-package"
    said = ouroboros("doctor", "--facts")
    assert said.returncode == 1 and "2 things broken" in said.stdout
    assert "✗ EAGLE-3 head" in said.stdout and "→ install the wheel again" in said.stdout


def test_why_the_native_pass_is_not_used_is_said(
    ouroboros: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "library", lambda: None)
    monkeypatch.setattr(build, "compilers", list)
    monkeypatch.setattr(build, "cache_folder", lambda: tmp_path)
    found = facts(ouroboros)["native"]
    assert found["state"] == "note" and "there is no C++ compiler" in found["reason"]
    monkeypatch.setenv(build.SWITCH, "0")
    found = facts(ouroboros)["native"]
    assert found["reason"] == "OUROBOROS_NATIVE is 0" and found["remedy"].startswith("unset")


def test_large_pages_that_are_refused_are_noted_with_the_remedy(
    ouroboros: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What Linux's file says is the oracle; elsewhere there is none."""
    monkeypatch.setattr(checkup, "_why_not_native", lambda _: None)
    monkeypatch.setattr(pages, "ENABLED", tmp_path / "enabled")
    for said, state, fact in (
        (None, "ok", "ordinary pages"),
        ("always madvise [never]", "note", "ordinary pages"),
        ("always [madvise] never", "ok", "large pages"),
    ):
        if said is not None:
            pages.ENABLED.write_text(said, encoding="utf-8")
        found = facts(ouroboros)["native"]
        assert found["state"] == state and found["fact"].endswith(fact)
        assert ("madvise" in found["remedy"]) == (state == "note")


def test_what_the_native_pass_does_not_compute_is_not_laid_to_the_compiler(
    ouroboros: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its dtypes, the processor's, and torch's threads, each with a reason of its own."""

    def said(dtype: str) -> tuple[str, str]:
        flags = "--facts", "--json", "--device", "cpu", "--dtype", dtype
        found = {one["name"]: one for one in json.loads(ouroboros("doctor", *flags).stdout)}
        return found["native"]["reason"], found["native"]["remedy"]

    monkeypatch.setattr(build, "missing", lambda: "")
    why, remedy = said("float16")
    assert why == "it does not compute in float16" and "--dtype float32" in remedy
    monkeypatch.setattr(decoder, "available", lambda dtype: dtype == torch.float32)
    why, remedy = said("bfloat16")
    assert why == "this processor does not multiply bfloat16" and "--dtype float32" in remedy
    monkeypatch.setattr(decoder, "available", lambda _: False)
    for dtype in ("bfloat16", "float32"):
        why, remedy = said(dtype)
        assert "OpenMP" in why and not remedy


def test_a_draft_with_another_tokenizer_is_there_for_those_that_can_use_it() -> None:
    """Neither the doctor nor the peers say that there is none."""
    target = tiny.pair("llama")[0]
    foreign = ForeignDraft(target.model, "small", tiny.letters(), "has 47 tokens, the target 40")
    pair = Pair(target, None, tiny.letters(), frozenset(), foreign_draft=foreign)
    found = {one.name: one for one in checkup.models(pair)}
    assert found["draft"].fact.startswith("small")
    assert "has 47 tokens" in found["draft"].reason and "hf_universal" in found["draft"].reason
    with pytest.raises(InvalidInput, match=r"small has 47 tokens, .* name another .* hf_universal"):
        peers.peers(["hf-assisted"], pair, Sampling())


def test_plain_text_is_written_once_for_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[tuple[str, str]] = []

    def run(_: Any, prompt: str, method: str, __: int) -> str:
        written.append((prompt, method))
        return prompt

    def equal(_: Any, plain: str, method: str, name: str) -> checkup.Finding:
        return checkup.Finding("exactness", name, "ok", f"{method} {plain}")

    monkeypatch.setattr(checkup, "run_raw", run)
    monkeypatch.setattr(checkup, "compared", equal)
    nobody: Any = None
    found = list(checkup.exactness(nobody, ["a", "b"], 8, ["union", "speculative"]))
    assert [one.fact for one in found] == ["2 of 2 texts equal plain decoding's"] * 2
    assert written == [("a", "autoregressive"), ("b", "autoregressive")]


def test_few_threads_are_noted(ouroboros: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "available_threads", lambda: 64)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    found = facts(ouroboros)["threads"]
    assert (found["state"], found["reason"]) == ("note", "OMP_NUM_THREADS is 1")
    monkeypatch.delenv("OMP_NUM_THREADS")
    found = facts(ouroboros)["threads"]
    assert found["reason"].startswith("torch computes with")
    assert found["remedy"].startswith("set OMP_NUM_THREADS to 64")


def test_a_target_that_is_not_there_is_a_finding(ouroboros: Ask) -> None:
    said = ouroboros("doctor", "--target", "/no/such/folder", "--json")
    found = json.loads(said.stdout)[-1]
    assert said.returncode == 1 and "no model folder" in found["reason"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--facts", "--gpu"], "leave one of them out"),
        (["--quick"], "give both"),
        (["--gpu"], "--device cpu` tries the script"),
    ],
)
def test_flags_that_make_no_sense_are_refused(
    ouroboros: Ask, monkeypatch: pytest.MonkeyPatch, flags: list[str], message: str
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    said = ouroboros("doctor", *flags)
    assert said.returncode == 2 and message in said.stderr


@pytest.mark.embedded
@pytest.mark.slow
def test_the_self_test_passes_here_and_finds_other_text_and_other_rows(
    ouroboros: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkup, "TEST_TOKENS", 8)
    said = ouroboros("doctor", "--dtype", "float32")
    assert said.returncode == 0 and said.stdout.count("equal to plain decoding") == 3, said.stdout
    assert "1: " in said.stdout and "compared to the bit" in said.stdout
    monkeypatch.setattr(check, "invariant", lambda _: False)
    other = Divergence(3, 7, 9, 4.0, 500.0, "float32")
    monkeypatch.setattr(checkup, "divergence", lambda *_: other)
    said = ouroboros("doctor", "--dtype", "float32", "--json")
    broken = [one for one in json.loads(said.stdout) if one["state"] == "broken"]
    assert said.returncode == 1
    assert [one["name"] for one in broken] == ["text 1", "text 2", "text 3", "rows"]
    assert "more than rounding explains" in broken[0]["reason"]


@pytest.mark.embedded
@pytest.mark.slow
def test_the_script_for_a_gpu_runs_without_one_and_reports_in_markdown(ouroboros: Ask) -> None:
    said = ouroboros("doctor", "--gpu", "--device", "cpu", "--quick", "--dtype", "float32")
    assert said.returncode == 0, said.stdout
    for section in ("exactness", "costs", "speed", "memory", "zerogpu"):
        assert f"\n## {section}\n" in said.stdout
    assert "* ✓ union: 2 of 2 texts equal plain decoding's" in said.stdout
    assert "hf-greedy" in said.stdout and "tokens/s" in said.stdout
