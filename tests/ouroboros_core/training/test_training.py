"""Training as a person starts it: the commands, on a tiny target with a real tokenizer."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from ouroboros_core import cli, methods
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput, UnsupportedModel, VocabularyMismatch
from ouroboros_core.loading.pairs import Placement, load_pair
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.models.heads import class_in
from ouroboros_core.models.heads.recipes import (
    EAGLE,
    EAGLE3,
    MTP,
    RECIPES,
    Recipe,
    choose_layers,
)
from ouroboros_core.sources import Source
from ouroboros_core.training.corpus import Conversations, join, plain_texts
from ouroboros_core.training.draft import make_student
from ouroboros_core.training.folder import joined_note
from ouroboros_core.training.loop import learning_rate, output_vocabulary, spent
from ouroboros_core.training.session import make_student as begin
from ouroboros_core.training.student import Columns, soft_cross_entropy
from ouroboros_core.tree import Provenance, TreeBuilder
from tests import ROOT, tiny
from tests.commands import finished
from tests.folders import save

pytestmark = pytest.mark.slow

TEMPLATE = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny Llama with a chat template, whose layers and logits matter: its weights are larger
    than a fresh model's."""
    folder = tmp_path_factory.mktemp("models") / "target"
    save(folder, initializer_range=0.15)
    words = transformers.AutoTokenizer.from_pretrained(folder)
    words.chat_template = TEMPLATE
    words.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def written(target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Conversations that the tiny target wrote, by the real command."""
    out = tmp_path_factory.mktemp("data") / "written"
    assert train(f"data --target {target} --out {out} --tokens 4000 --answer-tokens 24") == 0
    return out


def train(command: str, *more: str) -> int:
    """Run the command `train` with words that are separated by spaces, and `more` as it is."""
    here = () if command.startswith("export") else ("--device", "cpu", "--dtype", "float32")
    return cli.main(["train", *command.split(), *more, *here])


def common(kind: str, target: str, data: Path, out: Path) -> str:
    """A short training of a kind."""
    return f"{kind} --target {target} --data {data} --out {out} {COMMON}"


def weights(folder: Path) -> dict[str, torch.Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    return {name: weight for file in files for name, weight in load_file(file).items()}


def curve(folder: Path) -> list[dict[str, Any]]:
    """The curve of a finished training."""
    record = json.loads((folder / "training.json").read_text(encoding="utf-8"))
    points: list[dict[str, Any]] = record["curve"]
    return points


METHOD = {
    "draft": "speculative",
    "eagle": "eagle2",
    "eagle3": "eagle3",
    "mtp": "mtp",
    "medusa": "medusa",
    "glide": "glide",
    "parallel": "parallel_spec",
    "dspark": "dspark",
}
"""The drafter of each kind of trained weights."""

COMMON = "--tokens 3000 --batch-tokens 512 --outputs 24 --held-out 8 --seed 3"


def test_the_target_writes_conversations_and_goes_on_where_it_stopped(
    target: str, written: Path, tmp_path: Path
) -> None:
    files = sorted(written.glob("*.npz"))
    data = Conversations.load(files)
    assert data.written.sum() >= 4000
    lengths = data.offsets[1:] - data.offsets[:-1] - data.answer_start
    assert lengths.min() > 1 and lengths.max() <= 24
    stops = {3, 4}
    for n in range(len(data)):
        answer = data.tokens[data.offsets[n] + data.answer_start[n] : data.offsets[n + 1]].tolist()
        assert not stops & set(answer[:-1])
    few = f"data --target {target} --answer-tokens 64 --kinds free,summary,reading --out"
    assert train(f"{few} {tmp_path / 'whole'} --tokens 30000") == 0
    parts = sorted((tmp_path / "whole").glob("*.npz"))
    kinds = {file.stem.split("-")[1] for file in parts}
    assert "free" in kinds and kinds & {"summary", "reading"}
    here = f"{few} {(out := tmp_path / 'again')}"
    assert train(f"{here} --tokens 1") == 0
    assert len(list(out.glob("*.npz"))) == 1
    assert train(f"{here} --tokens 16000 --resume") == 0
    assert train(f"{here} --tokens 30000") == 2
    assert train(f"{here} --tokens 30000 --resume") == 0
    assert Conversations.load(sorted(out.glob("*.npz"))).digest == Conversations.load(parts).digest


def test_a_greedy_answer_is_the_one_that_transformers_writes(target: str) -> None:
    from ouroboros_core.training.writer import GREEDY, Writer

    model = transformers.AutoModelForCausalLM.from_pretrained(target, dtype=torch.float64)
    words = transformers.AutoTokenizer.from_pretrained(target)
    rng = random.Random(0)
    prompts = [[rng.randrange(5, len(words)) for _ in range(n)] for n in (3, 9, 1, 14, 6, 6, 2)]
    expected = [tiny.plain(model, p, 20, stop=frozenset({3, 4})) for p in prompts]
    assert Writer(model, words).write(prompts, 20, GREEDY, torch.Generator()) == expected
    assert len({len(e) for e in expected}) > 1, "some must end early"


def test_articles_and_sentences_are_taken_from_the_texts_that_are_given(
    target: str, tmp_path: Path
) -> None:
    book, foreign, out = tmp_path / "book.txt", tmp_path / "german.txt", tmp_path / "out"
    paragraphs = [f"the cat number {n} sat on the mat. it was late" for n in range(20)]
    book.write_text("\n\n".join(paragraphs), encoding="utf-8")
    foreign.write_text("Grüße von der Katze\n\nDie Matte ist nass", encoding="utf-8")
    texts = f"--passages {book} --foreign German={foreign} --kinds summary,reading,translation"
    sizes = "--tokens 9000 --answer-tokens 8"
    assert train(f"data --target {target} --out {out} {sizes} {texts}") == 0
    words = transformers.AutoTokenizer.from_pretrained(target)
    kinds = set()
    for file in sorted(out.glob("*.npz")):
        data, kind = Conversations.load([file]), file.stem.split("-")[1]
        kinds.add(kind)
        for n in range(len(data)):
            start = data.offsets[n]
            prompt = words.decode(data.tokens[start : start + data.answer_start[n]])
            if kind == "translation":
                assert any(text in prompt for text in ("Grüße von der Katze", "Die Matte ist nass"))
                assert "to English: " in prompt
            else:
                used = [p for p in paragraphs if p in prompt]
                assert 1 <= len(used) <= 3, "neighbouring paragraphs of the book"
                assert paragraphs.index(used[-1]) - paragraphs.index(used[0]) == len(used) - 1
    assert kinds == {"summary", "reading", "translation"}


@pytest.mark.parametrize("kind", METHOD)
def test_training_goes_from_nothing_to_something_that_drafts(
    kind: str,
    target: str,
    written: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The card and the record say what was done; the loss falls; the result decodes exactly, and is
    accepted at times."""
    monkeypatch.setattr("ouroboros_core.training.loop.CHECKPOINT_STEPS", 10)
    out = tmp_path / "made"
    assert train(f"{common(kind, target, written, out)} --tokens 12000") == 0
    assert "held-out agreement" in capsys.readouterr().out
    text = (out / "training.json").read_text(encoding="utf-8")
    record = json.loads(text)
    assert record["kind"] == kind and record["recipe"]["seed"] == 3
    assert curve(out)[-1]["tokens"] >= 12000
    assert curve(out)[-1]["loss"] < curve(out)[0]["loss"]
    card = (out / "README.md").read_text(encoding="utf-8")
    parts = ("24 output tokens", "held-out", "seed 3", "| tokens |", f"train {kind}")
    assert all(part in card for part in parts)
    assert str(tmp_path) not in card + text, "no path of a machine"
    named: dict[str, Any] = {"draft" if kind == "draft" else "head": str(out)}
    pair = load_pair(target, **named, placement=Placement("cpu", "float32"))
    method = methods.get(METHOD[kind])
    settings = method.Hyperparameters(**method.Hyperparameters.fixed())
    task = Task("what is a dog", method.id, settings, max_new_tokens=60, chat=False)
    trace = Generation(pair, task).run()
    model, prompt = pair.target.model, trace.prompt.tokens
    assert list(trace.tokens) == tiny.plain(model, prompt, 60, stop=pair.stop_tokens)
    assert any(step.path for step in trace.steps)
    drafted = {step.tree.tokens[n] for step in trace.steps for n in range(1, len(step.tree))}
    assert drafted <= set(weights(out)["outputs"].tolist())
    assert trace.draft == "made"


@pytest.mark.parametrize("kind", METHOD)
def test_an_interrupted_training_ends_with_the_weights_of_an_unbroken_one(
    kind: str, target: str, written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ouroboros_core.training.loop.CHECKPOINT_STEPS", 4)
    assert train(common(kind, target, written, tmp_path / "whole")) == 0
    broken = common(kind, target, written, tmp_path / "broken")
    asked = iter((False, True))
    monkeypatch.setattr("ouroboros_core.cli.train._stopper", lambda _: lambda: next(asked, False))
    assert train(broken) == 0
    part = weights(tmp_path / "broken")
    assert train(broken) == 2, "without --resume an old checkpoint is not overwritten"
    assert train(f"{broken} --resume") == 0
    whole, resumed = weights(tmp_path / "whole"), weights(tmp_path / "broken")
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert any(not torch.equal(whole[name], part[name]) for name in whole)
    curves = [
        [(point["tokens"], point["loss"], point["agreement"]) for point in curve(tmp_path / name)]
        for name in ("whole", "broken")
    ]
    assert curves[0] == curves[1]


def test_a_checkpoint_is_gone_on_from_with_the_same_recipe_and_data_alone(
    target: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With more data, what was held out would be trained on."""
    data = shutil.copytree(written, tmp_path / "more")
    begun = common("draft", target, data, tmp_path / "d")
    assert train(f"{begun} --layers 1") == 0
    assert train(f"{begun} --layers 2 --resume") == 2
    assert "was trained with layers" in capsys.readouterr().err
    shutil.copy(sorted(data.glob("*.npz"))[0], data / "99999-free.npz")
    assert train(f"{begun} --layers 1 --resume") == 2
    assert "was trained with digest" in capsys.readouterr().err


def test_a_narrow_draft_has_matrices_of_its_own(target: str, written: Path, tmp_path: Path) -> None:
    out = tmp_path / "narrow"
    assert train(f"{common('draft', target, written, out)} --hidden 16 --layers 2") == 0
    pair = load_pair(target, str(out), placement=Placement("cpu", "float32"))
    assert pair.draft is not None
    assert pair.draft.model.config.hidden_size == 16
    draft, big = (model.model.get_input_embeddings() for model in (pair.draft, pair.target))
    assert draft.weight is not big.weight


@pytest.mark.parametrize(
    ("kind", "first"), [("parallel", "eagle"), ("dspark", "eagle3")], ids=["parallel", "dspark"]
)
def test_a_drafter_that_begins_as_an_eagle_head_guesses_the_next_token_as_it_does(
    kind: str, first: str, target: str, written: Path, tmp_path: Path
) -> None:
    """The oracle is the EAGLE head itself; the drafter is stored in 8 bits."""
    eagle, drafted = tmp_path / "head", tmp_path / "drafter"
    assert train(f"{common(first, target, written, eagle)} --tokens 1000") == 0
    still = f"--tokens 500 --learning-rate 1e-12 --start {eagle} --bits 8"
    assert train(f"{common(kind, target, written, drafted)} {still}") == 0
    assert weights(drafted)["layers.0.query.weight"].dtype == torch.int8
    assert "stored in 8 bits a weight" in (drafted / "README.md").read_text(encoding="utf-8")
    pair = load_pair(
        target, "none", [str(eagle), str(drafted)], placement=Placement("cpu", "float32")
    )
    head, drafter = pair.heads[first], pair.heads[kind]
    context = tuple(pair.encode("What is a dog?", chat=True))
    root = TreeBuilder(context[-1]).build()
    pair.target.evaluate(context, root)
    ((token, chance),) = head.evaluate(context, root).scored([0], 1)[0]
    ((guess, share),) = drafter.evaluate(context, root).scored([0], 1)[0]
    assert guess == token and share == pytest.approx(chance, abs=0.03)


@pytest.mark.parametrize("kind", METHOD)
def test_training_can_go_on_from_a_finished_one(
    kind: str, target: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It begins where that one ended: with a learning rate of almost nothing it stays the same."""
    first, second = tmp_path / "first", tmp_path / "second"
    assert train(common(kind, target, written, first), "--note", "tales of cats") == 0
    still = f"--tokens 500 --learning-rate 1e-12 --start {first}"
    again = f"{common(kind, target, written, second)} {still}"
    assert train(again, "--note", "tales of dogs") == 0
    before, after = weights(first), weights(second)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert curve(second)[: len(curve(first))] == curve(first)
    assert curve(second)[-1]["tokens"] > curve(first)[-1]["tokens"]
    card = (second / "README.md").read_text(encoding="utf-8")
    assert "earlier run" in card and "(tales of dogs; in the earlier runs: tales of cats)" in card
    other = "eagle" if kind == "draft" else "draft"
    assert train(f"{common(other, target, written, tmp_path / 'x')} --start {first}") == 2
    assert "to go on from" in capsys.readouterr().err


def test_a_card_says_of_texts_once_that_earlier_runs_had_them() -> None:
    both, unknown = "cats; in the earlier runs: dogs", "in the earlier runs: cats"
    assert joined_note("dogs", "cats") == joined_note(both, "cats") == both
    assert joined_note("", "cats") == joined_note("cats", "cats") == "cats"
    assert joined_note("cats", "") == joined_note(unknown, "") == unknown
    assert joined_note("cats and dogs", "cats") == "cats; in the earlier runs: cats and dogs"


def test_an_exported_draft_is_a_model_that_transformers_loads(
    target: str, written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its finished folder is not written over."""
    made, exported = tmp_path / "made", tmp_path / "exported"
    command = f"{common('draft', target, written, made)} --layers 1"
    assert train(command) == 0
    shutil.rmtree(tmp_path / "made.work")
    assert train(command) == 2
    assert "is there already" in capsys.readouterr().err
    assert train(f"export --target {target} --draft {made} --out {exported}") == 0
    model = transformers.AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32)
    big = transformers.AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32)
    ours = load_pair(target, str(made), placement=Placement("cpu", "bfloat16"))
    assert ours.draft is not None
    ids = torch.arange(5, 25)[None]
    assert torch.equal(model(ids).logits, ours.draft.model.float()(ids).logits)
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": 20, "pad_token_id": 0}
    options["attention_mask"] = torch.ones_like(ids)
    plain = big.generate(ids, **options)
    assert torch.equal(big.generate(ids, assistant_model=model, **options), plain)


def test_a_head_refuses_another_target(target: str, written: Path, tmp_path: Path) -> None:
    out = tmp_path / "head"
    assert train(common("eagle", target, written, out)) == 0
    other = save(tmp_path / "other", seed=9)
    message = "trained for target and reads its states, but this target is another"
    with pytest.raises(VocabularyMismatch, match=f"an EAGLE head, was {message}"):
        load_pair(other, head=str(out), placement=Placement("cpu", "float32"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("draft", "there is nothing to train on: name conversations with --data"),
        ("draft --data nowhere.npz", "there is no file or folder nowhere.npz"),
        ("draft --data README.md", "README.md is not a file of conversations"),
        ("draft --data DATA --layers 40", "layers must be how many there are to be, 1 to 2, or"),
        ("draft --data DATA --layers 0,7", "layers must be how many there are to be, 1 to 2, or"),
        ("draft --data DATA --layers 0,l5", "layers must be how many there are to be, 1 to 2, or"),
        ("draft --data assets", "there are no conversations in the folder assets"),
        ("draft --texts nowhere.txt", "there is no file nowhere.txt"),
        ("draft --texts assets/screenshots/benchmark.png", "benchmark.png is not UTF-8 text"),
        ("draft --data DATA --hidden 5", "hidden must be a multiple of the target's head width 8"),
        ("data --kinds poem", "kinds must be some of free, writing"),
        ("data --kinds translation", "these kinds need texts: give --passages or --foreign"),
        ("data --foreign book.txt", "foreign must name the language, as in German=book.txt, got"),
        ("eagle3 --data DATA --depths 1,99", "depths, different numbers of layers with commas"),
        ("eagle --data DATA --held-out 99999", "held_out must be between 1 and"),
        ("glide --data DATA --start nowhere", "nowhere holds no head of this shape"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed(
    arguments: str,
    message: str,
    target: str,
    written: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    command = arguments.replace("DATA", str(written))
    assert train(f"{command} --target {target} --out {tmp_path / 'o'}") == 2
    assert message in capsys.readouterr().err


TOGETHER = """
import json, sys
from ouroboros_core.cli import main
sys.exit(max(main(arguments) for arguments in json.loads(sys.argv[1])))
"""
"""Runs several commands in the processes that were launched."""


def test_two_processes_share_the_batches(target: str, written: Path, tmp_path: Path) -> None:
    """As many tokens as one process sees in about half as many steps."""
    start = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    (program := tmp_path / "together.py").write_text(TOGETHER, encoding="utf-8")
    kinds = ("draft", "eagle")
    two = [common(kind, target, written, tmp_path / f"{kind}-two").split() for kind in kinds]
    asked = [["train", *words, "--device", "cpu", "--dtype", "float32"] for words in two]
    result = finished(
        [*start, "--master_port", "29517", str(program), json.dumps(asked)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert result.returncode == 0, result.stderr
    for kind in kinds:
        assert train(common(kind, target, written, tmp_path / f"{kind}-one")) == 0
        files = [tmp_path / f"{kind}-{name}.work" / "checkpoint.pt" for name in ("two", "one")]
        both, one = (torch.load(file, weights_only=True)["progress"] for file in files)
        assert min(both["tokens"], one["tokens"]) >= 3000
        assert 0.35 < both["step"] / one["step"] < 0.7, kind


def test_a_draft_is_only_made_for_the_llama_family() -> None:
    with pytest.raises(
        UnsupportedModel, match="this one is gpt2; an EAGLE head can be trained for it"
    ):
        make_student(tiny.target("gpt2"), (0,))


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("1", (0,)),
        ("2", (0, 29)),
        ("3", (0, 14, 29)),
        ("4", (0, 1, 15, 29)),
        ("6", (0, 1, 8, 15, 22, 29)),
        ("3,5", (3, 5)),
    ],
)
def test_a_number_of_layers_is_spread_over_the_target(text: str, layers: tuple[int, ...]) -> None:
    assert choose_layers(text, 30) == layers


def test_the_loss_is_the_cross_entropy_over_what_the_student_can_write() -> None:
    """Against a plain sum: of the target's tokens 7 cannot be written and weighs nothing."""
    columns = Columns([2, 3, 5], 9, torch.device("cpu"))
    ids, p = torch.tensor([[3, 7], [5, 2]]), torch.tensor([[0.6, 0.3], [0.5, 0.25]])
    logits = torch.tensor([[0.1, 1.0, -2.0], [0.0, 3.0, 1.5]])
    log_q = logits.log_softmax(-1)
    expected = -(0.6 * log_q[0, 1] + 0.5 * log_q[1, 2] + 0.25 * log_q[1, 0]) / 2
    assert soft_cross_entropy(logits, columns.of(ids), p).item() == pytest.approx(expected.item())


def test_the_output_vocabulary_is_what_answers_use_most_and_where_they_end() -> None:
    data = Conversations(
        np.array([8, 8, 8, 1, 1, 2, 8, 1, 3]), np.array([0, 6, 9]), np.array([3, 1])
    )
    assert output_vocabulary(data, 2, 10) == [1, 2]
    assert output_vocabulary(data, 2, 10, always=[9]) == [1, 9]
    assert output_vocabulary(data, 0, 10) == list(range(10))


def test_conversations_survive_a_file_and_batches_hold_each_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(4, 40, 50)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    data = Conversations(rng.integers(0, 99, offsets[-1]), offsets, rng.integers(1, 3, 50))
    data.save(tmp_path / "a.npz")
    again = Conversations.load([tmp_path / "a.npz", tmp_path / "a.npz"])
    assert len(again) == 100
    assert again.tokens.tolist() == [*data.tokens.tolist()] * 2
    assert again.offsets.tolist() == join([data, data]).offsets.tolist()
    trained, held_out = data.split(8, 0)
    assert sorted([*trained, *held_out]) == list(range(50))
    groups = data.epoch(trained, 200, 0, 1)
    assert sorted(n for g in groups for n in g.tolist()) == sorted(trained.tolist())
    assert all(len(g) == 1 or len(g) * max(data.length(i) for i in g) <= 200 for g in groups)
    for ahead in (0, 1, 2):
        rows, places = data.answer_rows(groups[0], ahead)
        width = max(data.length(i) for i in groups[0])
        for row, place in zip(rows, places, strict=True):
            text = groups[0][row // width]
            assert place == data.offsets[text] + row % width + ahead
            assert data.written[place + 1], "the token behind the place is an answer's"
    pieces = plain_texts([[1, 2, 3, 4, 5], [6]], 3)
    assert (pieces.tokens.tolist(), pieces.offsets.tolist(), pieces.answer_start.tolist()) == (
        [1, 2, 3, 4, 5],
        [0, 3, 5],
        [1, 1],
    )


def test_the_learning_rate_warms_up_stays_and_falls() -> None:
    recipe = Recipe(target="t", learning_rate=1.0, warmup_steps=10, cooldown=0.5)
    shares = ((0, 0.0), (9, 0.1), (50, 0.5), (75, 0.75), (100, 1.0))
    assert [learning_rate(recipe, *one) for one in shares] == [0.1, 1.0, 1.0, 0.5, 0.0]


def test_a_training_is_over_when_its_tokens_or_its_minutes_are() -> None:
    by_tokens = Recipe(target="t", tokens=1000)
    assert [spent(by_tokens, 250, 1e9), spent(by_tokens, 1000, 0.0)] == [0.25, 1.0]
    by_time = Recipe(target="t", tokens=1000, within=2)
    assert [spent(by_time, 250, 90.0), spent(by_time, 500, 30.0)] == [0.75, 0.5]


@pytest.mark.parametrize(
    ("count", "held_out", "message"),
    [
        (
            3,
            3,
            "between 1 and 2, got 3: the texts make 3 conversations, add .* at least 4, or hold",
        ),
        (2, 2, "1, got 2: the texts make 2 conversations, add .* at least 3, or hold out fewer"),
        (1, 8, "below the number of conversations, got 8: the texts make 1 conversation, .* 9$"),
    ],
)
def test_somebody_must_be_left_to_train_on(count: int, held_out: int, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"held_out must be {message}"):
        plain_texts([[1, 2, 3] * count], 3).split(held_out, 0)


@pytest.mark.parametrize(
    ("texts", "length", "reason"),
    [
        ([[1, 2], [3, 4], [5, 6]], 2, "every answer has a single token"),
        ([[1, 7, 7, 7], [2, 7, 7]], 4, "all answers repeat one token, id 7"),
        ([[1, 2, 3], [4, 5]], 3, ""),
    ],
)
def test_answers_by_which_nothing_can_be_gained_are_known(
    texts: list[list[int]], length: int, reason: str
) -> None:
    idle = plain_texts(texts, length).idle
    assert idle.startswith(reason) and bool(idle) == bool(reason)


def test_a_training_says_that_there_is_nothing_to_learn(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = Conversations(np.arange(5, 35), np.arange(0, 31, 3), np.full(10, 2))
    few.save(tmp_path / "few.npz")
    command = common("draft", target, tmp_path / "few.npz", tmp_path / "o")
    assert train(f"{command} --tokens 20 --batch-tokens 64 --held-out 2") == 0
    assert "there is nothing to learn: every answer has a single token" in capsys.readouterr().err


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", [EAGLE, EAGLE3, MTP])
def test_what_a_head_learns_to_do_is_what_it_does_when_it_drafts(
    dtype: torch.dtype, kind: str
) -> None:
    """Training's steps over a whole text give the guesses that the drafter makes at every place,
    cold and after other texts.

    In half precision, too, where the frequencies of rotary positions must not be rounded.
    """
    from ouroboros_core.training.eagle import EagleStudent
    from ouroboros_core.training.teacher import Teacher

    model = tiny.target("llama", "sdpa", dtype)
    texts = [tiny.prompt(200, seed=n) for n in (1, 2)]
    data = Conversations(np.concatenate(texts), np.array([0, 200, 400]), np.array([4, 4]))
    head = tiny.drafter(CausalLM(model, "llama"), kind)
    more: dict[str, Any] = {"depths": (1,)} if kind == EAGLE3 else {}
    recipe = RECIPES[kind](target="llama", outputs=0, **more)
    made: Any = class_in(f"ouroboros_core.training.{kind}", EagleStudent)
    teacher = Teacher(model, [data], **made.teacher_options(recipe))
    student = made(model, teacher, recipe, range(tiny.VOCABULARY))
    student.head.load_state_dict(tiny.head("llama", kind).state_dict())
    teacher.ask(np.array([0, 1]))
    with torch.no_grad():
        steps = student._steps(torch.tensor(texts), teacher.features(np.array([0, 1])), 2)
        wanted = [student._logits(guessed).float().log_softmax(-1) for guessed in steps]
    apart = []
    for row, text in enumerate(texts):
        for end in (3, 4, 30, 31, 120, 190):
            tree = TreeBuilder(text[end - 1])
            evaluation = head.evaluate(text[:end], tree.build())
            tree.add(text[end], 0, Provenance(Source.DRAFT))
            said = (
                *evaluation.scored([0], tiny.VOCABULARY),
                *head.extend(evaluation, tree.build()).scored([1], tiny.VOCABULARY),
            )
            for depth, guesses in enumerate(said):
                assert len(guesses) == tiny.VOCABULARY
                apart += [
                    abs(score - float(wanted[depth][row, end - 2, token]))
                    for token, score in guesses
                ]
    assert np.median(apart) < 0.05
    assert np.quantile(apart, 0.95) < 0.3


@pytest.mark.parametrize("kind", RECIPES)
def test_a_student_learns_in_its_targets_precision_and_to_the_same_end(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loss beside a target in half precision is that beside the same target in single."""
    from accelerate import Accelerator

    multiplied: list[torch.dtype] = []
    linear = torch.nn.functional.linear

    def noted(x: torch.Tensor, weight: torch.Tensor, *bias: Any) -> torch.Tensor:
        found = linear(x, weight, *bias)
        multiplied.append(found.dtype)
        return found

    losses = []
    for dtype in (torch.bfloat16, torch.float32):
        target = tiny.target("llama", "sdpa", torch.bfloat16).to(dtype)
        data = tiny.written("llama", kind)[0]
        more: dict[str, Any] = {"layers": (0, 1)} if kind == "draft" else {}
        more |= {"depths": (1,)} if "depths" in RECIPES[kind].settings() else {}
        recipe = RECIPES[kind](target="llama", outputs=0, held_out=8, **more)
        student: Any = begin(target, [data], recipe, tmp_path, Accelerator(cpu=True), stored=False)
        student.prepare()
        student.teacher.ask(np.arange(6))
        with monkeypatch.context() as patch, torch.no_grad():
            patch.setattr(torch.nn.functional, "linear", noted)
            losses.append(float(student.loss(np.arange(6), np.random.default_rng(0))[0]))
        assert set(multiplied[-4:]) == {dtype}
    assert losses[0] == pytest.approx(losses[1], rel=0.03)


def test_what_the_target_says_is_the_same_computed_anew_and_read_from_files(
    tmp_path: Path,
) -> None:
    """Of batches asked for in any order, and again from the files alone."""
    from ouroboros_core.training.teacher import StoredTeacher, Teacher

    model = tiny.target("llama", "sdpa", torch.float32)
    texts = [tiny.prompt(length, seed=length) for length in (9, 30, 14)]
    offsets = np.cumsum([0, *map(len, texts)])
    data = Conversations(np.concatenate(texts), offsets, np.array([4, 3, 5]))
    anew = Teacher(model, [data], features=True, depths=(1,))
    for _ in range(2):
        stored = StoredTeacher(model, [data], tmp_path, features=True, depths=(1,))
        for group in (np.array([2, 0]), np.array([1])):
            for teacher in (anew, stored):
                teacher.ask(group)
            places = data.answer_rows(group, ahead=1)[1]
            ids, probabilities = anew.likeliest(places)
            kept_ids, kept = stored.likeliest(places)
            assert torch.equal(ids, kept_ids)
            torch.testing.assert_close(probabilities, kept, rtol=1e-3, atol=1e-6)
            expected = model(torch.tensor([texts[group[0]]])).logits[0].softmax(-1)
            first = int(data.answer_start[group[0]]) - 1  # its next token is the answer's first
            torch.testing.assert_close(probabilities[0, 0], expected[first].max())
            for row, index in enumerate(group):
                length = data.length(index)
                features = [teacher.features(group)[row, :length] for teacher in (anew, stored)]
                assert torch.equal(*features)
