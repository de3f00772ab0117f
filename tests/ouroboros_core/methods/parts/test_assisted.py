"""transformers' own modes as methods: the oracle is what transformers' generators propose in
`generate` itself."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.decoders import Fuse
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import Split
from transformers.generation import candidate_generator
from transformers.modeling_layers import MtpModel

import ouroboros_core
from ouroboros_core import methods
from ouroboros_core.cli import options
from ouroboros_core.errors import InvalidInput, UnsupportedModel
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.models import candidates
from tests import tiny

PROMPT = [*tiny.prompt(), *tiny.prompt(), *tiny.prompt()[:5]]
MODES: dict[str, tuple[str, dict[str, Any]]] = {
    "hf_assisted": ("AssistedCandidateGenerator", {}),
    "hf_prompt_lookup": ("PromptLookupCandidateGenerator", {"prompt_lookup_num_tokens": 10}),
    "hf_early_exit": ("EarlyExitCandidateGenerator", {"assistant_early_exit": 1}),
}


GREEDY: dict[str, Any] = {"do_sample": False, "pad_token_id": 0}


def written(model: Any, ids: Any, **options: Any) -> Any:
    """transformers' greedy ids behind a prompt [1, tokens]."""
    return model.generate(ids, attention_mask=torch.ones_like(ids), **GREEDY, **options)


def ours(model: Any, ids: Any, **options: Any) -> Any:
    """The same by our loop."""
    return written(model, ids, custom_generate=ouroboros_core.generate, **options)


SEEN = {"return_dict_in_generate": True, "trace": True}


def proposals_of(kind: Any, patch: pytest.MonkeyPatch) -> list[list[int]]:
    """What a generator of transformers proposes from now on, call by call."""
    plain, proposed = kind.get_candidates, list[list[int]]()

    def listen(self: Any, input_ids: Any, **more: Any) -> Any:
        found = plain(self, input_ids, **more)
        if type(self) is kind:
            proposed.append(found[0][0, input_ids.shape[1] :].tolist())
        return found

    patch.setattr(kind, "get_candidates", listen)
    return proposed


@pytest.mark.parametrize("end", [None, 11])
@pytest.mark.parametrize("method", MODES)
def test_each_step_proposes_what_generate_proposes(
    method: str, end: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates of `generate`, step by step; ours end where the text must end, too."""
    name, options = MODES[method]
    models = tiny.pair("llama", "sdpa", torch.float32)
    target, draft = (model.model for model in models)
    if method == "hf_assisted":
        options = {"assistant_model": draft}
    with monkeypatch.context() as patch:
        theirs = proposals_of(getattr(candidate_generator, name), patch)
        sizes = {"max_new_tokens": 40, "eos_token_id": end, **options}
        text = written(target, torch.tensor([PROMPT]), **sizes)[0, len(PROMPT) :].tolist()
    stop = frozenset() if end is None else frozenset({end})
    steps = tiny.run(models, method, PROMPT, 40, stop=stop)
    assert tiny.emitted(steps) == text
    assert len(steps) == len(theirs)
    assert any(theirs)
    left = 40
    for step, proposed in zip(steps, theirs, strict=True):
        mine = list(step.tree.tokens[1:])
        assert mine == proposed[: len(mine)]
        assert len(mine) in (len(proposed), left - 1) or mine[-1:] == [end]
        left -= len(step.tokens)
    if end is None:
        assert target.config.num_hidden_layers == 2


def words() -> Any:
    """A tokenizer with pairs of letters, which the target's does not have, and other ids."""
    doubles = {a + b: n for n, (a, b) in enumerate(itertools.product("abcd", repeat=2), 40)}
    vocabulary = {**{letter: 39 - n for n, letter in enumerate(tiny.LETTERS)}, **doubles}
    model = Tokenizer(BPE(vocabulary, [(a, b) for a, b in itertools.product("abcd", repeat=2)]))
    model.decoder = Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=model)


def foreign_model() -> Any:
    """It has positions enough: transformers' translation may grow to several times the text."""
    sizes = {**tiny._SIZES, "vocab_size": 60, "max_position_embeddings": 1024}
    torch.manual_seed(3)
    return transformers.AutoModelForCausalLM.from_config(transformers.LlamaConfig(**sizes)).eval()


def test_a_foreign_draft_proposes_what_generate_proposes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Really different tokenizers; candidates of `generate`, step by step, and its text."""
    target, draft = tiny.target("llama", "sdpa", torch.float32), foreign_model()
    draft.generation_config.assistant_confidence_threshold = 0.0
    given: dict[str, Any] = {"max_new_tokens": 24, "assistant_model": draft}
    given |= {"tokenizer": tiny.letters(), "assistant_tokenizer": words()}
    ids = torch.tensor([PROMPT])
    with monkeypatch.context() as patch:
        kind = candidate_generator.AssistedCandidateGeneratorDifferentTokenizers
        theirs = proposals_of(kind, patch)
        text = written(target, ids, **given)
    mine = ours(target, ids, **given, **SEEN, settings={"confidence": 0.0})
    assert mine.sequences.equal(text)
    steps = mine.trace.steps
    assert mine.trace.method == "hf_universal"
    assert any(theirs)
    assert len(steps) == len(theirs)
    left = 24
    for step, proposed in zip(steps, theirs, strict=True):
        assert list(step.tree.tokens[1:]) == proposed[: left - 1]
        left -= len(step.tokens)
    with pytest.raises(InvalidInput, match=r"has 47 tokens, target .* pass another assistant_mo"):
        ours(target, ids, **given, method="speculative")


class OneCandidate(candidate_generator.CandidateGenerator):  # type: ignore[misc]
    """A user's generator: it proposes three tokens of the text and records its calls."""

    def __init__(self) -> None:
        self.given: list[list[int]] = []
        self.accepted: list[int] = []

    def get_candidates(self, input_ids: Any, **_: Any) -> Any:
        self.given.append(input_ids[0, 7:10].tolist())
        return torch.cat([input_ids, input_ids[:, 7:10]], -1), None

    def update_candidate_strategy(self, input_ids: Any, scores: Any, num_matches: int) -> None:
        assert scores.shape[1] == 4
        self.accepted.append(num_matches)


def test_anybodys_candidates_are_checked_step_by_step() -> None:
    target, ids = tiny.target("llama", "sdpa", torch.float32), torch.tensor([PROMPT])
    own, count = OneCandidate(), {"max_new_tokens": 24}
    seen = {**SEEN, "tokenizer": tiny.letters(), "candidate_generator": own}
    found = ours(target, ids, **count, **seen)
    assert found.sequences.equal(written(target, ids, **count))
    assert found.trace.method == "hf_candidates"
    *asked, last = found.trace.steps
    assert len(last.tree) == 1, "the last token needs no draft"
    assert [len(step.path) for step in asked] == own.accepted
    assert len(own.given) == len(asked)
    shown = [list(step.tree.tokens[1:]) for step in asked]
    assert all(mine == theirs[: len(mine)] for mine, theirs in zip(shown, own.given, strict=True))
    silent = SimpleNamespace(get_candidates=own.get_candidates)
    text = ours(target, ids, **count, candidate_generator=silent)
    assert text.equal(found.sequences), "it need not want to know what was accepted"
    loop: Any = ouroboros_core.generate
    for generator, method, message in (
        (own, "union", "union asks no candidate generator: .* choose hf_candidates"),
        (3, None, "must be an object with get_candidates, .* got 3"),
        (NeedsOutputs(), None, "NeedsOutputs needs the outputs of transformers' own passes"),
        (None, "hf_candidates", "give ouroboros_core.generate one as candidate_gen"),
    ):
        with pytest.raises(InvalidInput, match=message):
            loop(target, ids, **GREEDY, **count, candidate_generator=generator, method=method)


class NeedsOutputs(OneCandidate):
    requires_model_outputs = True


def test_a_draft_grows_with_the_heuristic_schedule() -> None:
    """transformers' rule: two more after a step that is accepted whole, else one fewer."""
    models = tiny.pair("llama", "sdpa")
    settings: dict[str, Any] = {"num_tokens": 3, "schedule": "heuristic", "confidence": 0.0}
    steps = tiny.run(models, "hf_assisted", tiny.prompt(), 60, **settings)
    size, left = 3, 60
    for step in steps:
        assert len(step.tree) - 1 == min(size, left - 1)
        left -= len(step.tokens)
        size = size + 2 if len(step.path) == len(step.tree) - 1 else max(1, size - 1)


def test_the_drafts_passes_are_counted() -> None:
    calls = 0
    models = tiny.pair("llama", "sdpa")

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    hook = models[1].model.register_forward_hook(count)
    steps = tiny.run(models, "hf_assisted", tiny.prompt(), 30)
    hook.remove()
    assert sum(step.draft_passes for step in steps) == calls > 0


def test_transformers_does_not_warn_of_its_own_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step would tell whoever runs the page how transformers calls itself."""
    warned: list[str] = []
    transformers.utils.logging.set_verbosity_warning()
    logger = transformers.utils.logging.get_logger("transformers.generation.utils")
    kind = candidate_generator.AssistedCandidateGenerator
    plain = kind.get_candidates

    def and_warn(self: Any, *given: Any, **more: Any) -> Any:
        logger.warning("of its own call")
        return plain(self, *given, **more)

    monkeypatch.setattr(kind, "get_candidates", and_warn)
    monkeypatch.setattr(logger, "handle", lambda record: warned.append(record.getMessage()))
    tiny.run(tiny.pair("llama", "sdpa"), "hf_assisted", tiny.prompt(), 8)
    assert not warned
    logger.warning("of something else")
    assert warned == ["of something else"]


@pytest.mark.parametrize("begun", [1, 2])
def test_what_a_draft_reads_first_is_prefill_and_no_row(begun: int) -> None:
    """The oracle is `Counted.rows`: tokens of the context that a pass reads first do not count."""
    model = tiny.draft("llama", "sdpa", torch.float32)
    one = candidates.assisted(model, "llama")
    for _ in range(begun):
        one.start(PROMPT, 8, [], num_tokens=4, schedule="constant", confidence=0.0)
        assert len(one.candidates(PROMPT)) == 4
    assert one.rows == one.passes == 4 * begun


def test_a_draft_of_several_parts_needs_no_number_of_layers() -> None:
    """The configuration of such a model, Gemma 3's, has that number for its text part alone."""
    model: Any = torch.nn.Identity()
    model.config = transformers.Gemma3Config()
    assert not hasattr(model.config, "num_hidden_layers")
    one = candidates.TransformersCandidates(
        "g", lambda *_: OneCandidate(), torch.device("cpu"), model
    )
    one.start(PROMPT, 8, [])
    assert [token for token, _ in one.candidates(PROMPT)] == PROMPT[7:10]


def test_a_model_whose_code_cannot_be_read_is_not_ended_early() -> None:
    """One typed at a prompt, for which `inspect` finds no file, and one in compiled code."""
    typed: dict[str, Any] = {}
    exec("def forward(self): return self.config.num_hidden_layers", typed)
    for forward in (typed["forward"], len):
        body = type("Mine", (), {"forward": forward})()
        model: Any = SimpleNamespace(base_model=body, config=tiny.target("llama").config)
        assert not candidates.ends_early(model)


def test_an_error_leaves_the_target_its_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.target("llama")
    one = candidates.early_exit(model, "llama")
    one.start(PROMPT, 8, [], exit_layer=1, num_tokens=4, schedule="constant", confidence=0.0)

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(model, "generate", fail)
    with pytest.raises(MemoryError):
        one.candidates(PROMPT)
    assert model.config.num_hidden_layers == 2


@pytest.mark.parametrize("architecture", tiny.EIGHT)
def test_a_target_whose_passes_cannot_end_early_is_told_apart(architecture: str) -> None:
    """The oracle is a pass with one layer fewer, which fails for lack of a place in the cache or
    changes nothing where all are gone through."""
    model = tiny.target(architecture)
    text, layers = torch.tensor([PROMPT]), model.config.num_hidden_layers
    with torch.inference_mode():
        whole = model(text).logits
        model.config.num_hidden_layers = layers - 1
        try:
            ended = not torch.equal(model(text, use_cache=True).logits, whole)
        except IndexError:
            ended = False
        finally:
            model.config.num_hidden_layers = layers
    assert candidates.ends_early(model) == ended
    resources = Resources(candidate_generators=tiny.candidate_generators(tiny.pair(architecture)))
    kind = methods.get("hf_early_exit")
    if not ended:
        with pytest.raises(InvalidInput, match="needs a target that transformers can end early"):
            methods.create(kind, kind.Hyperparameters(), resources)


def test_a_pair_without_a_draft_has_all_but_assisted_generation() -> None:
    target, _ = tiny.pair("llama")
    alone = Pair(target, None, None, frozenset())
    assert set(alone.candidate_generators) == {"prompt_lookup", "early_exit"}
    kind = methods.get("hf_assisted")
    with pytest.raises(InvalidInput, match="needs a draft model in transformers: name one with"):
        methods.create(
            kind, kind.Hyperparameters(), Resources(candidate_generators=alone.candidate_generators)
        )


class Failing:
    """It writes a token for one text, and fails for others."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error, self.asked = error, 0

    def get_candidates(self, ids: torch.Tensor) -> Any:
        self.asked += 1
        if self.asked > 1:
            raise self.error("of its own")
        return torch.cat([ids, ids[:, :1]], -1), None

    def update_candidate_strategy(self, *_: Any) -> None:
        if self.asked > 1:
            raise self.error


@pytest.mark.parametrize("error", [RuntimeError, IndexError, StopIteration, AssertionError])
@pytest.mark.parametrize("translates", [True, False])
def test_a_generator_that_fails_begins_anew_and_costs_its_steps(
    error: type[Exception], translates: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A translated one at once, for the same text; every other with the next one. It is counted,
    and mentioned once in a text."""
    made: list[Failing] = []

    def make(*_: Any, **__: Any) -> Any:
        made.append(Failing(error))
        return made[-1]

    one = candidates.TransformersCandidates("theirs", make, torch.device("cpu"))
    one.translates = translates
    for _ in range(2):
        one.start(PROMPT, 8, [])
        counts = [len(one.candidates(PROMPT)) for _ in range(4)]
        assert (counts, one.failures) == (([1] * 4, 0) if translates else ([1, 0, 1, 0], 2))
    assert len(made) == (8 if translates else 4)
    assert len(caplog.records) == (0 if translates else 2)
    one.candidates(PROMPT)
    made[-1].asked = 2
    one.report(PROMPT, 1, 1)
    assert one.failures == (1 if translates else 3)


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("translates", [True, False])
def test_want_of_memory_and_an_interrupt_are_no_plain_step(
    error: type[BaseException], translates: bool
) -> None:
    made = Failing(error)
    one = candidates.TransformersCandidates("theirs", lambda *_: made, torch.device("cpu"))
    one.translates = translates
    one.start(PROMPT, 8, [])
    one.candidates(PROMPT)
    for call in (lambda: one.candidates(PROMPT), lambda: one.report(PROMPT, 1, 1)):
        with pytest.raises(error):
            call()
    assert made.asked == 2


def short(architecture: str, positions: int = 64, vocabulary: int = tiny.VOCABULARY) -> Any:
    """A draft with fewer positions, and perhaps fewer rows, than the target."""
    sizes = {**tiny._SIZES, **tiny.CONFIGS[architecture], "vocab_size": vocabulary}
    sizes["max_position_embeddings"] = positions
    if architecture == "gpt2":
        sizes["n_positions"] = positions
    torch.manual_seed(5)
    config = transformers.AutoConfig.for_model(architecture, **sizes)
    return transformers.AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize(
    ("architecture", "length"), [("gpt2", 50), ("gpt2", 63), ("opt", 64), ("llama", 80)]
)
def test_a_text_beyond_the_positions_of_the_draft_goes_on_in_plain_steps(
    architecture: str, length: int
) -> None:
    """Up to them it is drafted for, also where fewer than asked for are left; the oracle is the
    text of `generate` without a draft."""
    target, draft = tiny.target(architecture, "sdpa", torch.float32), short(architecture)
    ids, count = torch.tensor([tiny.prompt(length)]), {"max_new_tokens": 24}
    seen = {**SEEN, "tokenizer": tiny.letters(), "method": "hf_assisted"}
    seen |= {"settings": {"confidence": 0.0, "num_tokens": 5}, "assistant_model": draft}
    found = ours(target, ids, **count, **seen)
    assert found.sequences.equal(written(target, ids, **count))
    text, beyond = length, 0
    for step in found.trace.steps:
        assert len(step.tree) - 1 == max(0, min(5, length + 23 - text, 65 - text))
        beyond += 64 < text < length + 23  # the last token needs no draft
        text += len(step.tokens)
    assert found.statistics.draft_failures == beyond > 0


@pytest.mark.parametrize(
    ("architecture", "method"),
    [("gpt2", "speculative"), ("llama", "speculative"), ("gpt2", "union"), ("opt", "cascade")],
)
def test_our_own_methods_write_the_targets_text_beyond_the_positions_of_the_draft(
    architecture: str, method: str
) -> None:
    target, draft = tiny.target(architecture, "sdpa", torch.float32), short(architecture)
    for length, count in ((50, 30), (80, 20)):
        ids = torch.tensor([tiny.prompt(length)])
        found = ours(target, ids, max_new_tokens=count, assistant_model=draft, method=method)
        assert found.equal(written(target, ids, max_new_tokens=count))


def spaced(first: str) -> Any:
    """A tokenizer of words in which `first` and "<|mark|>" are special tokens: a translation drops
    these."""
    words = [*("abcdefghij"), first, "<|mark|>"]
    model = Tokenizer(WordLevel({word: n for n, word in enumerate(words)}, unk_token="a"))
    model.pre_tokenizer = Split(" ", "removed")
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=model, unk_token="a")
    made.add_special_tokens({"additional_special_tokens": [first, "<|mark|>"]})
    return made


FAR: dict[str, tuple[str, Any, str]] = {
    "nothing to translate": ("<|one|> <|mark|>", {}, "makes no token of the text"),
    "a word without a row": ("b h c", {"vocabulary": 7}, "token id 7 has none of its 7 rows"),
    "no position": (" ".join("bcd" * 9), {"positions": 24}, "27 tokens, and it has 24 positions"),
}


@pytest.mark.parametrize("case", FAR)
def test_a_text_that_a_translated_draft_cannot_read_goes_on_in_plain_steps(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    """From the command line such a text ended in a traceback of torch."""
    text, changes, reason = FAR[case]
    mine, theirs = spaced("<|one|>"), spaced("<|two|>")
    target = tiny.target("llama", "sdpa", torch.float32)
    draft = short("gpt2", **{"positions": 200, **changes})
    ids = torch.tensor([mine(text).input_ids])
    more = {"tokenizer": mine, "assistant_tokenizer": theirs, "assistant_model": draft}
    more |= {"method": "hf_universal", "return_dict_in_generate": True}
    found = ours(target, ids, max_new_tokens=8, **more)
    assert found.sequences.equal(written(target, ids, max_new_tokens=8))
    assert found.statistics.draft_failures > 0
    assert [reason in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize("mode", ["hf_mtp", "hf_dflash"])
def test_a_generator_that_reads_states_proposes_what_generate_proposes(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two MTP layers, and blocks of four: candidates of `generate`, step by step, and its text."""
    plain = tiny.target("llama", "sdpa", torch.float32)
    target, ids = tiny.with_mtp(plain, 2), torch.tensor([PROMPT])
    options: dict[str, Any] = {"max_new_tokens": 24}
    theirs_only: dict[str, Any] = {"use_mtp": True}
    if mode == "hf_mtp":
        layers = tiny.mtp_layers(plain, 2)
        monkeypatch.setattr(MtpModel, "from_pretrained", lambda *_, **__: layers)
        kind = "MTPCandidateGenerator"
    else:
        options["assistant_model"] = tiny.block_drafter(torch.float32, 4)
        kind, theirs_only = "DFlashTokenCandidateGenerator", {"speculation_type": "dflash"}
    with monkeypatch.context() as patch:
        theirs = proposals_of(getattr(candidate_generator, kind), patch)
        text = written(target, ids, **options, **theirs_only)
    method = {"method": mode} if mode == "hf_mtp" else {}
    mine = ours(target, ids, **options, **method, **SEEN, tokenizer=tiny.letters())
    assert mine.sequences.equal(text)
    assert mine.trace.method == mode
    steps = mine.trace.steps
    assert len(steps) == len(theirs) and any(theirs) and any(step.path for step in steps)
    left = 24
    for step, proposed in zip(steps, theirs, strict=True):
        assert list(step.tree.tokens[1:]) == proposed[: left - 1]
        left -= len(step.tokens)
    assert sum(step.draft_passes for step in steps) == sum(bool(one) for one in theirs)


def test_the_intersection_is_the_drafts_likeliest_token_that_the_target_has_too() -> None:
    """The oracle is a search through the draft's own logits; its output layer stays as it was."""
    target, draft = tiny.target("llama", "sdpa", torch.float32), foreign_model()
    head = draft.get_output_embeddings()
    given: dict[str, Any] = {"max_new_tokens": 12, "assistant_model": draft, **SEEN}
    given |= {"tokenizer": tiny.letters(), "assistant_tokenizer": words(), "method": "hf_tli"}
    chosen = {"confidence": 0.0, "num_tokens": 4}
    mine = ours(target, torch.tensor([PROMPT]), **given, settings=chosen)
    own, shared = words().get_vocab(), tiny.letters().get_vocab()
    text = words()(tiny.letters().decode(PROMPT), add_special_tokens=False)["input_ids"]
    likeliest = []
    for _ in range(4):
        with torch.inference_mode():
            logits = draft(torch.tensor([text])).logits[0, -1]
        letter = max(shared.keys() & own.keys(), key=lambda letter: float(logits[own[letter]]))
        text = [*text, own[letter]]
        likeliest.append(shared[letter])
    assert list(mine.trace.steps[0].tree.tokens[1:]) == likeliest
    assert draft.get_output_embeddings() is head


def test_this_transformers_cannot_construct_the_assistant_of_gemma_4() -> None:
    """Why there is no method for it: an assistant shares all layers, and such a text part is
    refused. If this fails, docs/transformers.md is out of date."""
    text = {**tiny._SIZES, "vocab_size_per_layer_input": 0, "hidden_size_per_layer_input": 0}
    config = transformers.Gemma4AssistantConfig(text_config=text, backbone_hidden_size=32)
    with pytest.raises(ValueError, match="set of layer types producing a cache is different"):
        transformers.AutoModelForCausalLM.from_config(config)


@pytest.mark.parametrize(("in_step", "begun"), [(True, 2), (False, 1)])
def test_a_generator_starts_again_if_others_wrote_more_than_a_token(
    in_step: bool, begun: int
) -> None:
    """As a grammar that forces tokens does: the generator would read the last one only."""
    made = []

    def make(ids: torch.Tensor, config: Any) -> Any:
        made.append(ids.tolist())
        follow = torch.tensor([[5]])
        return SimpleNamespace(get_candidates=lambda ids: (torch.cat([ids, follow], -1), None))

    generator = candidates.TransformersCandidates("fixed", make, torch.device("cpu"))
    generator.in_step = in_step
    generator.start([1], 20, [])
    assert [token for token, _ in generator.candidates([1, 2])] == [5]
    generator.candidates([1, 2, 5, 3])
    assert len(made) == 1, "its own candidate and the target's token"
    generator.candidates([1, 2, 5, 3, 5, 7, 8])
    assert len(made) == begun


def test_mtp_layers_that_cannot_be_read_are_named_before_the_first_step() -> None:
    """The configuration names a layer, and no file has it."""
    target = tiny.with_mtp(tiny.target("llama", "sdpa", torch.float32), 1)
    asked = {"method": "hf_mtp", "tokenizer": tiny.letters(), "max_new_tokens": 8}
    with pytest.raises(UnsupportedModel, match="names MTP layers, and they cannot be loaded"):
        ours(target, torch.tensor([PROMPT]), **asked)


def test_a_drafter_that_one_method_uses_chooses_the_method() -> None:
    """On the command line, where no method is named."""
    block: Any = SimpleNamespace(foreign_draft=None, block_draft=SimpleNamespace(name="flash"))
    assert options.needed_method(block) == ("hf_dflash", "flash drafts blocks: hf_dflash uses it")
    foreign: Any = SimpleNamespace(foreign_draft=object(), foreign="other words")
    assert options.needed_method(foreign) == (
        "hf_universal",
        "other words: hf_universal translates",
    )
    neither: Any = SimpleNamespace(foreign_draft=None, block_draft=None)
    assert options.needed_method(neither) is None
