"""The seeds' own interfaces: their README examples on the embedded pair, and where the references
were wrong.

The oracle is transformers' `generate`, or plain forward passes. What is compared is the *generated*
part: the reference's own check compares the first 64 tokens, of which this prompt has more, so that
it compares the prompt with itself.
"""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import pytest
import torch

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
    target = embedded_pair.target.model
    draft = embedded_pair.draft.model
    tokenizer = embedded_pair.tokenizer
    input_ids = tokenizer(PARAGRAPH, return_tensors="pt")["input_ids"]
    prompt = input_ids.shape[1]
    assert prompt > 64, "the reference's check would have compared prompt tokens only"
    settings: dict[str, Any] = {
        "gamma": 12,
        "window_size": 20,
        "guess_set_size": 20,
        "lookahead_level": 7,
    }
    output = ouroboros(
        input_ids, draft, target, max_len=24, eos_token_id=tokenizer.eos_token_id, **settings
    )
    mask = torch.ones_like(input_ids)
    expected = target.generate(input_ids, attention_mask=mask, do_sample=False, max_new_tokens=24)
    assert output.shape[1] > prompt + 8
    assert output.equal(expected)
    assert output.dtype == input_ids.dtype


@pytest.mark.embedded
def test_the_readme_example_of_speculative_decoding(embedded_pair: Pair) -> None:
    assert embedded_pair.draft is not None
    target = embedded_pair.target.model
    drafter = embedded_pair.draft.model
    tokenizer = embedded_pair.tokenizer
    prefix = "Translate to English: Je m'appelle Romain. N'hésitez pas à contribuer à mon projet !"
    chat = tokenizer.apply_chat_template(
        [{"role": "user", "content": prefix}], add_generation_prompt=True, tokenize=False
    )
    input_ids = tokenizer(chat, return_tensors="pt").input_ids[0].tolist()
    common: dict[str, Any] = {
        "max_gen_len": 24,
        "end_tokens_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    nucleus = NucleusProcessor(temperature=0.6, top_p=0.9)
    torch.manual_seed(4)
    output, alpha = speculative_generate(
        input_ids, drafter, target, tokenizer, logits_processor=nucleus, gamma=4, **common
    )
    torch.manual_seed(4)
    assert speculative_generate(
        input_ids, drafter, target, tokenizer, logits_processor=nucleus, gamma=4, **common
    ) == (
        output,
        alpha,
    )
    assert 0 < len(output) <= 24
    assert 0 < alpha < 1
    assert tokenizer.decode(output, skip_special_tokens=True)
    sampled = autoregressive_generate(input_ids, target, logits_processor=nucleus, **common)
    assert 0 < len(sampled) <= 24
    greedy, _ = speculative_generate(input_ids, drafter, target, tokenizer, gamma=4, **common)
    ids = torch.tensor([input_ids])
    expected = target.generate(
        ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=24
    )
    assert (
        greedy
        == autoregressive_generate(input_ids, target, **common)
        == expected[0, len(input_ids) :].tolist()
    )


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
    assert names(ouroboros) == names(dualdec) == wanted.split()
    defaults = [p.default for p in inspect.signature(ouroboros).parameters.values()][3:]
    assert defaults == [None, 512, 4, 20, 20, 7, 2, 3]
    assert names(speculative_generate)[:6] == [
        "inputs",
        "drafter",
        "target",
        "tokenizer",
        "gamma",
        "logits_processor",
    ]
    assert names(autoregressive_generate)[:4] == [
        "inputs",
        "model",
        "max_gen_len",
        "logits_processor",
    ]


@pytest.mark.parametrize("eos", [None, 7, [7, 11, 3]])
def test_the_text_ends_at_the_first_of_several_stop_tokens(eos: Any) -> None:
    target, draft = models()
    stops = frozenset([] if eos is None else [eos] if isinstance(eos, int) else eos)
    for seed in range(5, 9):
        text = tiny.prompt(seed=seed)
        expected = tiny.plain(target, text, 40, stop=stops)
        output = ouroboros(
            torch.tensor([text]), draft, target, max_len=40, gamma=3, eos_token_id=eos
        )
        assert output[0].tolist() == text + expected
        assert (
            speculative_generate(text, draft, target, max_gen_len=40, eos_tokens_id=eos)[0]
            == expected
        )
        assert (
            speculative_generate(text, draft, target, max_gen_len=40, end_tokens_id=eos)[0]
            == expected
        )
        assert autoregressive_generate(text, target, 40, GreedyProcessor(), eos) == expected


@pytest.mark.parametrize("length", [0, 1, 2])
def test_the_shortest_texts_need_no_division_by_zero(length: int) -> None:
    target, draft = models()
    ids, rate = speculative_generate(
        tiny.prompt(), draft, target, max_gen_len=length, eos_tokens_id=None
    )
    assert ids == tiny.plain(target, tiny.prompt(), length)
    assert length > 1 or rate == 0
    assert ouroboros(
        torch.tensor([tiny.prompt()]), draft, target, max_len=length, eos_token_id=None
    ).shape == (1, 12 + length)


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
    text = torch.tensor([tiny.prompt()])
    engine = CacheEngine(4, 6)
    settings: dict[str, Any] = {
        "max_len": 60,
        "gamma": 6,
        "window_size": 6,
        "guess_set_size": 6,
        "lookahead_level": 4,
    }
    passes = []
    for _ in range(2):
        calls = 0

        def count(*_: Any) -> None:
            nonlocal calls
            calls += 1

        handles = [model.register_forward_hook(count) for model in (target, draft)]
        output = ouroboros(text, draft, target, engine, eos_token_id=None, **settings)
        for handle in handles:
            handle.remove()
        passes.append(calls)
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
    output = ouroboros(
        torch.tensor([tiny.prompt()]),
        draft,
        target,
        max_len=30,
        window_size=5,
        guess_set_size=9,
        eos_token_id=None,
    )
    assert output[0, 12:].tolist() == tiny.plain(target, tiny.prompt(), 30)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda t, d: ouroboros([1, 2], d, t),  # type: ignore[arg-type]
            r"prefix must be a tensor of the shape \[1, tokens\], got a list",
        ),
        (
            lambda t, d: speculative_generate(torch.tensor([[1]]), d, t),  # type: ignore[arg-type]
            "inputs must be a list of token ids, got a tensor",
        ),
        (
            lambda t, d: ouroboros(torch.tensor([1, 2]), d, t),
            r"prefix must have the shape \[1, tokens\], got \[2\]",
        ),
        (
            lambda t, d: ouroboros(torch.ones(2, 3, dtype=torch.long), d, t),
            r"got \[2, 3\]: texts are decoded one at a time",
        ),
        (
            lambda t, d: ouroboros(torch.tensor([[1]]), d, t, lookahead_level=2),
            "lookahead_level must be between 3 and 10, got 2",
        ),
        (
            lambda t, d: ouroboros(torch.tensor([[1]]), d, t, topk=99),
            "topk must be between 0 and 20, got 99",
        ),
        (
            lambda t, d: ouroboros(torch.tensor([[1]]), d, t, CacheEngine(4, 7)),
            "lookahead_level 4, the call has 7",
        ),
        (lambda t, d: ouroboros(torch.tensor([[1]]), d, t, max_len=999), "has room for 256"),
        (lambda t, d: CacheEngine(2, 5), "lookahead_level must be between 3 and 10, got 2"),
        (lambda t, d: CacheEngine(4, 5).insert(1, [1, 2]), "a phrase must have 3 tokens, got 2"),
        (
            lambda t, d: speculative_generate([1], d, t, gamma=0),
            "gamma must be between 1 and 32, got 0",
        ),
        (
            lambda t, d: speculative_generate([1], d, t, skip_sample_adjustment=True),
            "would change the target's distribution",
        ),
        (
            lambda t, d: ouroboros(torch.tensor([[1]]), d, t, max_len=-1),
            "max_len must be at least 0, got -1",
        ),
        (
            lambda t, d: autoregressive_generate([1], t, -1),
            "max_gen_len must be at least 0, got -1",
        ),
        (
            lambda t, d: autoregressive_generate([1], t, logits_processor=Own()),
            "Own has its own __call__",
        ),
        (lambda t, d: speculative_generate([], d, t), "the prompt has no tokens"),
        (
            lambda t, d: autoregressive_generate(
                [1], t, logits_processor=NucleusProcessor(0.5, 1.5)
            ),
            "top_p must be above 0 and at",
        ),
        (
            lambda t, d: autoregressive_generate(
                [1], t, logits_processor=MultinomialProcessor(0.0)
            ),
            "for greedy decoding use Greedy",
        ),
    ],
)
def test_bad_arguments_are_named_as_they_are_here(call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        call(*models())


def test_models_that_do_not_fit_are_refused() -> None:
    import transformers

    target, _ = models()
    other = transformers.AutoModelForCausalLM.from_config(
        transformers.LlamaConfig(**{**tiny._SIZES, "vocab_size": 50})
    )
    with pytest.raises(VocabularyMismatch, match="Draft model LlamaForCausalLM has 50 tokens"):
        ouroboros(torch.tensor([[1, 2]]), other, target)
    bloom = transformers.AutoModelForCausalLM.from_config(
        transformers.BloomConfig(vocab_size=31, hidden_size=32, n_layer=1, n_head=4)
    )
    with pytest.raises(UnsupportedModel, match="ALiBi"):
        autoregressive_generate([1, 2], bloom)


@pytest.mark.parametrize(
    "processor",
    [
        MultinomialProcessor(0.7),
        TopKProcessor(1.3, 4),
        NucleusProcessor(0.6, 0.9),
        TopKNucleusProcessor(1.5, 8, 0.8),
    ],
)
def test_processors_give_the_probabilities_that_transformers_gives(
    processor: LogitsProcessor,
) -> None:
    """Oracle: transformers' own warpers in its order."""
    from transformers import (
        LogitsProcessorList,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    logits = torch.randn(3, 31, generator=torch.Generator().manual_seed(2)) * 3
    before = logits.clone()
    warpers = LogitsProcessorList([TemperatureLogitsWarper(processor.temperature)])
    if hasattr(processor, "top_k"):
        warpers.append(TopKLogitsWarper(processor.top_k))
    if hasattr(processor, "top_p"):
        warpers.append(TopPLogitsWarper(processor.top_p))
    expected = torch.softmax(warpers(torch.zeros(3, 1, dtype=torch.long), logits), -1)
    torch.testing.assert_close(processor(logits), expected)
    assert logits.equal(before), "the reference writes into the model's logits"
    assert processor.sample(processor(logits)).shape == (3, 1)
    assert (processor(logits).gather(1, processor.sample(processor(logits))) > 0).all()
    assert (
        GreedyProcessor().sample(GreedyProcessor()(logits)).flatten().tolist()
        == logits.argmax(-1).tolist()
    )


@pytest.mark.slow
def test_sampling_follows_the_target_where_a_draft_was_accepted_or_corrected() -> None:
    """First tokens over many seeds against the plain forward pass; the reference's assisted variant
    gives a drafted token 63% where the target gives 40%."""
    target, draft = models()
    text, processor = tiny.prompt(), TopKProcessor(1.2, 4)
    with torch.inference_mode():
        p = processor(target(input_ids=torch.tensor([text]), use_cache=False).logits[0, -1])
    torch.manual_seed(9)
    runs = 600
    drawn = Counter(
        speculative_generate(
            text, draft, target, gamma=1, logits_processor=processor, max_gen_len=2
        )[0][0]
        for _ in range(runs)
    )
    possible = p.nonzero().flatten().tolist()
    assert set(drawn) <= set(possible)
    chi = sum((drawn[t] - runs * float(p[t])) ** 2 / (runs * float(p[t])) for t in possible)
    assert chi < 20, "99.98% point at 3 degrees of freedom"
