"""`model.generate(custom_generate=...)`: the oracle is transformers' own `generate` without it."""

import contextlib
import copy
import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LlamaConfig,
    LogitsProcessor,
    LogitsProcessorList,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteria,
    StoppingCriteriaList,
    SynthIDTextWatermarkingConfig,
)
from transformers.generation import GenerateDecoderOnlyOutput

import ouroboros_core
from ouroboros_core import methods, read_trace
from ouroboros_core.errors import InvalidInput, VocabularyMismatch
from ouroboros_core.integrations.transformers import generate as hf
from ouroboros_core.methods.parts.needs import Need
from ouroboros_core.sampling import gumbel, question_of
from ouroboros_core.trace.summary import Summary
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


def generated(model: Any, ids: torch.Tensor = PROMPT, **options: Any) -> Any:
    """A text of `generate`, greedy without an option that says otherwise."""
    return model.generate(ids, **{"attention_mask": torch.ones_like(ids), **PLAIN, **options})


LOOP: Any = ouroboros_core.generate


tokenizer = tiny.letters


def ours(method: str = "speculative", **options: Any) -> Any:
    target, draft = models()
    loop = {"custom_generate": LOOP, "method": method, "assistant_model": draft}
    return generated(target, **loop, **options)


def theirs(**options: Any) -> Any:
    return generated(models()[0], **options)


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


class Diary(LogitsProcessor):  # type: ignore[misc]
    """Somebody's own, with a state in the class: no copy keeps it apart. It keeps the texts that it
    hears of, and bans a token that depends on how many these are."""

    heard: ClassVar[list[list[int]]] = []

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.heard.append(input_ids[0].tolist())
        banned = scores.topk(2).indices[0, len(self.heard) % 2]
        return scores.index_fill(1, banned, -math.inf)


class Quieter(RepetitionPenaltyLogitsProcessor):  # type: ignore[misc]
    """A subclass of one without a state, whose penalty fades with every call."""

    penalty: float

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        self.penalty = 1 + (self.penalty - 1) * 0.9
        return super().__call__(input_ids, scores)


class Noisy(LogitsProcessor):  # type: ignore[misc]
    """It draws from torch's generator."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores + torch.randn(scores.shape)


def every_other() -> Any:
    """A function of the caller's with a state in its closure."""
    calls = itertools.count()
    return lambda _, ids: [n for n in range(tiny.VOCABULARY) if (n + next(calls)) % 3]


NEGATIVE = torch.tensor([[3, 4, 9]])
WATERMARK = SynthIDTextWatermarkingConfig(keys=[3, 5, 7], ngram_len=4)
WITH_STATE: dict[str, Callable[[], dict[str, Any]]] = {
    "in a class": lambda: {"logits_processor": LogitsProcessorList([Diary()])},
    "in a subclass": lambda: {"logits_processor": LogitsProcessorList([Quieter(4.0)])},
    "in torch": lambda: {"logits_processor": LogitsProcessorList([Noisy()])},
    "in a closure": lambda: {"prefix_allowed_tokens_fn": every_other()},
    "in a cache of keys": lambda: {"guidance_scale": 1.7, "negative_prompt_ids": NEGATIVE},
    "in a watermark": lambda: {"watermarking_config": WATERMARK},
}


@pytest.mark.parametrize("kind", WITH_STATE)
def test_a_processor_with_a_state_writes_what_it_writes_in_generate(kind: str) -> None:
    """A draft, a window or a record of the run that asked it, too, would lead to another text."""
    made, texts = WITH_STATE[kind], []
    seen = {"return_dict_in_generate": True, "trace": True, "tokenizer": tokenizer()}
    runs: list[dict[str, Any]] = [{}, {"method": "speculative", **seen}, {"method": "union"}]
    runs += [{"method": f"{name}[published]"} for name in ("lookahead", "ouroboros")]
    for more in runs:
        torch.manual_seed(4)
        Diary.heard.clear()
        found = (ours if more else theirs)(repetition_penalty=1.1, **made(), **more)
        texts.append(found if isinstance(found, torch.Tensor) else found.sequences)
    assert all(text.equal(texts[0]) for text in texts[1:])
    assert not texts[0].equal(theirs(repetition_penalty=1.1)), "it changes this text"


@pytest.mark.parametrize("method", ["speculative", "lookahead[published]", "draft_only"])
def test_a_processor_of_ones_own_hears_what_it_hears_in_generate(method: str) -> None:
    """Each text once, in order, and none behind a stop token, which a grammar would not survive;
    the oracle is what it hears there."""
    writer = models()[method == "draft_only"]
    rules: dict[str, Any] = {"logits_processor": LogitsProcessorList([Diary()])}
    rules["eos_token_id"] = generated(writer)[0, -5].item()
    heard = []
    for mine in (False, True):
        Diary.heard = []
        ours(method, **rules) if mine else generated(writer, **rules)
        heard.append(Diary.heard)
    assert heard[0] == heard[1]


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


class Broken(LogitsProcessor):  # type: ignore[misc]
    """Somebody's own: it fails at the fifth new token."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        if input_ids.shape[1] == PROMPT.shape[1] + 5:
            raise KeyboardInterrupt
        return scores


class BrokenCriterion(StoppingCriteria):  # type: ignore[misc]
    """The same as a criterion."""

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        Broken()(input_ids, scores)
        return torch.tensor([False])


class Gone(Heard):
    """A streamer whose reader has left."""

    def put(self, value: Any) -> None:
        super().put(value)
        if len(self.given) == 4:
            raise BrokenPipeError


BROKEN = StoppingCriteriaList([BrokenCriterion()])
WAYS_OUT: dict[str, tuple[dict[str, Any], type[BaseException] | None]] = {
    "the end": ({}, None),
    "a method that lacks a head": ({"method": "medusa"}, InvalidInput),
    "no room": ({"max_new_tokens": 1000}, InvalidInput),
    "a setting": ({"settings": {"gamma": 0}}, InvalidInput),
    "a strange argument": ({"position_ids": PROMPT}, InvalidInput),
    "stop strings": ({"stop_strings": "x"}, InvalidInput),
    "a processor": ({"logits_processor": LogitsProcessorList([Broken()])}, KeyboardInterrupt),
    "a criterion": ({"stopping_criteria": BROKEN}, KeyboardInterrupt),
    "the streamer": ({"streamer": Gone()}, BrokenPipeError),
    "transformers": ({"no_such_argument": 1}, ValueError),
}


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize("way", WAYS_OUT)
def test_a_streamer_is_ended_once_whatever_ends_the_call(way: str, direct: bool) -> None:
    """Also where this loop is called by itself, and transformers refuses before it begins."""
    options, error = WAYS_OUT[way]
    heard = copy.copy(options.get("streamer", Heard()))
    heard.given = []
    given: dict[str, Any] = {"method": "speculative", **PLAIN, **options, "streamer": heard}
    given |= {"attention_mask": torch.ones_like(PROMPT), "assistant_model": models()[1]}
    with contextlib.nullcontext() if error is None else pytest.raises(error):
        if direct:
            LOOP(models()[0], PROMPT, **given)
        else:
            generated(models()[0], custom_generate=LOOP, **given)
    begun = direct or way != "transformers"
    assert heard.given.count("end") == begun
    assert not begun or heard.given[-1] == "end"


def padded() -> tuple[torch.Tensor, torch.Tensor]:
    """The prompt behind three tokens of padding, and its mask."""
    ids = torch.cat([torch.zeros(1, 3, dtype=torch.long), PROMPT], -1)
    return ids, (torch.arange(ids.shape[1]) >= 3).long()[None]


def test_left_padding_changes_nothing() -> None:
    target, (ids, mask) = models()[0], padded()
    options: dict[str, Any] = {"attention_mask": mask, "repetition_penalty": 1.2}
    found = generated(target, ids, custom_generate=LOOP, method="lookahead", **options)
    assert found.equal(generated(target, ids, **options))


@pytest.mark.parametrize("architecture", tiny.READERS)
def test_a_model_of_pictures_and_text_writes_its_text(architecture: str) -> None:
    """For text alone transformers hands on empty arguments, zeros, and positions in several rows;
    padding moves these."""
    model, (ids, mask) = tiny.reader(architecture), padded()
    given: dict[str, Any] = {"attention_mask": mask}
    if architecture == "gemma3":
        given["token_type_ids"] = torch.zeros_like(ids)
    found = generated(model, ids, custom_generate=LOOP, method="prompt_lookup", **given)
    assert found.equal(generated(model, ids, **given))


def test_an_argument_is_left_out_only_where_the_model_says_that_it_changes_nothing() -> None:
    """Positions from seven on are the same to a Llama and not to an OPT; zeros in token_type_ids
    are a word's embedding to a GPT-2."""
    later = torch.arange(PROMPT.shape[1])[None] + 7
    llama, opt = (tiny.target(name, "sdpa", torch.float32) for name in ("llama", "opt"))
    found = generated(llama, custom_generate=LOOP, position_ids=later)
    assert found.equal(generated(llama, position_ids=later))
    for positions, model in ((later, opt), (later.flip(1), llama)):
        with pytest.raises(InvalidInput, match="position_ids must count the tokens from 0"):
            generated(model, custom_generate=LOOP, position_ids=positions)
    picture: Any = {"pixel_values": torch.zeros(1, 3, 16, 16), **PLAIN}
    with pytest.raises(InvalidInput, match="mm_encoder_outputs: not possible here"):
        LOOP(tiny.reader("llava"), PROMPT, attention_mask=torch.ones_like(PROMPT), **picture)
    gpt2, types = tiny.target("gpt2", "sdpa", torch.float32), torch.zeros_like(PROMPT)
    with pytest.raises(InvalidInput, match="token_type_ids: not possible here"):
        generated(gpt2, custom_generate=LOOP, token_type_ids=types)


def test_the_output_class_is_theirs_with_statistics_scores_and_a_trace() -> None:
    names = ("return_dict_in_generate", "output_scores", "output_logits")
    options: dict[str, Any] = {**dict.fromkeys(names, True), "repetition_penalty": 1.3}
    mine = ours(trace=True, tokenizer=tokenizer(), **options)
    expected = theirs(**options)
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
        ({"return_dict_in_generate": True, "output_hidden_states": True}, "output_hidden_states:"),
        ({"return_dict_in_generate": True, "output_attentions": True}, "output_attentions: not"),
        ({"assistant_ensemble_weight": 0.5}, "or without do_sample: not possible"),
        ({"assistant_ensemble_weight": 0.3, "do_sample": True}, "other than 0.5, or without"),
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
    target, _ = models()
    with pytest.raises(InvalidInput, match="needs a draft model: pass it as assistant_model"):
        LOOP(target, PROMPT, method="speculative", **PLAIN)
    config = LlamaConfig(**{**tiny._SIZES, "vocab_size": 50})
    other = AutoModelForCausalLM.from_config(config)
    with pytest.raises(InvalidInput, match=r"got \[2, 12\]: texts are decoded one at a time"):
        LOOP(target, PROMPT.repeat(2, 1), **PLAIN)
    with pytest.raises(VocabularyMismatch, match="has 50 tokens, target"):
        LOOP(target, PROMPT, method="speculative", assistant_model=other, **PLAIN)


def test_called_by_itself_it_makes_the_same_call() -> None:
    (target, draft), heard = models(), Heard()
    options: dict[str, Any] = {**PLAIN, "attention_mask": torch.ones_like(PROMPT)}
    found = LOOP(target, PROMPT, assistant_model=draft, streamer=heard, **options)
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
    loop: dict[str, Any] = {"custom_generate": str(folder), "trust_remote_code": True}
    loop |= {"method": "ouroboros", "assistant_model": draft, "streamer": mine}
    found = target.generate(PROMPT, config, **loop, **given)
    assert found.equal(target.generate(PROMPT, config, streamer=expected, **given))
    assert mine.given == expected.given
    with pytest.raises(ValueError, match="trust_remote_code"):
        target.generate(PROMPT, config, custom_generate=str(folder), trust_remote_code=False)


def test_the_ensemble_weight_of_a_call_is_the_rule_and_marked_in_the_trace() -> None:
    options = {"return_dict_in_generate": True, "trace": True, "tokenizer": tokenizer()}
    sampled = ours(assistant_ensemble_weight=0.5, do_sample=True, **options)
    assert sampled.trace.sampling["acceptance"] == "ensemble"
    assert not Summary(sampled.trace).lossless
