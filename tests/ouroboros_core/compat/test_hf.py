"""`model.generate(custom_generate=...)`: the oracle is transformers' own `generate` without it."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    StoppingCriteria,
    StoppingCriteriaList,
)
from transformers.generation import GenerateDecoderOnlyOutput

import ouroboros_core
from ouroboros_core import methods, read_trace
from ouroboros_core.compat import hf
from ouroboros_core.errors import InvalidInput, VocabularyMismatch
from ouroboros_core.methods.needs import Need
from ouroboros_core.sampling import gumbel, question_of
from tests import ROOT, tiny
from visualize.deploy import hub

PROMPT = torch.tensor([tiny.prompt()])
PLAIN: dict[str, Any] = {"max_new_tokens": 24, "do_sample": False, "pad_token_id": 0}
POSSIBLE = [
    kind.id
    for kind in methods.available().values()
    if kind.needs <= {Need.DRAFT_MODEL, Need.SELF_DRAFT} and kind.id != "draft_only"
]


def models() -> tuple[Any, Any]:
    return (tiny.target("llama", "sdpa", torch.float32), tiny.draft("llama", "sdpa", torch.float32))


tokenizer = tiny.letters


def ours(method: str = "speculative", **options: Any) -> Any:
    target, draft = models()
    given: dict[str, Any] = {"attention_mask": torch.ones_like(PROMPT), **PLAIN, **options}
    loop = ouroboros_core.generate
    return target.generate(
        PROMPT, custom_generate=loop, method=method, assistant_model=draft, **given
    )


def theirs(**options: Any) -> Any:
    target, _ = models()
    return target.generate(
        PROMPT, **{"attention_mask": torch.ones_like(PROMPT), **PLAIN, **options}
    )


class NotTwice(LogitsProcessor):  # type: ignore[misc]
    """Somebody's own: no token follows itself; it writes into what it is given."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        scores[:, int(input_ids[0, -1])] = -math.inf
        return scores


class AfterTen(StoppingCriteria):  # type: ignore[misc]
    """Somebody's own: it ends at the tenth new token, and keeps the lengths that it was shown."""

    def __init__(self) -> None:
        self.seen: list[int] = []

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        self.seen.append(input_ids.shape[1])
        return torch.tensor([input_ids.shape[1] >= PROMPT.shape[1] + 10])


class Heard:
    """A streamer that keeps what it is given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def put(self, value: Any) -> None:
        self.given.append(value.tolist())

    def end(self) -> None:
        self.given.append("end")


RULES: dict[str, dict[str, Any]] = {
    "none": {},
    "repetition penalty": {"repetition_penalty": 1.4},
    "no repeated n-grams": {"no_repeat_ngram_size": 2},
    "suppressed tokens": {"suppress_tokens": [4, 5, 6]},
    "bad words": {"bad_words_ids": [[10, 4], [9]]},
    "one end": {"eos_token_id": 4},
    "several ends": {"eos_token_id": [11, 10, 4]},
    "a shortest length": {"eos_token_id": [11, 10, 4], "min_new_tokens": 7},
    "their own": {"logits_processor": LogitsProcessorList([NotTwice()])},
    "all in a config": {
        "generation_config": GenerationConfig(
            repetition_penalty=1.2, no_repeat_ngram_size=3, eos_token_id=[11], min_length=20
        )
    },
}


@pytest.mark.parametrize("rule", RULES)
def test_the_greedy_text_is_that_of_generate_under_every_rule(rule: str) -> None:
    expected = theirs(**RULES[rule])
    for method in ("union", "speculative"):
        assert ours(method, **RULES[rule]).equal(expected), method
    assert expected.equal(theirs()) == (rule == "none"), "the rule changes this text"


@pytest.mark.slow
@pytest.mark.parametrize("method", POSSIBLE)
def test_every_method_writes_what_generate_writes_with_penalties(method: str) -> None:
    rules: dict[str, Any] = {"repetition_penalty": 1.2, "no_repeat_ngram_size": 3}
    rules["max_new_tokens"] = 16
    assert ours(method, **rules).equal(theirs(**rules))


def test_a_penalised_draft_is_right_as_often_as_a_free_one() -> None:
    """The draft model obeys the rules, too: without them it would draft what is not allowed."""
    rules: dict[str, Any] = {"no_repeat_ngram_size": 2, "return_dict_in_generate": True}
    assert ours(settings={"gamma": 3}, **rules).statistics.acceptance_rate > 0.6


@pytest.mark.parametrize("strings", ["l", ["zz", "0c", "w"]])
def test_a_stop_string_ends_the_text_where_generate_ends_it(strings: Any) -> None:
    written = tokenizer().decode(theirs()[0, PROMPT.shape[1] :])
    strings = written.replace(" ", "")[7:8] if strings == "l" else strings
    options: dict[str, Any] = {"stop_strings": strings, "tokenizer": tokenizer()}
    assert ours(**options).equal(theirs(**options))


def test_a_criterion_sees_every_token_in_text_order_and_ends_the_text() -> None:
    criterion = AfterTen()
    output = ours("union", stopping_criteria=StoppingCriteriaList([criterion]))
    first = PROMPT.shape[1]
    assert output.equal(theirs(max_new_tokens=10))
    assert criterion.seen == [*range(first + 1, first + 11)]


def test_a_streamer_hears_the_prompt_then_token_by_token() -> None:
    mine, expected = Heard(), Heard()
    ours("ouroboros", streamer=mine)
    theirs(streamer=expected)
    assert mine.given == expected.given


def test_left_padding_changes_nothing() -> None:
    target, _ = models()
    padded = torch.cat([torch.zeros(1, 3, dtype=torch.long), PROMPT], -1)
    mask = (torch.arange(padded.shape[1]) >= 3).long()[None]
    options: dict[str, Any] = {"attention_mask": mask, **PLAIN, "repetition_penalty": 1.2}
    loop = ouroboros_core.generate
    found = target.generate(padded, custom_generate=loop, method="lookahead", **options)
    assert found.equal(target.generate(padded, **options))


def test_the_output_class_is_theirs_with_statistics_scores_and_a_trace() -> None:
    options: dict[str, Any] = {
        "return_dict_in_generate": True,
        "output_scores": True,
        "output_logits": True,
        "repetition_penalty": 1.3,
    }
    mine, expected = (
        ours(trace=True, tokenizer=tokenizer(), **options),
        theirs(**options),
    )
    assert isinstance(mine, GenerateDecoderOnlyOutput)
    assert mine.sequences.equal(expected.sequences)
    for name in ("scores", "logits"):
        for one, other in zip(mine[name], expected[name], strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)
    statistics, trace = mine.statistics, mine.trace
    assert statistics.new_tokens == 24 == sum(statistics.sources.values())
    assert statistics.steps == len(trace.steps) < 24
    assert list(trace.tokens) == mine.sequences[0, PROMPT.shape[1] :].tolist()
    assert read_trace(trace.to_json().encode()) == trace
    first = trace.steps[0].judged[0]
    assert first.tokens[int(np.argmax(first.target))] == trace.tokens[0], "the rules are in it"


def test_a_sampled_token_is_the_largest_of_generates_scores_with_our_noise() -> None:
    """So its probability is the one that transformers' own processors and warpers give it."""
    target, _ = models()
    rules: dict[str, Any] = {"temperature": 0.7, "top_k": 6, "top_p": 0.9, "do_sample": True}
    rules |= {"repetition_penalty": 1.5}
    torch.manual_seed(3)
    seed = int(torch.randint(2**32, (1,)))
    texts = []
    for more in ({}, {"output_scores": True, "return_dict_in_generate": True}):
        torch.manual_seed(3)
        found = ours("ouroboros", max_new_tokens=8, **rules, **more)
        texts.append(found if isinstance(found, torch.Tensor) else found.sequences)
    text = texts[0]
    assert text.equal(texts[1]), "with the warpers as settings, and as they are"
    one: dict[str, Any] = {"max_new_tokens": 1, "output_scores": True, "pad_token_id": 0}
    for end in range(PROMPT.shape[1], text.shape[1]):
        ids = text[:, :end]
        mask = torch.ones_like(ids)
        one |= {"attention_mask": mask, "return_dict_in_generate": True}
        scores = target.generate(ids, **one, **rules).scores[0][0].double().numpy()
        noise = gumbel(seed, end, tiny.VOCABULARY, question=question_of(PROMPT[0].tolist()))
        assert int((scores + noise).argmax()) == int(text[0, end])


def test_a_draft_in_training_drops_nothing_while_it_drafts() -> None:
    """Also one that is run by transformers' own code; the mode of each part comes back."""
    model: Any = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout().eval())
    with hf._evaluated(model, None):
        assert not any(part.training for part in model.modules())
    assert [part.training for part in model.modules()] == [True, True, False]


def test_the_callers_model_is_left_as_it_was() -> None:
    target, draft = models()
    before = target.config.to_dict(), target.generation_config.to_dict()
    weights = {name: weight.clone() for name, weight in target.named_parameters()}
    draft.train()
    draft.lm_head.eval()
    ours(repetition_penalty=1.2)
    assert draft.training and draft.model.training
    assert not target.training and not draft.lm_head.training
    draft.eval()
    assert (target.config.to_dict(), target.generation_config.to_dict()) == before
    assert all(weight.equal(weights[name]) for name, weight in target.named_parameters())
    assert not target._forward_hooks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beams": 2}, "beam search is not possible here, only greedy"),
        ({"guidance_scale": 1.5}, "guidance_scale: not possible here"),
        ({"return_dict_in_generate": True, "output_attentions": True}, "output_attentions: not"),
        ({"method": "telepathy"}, "method must be one of autoregressive"),
        ({"settings": {"gamma": 99}}, "gamma must be auto, or between 1 and 32, got 99"),
        ({"method": "eagle2"}, "eagle2 needs an EAGLE head"),
        ({"trace": True}, r"trace=True needs tokenizer=... and return_dict"),
        ({"stop_strings": "x"}, "'x' need the tokenizer"),
    ],
)
def test_what_cannot_be_done_is_refused_in_a_sentence(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        ours(**{"method": "speculative", **options})


def test_a_draft_is_asked_for_by_its_name_here_and_must_share_the_vocabulary() -> None:
    import transformers

    target, _ = models()
    loop: Any = ouroboros_core.generate
    with pytest.raises(InvalidInput, match="needs a draft model: pass it as assistant_model"):
        loop(target, PROMPT, method="speculative", **PLAIN)
    sizes = {**tiny._SIZES, "vocab_size": 50}
    other = transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes))
    with pytest.raises(InvalidInput, match=r"got \[2, 12\]: texts are decoded one at a time"):
        loop(target, PROMPT.repeat(2, 1), **PLAIN)
    with pytest.raises(VocabularyMismatch, match="has 50 tokens, target"):
        loop(target, PROMPT, method="speculative", assistant_model=other, **PLAIN)


def test_called_by_itself_it_makes_the_same_call() -> None:
    target, draft = models()
    heard = Heard()
    options: dict[str, Any] = {**PLAIN, "attention_mask": torch.ones_like(PROMPT)}
    loop: Any = ouroboros_core.generate
    found = loop(target, PROMPT, assistant_model=draft, streamer=heard, **options)
    assert found.equal(theirs())
    assert [*itertools.chain(*heard.given[1:-1])] == found[0, PROMPT.shape[1] :].tolist()


def test_the_script_of_the_documentation_prints_equal_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tiny pair stands for the models that it names."""
    for name, model in zip(("target", "draft"), models(), strict=True):
        model.save_pretrained(tmp_path / name)
        tokenizer().save_pretrained(tmp_path / name)
    page = (ROOT / "docs" / "transformers.md").read_text("utf-8")
    for script in re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        assert len([line for line in script.splitlines() if line.strip()]) <= 20
        here = script.replace("HuggingFaceTB/SmolLM2-360M-Instruct", str(tmp_path / "target"))
        here = here.replace("HuggingFaceTB/SmolLM2-135M-Instruct", str(tmp_path / "draft"))
        exec(here, {})
        first, second, *_ = capsys.readouterr().out.splitlines()
        assert first == second


@pytest.mark.slow
def test_the_folder_for_the_hub_is_loaded_by_transformers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a visitor of the Hub has it: by its name, which here is a folder, and with every
    argument."""
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "m"))
    folder = tmp_path / "ouroboros"
    assert hub.main([str(folder)]) == 0
    assert hub.main([str(folder)]) == 0, "what it wrote, it writes again"
    front = (folder / "README.md").read_text("utf-8").split("---")[1]
    assert "custom_generate" in front
    target, draft = models()
    mine, expected = Heard(), Heard()
    config = GenerationConfig(**PLAIN, stop_strings=["q"], repetition_penalty=1.3)
    given: dict[str, Any] = {"attention_mask": torch.ones_like(PROMPT), "tokenizer": tokenizer()}
    found = target.generate(
        PROMPT,
        config,
        custom_generate=str(folder),
        trust_remote_code=True,
        method="ouroboros",
        assistant_model=draft,
        streamer=mine,
        **given,
    )
    assert found.equal(target.generate(PROMPT, config, streamer=expected, **given))
    assert mine.given == expected.given
    with pytest.raises(ValueError, match="trust_remote_code"):
        target.generate(PROMPT, config, custom_generate=str(folder), trust_remote_code=False)
