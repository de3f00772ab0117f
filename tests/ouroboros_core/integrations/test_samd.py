"""SAM-Decoding's interface: its inference script on the embedded pair, and where it differs from
the reference.

The oracle is transformers' `generate`.
"""

from __future__ import annotations

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
    config = SamdConfig(
        n_predicts=args.samd_n_predicts,
        tree_method=args.tree_method,
        tree_model_path=args.tree_model_path,
    )
    draft = DraftModel(config, sam_static=sam, lm=model, dtype=args.dtype, device=args.device)
    samd_model = SamdModel(config, model, draft, tokenizer.eos_token_id, args.dtype, args.device)
    samd_model.eval()
    generation = SamdGenerationConfig(
        max_new_tokens=args.max_new_tokens,
        max_cache_len=args.max_cache_len,
        greedy=True,
        temperature=0.0,
    )
    return samd_model.generate(**inputs, generation_config=generation)


@pytest.mark.embedded
@pytest.mark.parametrize("tree_method", ["token_recycle", "eagle2"])
@pytest.mark.parametrize("sam_path", [None, embedded.corpus_file()])
def test_the_references_script_equals_generate(
    embedded_pair: Pair, tree_method: str, sam_path: Path | None
) -> None:
    model, tokenizer = embedded_pair.target.model, embedded_pair.tokenizer
    args = argparse.Namespace(
        sam_path=sam_path,
        samd_n_predicts=15,
        max_new_tokens=NEW,
        max_cache_len=2048,
        tree_method=tree_method,
        tree_model_path=embedded.head_folder(),
        dtype=torch.float32,
        device="cpu",
    )
    inputs = tokenizer([PROMPT], padding=True, return_tensors="pt")
    outputs = script(args, inputs, model, tokenizer)
    expected = model.generate(**inputs, do_sample=False, max_new_tokens=NEW)
    assert outputs.output_ids == expected.tolist()
    assert (
        outputs.decode_tokens
        == sum(outputs.accept_length_per_step)
        == expected.shape[1] - inputs.input_ids.shape[1]
    )
    assert outputs.decode_steps == len(outputs.accept_length_per_step) < outputs.decode_tokens
    assert outputs.accepet_length_per_step == outputs.accept_length_per_step
    again = samd_generate(
        inputs.input_ids,
        model,
        tokenizer,
        sam_path=sam_path,
        tree_method=tree_method,
        tree_model_path=embedded.head_folder(),
        max_new_tokens=NEW,
    )
    assert again == outputs


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
    model = tiny.target("gpt2", "sdpa")
    text = tiny.prompt()
    config = SamdConfig()
    built = SamdModel(
        config,
        model,
        DraftModel(config, sam_static=Corpus.build([[*text, *tiny.plain(model, text, 30)]])),
        None,
    )
    outputs = built.generate(
        torch.tensor([text]),
        generation_config=SamdGenerationConfig(max_new_tokens=40, max_cache_len=32),
    )
    assert outputs.output_ids == [[*text, *tiny.plain(model, text, 20)]], (
        "a prompt of 12 and a cache of 32"
    )
    stop = outputs.output_ids[0][20]
    stopped = SamdModel(config, model, DraftModel(config), None, stop_token_id=stop).generate(
        torch.tensor([text])
    )
    assert stopped.output_ids == [[*text, *tiny.plain(model, text, 40, stop=frozenset({stop}))]]


@pytest.mark.embedded
def test_what_cannot_work_is_refused_with_the_remedy(tmp_path: Path, embedded_pair: Pair) -> None:
    model = tiny.target("llama", "sdpa")
    config = SamdConfig()
    ids = torch.tensor([tiny.prompt()])
    with pytest.raises(
        InvalidInput, match="tree_method must be one of token_recycle, eagle2, got medusa"
    ):
        SamdConfig(tree_method="medusa")
    with pytest.raises(
        InvalidInput, match=r"temperature must be above 0 with greedy=False, got 0.0"
    ):
        SamdGenerationConfig(greedy=False)
    with pytest.raises(InvalidInput, match="sam_dyn must be None, got a list"):
        DraftModel(config, sam_dyn=[])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="n_predicts must be between 1 and 63, got 99"):
        SamdConfig(n_predicts=99)
    with pytest.raises(InvalidInput, match=r"tree_method eagle2 needs tree_model_path"):
        SamdModel(SamdConfig(tree_method="eagle2"), model, DraftModel(config), None)
    eagle = SamdConfig(tree_method="eagle2", tree_model_path=embedded.head_folder())
    with pytest.raises(VocabularyMismatch, match="was trained for"):
        SamdModel(eagle, model, DraftModel(eagle), None)
    with pytest.raises(
        InvalidInput, match=r"the model is in torch.float64, but dtype is torch.float16"
    ):
        SamdModel(config, model, DraftModel(config), None, torch.float16)
    with pytest.raises(InvalidInput, match="the model is on cpu, but device is cuda"):
        SamdModel(config, model, DraftModel(config), None, None, "cuda")
    with pytest.raises(InvalidInput, match="beyond the vocabulary"):
        SamdModel(config, model, DraftModel(config, sam_static=Corpus.build([[99]])), None)
    built = SamdModel(config, model, DraftModel(config), None)
    with pytest.raises(InvalidInput, match=r"must have the shape \[1, tokens\], got \[2, 12\]"):
        built.generate(ids.repeat(2, 1))
    with pytest.raises(InvalidInput, match="attention_mask hides some"):
        built.generate(ids, torch.tensor([[0] + [1] * 11]))
    with pytest.raises(InvalidInput, match="and the model has room for 256: none for a new token"):
        built.generate(ids, generation_config=SamdGenerationConfig(max_cache_len=12))
    bad = tmp_path / "sam.pkl"
    bad.write_bytes(pickle.dumps({}))
    with pytest.raises(InvalidInput, match="is a pickle, which can run code"):
        load_sam(bad)
    Corpus.build([[1, 2]], "abc").save(tmp_path / "other.npz")
    with pytest.raises(InvalidInput, match="was made with another tokenizer"):
        samd_generate(
            ids,
            embedded_pair.target.model,
            embedded_pair.tokenizer,
            sam_path=tmp_path / "other.npz",
        )
