"""Every causal language model class of transformers, through every door: its text is that of the
model's own pass, or it is refused in words."""

import re
import string
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from transformers import PreTrainedModel

import ouroboros_core
from ouroboros_core.cli import main
from ouroboros_core.errors import UnsupportedModel
from ouroboros_core.trace.file import read_trace
from tests import families, tiny

LETTERS = (string.ascii_letters + string.digits)[: families.VOCABULARY]
WINDOWS = (None, 9, 24, 40)
PROMPT = torch.randint(
    1, families.VOCABULARY, (130,), generator=torch.Generator().manual_seed(3)
).tolist()
FOLLOWING = 40


def tiny_models(family: str) -> Iterator[PreTrainedModel]:
    """Models of one family, without a window and with windows shorter than the text, also where its
    code never reads one; none where its class cannot be made this small."""
    try:
        fields = families.window_fields(family)
        for window in WINDOWS if fields else (None, 24):
            named = dict.fromkeys(fields or ["sliding_window"], window) if window else {}
            yield families.made(families.config_of(family, named))
    except Exception:
        return


@torch.inference_mode()
def first_wrong(model: PreTrainedModel, text: list[int], start: int) -> int | None:
    """The oracle: one pass of the model's own, without cache and mask. The first place behind
    `start` where the text does not go on with the likeliest token."""
    logits = model(input_ids=torch.tensor([text]), use_cache=False).logits[0]
    best = logits.argmax(-1).tolist()
    return next((n for n in range(start, len(text)) if text[n] != best[n - 1]), None)


def by_custom_generate(model: PreTrainedModel, method: str) -> list[int]:
    ids = torch.tensor([PROMPT])
    options: dict[str, Any] = {"do_sample": False, "max_new_tokens": FOLLOWING, "pad_token_id": 0}
    text: list[int] = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        custom_generate=ouroboros_core.generate,
        method=method,
        **options,
    )[0].tolist()
    return text


def check(model: PreTrainedModel) -> str:
    """Why the model is refused; empty where the texts of two methods are the model's own. Raises
    AssertionError for another text."""
    window = {name: getattr(model.config, name, None) for name in families.WINDOWS}
    for method in ("autoregressive", "union"):
        try:
            text = by_custom_generate(model, method)
        except UnsupportedModel as error:
            return str(error)
        wrong = first_wrong(model, text, len(PROMPT))
        assert wrong is None, f"{type(model).__name__} {window} {method}: other text at {wrong}"
        assert len(text) == len(PROMPT) + FOLLOWING
    return ""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "family",
    [
        "llama",
        "qwen3",
        "mistral",
        "gemma3_text",
        "gpt2",
        "phi",
        "olmo3",
        "moshi",
        "mixtral",
        "deepseek_v3",
        "gpt_oss",
        "opt",
    ],
)
def test_a_dozen_families_write_their_own_text_whatever_window_their_configuration_names(
    family: str,
) -> None:
    """Some of these architectures read the window, some in a part of the layers, some never."""
    refusals = [check(model) for model in tiny_models(family)]
    assert len(refusals) >= 2 and not any(refusals)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_every_family_writes_its_own_text_or_is_refused_in_one_sentence(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By `custom_generate` in double precision with every window, and by the command line, which
    loads the model from its folder, in single precision."""
    pairs = "ouroboros_core.loading.pairs"
    monkeypatch.setattr(f"{pairs}.load_tokenizer", lambda name: tiny.letters(LETTERS))
    monkeypatch.setattr(f"{pairs}._timed", lambda pair: pair)  # no text depends on what passes cost
    results: Counter[str] = Counter()
    for family in families.NAMES[part::4]:
        for number, model in enumerate(tiny_models(family)):
            refusal = check(model)
            refused = f"{type(model).__name__} cannot be decoded speculatively: "
            assert not refusal or re.fullmatch(re.escape(refused) + r"[^\n]{20,500}", refusal)
            results["refused" if refusal else "same"] += 1
            folder = tmp_path / f"{family}-{number}"
            model.float().save_pretrained(folder)
            trace = tmp_path / "trace.json"
            asked = ["generate", "--target", str(folder), "--raw", "--dtype", "float32"]
            asked += ["--prompt", "".join(LETTERS[token] for token in PROMPT), "--json", str(trace)]
            code = main([*asked, "--method", "union", "--max-new-tokens", str(FOLLOWING)])
            capsys.readouterr()
            assert code == (2 if refusal else 0), f"{family}: {code}"
            if code == 0:
                run = read_trace(trace.read_text("utf-8"))
                text = [*run.prompt.tokens, *run.tokens]
                loaded = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
                assert first_wrong(loaded, text, len(run.prompt.tokens)) is None, family
    assert results["same"] >= 40, results
