"""A run of a checkpoint with generation settings of its own, compared with transformers'
`generate`."""

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from ouroboros_core import methods
from ouroboros_core.benchmark import doctor as checkup
from ouroboros_core.decoding.generation import Generation, Task, target_of
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Execution, Pair, Placement, load_pair
from ouroboros_core.models.processed import ProcessedModel
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.equality import divergence
from ouroboros_core.trace.file import read_run, read_trace
from tests.commands import Ask, words
from tests.folders import save
from visualize.run import view as views

PROMPT = "the cat sat on the mat. the cat"
LENGTH = 24
METHODS = ("autoregressive", "speculative", "union", "graph", "token_recycling")
NEUTRAL = {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.8, "max_length": 20}


@cache
def plain_text(folder: Path) -> list[int]:
    """Return the text of the checkpoint without its own settings."""
    return generated(folder, {})


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Passes of tiny models are slower with several, which wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("own")
    for role, seed in (("target", 0), ("draft", 1)):
        save(made / role, seed=seed, eos_token_id=[3, 4])
    return made


def write(folder: Path, settings: dict[str, Any]) -> None:
    own = {"eos_token_id": [3, 4], **settings}
    (folder / "target" / "generation_config.json").write_text(json.dumps(own), encoding="utf-8")


def generated(folder: Path, settings: dict[str, Any]) -> list[int]:
    """The oracle: transformers' greedy text of the saved checkpoint."""
    write(folder, settings)
    name = str(folder / "target")
    model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float64)
    ids = AutoTokenizer.from_pretrained(name)(PROMPT, return_tensors="pt").input_ids
    mask, options = torch.ones_like(ids), {"do_sample": False, "pad_token_id": 0}
    output = model.generate(ids, attention_mask=mask, max_new_tokens=LENGTH, **options)
    tokens: list[int] = output[0, ids.shape[1] :].tolist()
    return tokens


def loaded(folder: Path, settings: dict[str, Any]) -> Pair:
    write(folder, settings)
    names = str(folder / "target"), str(folder / "draft")
    return load_pair(
        *names, placement=Placement("cpu", "float64"), execution=Execution(checks=False)
    )


def task(method: str, **more: Any) -> Task:
    kind = methods.get(method)
    return Task(PROMPT, method, kind.Hyperparameters(), max_new_tokens=LENGTH, chat=False, **more)


def settings_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Settings that each change the text: which tokens they name depends on what the checkpoint
    writes without them."""
    text = plain_text(folder)
    first, later, pair = text[0], text[3], [text[1], text[2]]
    return {
        "repetition_penalty": {"repetition_penalty": 1.5},
        "small_penalty": {"repetition_penalty": 1.05},
        "suppress_tokens": {"suppress_tokens": [later]},
        "no_repeat_ngram_size": {"no_repeat_ngram_size": 2},
        "bad_words_ids": {"bad_words_ids": [pair, [later]]},
        "begin_suppress_tokens": {"begin_suppress_tokens": [first]},
        "sequence_bias": {"sequence_bias": [[pair, -20.0], [[40], 1.5]]},
        "forced_eos_token_id": {"forced_eos_token_id": 3},
        "exponential_decay": {"exponential_decay_length_penalty": [4, 3.0]},
        "watermark": {"watermarking_config": {"greenlist_ratio": 0.4, "bias": 4.0}},
        "min_new_tokens": {"eos_token_id": [later], "min_new_tokens": 9},
        "min_length": {"eos_token_id": [later], "min_length": 22},
    }


NAMES = (
    *words("repetition_penalty small_penalty suppress_tokens no_repeat_ngram_size bad_words_ids"),
    *words("begin_suppress_tokens sequence_bias forced_eos_token_id exponential_decay watermark"),
    *words("min_new_tokens min_length"),
)


@pytest.mark.parametrize("name", [*NAMES, "all"])
def test_a_checkpoints_own_settings_hold_as_generate_applies_them(folder: Path, name: str) -> None:
    every = settings_of(folder)
    assert tuple(every) == NAMES
    together = [one for one in NAMES if one not in ("small_penalty", "forced_eos_token_id")]
    chosen = together if name == "all" else [name]
    settings = {key: value for one in chosen for key, value in every[one].items()}
    oracle = generated(folder, settings)
    without = {key: settings[key] for key in settings if key == "eos_token_id"}
    plain = generated(folder, without) if without else plain_text(folder)
    assert name == "small_penalty" or oracle != plain
    pair = loaded(folder, settings | NEUTRAL)
    assert pair.generation_config.keys() == settings.keys() - {"eos_token_id"}
    for method in METHODS:
        trace = Generation(pair, task(method)).run()
        assert list(trace.tokens) == oracle, method
        assert trace.generation_config == pair.generation_config
    off = Generation(pair, task("union", generation_config=False)).run()
    assert (list(off.tokens), off.generation_config) == (plain, {})


def test_without_such_settings_the_models_are_asked_as_they_are(folder: Path) -> None:
    pair = loaded(folder, NEUTRAL)
    generation = Generation(pair, task("speculative"))
    assert pair.generation_config == {}
    assert generation.model is generation.target is pair.target
    assert list(generation.run().tokens) == plain_text(folder)


@pytest.mark.parametrize(
    "more",
    [{"do_sample": True, "num_return_sequences": 2}, {"num_beams": 2, "num_return_sequences": 2}],
    ids=["sampled", "beams"],
)
def test_settings_that_need_others_beside_them_do_not_end_a_run(
    folder: Path, more: dict[str, Any]
) -> None:
    """Each is wrong alone, and none of them changes a greedy text; the penalty does."""
    penalty = {"repetition_penalty": 1.7}
    expected = generated(folder, penalty)
    pair = loaded(folder, penalty | more)
    assert pair.generation_config == penalty
    assert list(Generation(pair, task("speculative")).run().tokens) == expected


def test_a_draft_guesses_under_the_settings_too(folder: Path) -> None:
    """The same model drafts: all of its guesses are accepted, with a penalty as without."""
    write(folder, {"repetition_penalty": 1.4})
    name = str(folder / "target")
    pair = load_pair(
        name, name, placement=Placement("cpu", "float64"), execution=Execution(checks=False)
    )
    settings = methods.get("speculative").Hyperparameters.parse({"gamma": 4})
    steps = Generation(pair, replace(task("speculative"), hyperparameters=settings)).run().steps
    assert steps and all(step.kind != "correction" for step in steps)


@pytest.mark.parametrize("acceptance", ["match", "rejection", "block"])
def test_sampled_text_obeys_them(folder: Path, acceptance: str) -> None:
    """An identity: a banned token is never drawn, and matched text is plain sampling's."""
    banned = sorted(set(plain_text(folder)))[:6]
    pair = loaded(folder, {"suppress_tokens": banned})
    for seed in range(3):
        sampling = Sampling(temperature=1.2, seed=seed, acceptance=acceptance)
        asked = replace(task("speculative"), sampling=sampling)
        tokens = Generation(pair, asked).run().tokens
        assert not set(banned) & set(tokens)
        if acceptance == "match":
            assert tokens == Generation(pair, asked.plain()).run().tokens


def test_a_text_is_judged_under_the_rules_it_was_written_under(folder: Path) -> None:
    pair = loaded(folder, {"repetition_penalty": 1.5})
    asked = task("speculative")
    trace, baseline = (Generation(pair, one).run() for one in (asked, asked.plain()))
    assert trace.generation_config == baseline.generation_config == {"repetition_penalty": 1.5}
    judge = target_of(pair, trace)
    assert isinstance(judge, ProcessedModel)
    assert divergence(judge, trace, baseline) is None
    off = Generation(pair, task("autoregressive", generation_config=False)).run()
    assert target_of(pair, off) is pair.target
    apart = divergence(judge, off, baseline)
    assert apart is not None and not apart.tie, "the penalty is part of the scores"


def test_a_trace_keeps_the_settings_and_an_old_one_has_none(folder: Path) -> None:
    """A round trip, and a trace of a program that had no such field."""
    pair = loaded(folder, {"suppress_tokens": list(range(50)), "no_repeat_ngram_size": 3})
    asked = task("union")
    trace, plain = (Generation(pair, one).run() for one in (asked, asked.plain()))
    assert trace.generation_config == {"suppress_tokens": "50 entries", "no_repeat_ngram_size": 3}
    assert read_run(trace.to_json(plain)) == (trace, plain)
    costs = pair.costs.target
    assert [*trace.costs.items()] == [*zip(costs.rows, costs.seconds, strict=True)] != []
    data = json.loads(trace.to_json())
    del data["generation_config"]
    assert read_trace(json.dumps(data)) == replace(trace, generation_config={})
    others = trace.to_json(replace(plain, generation_config={}))
    with pytest.raises(InvalidInput, match="with the same generation_config"):
        read_run(others)
    words = "under its generation_config.json: no_repeat_ngram_size 3, suppress_tokens 50 entries"
    assert sorted(views.title(trace)[-len(words) :]) == sorted(words)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"guidance_scale": 1.5}, "scores of UnbatchedClassifierFreeGuidanceLogitsProcessor"),
        ({"bad_words_ids": [[100_000]]}, "generation_config.json of target cannot be applied"),
    ],
)
def test_settings_that_cannot_be_applied_are_refused_with_the_switch(
    folder: Path, settings: dict[str, Any], message: str
) -> None:
    pair = loaded(folder, settings)
    with pytest.raises(InvalidInput, match=message) as refusal:
        Generation(pair, task("autoregressive"))
    assert "--no-generation-config" in str(refusal.value)
    assert Generation(pair, task("autoregressive", generation_config=False)).run().tokens


def test_the_command_line_says_and_switches_off_what_a_checkpoint_asks_for(
    folder: Path, tmp_path: Path, ouroboros: Ask
) -> None:
    oracle, file = generated(folder, {"repetition_penalty": 1.5}), tmp_path / "t.json"
    pair = f"--target {folder / 'target'} --draft none --dtype float64 --passes transformers"
    run = f"--raw --method prompt_lookup --max-new-tokens {LENGTH} --compare --repeats 1"
    command = ["generate", *words(f"{pair} {run} --json {file}"), "--prompt", PROMPT]
    told = ouroboros(*command)
    assert "under its generation_config.json: repetition_penalty 1.5" in told.stderr
    assert "identical to plain decoding" in told.stderr
    assert list(read_trace(file.read_text(encoding="utf-8")).tokens) == oracle
    told = ouroboros(*command, "--no-generation-config")
    assert told.returncode == 0 and "generation_config" not in told.stderr
    assert list(read_trace(file.read_text(encoding="utf-8")).tokens) == plain_text(folder)


def test_benchmarks_leave_them_out_for_methods_and_peers_alike_and_say_so(
    folder: Path, tmp_path: Path, ouroboros: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts of our methods, of transformers' own decoding and of a sweep are those without a
    penalty; what the checkpoint asks for is named."""
    write(folder, {"repetition_penalty": 1.5})
    question = {"question_id": 1, "category": "own", "turns": [PROMPT]}
    (tmp_path / "one.jsonl").write_text(json.dumps(question), encoding="utf-8")
    pair = f"--target {folder / 'target'} --draft none --dtype float64 --passes transformers"
    asked = f"{pair} --prompts {tmp_path / 'one.jsonl'} --max-new-tokens {LENGTH} --repeats 1"
    out = tmp_path / "out.json"
    entrants = "--methods prompt_lookup --peers hf-greedy,hf-prompt-lookup"
    told = ouroboros(*words(f"bench {entrants} {asked} --json {out}"))
    sentence = "generation_config.json of target (repetition_penalty 1.5) is left out"
    assert told.returncode == 0 and sentence in " ".join(told.stderr.split())
    rows = json.loads(out.read_text(encoding="utf-8"))["rows"]
    assert {row["method"] for row in rows} >= {"hf-greedy", "hf-prompt-lookup", "prompt_lookup"}
    assert all(row["differences"] == 0 for row in rows)
    tasks: list[Task] = []
    begin = Generation.__init__

    def noting(self: Generation, pair: Pair, task: Task, memory: Any = None) -> None:
        tasks.append(task)
        begin(self, pair, task, memory)

    monkeypatch.setattr(Generation, "__init__", noting)
    told = ouroboros(*words(f"sweep --method prompt_lookup --grid num_tokens=2,3 {asked}"))
    assert tasks and not any(task.generation_config for task in tasks)
    assert told.returncode == 0 and sentence in " ".join(told.stderr.split())


def test_settings_for_other_searches_are_named_as_not_applied(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = loaded(folder, {"num_beams": 4, "stop_strings": ["w3"], "repetition_penalty": 1.5})
    assert "num_beams 4, stop_strings ['w3'] is not applied here" in caplog.text
    facts = {finding.name: finding.fact for finding in checkup.models(pair)}
    assert facts["not applied"] == "num_beams 4, stop_strings ['w3']"
    assert Generation(pair, task("union")).run().tokens


def test_doctor_names_them(folder: Path) -> None:
    pair = loaded(folder, {"repetition_penalty": 1.5, "suppress_tokens": [7, 8]})
    facts = {finding.name: finding.fact for finding in checkup.models(pair)}
    assert facts["its generation_config.json"] == "repetition_penalty 1.5, suppress_tokens [7, 8]"
    plain = loaded(folder, NEUTRAL)
    assert "its generation_config.json" not in {one.name for one in checkup.models(plain)}
    assert checkup.compared(pair, checkup.run_raw(pair, PROMPT, "autoregressive", 12), "union", "")
