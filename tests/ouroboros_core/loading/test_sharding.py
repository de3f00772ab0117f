"""Targets over several devices and several processes. Oracle: plain decoding by the whole model in
this process."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading import sharding, weights
from ouroboros_core.loading.pairs import Placement, load_pair
from ouroboros_core.loading.weights import load_model
from ouroboros_core.models.engines.native import build
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.file import read_trace
from tests import tiny
from tests.commands import Ask, finished
from tests.folders import save

COUNT = 24
PROMPT = "the cat sat on the mat. the cat"


def whole(folder: str) -> Any:
    """The model in one piece."""
    return load_model(folder, torch.float32, torch.device("cpu"), None).eval()


@pytest.mark.slow
def test_two_processes_that_share_a_target_write_its_text_and_one_of_them_speaks(
    tmp_path: Path,
) -> None:
    """`union` sizes its trees by what passes cost, which both processes have to time alike, and
    what is sampled both have to sample alike."""
    target, draft = save(tmp_path / "target"), save(tmp_path / "draft", seed=1)
    start = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = ["-m", "ouroboros_core", "generate", "--device-map", "tp", "--device", "cpu"]
    command += ["--target", target, "--draft", draft, "--dtype", "float32", "--raw"]
    command += ["--method", "union", "--temperature", "0.8", "--seed", "3"]
    command += ["--max-new-tokens", str(COUNT), "--prompt", PROMPT]
    done = finished(
        [*start, *command, "--json", str(tmp_path / "trace.json")],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), build.SWITCH: "0"},
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    trace = read_trace((tmp_path / "trace.json").read_bytes())
    sampling = Sampling(temperature=0.8, seed=3)
    tokens, stops = trace.prompt.tokens, frozenset({3, 4})
    assert list(trace.tokens) == tiny.plain(whole(target), tokens, COUNT, sampling, stops)
    assert trace.environment.device == "cpu x 2"
    assert done.stdout == trace.text + "\n", "the other process is silent"


@pytest.mark.parametrize("how", ["asked for", "found not to fit"])
def test_a_target_with_a_layer_elsewhere_writes_the_same(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By accelerate; where there is one device, the other place is the disk. It is spread where a
    device map says so, or where the device is left open and it does not fit."""
    target, draft = save(tmp_path / "target"), save(tmp_path / "draft", seed=1)
    parts = ("model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb", "lm_head")
    places: Any = {**dict.fromkeys(parts, "cpu"), "model.layers.1": "disk"}
    monkeypatch.setattr(weights, "spread", lambda *_: places)
    device = "auto" if how == "found not to fit" else "cpu"
    device_map = places if how == "asked for" else None
    pair = load_pair(target, draft, placement=Placement(device, "float32", device_map=device_map))
    assert pair.target.model.model.layers[1].mlp.up_proj.weight.is_meta, "its weights are not here"
    kind = methods.get("speculative")
    task = Task(PROMPT, kind.id, kind.Hyperparameters(), max_new_tokens=COUNT, chat=False)
    trace = Generation(pair, task).run()
    plain = tiny.plain(whole(target), trace.prompt.tokens, COUNT, stop=pair.stop_tokens)
    assert list(trace.tokens) == plain


@pytest.mark.parametrize(("free", "device_map"), [(10**6, "auto"), (10**12, None), (None, None)])
def test_a_target_is_spread_where_it_does_not_fit_on_a_gpu(
    free: int | None, device_map: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU's memory is told; None: there is no GPU."""
    monkeypatch.setattr(sharding, "free_memory", lambda _: free)
    source = {"pretrained_model_name_or_path": save(tmp_path / "target")}
    device = torch.device("cpu" if free is None else "cuda")
    kind = transformers.AutoModelForCausalLM
    assert sharding.spread(source, kind, torch.float32, device) == device_map


def test_processes_share_what_they_can_and_say_what_they_cannot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    split = Placement("cpu", device_map="tp")
    named: dict[str, Any] = {"target": "some/model", "placement": split}
    with pytest.raises(InvalidInput, match="needs at least 2 processes, got 1: start them"):
        load_pair(**named)
    monkeypatch.setenv("WORLD_SIZE", "2")
    for given, message in (
        ({"placement": split}, "the embedded one is small: name one with --target"),
        (named | {"head": "some/head"}, "leave --head out"),
        (
            named | {"placement": replace(split, quantize="4bit")},
            "weights in safetensors, not quantised",
        ),
    ):
        with pytest.raises(InvalidInput, match=message):
            load_pair(**given)


def test_a_command_that_shares_out_prompts_does_not_share_a_target(ouroboros: Ask) -> None:
    said = ouroboros("bench", "--target", "some/model", "--device-map", "tp")
    assert said.returncode == 2
    assert "is for generate, whose processes all run one prompt, got" in said.stderr
