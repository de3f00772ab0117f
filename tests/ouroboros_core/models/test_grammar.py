"""Text under a grammar is that of plain decoding under it, for every method and rule; forced tokens
save passes."""

from __future__ import annotations

import collections
import json
import random
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ouroboros_core import Generation, Grammar, Sampling, Task, load_pair, methods
from ouroboros_core.decoding.loop import decode
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, Placement
from ouroboros_core.methods.parts.base import Resources
from ouroboros_core.models.grammar import GrammarRules
from ouroboros_core.models.processed import ProcessedModel, for_vocabulary
from ouroboros_core.sampling import Sampler
from ouroboros_core.sources import Source
from ouroboros_core.trace.file import read_run
from ouroboros_core.trace.trace import Trace
from tests import tiny
from tests.commands import Ask, words
from tests.folders import save, tokenizer

CALL = {
    "type": "object",
    "properties": {
        "name": {"enum": ["get_weather"]},
        "arguments": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 20},
                "unit": {"enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "arguments"],
    "additionalProperties": False,
}
SCHEMA = Grammar("json-schema", json.dumps(CALL))
GRAMMARS = [
    Grammar("json-schema", json.dumps({"type": "array", "items": {"type": "boolean"}})),
    Grammar("regex", "the cat( sat)+ on the (mat|naïve café)\\."),
    Grammar("choices", json.dumps(["def f(x):", "def f(x, y):", "你好", '"\\n"', "a\x7f"])),
]
ABLE = ["speculative", "ouroboros", "union", "eagle3", "sam", "token_recycling", "lookahead"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Two tiny models that differ, with a real tokenizer."""
    folder = tmp_path_factory.mktemp("pair")
    names = save(folder / "target"), save(folder / "draft", seed=1)
    return load_pair(*names, placement=Placement("cpu", "float32"))


def run(
    pair: Pair, method: str, grammar: Grammar | None, count: int = 24, **sampling: Any
) -> Trace:
    settings = methods.get(method).Hyperparameters()
    asked = ("The cat", method, settings, Sampling(**sampling), count, False)
    return Generation(pair, Task(*asked, grammar=grammar)).run()


def answer(trace: Trace) -> str:
    """The text without the stop token that ends it."""
    assert trace.ending == "stop token"
    return "".join(trace.texts[:-1])


@pytest.mark.embedded
@pytest.mark.parametrize("method", ABLE)
def test_every_method_writes_the_plain_text_in_fewer_passes(
    embedded_pair: Pair, method: str
) -> None:
    def call(method: str) -> Trace:
        settings = methods.get(method).Hyperparameters()
        prompt = "Call the tool that gives the weather in Paris. Answer with JSON."
        return Generation(
            embedded_pair,
            Task(prompt, method, settings, Sampling(), 60, grammar=SCHEMA),
        ).run()

    plain, found = call("autoregressive"), call(method)
    assert found.text == plain.text
    assert json.loads(answer(found))["name"] == "get_weather"
    forced = sum(
        step.tree.provenance[node].source is Source.GRAMMAR
        for step in found.steps
        for node in step.path
    )
    assert forced >= 15
    assert len(found.steps) <= len(plain.steps) - forced
    assert not any(len(step.tree) > 1 for step in plain.steps), "plain decoding drafts nothing"


@pytest.mark.parametrize("grammar", GRAMMARS, ids=lambda grammar: grammar.kind)
@pytest.mark.parametrize("method", ["speculative", "ouroboros", "union"])
@pytest.mark.parametrize("temperature", [0.0, 1.5])
def test_random_models_write_plain_text_under_any_grammar(
    pair: Pair, method: str, grammar: Grammar, temperature: float
) -> None:
    for seed in range(3):
        sampling: dict[str, Any] = {"temperature": temperature, "seed": seed, "acceptance": "match"}
        plain = run(pair, "autoregressive", grammar, **sampling)
        assert run(pair, method, grammar, **sampling).tokens == plain.tokens
        if grammar.kind == "choices":
            assert answer(plain) in json.loads(grammar.text)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["speculative", "union"])
def test_rejection_keeps_the_distribution_of_plain_decoding_under_the_grammar(
    pair: Pair, method: str
) -> None:
    """Against the product of the target's masked probabilities, of six texts."""
    grammar = Grammar("regex", "(a|b|c)(x|y)z")
    texts = [one + two + "z" for one in "abc" for two in "xy"]
    ids = [pair.tokenizer.encode(text, add_special_tokens=False) for text in texts]
    assert {len(one) for one in ids} == {3}, "one way to write each"
    prompt = tuple(pair.encode("The cat", chat=False))
    rules = GrammarRules(
        grammar, pair.tokenizer, pair.target.vocabulary, len(prompt), pair.stops(chat=False)
    )
    expected = []
    for one in ids:
        likelihood = 1.0
        for place, token in enumerate(one):
            before = (*prompt, *one[:place])
            scores = rules(before, pair.target.plain(before)).astype(np.float64)
            weights = np.exp(scores - scores.max())
            likelihood *= weights[token] / weights.sum()
        expected.append(likelihood)
    assert sum(expected) == pytest.approx(1)
    draws = 1500
    counts = collections.Counter(
        run(pair, method, grammar, 3, temperature=1.0, seed=seed, acceptance="rejection").text
        for seed in range(draws)
    )
    assert set(counts) <= set(texts)
    squares = [
        (counts[text] - draws * share) ** 2 / (draws * share)
        for text, share in zip(texts, expected, strict=True)
    ]
    assert sum(squares) < 20.5, "chi-square with 5 degrees of freedom, p = 0.001"


def test_moving_to_and_fro_gives_the_scores_of_a_new_matcher(pair: Pair) -> None:
    rng = random.Random(3)
    size, stops = pair.target.vocabulary, pair.stops(chat=False)
    prompt = (1, 2)

    def fresh() -> GrammarRules:
        return GrammarRules(GRAMMARS[1], pair.tokenizer, size, len(prompt), stops)

    moved, logits = fresh(), np.zeros(size, np.float32)
    ids = pair.tokenizer.encode("the cat sat sat on the mat.", add_special_tokens=False)
    for _ in range(60):
        text = [*prompt, *ids[: rng.randrange(len(ids) + 1)]]
        if rng.random() < 0.3:
            text.append(rng.randrange(size))
        assert (moved(text, logits) == fresh()(text, logits)).all()
        assert moved.forced(text) == fresh().forced(text)


def test_the_grammar_wins_where_other_rules_forbid_all_that_it_allows(pair: Pair) -> None:
    """As `min_new_tokens` does where the grammar allows the end alone."""
    rules = GrammarRules(
        GRAMMARS[1], pair.tokenizer, pair.target.vocabulary, 0, pair.stops(chat=False)
    )
    few = np.full(pair.target.vocabulary, -np.inf, np.float32)
    few[5] = 1.0
    allowed = rules((), np.zeros_like(few))
    assert allowed[5] == -np.inf and np.isfinite(allowed).any()
    assert (rules((), few) == allowed).all()


def test_a_draft_without_rows_for_the_allowed_tokens_keeps_its_scores(pair: Pair) -> None:
    size = pair.target.vocabulary
    rules = GrammarRules(GRAMMARS[1], pair.tokenizer, size, 0, pair.stops(chat=False))
    first = int(np.isfinite(rules((), np.zeros(size, np.float32))).argmax())
    few = np.zeros(first, np.float32)
    assert (for_vocabulary(rules, size)((), few) == few).all()


def test_a_draft_that_reads_only_the_end_of_the_text_follows_the_grammar(tmp_path: Path) -> None:
    """A letter and a digit take turns, so a draft that is one token behind breaks the rule."""
    names = save(tmp_path / "target"), save(tmp_path / "draft", max_position_embeddings=48)
    short = load_pair(*names, placement=Placement("cpu", "float32"))
    settings = methods.get("speculative").Hyperparameters.parse({"gamma": 4})
    grammar, prompt = Grammar("regex", "([abc][0-9]){40}"), "The cat sat on the mat. " * 6
    task = Task(prompt, "speculative", settings, Sampling(), 40, False, grammar=grammar)
    trace = Generation(short, task).run()
    assert short.draft and len(trace.prompt.tokens) > short.draft.max_length
    before, drafted = "", 0
    for step in trace.steps:
        for node in step.tree.proposals:
            path = [trace.pieces[token] for token in step.tree.tokens_to(node)]
            written = before + "".join(path)
            assert re.fullmatch("([abc][0-9])*[abc]?", written)
            drafted += step.tree.provenance[node].source is Source.DRAFT
        before += "".join(trace.pieces[token] for token in step.tokens)
    assert drafted > 20


def test_a_draft_that_reads_only_the_end_knows_the_skipped_tokens_of_a_penalty() -> None:
    """A rule that forbids every token of the text before: the draft never proposes one."""

    def forbid(text: Sequence[int], logits: Any) -> Any:
        return np.where(np.isin(np.arange(len(logits)), text), -np.inf, logits)

    target, draft = tiny.pair("llama")
    helper = ProcessedModel(draft, forbid)
    helper.max_length = 16
    sampler = Sampler(Sampling(), tiny.VOCABULARY)
    kind = methods.get("speculative")
    method = methods.create(
        kind, kind.Hyperparameters.parse({"gamma": 3}), Resources(sampler, helper)
    )
    prompt = list(range(20))
    model = ProcessedModel(target, forbid)
    steps = list(decode(model, method, prompt, max_new_tokens=8, sampler=sampler))
    proposed = {token for step in steps for token in step.tree.tokens[1:]}
    assert proposed and proposed.isdisjoint(prompt)


def test_a_forced_token_that_the_target_cannot_write_is_refused_in_a_sentence(
    tmp_path: Path,
) -> None:
    size = len(tokenizer("bytes")) - 30
    names = [save(tmp_path / f"{seed}", seed=seed, vocab_size=size) for seed in (0, 1)]
    small = load_pair(*names, placement=Placement("cpu", "float32"))
    assert max(small.tokenizer.encode(" #", add_special_tokens=False)) >= size
    grammar = Grammar("regex", " #")
    for method in ("autoregressive", "speculative", "prompt_lookup"):
        settings = methods.get(method).Hyperparameters()
        task = Task("T", method, settings, Sampling(), 4, False, grammar=grammar)
        with pytest.raises(InvalidInput, match="allows only tokens that the model cannot write"):
            Generation(small, task).run()


def test_copies_ask_the_grammar_only_where_the_text_goes(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mask for each token of the text, and none behind a refused copy."""
    masks = [0]
    plain_call = GrammarRules.__call__

    def counted(self: GrammarRules, text: Sequence[int], logits: Any) -> Any:
        masks[0] += 1
        return plain_call(self, text, logits)

    monkeypatch.setattr(GrammarRules, "__call__", counted)
    settings = {"ngram_size": 1, "num_tokens": 24, "kind": "simple"}
    chosen = methods.get("ngram_tables").Hyperparameters.parse(settings)
    prompt, grammar = "the cat sat on the mat. " * 2, Grammar("regex", "[a-z ]{60}")
    sampling = Sampling(temperature=1.0, seed=1)
    task = Task(prompt, "ngram_tables", chosen, sampling, 40, False, grammar=grammar)
    trace = Generation(pair, task).run()
    assert sum(len(step.tree) for step in trace.steps) > 2 * len(trace.tokens)
    assert masks[0] <= len(trace.tokens)


def test_under_rejection_a_forced_token_is_a_node_once(pair: Pair) -> None:
    """A token that the draft draws and the grammar forces is one node, so the method learns that
    its draft was right."""
    grammar = Grammar("regex", "the cat sat on the mat\\.")
    settings = methods.get("speculative").Hyperparameters.parse({"gamma": 4})
    sampling = Sampling(temperature=1.0, acceptance="rejection")
    task = Task("The cat", "speculative", settings, sampling, 24, False, grammar=grammar)
    trace = Generation(pair, task).run()
    for step in trace.steps:
        nodes = [(step.tree.parents[n], step.tree.tokens[n]) for n in step.tree.proposals]
        assert len(set(nodes)) == len(nodes)
    assert len(trace.steps) < len(trace.tokens) / 3 and trace.steps[0].draft_passes


@pytest.mark.parametrize(
    ("grammar", "problem"),
    [
        (Grammar("regex", "("), "the regex cannot be used: .*unclosed group"),
        (Grammar("json-schema", "{"), "the json-schema must be JSON"),
        (Grammar("json-schema", "[]"), "must be an object"),
        (Grammar("json-schema", '{"type": "number!"}'), "the json-schema cannot be used"),
        (Grammar("choices", "[]"), "at least one text"),
        (Grammar("choices", '["a", ""]'), "at least one character"),
        (
            Grammar("choices", '["a", "\\ud800"]'),
            r"half a surrogate pair in the choices, '\\ud800'",
        ),
        (Grammar("json-schema", '{"enum": ["\\ud800"]}'), "half a surrogate pair"),
        (Grammar("regex", "\udcff"), "half a surrogate pair"),
        (Grammar("bnf", "x"), "must be one of json-schema, regex, choices, got 'bnf'"),
    ],
)
def test_a_wrong_grammar_is_refused_in_a_sentence(
    pair: Pair, grammar: Grammar, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        run(pair, "speculative", grammar)


def test_without_the_package_the_message_names_what_to_install(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(InvalidInput, match="pip install llguidance"):
        run(pair, "speculative", GRAMMARS[0])


def test_a_tokenizer_that_is_not_fast_is_refused(pair: Pair) -> None:
    with pytest.raises(InvalidInput, match="needs a fast tokenizer, got object"):
        GrammarRules(GRAMMARS[0], object(), 10, 0, frozenset({1}))


def test_the_command_follows_a_schema_and_its_trace_opens(
    ouroboros: Ask, pair: Pair, tmp_path: Path
) -> None:
    folder = tmp_path / "models"
    names = save(folder / "target"), save(folder / "draft", seed=1)
    schema, out = tmp_path / "schema.json", tmp_path / "trace.json"
    schema.write_text(json.dumps(CALL), encoding="utf-8")
    asked = (
        f"--target {names[0]} --draft {names[1]} --dtype float32 --prompt Hi --max-new-tokens 99"
    )
    said = ouroboros(*words(f"generate {asked} --json-schema {schema} --json {out}"))
    assert '{"name": "get_weather", "arguments": {"city": "' in said.stdout
    assert "under the grammar (json-schema)" in said.stderr
    trace, _ = read_run(out.read_bytes())
    assert trace.grammar == {"json-schema": json.dumps(CALL)}
    plain = run(pair, "autoregressive", None)
    file = json.loads(out.read_bytes()) | {"baseline": json.loads(plain.to_json())}
    file["baseline"]["prompt"] = file["prompt"]
    with pytest.raises(InvalidInput, match="under the same grammar"):
        read_run(json.dumps(file).encode())
    refused = ouroboros(*words(f"generate {asked} --regex x --choices yes no"))
    assert "not allowed with argument" in refused.stderr
