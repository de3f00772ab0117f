"""Loading pairs: local folders, what does not fit, what is damaged; and the embedded weights on
their way into the cache."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
import transformers

from ouroboros_core import methods
from ouroboros_core.cli import main
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import (
    InvalidInput,
    OuroborosError,
    UnsupportedModel,
    VocabularyMismatch,
    WeightsUnavailable,
)
from ouroboros_core.loading import capacity, embedded, weights
from ouroboros_core.loading.machine import available_threads
from ouroboros_core.loading.pairs import (
    Execution,
    Pair,
    Placement,
    fingerprint,
    load_pair,
    with_draft,
)
from ouroboros_core.trace.trace import Trace
from tests import tiny
from tests.commands import words
from tests.folders import save, tokenizer

LOCAL: dict[str, Any] = {"placement": Placement("cpu", "float32")}


def check_text(pair: Pair, method: str, oracle: Pair | None = None, **settings: Any) -> Trace:
    """Run a method; the oracle of its text is plain decoding, by the target of `oracle`."""
    kind = methods.get(method)
    chosen = kind.Hyperparameters.parse(settings)
    task = Task("the cat sat on", method, chosen, max_new_tokens=8, chat=False)
    trace = Generation(pair, task).run()
    model, text = (oracle or pair).target.model, trace.prompt.tokens
    assert list(trace.tokens) == tiny.plain(model, text, 8, stop=pair.stop_tokens)
    return trace


def test_a_pair_of_local_folders_is_loaded_and_runs(tmp_path: Path) -> None:
    target, draft = save(tmp_path / "target"), save(tmp_path / "draft", seed=1)
    for device_map in (None, "auto"):
        pair = load_pair(target, draft, placement=Placement("cpu", "float32", device_map))
        assert (pair.target.name, pair.draft and pair.draft.name) == ("target", "draft")
        assert pair.stop_tokens == {3, 4}
        assert (pair.environment.device, pair.environment.dtype) == ("cpu", "float32")
        assert pair.fingerprint == fingerprint(tokenizer("bytes"))
        check_text(pair, "speculative")
        with pytest.raises(InvalidInput, match="target has no chat template: send the prompt raw"):
            pair.encode("Hi", chat=True)
    assert load_pair(target, **LOCAL).draft is None, "a target of one's own has no draft"
    assert load_pair(target, "none", **LOCAL).draft is None
    assert load_pair(target, **LOCAL).environment.passes == "compact"
    asked_for = load_pair(target, **LOCAL, execution=Execution("transformers"))
    assert asked_for.environment.passes == "transformers"


@pytest.mark.parametrize("how", ["asked for", "found not to fit"])
def test_a_target_with_a_layer_elsewhere_writes_the_same(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By accelerate; where there is one device, the other place is the disk. The target is spread
    where a device map says so, or where the device is left open and it does not fit. Oracle: plain
    decoding by the whole model."""
    target, draft = save(tmp_path / "target"), save(tmp_path / "draft", seed=1)
    parts = ("model.embed_tokens", "model.layers.0", "model.norm", "model.rotary_emb", "lm_head")
    places: Any = {**dict.fromkeys(parts, "cpu"), "model.layers.1": "disk"}
    monkeypatch.setattr(weights, "spread", lambda *_: places)
    device = "auto" if how == "found not to fit" else "cpu"
    device_map = places if how == "asked for" else None
    pair = load_pair(target, draft, placement=Placement(device, "float32", device_map=device_map))
    assert pair.target.model.model.layers[1].mlp.up_proj.weight.is_meta, "its weights are not here"
    check_text(pair, "speculative", oracle=load_pair(target, **LOCAL))


@pytest.mark.parametrize(("free", "device_map"), [(10**6, "auto"), (10**12, None), (None, None)])
def test_a_target_is_spread_where_it_does_not_fit_on_a_gpu(
    free: int | None, device_map: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The GPU's memory is told; None: there is no GPU."""
    monkeypatch.setattr(weights, "free_memory", lambda _: free)
    source = {"pretrained_model_name_or_path": save(tmp_path / "target")}
    device = torch.device("cpu" if free is None else "cuda")
    kind = transformers.AutoModelForCausalLM
    assert weights.spread(source, kind, torch.float32, device) == device_map


@pytest.mark.skipif(
    sys.platform != "linux", reason="malloc_trim is glibc's, which PyTorch's wheels for Linux need"
)
def test_a_reset_gives_memory_back_to_the_system(tmp_path: Path) -> None:
    """The system's own count of what the process has: pieces under one that is still in use are
    given back, too."""
    pair = load_pair(save(tmp_path / "target"), placement=Placement("cpu", "float32"))
    process = psutil.Process()
    pieces = [bytearray(50_000) for _ in range(2000)]
    above = bytearray(50_000)
    full = process.memory_info().rss
    pieces.clear()
    pair.reset()
    assert full - process.memory_info().rss > 0.7 * 2000 * len(above)


@pytest.mark.embedded
def test_another_local_pair_runs_by_the_same_command_and_is_tuned_for_itself(
    embedded_pair: Pair, tmp_path: Path
) -> None:
    target = save(tmp_path / "target", family="qwen2", num_hidden_layers=4)
    draft = save(tmp_path / "draft", seed=1, family="qwen2", num_hidden_layers=1)
    command = f"bench --target {target} --draft {draft} --methods speculative,ouroboros,union"
    sizes = f"--dtype float32 --limit 2 --max-new-tokens 12 --json {tmp_path / 'out.json'}"
    assert main(words(f"{command} {sizes}")) == 0
    result = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert result["environment"]["passes"] == "compact", "Qwen2 is of the family"
    assert all(row["differences"] == 0 for row in result["rows"])
    mine, theirs = (
        load_pair(target, draft, placement=Placement(dtype="float32")).costs,
        embedded_pair.costs,
    )
    assert mine.target.of(1) < theirs.target.of(1)
    assert mine.draft is not None and theirs.draft is not None
    assert mine.draft.of(1) / mine.target.of(1) != theirs.draft.of(1) / theirs.target.of(1)


@pytest.mark.parametrize(
    ("files", "threads"),
    [
        ({}, None),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.max": "100000 100000\n"}, 1),
        ({"cpu.max": "50000 100000\n"}, 1),
        ({"cpu.max": "99900000 100000\n"}, None),
        ({"cpu/cpu.cfs_quota_us": "100000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    ],
)
def test_threads_are_those_of_the_containers_limit(
    files: dict[str, str], threads: int | None, tmp_path: Path
) -> None:
    """None: as many as there are processors."""
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert available_threads(tmp_path) == (threads or available_threads(tmp_path / "nothing"))


def test_quantizing_needs_a_gpu_and_weights_that_are_not_quantized_yet(tmp_path: Path) -> None:
    message = "quantize 4bit needs an NVIDIA GPU, the device is cpu: leave it out"
    with pytest.raises(InvalidInput, match=message):
        load_pair(save(tmp_path / "target"), placement=Placement("cpu", quantize="4bit"))
    (tmp_path / "model.gguf").touch()
    message = r"model\.gguf is a GGUF file, which is quantized already"
    with pytest.raises(InvalidInput, match=message):
        load_pair(str(tmp_path / "model.gguf"), placement=Placement("cpu", quantize="8bit"))


def test_a_draft_of_another_size_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    target, small = save(tmp_path / "target"), Path(save(tmp_path / "small", vocab_size=31))
    for file in small.glob("tokenizer*"):
        file.unlink()
    for draft, message in (
        (small, r"has 31 tokens, target target has .* Pairs that fit"),
        (embedded.draft_folder(), "was made for a target with hidden_size 576, this one has 32"),
    ):
        with pytest.raises(VocabularyMismatch, match=message):
            load_pair(target, str(draft), **LOCAL)


def test_a_draft_with_another_tokenizer_drafts_by_translation_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`generate` and `chat` of the command line go the same way by themselves."""
    target, other = save(tmp_path / "target"), save(tmp_path / "other", "metaspace", seed=1)
    pair = load_pair(target, other, **LOCAL)
    assert (pair.draft, pair.draft_name) == (None, "other")
    assert with_draft(pair, "other") is pair
    assert with_draft(pair, "none").foreign_draft is None
    assert check_text(pair, "hf_universal").draft == "other"
    refused = r"needs a draft model that shares .* but other has \d+ tokens, target target has .*"
    with pytest.raises(InvalidInput, match=refused + r"differ at '.*choose hf_universal, which"):
        check_text(pair, "speculative")
    asked = words(f"--target {target} --draft {other} --dtype float32 --raw --max-new-tokens 8")
    assert main(["generate", *asked, "--prompt", "the cat sat on"]) == 0
    said = capsys.readouterr()
    assert "hf_universal translates" in said.err
    monkeypatch.setattr("sys.stdin", io.StringIO("the cat sat on\n"))
    assert main(["chat", *asked]) == 0
    told = capsys.readouterr()
    assert "hf_universal translates" in told.err and said.out in told.out


QUICK_READERS = ("llava", "gemma4")


@pytest.mark.parametrize(
    "architecture",
    [
        *QUICK_READERS,
        *(pytest.param(n, marks=pytest.mark.slow) for n in tiny.READERS if n not in QUICK_READERS),
    ],
)
def test_a_folder_of_a_model_of_pictures_and_text_writes_its_text(
    architecture: str, tmp_path: Path
) -> None:
    """Also where it is no causal language model to transformers, or its layers differ; the oracle
    is its own `generate`. Its keys and values take what is foreseen of them."""
    model = tiny.reader(architecture)
    letters = tiny.letters(tiny.LETTERS + "56789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[: tiny.READING - 31])
    model.save_pretrained(tmp_path)
    letters.save_pretrained(tmp_path)
    pair = load_pair(str(tmp_path), str(tmp_path), **LOCAL)
    text = "".join(tiny.LETTERS[token] for token in tiny.prompt())
    settings = methods.get("speculative").Hyperparameters.parse({"gamma": 3})
    task = Task(text, "speculative", settings, max_new_tokens=24, chat=False)
    trace = Generation(pair, task).run()
    ids = torch.tensor([trace.prompt.tokens])
    options: dict[str, Any] = {"do_sample": False, "pad_token_id": 0, "max_new_tokens": 24}
    expected = model.generate(ids, attention_mask=torch.ones_like(ids), **options)
    assert list(trace.tokens) == expected[0, ids.shape[1] :].tolist()
    assert len(trace.steps) == 6, "the draft is the target itself"
    room = pair.target.cache.capacity
    assert capacity.cache_bytes(pair.target, room) == pair.target.cache.bytes


def test_what_cannot_be_loaded_says_why(tmp_path: Path) -> None:
    words = transformers.T5Config(d_model=32, num_layers=1, num_heads=2, d_ff=32, vocab_size=40)
    words.save_pretrained(tmp_path / "two")
    with pytest.raises(UnsupportedModel, match=r"two is a model of the type t5, .* Gemma$"):
        load_pair(str(tmp_path / "two"), placement=Placement("cpu"))
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(UnsupportedModel, match="empty is not a causal language model"):
        load_pair(str(empty), placement=Placement("cpu"))
    damaged = Path(save(tmp_path / "damaged"))
    (damaged / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(WeightsUnavailable, match="damaged could not be loaded"):
        load_pair(str(damaged), placement=Placement("cpu"))
    with pytest.raises(InvalidInput, match=r"there is no model folder or GGUF file \./nowhere"):
        load_pair("./nowhere", placement=Placement("cpu"))
    for long in ("0" * 5000, "a/" + "b" * 5000):  # no file can have that name
        for part in ("target", "draft", "corpus"):
            named: dict[str, Any] = {part: long}
            with pytest.raises(OuroborosError):
                load_pair(**named, placement=Placement("cpu"))
    unknown = Path(save(tmp_path / "unknown"))
    (unknown / "config.json").write_text(json.dumps({"model_type": "oracle"}), encoding="utf-8")
    with pytest.raises((UnsupportedModel, WeightsUnavailable), match="oracle") as told:
        load_pair(str(unknown), placement=Placement("cpu"))
    assert len(str(told.value)) < 300, "a sentence, no list of what there is"


def test_code_out_of_a_model_folder_is_never_run(tmp_path: Path) -> None:
    folder = Path(save(tmp_path / "code"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    classes = {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}
    config |= {"model_type": "mine", "auto_map": classes}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')", encoding="utf-8")
    with pytest.raises((UnsupportedModel, WeightsUnavailable)):
        load_pair(str(folder), placement=Placement("cpu"))
    assert not (tmp_path / "ran").exists()


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    folder = Path(save(tmp_path / "pickled"))
    state = transformers.AutoModelForCausalLM.from_pretrained(folder).state_dict()
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    with pytest.raises(WeightsUnavailable):
        load_pair(str(folder), placement=Placement("cpu"))
