"""Drafts whose vocabulary is not quite their target's: the text is the target's own, and the draft
proposes what means the same to both."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

import ouroboros_core
from ouroboros_core import methods
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import VocabularyMismatch
from ouroboros_core.integrations import speculative_generate
from ouroboros_core.loading.check import checked
from ouroboros_core.loading.drafts import check_vocabulary, join_draft
from ouroboros_core.loading.pairs import Pair, Placement, load_pair, make_pair, with_draft
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.trace import Trace
from ouroboros_core.tree import TreeBuilder
from tests import folders, tiny

SHARING = [
    kind.id
    for kind in methods.available().values()
    if {Need.DRAFT_MODEL} & kind.needs and kind.id != "draft_only"
]


def resized(model: PreTrainedModel, rows: int, last: float = 1.0) -> PreTrainedModel:
    """A copy with another number of token ids, the last of which is likelier by a factor."""
    torch.manual_seed(0)
    made = copy.deepcopy(model)
    made.resize_token_embeddings(rows, mean_resizing=False)
    with torch.no_grad():
        for matrix in (made.get_input_embeddings().weight, made.get_output_embeddings().weight):
            matrix[tiny.VOCABULARY :].normal_(0, float(matrix[: tiny.VOCABULARY].std()))
        made.get_output_embeddings().weight[-1] *= last
    return made


@pytest.fixture(scope="module")
def target() -> PreTrainedModel:
    """Forty token ids; the last one occurs often."""
    return resized(tiny.target("llama"), 40, 2.0)


def test_a_draft_without_some_rows_never_takes_tokens_from_the_target(
    target: PreTrainedModel,
) -> None:
    """The oracles: transformers' `generate`, and plain sampling. The prompt and the text hold ids
    that the draft has no row for."""
    draft = resized(tiny.target("llama"), 33)
    big = checked(target, "target")
    models = big, join_draft(draft, "draft", big)
    prompt = [*tiny.prompt(10), 39, 36]
    expected = tiny.generated(target, prompt, 20)
    assert max(expected) >= 33, "the text holds what the draft lacks"
    sampling = Sampling(temperature=1.0, seed=3)
    for method in SHARING:
        steps = tiny.run(models, method, prompt, 20)
        assert tiny.emitted(steps) == expected, method
        steps = tiny.run(models, method, prompt, 12, sampling)
        assert tiny.emitted(steps) == tiny.plain(target, prompt, 12, sampling), method


def test_the_end_token_that_only_the_target_has_ends_the_text_by_every_interface(
    target: PreTrainedModel,
) -> None:
    """`make_pair`, `custom_generate` and the functions of other packages; the oracle is
    transformers' `generate`."""
    target = resized(target, 200, 4.0)
    draft = resized(tiny.target("llama"), 199)
    prompt = tiny.prompt(10)
    ids = torch.tensor([prompt])
    options: dict[str, Any] = {"attention_mask": torch.ones_like(ids), "max_new_tokens": 30}
    options |= {"eos_token_id": 199, "pad_token_id": 0, "do_sample": False}
    expected = target.generate(ids, **options)[0].tolist()[len(prompt) :]
    assert expected[-1] == 199 and 1 < len(expected) < 30
    pair = make_pair(target, draft, tiny.letters())
    assert pair.target.vocabulary == 200
    for method in ("autoregressive", "speculative", "union"):
        models: Any = pair.target, pair.draft
        steps = tiny.run(models, method, prompt, 30, stop=frozenset([199]))
        assert tiny.emitted(steps) == expected, method
    sizes: dict[str, Any] = {"gamma": 3, "max_gen_len": 30, "eos_tokens_id": 199}
    assert speculative_generate(prompt, draft, target, **sizes)[0] == expected
    loop: dict[str, Any] = {"custom_generate": ouroboros_core.generate, "assistant_model": draft}
    output = target.generate(ids, **options, **loop)
    assert output[0].tolist()[len(prompt) :] == expected


def saved(folder: Path, extra: dict[str, int], rows: int, seed: int = 0) -> str:
    """A tiny model as a folder, whose tokenizer has further words at the given ids."""
    folders.save(folder, seed=seed, vocab_size=rows, eos_token_id=None)
    file = folder / "tokenizer.json"
    words = json.loads(file.read_text("utf-8"))
    for word, token in extra.items():
        entry = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
        words["added_tokens"].append({"id": token, "content": word, "special": True, **entry})
    file.write_text(json.dumps(words), "utf-8")
    return str(folder)


SIZE = len(folders.tokenizer("bytes"))


def run(pair: Pair, prompt: str, method: str = "speculative") -> Trace:
    kind = methods.get(method)
    settings = kind.Hyperparameters(**kind.Hyperparameters.fixed())
    return Generation(pair, Task(prompt, method, settings, max_new_tokens=24, chat=False)).run()


@pytest.mark.parametrize(
    ("target_words", "draft_words", "draft_rows", "differing", "unshared"),
    [
        ({"<think>": SIZE}, {}, SIZE, 1, set()),
        ({}, {"<tool>": SIZE}, SIZE + 1, 1, {SIZE}),
        ({"<think>": SIZE}, {"<tool>": SIZE}, SIZE + 1, 2, {SIZE}),
        ({"<a>": SIZE, "<b>": SIZE + 1}, {"<a>": SIZE, "<b>": SIZE + 1}, SIZE, 2, set()),
        ({}, {}, SIZE + 7, 0, set()),
    ],
    ids=["target has one more", "draft has one more", "one each", "words without rows", "padding"],
)
def test_nearly_equal_vocabularies_draft_with_the_ids_that_mean_the_same(
    tmp_path: Path,
    target_words: dict[str, int],
    draft_words: dict[str, int],
    draft_rows: int,
    differing: int,
    unshared: set[int],
) -> None:
    target = saved(tmp_path / "target", target_words, SIZE + 4)
    draft = saved(tmp_path / "draft", draft_words, draft_rows)
    pair = load_pair(target, draft, placement=Placement(dtype="float32", device="cpu"))
    assert pair.draft is not None and pair.draft.unshared == unshared
    counted = f" ({differing} entries of the vocabularies differ)" if differing else ""
    assert pair.beside == [f"draft draft{counted}"]
    for word in ("", *target_words):
        trace = run(pair, f"the cat{word} sat")
        plain = tiny.plain(pair.target.model, trace.prompt.tokens, 24)
        assert list(trace.tokens) == plain
        proposed = {token for step in trace.steps for token in step.tree.tokens[1:]}
        assert proposed and not proposed & unshared and max(proposed) < draft_rows


def test_a_draft_gives_no_chance_to_ids_that_it_does_not_share_and_reads_another_in_their_place(
    tmp_path: Path,
) -> None:
    target = saved(tmp_path / "target", {"<think>": SIZE}, SIZE + 1)
    draft = saved(tmp_path / "draft", {"<tool>": SIZE}, SIZE + 1, seed=1)
    model = load_pair(target, draft, placement=Placement(dtype="float32", device="cpu")).draft
    assert model is not None
    unknown, known = (
        model.evaluate([5, token, 7], TreeBuilder(7).build()).logits(0) for token in (SIZE, 0)
    )
    assert unknown[SIZE] == -float("inf") and (unknown == known).all()


def test_a_draft_that_shares_a_part_is_checked_by_what_it_reads() -> None:
    """The check's own tokens may be ones that the draft does not share."""
    draft = tiny.draft("llama", "sdpa", torch.float32)
    unshared = frozenset(range(20, tiny.VOCABULARY))
    model = checked(draft, "draft", unshared=unshared)
    assert model.unshared == unshared
    assert model.engine == checked(draft, "draft").engine != "transformers"


def test_exchanged_words_are_another_vocabulary(tmp_path: Path) -> None:
    target = saved(tmp_path / "target", {"<a>": SIZE, "<b>": SIZE + 1}, SIZE + 2)
    draft = saved(tmp_path / "draft", {"<b>": SIZE, "<a>": SIZE + 1}, SIZE + 2)
    pair = load_pair(target, draft, placement=Placement(dtype="float32", device="cpu"))
    assert pair.draft is None and "differ at '<" in pair.foreign


def test_a_change_of_drafts_leaves_no_trace_on_the_target(tmp_path: Path) -> None:
    """A text before, and after another draft was there and went."""
    target = saved(tmp_path / "target", {"<think>": SIZE}, SIZE + 1)
    first = saved(tmp_path / "first", {"<think>": SIZE}, SIZE + 1, seed=1)
    smaller = saved(tmp_path / "smaller", {}, SIZE - 2, seed=2)
    pair = load_pair(target, first, placement=Placement(dtype="float32", device="cpu"))
    before = run(pair, "the cat")
    other = with_draft(with_draft(pair, smaller), "none")
    back = with_draft(other, first)
    for one in (pair, other, back):
        assert one.target.vocabulary == SIZE + 1
    assert back.draft is not None and back.draft.vocabulary == SIZE + 1
    assert run(back, "the cat").tokens == before.tokens


def test_another_vocabulary_is_refused_with_both_sizes() -> None:
    model = tiny.pair("llama")[0]
    message = r"has 32000 tokens, target llama has 31: .* Pairs that fit"
    with pytest.raises(VocabularyMismatch, match=message):
        check_vocabulary(32000, model, "X")
