"""The seeds' own interfaces: their README examples on the embedded pair, and where the references
were wrong.

The oracle is transformers' `generate`, or plain forward passes. What is compared is the *generated*
part: the reference's own check compares the first 64 tokens, of which this prompt has more, so that
it compares the prompt with itself.
"""

import inspect
from collections import Counter
from typing import Any

import pytest
import torch
import transformers

from ouroboros_core.errors import InvalidInput, UnsupportedModel, VocabularyMismatch
from ouroboros_core.integrations import (
    CacheEngine,
    GreedyProcessor,
    LogitsProcessor,
    MultinomialProcessor,
    NucleusProcessor,
    TopKNucleusProcessor,
    TopKProcessor,
    autoregressive_generate,
    dualdec,
    ouroboros,
    speculative_generate,
)
from ouroboros_core.loading.pairs import Pair
from tests import tiny
from tests.commands import words

PARAGRAPH = (
    "Please summarize the following paragraph. Officers searched properties in the Waterfront Park "
    "and Colonsay View areas of "
    "the city on Wednesday. Detectives said three firearms, ammunition and a five-figure sum of "
    "money were recovered. A "
    "26-year-old man who was arrested and charged appeared at Edinburgh Sheriff Court on Thursday. "
    "Summary: "
)
"""The example of the reference's README (thunlp/Ouroboros)."""


@pytest.mark.embedded
def test_the_readme_example_of_ouroboros_equals_generate_in_what_is_generated(
    embedded_pair: Pair,
) -> None:
    assert dualdec is ouroboros
    assert embedded_pair.draft is not None
    target, tokenizer = embedded_pair.target.model, embedded_pair.tokenizer
    ids = tokenizer(PARAGRAPH, return_tensors="pt")["input_ids"]
    prompt = ids.shape[1]
    assert prompt > 64, "the reference's check would have compared prompt tokens only"
    settings: dict[str, Any] = {"gamma": 12, "window_size": 20, "guess_set_size": 20}
    settings |= {"lookahead_level": 7, "eos_token_id": tokenizer.eos_token_id}
    output = ouroboros(ids, embedded_pair.draft.model, target, max_len=24, **settings)
    mask = torch.ones_like(ids)
    expected = target.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=24)
    assert output.shape[1] > prompt + 8
    assert output.equal(expected)
    assert output.dtype == ids.dtype


@pytest.mark.embedded
def test_the_readme_example_of_speculative_decoding(embedded_pair: Pair) -> None:
    assert embedded_pair.draft is not None
    target, drafter = embedded_pair.target.model, embedded_pair.draft.model
    tokenizer = embedded_pair.tokenizer
    prefix = "Translate to English: Je m'appelle Romain. N'hésitez pas à contribuer à mon projet !"
    asked, raw = [{"role": "user", "content": prefix}], {"tokenize": False}
    chat = tokenizer.apply_chat_template(asked, add_generation_prompt=True, **raw)
    text = tokenizer(chat, return_tensors="pt").input_ids[0].tolist()
    common: dict[str, Any] = {"max_gen_len": 24, "end_tokens_id": tokenizer.eos_token_id}
    common["pad_token_id"] = tokenizer.pad_token_id
    nucleus = NucleusProcessor(temperature=0.6, top_p=0.9)
    pair, runs = (text, drafter, target, tokenizer), []
    for _ in range(2):
        torch.manual_seed(4)
        runs.append(speculative_generate(*pair, logits_processor=nucleus, gamma=4, **common))
    assert runs[0] == runs[1]
    output, alpha = runs[0]
    assert 0 < len(output) <= 24
    assert 0 < alpha < 1
    assert tokenizer.decode(output, skip_special_tokens=True)
    sampled = autoregressive_generate(text, target, logits_processor=nucleus, **common)
    assert 0 < len(sampled) <= 24
    greedy, _ = speculative_generate(*pair, gamma=4, **common)
    ids, plain = torch.tensor([text]), {"do_sample": False, "max_new_tokens": 24}
    expected = target.generate(ids, attention_mask=torch.ones_like(ids), **plain)
    alone = autoregressive_generate(text, target, **common)
    assert greedy == alone == expected[0, len(text) :].tolist()


class Own(LogitsProcessor):
    """Somebody's own filter."""

    def __call__(self, logits: torch.Tensor) -> torch.Tensor:
        return logits


def models(architecture: str = "llama") -> tuple[Any, Any]:
    return tiny.target(architecture, "sdpa"), tiny.draft(architecture, "sdpa")


def test_the_signatures_are_those_of_the_seeds() -> None:
    def names(function: Any) -> list[str]:
        return list(inspect.signature(function).parameters)

    wanted = (
        "prefix approx_model target_model ngram_cache max_len gamma window_size guess_set_size "
        "lookahead_level eos_token_id topk"
    )
    assert names(ouroboros) == names(dualdec) == words(wanted)
    defaults = [p.default for p in inspect.signature(ouroboros).parameters.values()][3:]
    assert defaults == [None, 512, 4, 20, 20, 7, 2, 3]
    first = words("inputs drafter target tokenizer gamma logits_processor")
    assert names(speculative_generate)[:6] == first
    alone = words("inputs model max_gen_len logits_processor")
    assert names(autoregressive_generate)[:4] == alone


@pytest.mark.parametrize("eos", [None, 7, [7, 11, 3]])
def test_the_text_ends_at_the_first_of_several_stop_tokens(eos: Any) -> None:
    target, draft = models()
    stops = frozenset([] if eos is None else [eos] if isinstance(eos, int) else eos)
    for seed in range(5, 9):
        text = tiny.prompt(seed=seed)
        expected, ids = tiny.plain(target, text, 40, stop=stops), torch.tensor([text])
        output = ouroboros(ids, draft, target, max_len=40, gamma=3, eos_token_id=eos)
        assert output[0].tolist() == text + expected
        for name in ("eos_tokens_id", "end_tokens_id"):
            named: dict[str, Any] = {name: eos}
            drafted, _ = speculative_generate(text, draft, target, max_gen_len=40, **named)
            assert drafted == expected
        assert autoregressive_generate(text, target, 40, GreedyProcessor(), eos) == expected


@pytest.mark.parametrize("length", [0, 1, 2])
def test_the_shortest_texts_need_no_division_by_zero(length: int) -> None:
    target, draft = models()
    text = tiny.prompt()
    no_end: dict[str, Any] = {"max_gen_len": length, "eos_tokens_id": None}
    drafted, rate = speculative_generate(text, draft, target, **no_end)
    assert drafted == tiny.plain(target, text, length)
    assert length > 1 or rate == 0
    ids = torch.tensor([text])
    output = ouroboros(ids, draft, target, max_len=length, eos_token_id=None)
    assert output.shape == (1, 12 + length)


def test_alpha_is_accepted_of_drafted(capsys: pytest.CaptureFixture[str]) -> None:
    """Counted from what debug prints: accepted drafts and the target's token make the text,
    everything before them is drafts."""
    target, draft = models()
    ids, alpha = speculative_generate(
        tiny.prompt(), draft, target, gamma=3, max_gen_len=30, eos_tokens_id=None, debug=True
    )
    lines = capsys.readouterr().out.splitlines()
    drafted = sum(int(line.split(": ")[1].split()[0]) for line in lines)
    assert sum(int(line.split(", ")[1].split()[0]) for line in lines) == len(ids) == 30
    accepted = len(ids) - len(lines)
    assert alpha == pytest.approx(accepted / drafted)
    assert 0 < alpha < 1


def test_a_cache_engine_warms_up_the_next_call_and_never_changes_the_text() -> None:
    target, draft = models()
    text, engine = torch.tensor([tiny.prompt()]), CacheEngine(4, 6)
    settings: dict[str, Any] = {"max_len": 60, "gamma": 6, "window_size": 6, "guess_set_size": 6}
    settings |= {"lookahead_level": 4, "eos_token_id": None}
    calls: list[Any] = []
    handles = [m.register_forward_hook(lambda *_: calls.append(0)) for m in (target, draft)]
    passes = []
    for _ in range(2):
        calls.clear()
        output = ouroboros(text, draft, target, engine, **settings)
        passes.append(len(calls))
    for handle in handles:
        handle.remove()
    assert output[0, 12:].tolist() == tiny.plain(target, tiny.prompt(), 60)
    assert passes[1] < passes[0]
    assert len(engine) > 0
    key = next(key for key in range(tiny.VOCABULARY) if engine.has(key))
    phrases = engine.get_guess_tokens(key)
    assert phrases
    assert all(len(phrase) == 3 for phrase in phrases)
    engine.insert(key, phrases[0])
    assert engine.get_guess_tokens(key) == [*phrases[1:], phrases[0]]


def test_window_and_guess_set_need_not_be_equal_and_the_draft_may_have_any_depth() -> None:
    """The reference asserts the former and rolls back 32 layers."""
    target, draft = models()
    sizes: dict[str, Any] = {"max_len": 30, "window_size": 5, "guess_set_size": 9}
    output = ouroboros(torch.tensor([tiny.prompt()]), draft, target, eos_token_id=None, **sizes)
    assert output[0, 12:].tolist() == tiny.plain(target, tiny.prompt(), 30)


def two(prefix: Any, *given: Any, **more: Any) -> Any:
    """A call of `ouroboros` on the tiny pair."""
    target, draft = models()
    return ouroboros(prefix, draft, target, *given, **more)


def guessed(inputs: Any, **more: Any) -> Any:
    """A call of `speculative_generate` on the tiny pair."""
    target, draft = models()
    return speculative_generate(inputs, draft, target, **more)


def alone(count: int = 40, processor: Any = None) -> Any:
    """A call of `autoregressive_generate` on the tiny target behind a token."""
    return autoregressive_generate([1], models()[0], count, processor or GreedyProcessor())


ONE = torch.tensor([[1]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: two([1, 2]), r"prefix must be a tensor of the shape \[1, tokens\], got a list"),
        (lambda: guessed(ONE), "inputs must be a list of token ids, got a tensor"),
        (lambda: two(ONE[0]), r"prefix must have the shape \[1, tokens\], got \[1\]"),
        (lambda: two(ONE.expand(2, 3)), r"got \[2, 3\]: texts are decoded one at a time"),
        (lambda: two(ONE, lookahead_level=2), "lookahead_level must be between 3 and 10, got 2"),
        (lambda: two(ONE, topk=99), "topk must be between 0 and 20, got 99"),
        (lambda: two(ONE, CacheEngine(4, 7)), "lookahead_level 4, the call has 7"),
        (lambda: two(ONE, max_len=999), "has room for 256"),
        (lambda: CacheEngine(2, 5), "lookahead_level must be between 3 and 10, got 2"),
        (lambda: CacheEngine(4, 5).insert(1, [1, 2]), "a phrase must have 3 tokens, got 2"),
        (lambda: guessed([1], gamma=0), "gamma must be between 1 and 32, got 0"),
        (lambda: guessed([1], skip_sample_adjustment=True), "would change the target's distrib"),
        (lambda: two(ONE, max_len=-1), "max_len must be at least 0, got -1"),
        (lambda: alone(-1), "max_gen_len must be at least 0, got -1"),
        (lambda: alone(processor=Own()), "Own has its own __call__"),
        (lambda: guessed([]), "the prompt has no tokens"),
        (lambda: alone(processor=NucleusProcessor(0.5, 1.5)), "top_p must be above 0 and at"),
        (lambda: alone(processor=MultinomialProcessor(0.0)), "for greedy decoding use Greedy"),
    ],
)
def test_bad_arguments_are_named_as_they_are_here(call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call()


def test_models_that_do_not_fit_are_refused() -> None:
    target, _ = models()
    made = transformers.AutoModelForCausalLM.from_config
    other = made(transformers.LlamaConfig(**{**tiny._SIZES, "vocab_size": 50}))
    with pytest.raises(VocabularyMismatch, match="Draft model LlamaForCausalLM has 50 tokens"):
        ouroboros(torch.tensor([[1, 2]]), other, target)
    bloom = made(transformers.BloomConfig(vocab_size=31, hidden_size=32, n_layer=1, n_head=4))
    with pytest.raises(UnsupportedModel, match="ALiBi"):
        autoregressive_generate([1, 2], bloom)


PROCESSORS = (MultinomialProcessor(0.7), TopKProcessor(1.3, 4), NucleusProcessor(0.6, 0.9))


@pytest.mark.parametrize("processor", [*PROCESSORS, TopKNucleusProcessor(1.5, 8, 0.8)])
def test_processors_give_the_probabilities_that_transformers_gives(
    processor: LogitsProcessor,
) -> None:
    """Oracle: transformers' own warpers in its order."""
    logits = torch.randn(3, 31, generator=torch.Generator().manual_seed(2)) * 3
    before = logits.clone()
    warpers = transformers.LogitsProcessorList()
    warpers.append(transformers.TemperatureLogitsWarper(processor.temperature))
    if hasattr(processor, "top_k"):
        warpers.append(transformers.TopKLogitsWarper(processor.top_k))
    if hasattr(processor, "top_p"):
        warpers.append(transformers.TopPLogitsWarper(processor.top_p))
    expected = torch.softmax(warpers(torch.zeros(3, 1, dtype=torch.long), logits), -1)
    torch.testing.assert_close(processor(logits), expected)
    assert logits.equal(before), "the reference writes into the model's logits"
    assert processor.sample(processor(logits)).shape == (3, 1)
    assert (processor(logits).gather(1, processor.sample(processor(logits))) > 0).all()
    greedy = GreedyProcessor().sample(GreedyProcessor()(logits)).flatten()
    assert greedy.equal(logits.argmax(-1))


@pytest.mark.slow
def test_sampling_follows_the_target_where_a_draft_was_accepted_or_corrected() -> None:
    """First tokens over many seeds against the plain forward pass; the reference's assisted variant
    gives a drafted token 63% where the target gives 40%."""
    target, draft = models()
    text, processor, runs = tiny.prompt(), TopKProcessor(1.2, 4), 600
    with torch.inference_mode():
        p = processor(target(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1])
    torch.manual_seed(9)
    more: dict[str, Any] = {"gamma": 1, "logits_processor": processor, "max_gen_len": 2}
    texts = (speculative_generate(text, draft, target, **more)[0] for _ in range(runs))
    drawn = Counter(tokens[0] for tokens in texts)
    possible = p.nonzero().flatten().tolist()
    assert set(drawn) <= set(possible)
    chi = sum((drawn[t] - runs * float(p[t])) ** 2 / (runs * float(p[t])) for t in possible)
    assert chi < 20, "99.98% point at 3 degrees of freedom"
