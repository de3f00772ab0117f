"""SAM-Decoding's interface: its inference script on the embedded pair, and where it differs from
the reference.

The oracle is transformers' `generate`.
"""

import argparse
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from ouroboros_core.errors import InvalidInput, VocabularyMismatch
from ouroboros_core.integrations import (
    DraftModel,
    Outputs,
    SamdConfig,
    SamdGenerationConfig,
    SamdModel,
    load_sam,
    samd_generate,
)
from ouroboros_core.loading import embedded
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.lookup.corpus import Corpus
from tests import tiny

PROMPT = (
    "A chat between a curious user and an artificial intelligence assistant. The assistant gives "
    "helpful, detailed, and polite "
    'answers to the user\'s questions.\n\nUSER: Embrace the role of Sheldon from "The Big Bang Theory" as we delve into our '
    'conversation. Don’t start with phrases like "As Sheldon". Let\'s kick things off with the following question: '
    '"What is your opinion on hand dryers?"\n\nASSISTANT: '
)
"""The example of the reference's script (hyx1999/SAM-Decoding, tests)."""
NEW = 32
"""Tokens of an answer."""


def script(args: argparse.Namespace, inputs: Any, model: Any, tokenizer: Any) -> Outputs:
    """The steps of the reference's script, with the imports changed."""
    sam = load_sam(args.sam_path) if args.sam_path is not None else None
    tree = {"tree_method": args.tree_method, "tree_model_path": args.tree_model_path}
    config = SamdConfig(n_predicts=args.samd_n_predicts, **tree)
    draft = DraftModel(config, sam_static=sam, lm=model, dtype=args.dtype, device=args.device)
    samd_model = SamdModel(config, model, draft, tokenizer.eos_token_id, args.dtype, args.device)
    samd_model.eval()
    sizes = {"max_new_tokens": args.max_new_tokens, "max_cache_len": args.max_cache_len}
    generation = SamdGenerationConfig(**sizes, greedy=True, temperature=0.0)
    return samd_model.generate(**inputs, generation_config=generation)


@pytest.mark.embedded
@pytest.mark.parametrize("tree_method", ["token_recycle", "eagle2"])
@pytest.mark.parametrize("sam_path", [None, embedded.corpus_file()])
def test_the_references_script_equals_generate(
    embedded_pair: Pair, tree_method: str, sam_path: Path | None
) -> None:
    model, tokenizer = embedded_pair.target.model, embedded_pair.tokenizer
    shared: dict[str, Any] = {"sam_path": sam_path, "max_new_tokens": NEW}
    shared |= {"tree_method": tree_method, "tree_model_path": embedded.head_folder()}
    args = argparse.Namespace(**shared, samd_n_predicts=15, max_cache_len=2048, device="cpu")
    args.dtype = torch.float32
    inputs = tokenizer([PROMPT], padding=True, return_tensors="pt")
    outputs = script(args, inputs, model, tokenizer)
    expected = model.generate(**inputs, do_sample=False, max_new_tokens=NEW)
    written = expected.shape[1] - inputs.input_ids.shape[1]
    assert outputs.output_ids == expected.tolist()
    assert outputs.decode_tokens == sum(outputs.accept_length_per_step) == written
    assert outputs.decode_steps == len(outputs.accept_length_per_step) < outputs.decode_tokens
    assert outputs.accepet_length_per_step == outputs.accept_length_per_step
    assert samd_generate(inputs.input_ids, model, tokenizer, **shared) == outputs


def test_names_order_and_defaults_are_those_of_the_reference() -> None:
    """Read off hyx1999/SAM-Decoding 18c41f0, samd/*.py; its trees of ranks (tree_path, tree,
    tree_config) are not here."""
    wanted = {
        SamdConfig: "n_predicts max_predicts len_threshold len_bias cache_type use_last_hidden_states tree_method "
        "tree_model_path",
        DraftModel: "config sam_dyn sam_static tree_model lm dtype device",
        SamdModel: "samd_config lm draft eos_token_id dtype device stop_token_id",
        SamdGenerationConfig: "max_steps max_new_tokens max_cache_len greedy temperature top_p top_k",
    }
    for kind, names in wanted.items():
        assert list(inspect.signature(kind).parameters) == names.split()
    assert SamdConfig() == SamdConfig(40, 70, 5, 5, "static", False, "token_recycle", None)
    assert SamdGenerationConfig() == SamdGenerationConfig(512, 512, 2048, True, 0.0, 0.0, 0)


def test_it_works_on_any_model_and_ends_at_the_cache_length() -> None:
    """A prompt of 12 and a cache of 32 leave 20 tokens."""
    model, text, config = tiny.target("gpt2", "sdpa"), tiny.prompt(), SamdConfig()
    sam = Corpus.build([[*text, *tiny.plain(model, text, 30)]])
    built = SamdModel(config, model, DraftModel(config, sam_static=sam), None)
    ids, sizes = torch.tensor([text]), SamdGenerationConfig(max_new_tokens=40, max_cache_len=32)
    written = built.generate(ids, generation_config=sizes).output_ids
    assert written == [[*text, *tiny.plain(model, text, 20)]]
    stop = written[0][20]
    stopping = SamdModel(config, model, DraftModel(config), None, stop_token_id=stop)
    expected = tiny.plain(model, text, 40, stop=frozenset({stop}))
    assert stopping.generate(ids).output_ids == [[*text, *expected]]


CONFIG = SamdConfig()
IDS = torch.tensor([tiny.prompt()])


def built(config: SamdConfig = CONFIG, *given: Any, sam: Corpus | None = None) -> SamdModel:
    """The tiny Llama with a draft of its own."""
    draft = DraftModel(config, sam_static=sam)
    return SamdModel(config, tiny.target("llama", "sdpa"), draft, None, *given)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: SamdConfig(tree_method="medusa"), "tree_method must be one of token_recycle, eag"),
        (lambda: SamdGenerationConfig(greedy=False), "temperature must be above 0 with greedy=Fal"),
        (lambda: DraftModel(CONFIG, sam_dyn=[]), "sam_dyn must be None, got a list"),  # type: ignore[arg-type]
        (lambda: SamdConfig(n_predicts=99), "n_predicts must be between 1 and 63, got 99"),
        (lambda: built(SamdConfig(tree_method="eagle2")), "tree_method eagle2 needs tree_model_pa"),
        (lambda: built(CONFIG, torch.float16), "the model is in torch.float64, but dtype is torch"),
        (lambda: built(CONFIG, None, "cuda"), "the model is on cpu, but device is cuda"),
        (lambda: built(sam=Corpus.build([[99]])), "beyond the vocabulary"),
        (
            lambda: built().generate(IDS.repeat(2, 1)),
            r"have the shape \[1, tokens\], got \[2, 12\]",
        ),
        (lambda: built().generate(IDS, 1 - torch.eye(1, 12)), "attention_mask hides some"),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


@pytest.mark.embedded
def test_files_that_do_not_fit_are_refused(tmp_path: Path, embedded_pair: Pair) -> None:
    eagle = SamdConfig(tree_method="eagle2", tree_model_path=embedded.head_folder())
    with pytest.raises(VocabularyMismatch, match="was trained for"):
        built(eagle)
    full = SamdGenerationConfig(max_cache_len=12)
    with pytest.raises(InvalidInput, match="and the model has room for 256: none for a new token"):
        built().generate(IDS, generation_config=full)
    bad = tmp_path / "sam.pkl"
    bad.write_bytes(pickle.dumps({}))
    with pytest.raises(InvalidInput, match="is a pickle, which can run code"):
        load_sam(bad)
    Corpus.build([[1, 2]], "abc").save(tmp_path / "other.npz")
    target, tokenizer = embedded_pair.target.model, embedded_pair.tokenizer
    with pytest.raises(InvalidInput, match="was made with another tokenizer"):
        samd_generate(IDS, target, tokenizer, sam_path=tmp_path / "other.npz")
