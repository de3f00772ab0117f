"""What may be asked for: budgets, lists of pairs, length in characters, memory, the size of a
request."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import torch
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Generation
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading import capacity
from ouroboros_core.loading.allowed import PairChoice, read_pairs, typed
from ouroboros_core.loading.pairs import Pair
from tests.folders import small_pair, tokenizer
from tests.visualize.jobs import make_task
from visualize.server.limits import VISITORS, WINDOW, Budget, flag, visitor_id, whole_number
from visualize.server.models import Models
from visualize.server.service import Gate

pytestmark = pytest.mark.slow


def test_a_visitor_may_spend_a_budget_in_an_hour_and_is_told_when_there_is_more() -> None:
    now = [0.0]
    budget = Budget(100, "tokens", lambda: now[0])
    budget.admit("a", 100)
    budget.spend("a", 60)
    now[0] = 600
    budget.spend("a", 30)
    budget.admit("a", 10)
    had = "may have 100 tokens in an hour; you have had 90, and this would be"
    for tokens, message in (
        (11, f"{had} 11 more: .*in 50 min"),
        (95, "in 60 minutes"),
        (101, "and this would be 101: ask for less"),
    ):
        with pytest.raises(InvalidInput, match=message):
            budget.admit("a", tokens)
    budget.admit("b", 100)
    now[0] = WINDOW + 1
    budget.admit("a", 70)


def test_without_a_budget_nothing_is_counted_and_of_many_visitors_the_oldest_is_forgotten() -> None:
    Budget(None, "tokens").admit("a", 1e9)
    budget = Budget(10, "tokens")
    for number in range(VISITORS + 1):
        budget.spend(str(number), 10)
    budget.admit("0", 10)
    with pytest.raises(InvalidInput):
        budget.admit("1", 10)


def test_a_visitor_is_a_hash_of_an_address_and_of_the_proxys_word_only_where_there_is_one() -> None:
    headers = {"x-forwarded-for": "198.51.100.1, 10.0.0.1"}
    request = SimpleNamespace(client=SimpleNamespace(host="203.0.113.7"), headers=headers)
    direct, proxied = visitor_id(request, proxied=False), visitor_id(request, proxied=True)
    assert direct != proxied
    assert "203" not in direct and len(direct) == 16
    request.headers["x-forwarded-for"] = "198.51.100.2"
    assert visitor_id(request, proxied=False) == direct
    assert visitor_id(request, proxied=True) != proxied
    assert visitor_id(None) == ""


def test_a_list_of_pairs_is_read_and_the_first_is_the_default(tmp_path: Path) -> None:
    file, other = tmp_path / "pairs.json", {"name": "other", "target": "models/t", "draft": "none"}
    file.write_text(json.dumps([{"name": "own"}, other]), encoding="utf-8")
    pairs = read_pairs(file)
    assert pairs == (PairChoice(name="own"), PairChoice(**other))
    models = Models(lambda _: small_pair(), pairs, own=False)
    assert models.choice("").name == "own" == models.first
    assert models.choice("other").draft == "none"
    for name in ("models/t", "/etc/passwd", "HuggingFaceTB/SmolLM2-360M", 3, {"a": 1}, "x" * 500):
        with pytest.raises(InvalidInput, match="is not offered here; choose one of: own, other"):
            models.choice(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no list of pairs"),
        ("[]", "lists no pair: name at least one"),
        ('[{"target": "a"}]', "0.name: Field required"),
        ('[{"name": "a", "traget": "b"}]', "0.traget: Extra inputs are not permitted"),
        ('[{"name": ""}]', "0.name: String should have at least 1 character"),
        ('[{"name": "a"}, {"name": "a"}]', "has two pairs named a: give each a different name"),
        ('{"name": "a"}', "is no list of pairs"),
    ],
)
def test_a_list_of_pairs_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pairs.json").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match=message):
        read_pairs(tmp_path / "pairs.json")
    with pytest.raises(InvalidInput, match="No such file"):
        read_pairs(tmp_path / "nowhere.json")


def test_on_ones_own_machine_any_pair_may_be_typed() -> None:
    both = "models/t + models/d"
    assert typed(both) == PairChoice(name=both, target="models/t", draft="models/d")
    assert typed("org/model").draft is None
    with pytest.raises(InvalidInput, match="name a target"):
        typed(" ")
    loaded: list[str] = []

    def load(choice: PairChoice) -> Pair:
        loaded.append(str(choice.target))
        return small_pair()

    models = Models(load)
    for name in ("a", "a", "b", "a"):
        models.ask(name).result()
    assert loaded == ["a", "b", "a"], "of typed pairs one stays in memory"


def test_models_that_failed_to_load_are_tried_again_at_the_next_click() -> None:
    tries: list[int] = []

    def load(_: PairChoice) -> Pair:
        tries.append(1)
        if len(tries) == 1:
            raise InvalidInput("there is no model folder x")
        return small_pair()

    models = Models(load)
    with pytest.raises(InvalidInput, match="no model folder"):
        models.ask("").result()
    assert models.health == "failed"
    assert models.ask("").result() is models.if_loaded("")
    assert models.health == "ready"


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_tokenized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pair = small_pair()
    monkeypatch.setattr(type(pair.tokenizer), "__call__", lambda *_, **__: pytest.fail("tokenized"))
    message = r"the prompt has 100,000 characters, at least [\d,]+ tokens, but .* has room for 256"
    with pytest.raises(InvalidInput, match=message):
        Generation(pair, make_task("x" * 100_000))


def test_no_prompt_that_fits_is_refused_for_its_characters() -> None:
    """The longest token of the vocabulary as often as the model has room."""
    pair = small_pair()
    longest = max(pair.tokenizer.get_vocab(), key=len)
    room = pair.target.max_length
    capacity.check_characters(longest * room, pair.tokenizer, room, "x")


def composing(raw: Tokenizer) -> str:
    raw.normalizer = normalizers.Replace("hahahahahahahahahahaha", "h")
    return "ha" * 1100


def collapsing(raw: Tokenizer) -> str:
    raw.normalizer = normalizers.Replace(Regex(r"\s+"), " ")
    return "a" + " " * 9000 + "b"


def dropping(raw: Tokenizer) -> str:
    raw.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    return " " * 9000 + "a"


def without_unknown(raw: Tokenizer) -> str:
    raw.model, raw.pre_tokenizer = models.BPE(vocab={"a": 0}, merges=[]), pre_tokenizers.ByteLevel()
    return "a" + "b" * 9000


def stripping(raw: Tokenizer) -> str:
    raw.add_tokens([AddedToken("<mask>", lstrip=True)])
    return " " * 9000 + "<mask>"


def whole_words(raw: Tokenizer) -> str:
    raw.model = models.WordLevel({"?": 0, "a": 1}, unk_token="?")
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return ("b" * 50 + "  ") * 150


@pytest.mark.parametrize(
    "make", [composing, collapsing, dropping, without_unknown, stripping, whole_words]
)
def test_a_text_whose_characters_the_tokenizer_drops_or_joins_is_not_refused_if_it_fits(
    make: Callable[[Tokenizer], str],
) -> None:
    """Oracle: the tokenizer's own count."""
    raw = Tokenizer.from_str(tokenizer("bytes").backend_tokenizer.to_str())
    text = make(raw)
    words = PreTrainedTokenizerFast(tokenizer_object=raw)
    count = len(words(text).input_ids)
    assert len(text) > count * max(map(len, words.get_vocab()))
    capacity.check_characters(text, words, count, "x")


def test_keys_and_values_take_the_bytes_that_are_foreseen() -> None:
    """Oracle: what the cache holds after a run."""
    pair = small_pair()
    trace = Generation(pair, make_task(max_new_tokens=100)).run()
    tokens = len(trace.prompt.tokens) + 100
    held, foreseen = pair.target.cache.bytes, capacity.cache_bytes(pair.target, tokens)
    assert foreseen <= held <= capacity.cache_bytes(pair.target, pair.target.cache.capacity)
    assert capacity.cache_bytes(pair.target, pair.target.cache.capacity) == held
    pair.reset()
    assert pair.target.cache.bytes == 0


def test_what_does_not_fit_into_memory_is_refused_before_it_begins() -> None:
    pair = small_pair()
    needed = capacity.cache_bytes(pair.target, 1000) + capacity.SPARE
    capacity.check_memory([pair.target], 1000, free=needed)
    message = "1,000 tokens of prompt and answer need 128 MiB of memory, 127 MiB are free: shorten"
    with pytest.raises(InvalidInput, match=message):
        capacity.check_memory([pair.target], 1000, free=needed - 2**20)


def test_free_memory_is_what_the_container_leaves(tmp_path: Path) -> None:
    here = capacity.free_memory(torch.device("cpu"), tmp_path)
    assert here is not None and here > 2**20
    (tmp_path / "memory.max").write_text(f"{2**20}\n", encoding="utf-8")
    (tmp_path / "memory.current").write_text(f"{2**19}\n", encoding="utf-8")
    (tmp_path / "memory.stat").write_text("anon 5\ninactive_file 4096\n", encoding="utf-8")
    assert capacity.free_memory(torch.device("cpu"), tmp_path) == 2**19 + 4096
    (tmp_path / "memory.max").write_text("max\n", encoding="utf-8")
    assert (capacity.free_memory(torch.device("cpu"), tmp_path) or 0) > 2**20


def through_the_gate(content: Any, headers: dict[str, str] | None = None, path: str = "/x") -> int:
    """The status of a request to an application that reads its whole body and answers with 200."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise ConnectionError
            more = message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def post() -> int:
        transport = httpx.ASGITransport(app=Gate(app, most_bytes=1000))
        async with httpx.AsyncClient(transport=transport, base_url="http://page") as client:
            return (await client.post(path, content=content, headers=headers)).status_code

    return asyncio.run(post())


async def pieces(count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield b"x" * 100


def test_a_request_that_is_too_large_is_refused_with_or_without_its_length() -> None:
    assert through_the_gate(b"x" * 1000) == 200
    assert through_the_gate(b"x" * 1001) == 413
    assert through_the_gate(pieces(10)) == 200
    with pytest.raises(ConnectionError):
        through_the_gate(pieces(11))
    assert through_the_gate(b"x", {"content-length": "many"}) == 413


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/upload",
        "/upload",
        "/gradio_api/upload/",
        "//gradio_api//upload/",
        "/gradio_api/process_recording",
        "/gradio_api/deep_link",
        "/gradio_api/file=http://203.0.113.7/x",
        "/gradio_api/file=HTTPS://203.0.113.7/x",
        "/gradio_api/proxy=http://203.0.113.7/x",
        "/gradio_api/stream/x",
    ],
)
def test_no_file_comes_in_and_no_other_server_is_asked(path: str) -> None:
    assert through_the_gate(b"x", path=path) == 403


def test_what_the_page_itself_asks_for_passes_the_gate() -> None:
    inside = ("queue/join", "call/generate", "file=visualize/kit/dom.js")
    for path in ("/", "/healthz", *(f"/gradio_api/{name}" for name in inside)):
        assert through_the_gate(b"{}", path=path) == 200
    assert through_the_gate(b"x", {"content-type": "multipart/form-data; boundary=x"}) == 403


def test_half_a_surrogate_pair_is_no_text() -> None:
    pair = small_pair()
    message = r"character \d is U\+D[0-9A-F]{3}, half of a surrogate pair"
    for task in (make_task("the \ud85d cat"), make_task("\udfff", "autoregressive")):
        with pytest.raises(InvalidInput, match=message):
            Generation(pair, task)
    with pytest.raises(InvalidInput, match="name a target"):
        typed("x\udfffy")


@pytest.mark.parametrize("method", [[], [1], {"a": 1}, None, 3, "x" * 500])
def test_a_method_that_is_none_is_refused(method: Any) -> None:
    with pytest.raises(InvalidInput, match="method must be one of autoregressive"):
        methods.get(method)


@pytest.mark.parametrize("settings", ["greedy", [1, 2], [None], 1e-320, 2**70, {1: 2}, None])
def test_settings_that_have_no_names_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidInput, match="settings must be given by name"):
        methods.get("speculative").Hyperparameters.parse(settings)


@pytest.mark.parametrize(
    "count",
    [0, 257, 1.5, True, "3", None, float("nan"), float("inf"), -float("inf"), 10**400, -(10**400)],
)
def test_a_count_that_is_none_is_refused(count: Any) -> None:
    message = "max_new_tokens must be a whole number between 1 and 256, got"
    with pytest.raises(InvalidInput, match=message):
        whole_number("max_new_tokens", count, 256)
    assert whole_number("max_new_tokens", 256.0, 256) == 256


@pytest.mark.parametrize(
    "value", [0, 1, "true", None, "'; DROP TABLE runs", {"__type__": "update"}, float("inf")]
)
def test_what_is_neither_true_nor_false_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInput, match="compare must be true or false, got"):
        flag("compare", value)


def test_a_method_may_come_with_its_preset() -> None:
    kind, settings = methods.with_preset("lookahead[published]")
    assert (kind.id, settings) == ("lookahead", dict(kind.published))
    assert methods.with_preset("lookahead") == (kind, {})
    for wrong in ("lookahead[mine]", "lookahead[published,x", "union[published]", "[published]"):
        with pytest.raises(InvalidInput):
            methods.with_preset(wrong)
    with pytest.raises(InvalidInput, match="method must be one of"):
        methods.with_preset(["lookahead"])
