"""llama.cpp as a peer. The oracle is a pretended library, which notes what it is asked, and the
worked example of what its server tells."""

import importlib.metadata
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ouroboros_core.benchmark import llama_cpp, peers
from ouroboros_core.benchmark.entrants import Spent
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, load_pair
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.trace import Seconds
from tests.folders import save


def told(prompt_ms: float, *moments: tuple[int, float]) -> list[dict[str, Any]]:
    """The chunks of a server: tokens and milliseconds of decoding so far."""
    timings = ({"prompt_ms": prompt_ms, "predicted_n": n, "predicted_ms": ms} for n, ms in moments)
    return [{"timings": one} for one in timings]


class Server:
    """Writes a token every two milliseconds, after ten for the prompt."""

    def __init__(self, wanted: Any) -> None:
        self.wanted, self.asked = wanted, []  # type: ignore[var-annotated]

    def handle_completions(self, asked: dict[str, Any], tell: Any) -> None:
        self.asked.append(asked)
        for chunk in told(10, *((n, 2.0 * n - 2) for n in range(1, asked["n_predict"] + 1))):
            tell(chunk)


def common() -> Any:
    threads = {"cpuparams": SimpleNamespace(), "cpuparams_batch": SimpleNamespace()}
    return SimpleNamespace(model=SimpleNamespace(), **threads)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = save(tmp_path_factory.mktemp("target") / "target")
    return load_pair(folder, "none", device="cpu", dtype="float32")


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    pretended = SimpleNamespace(
        CommonParams=common,
        Server=Server,
        BUILD_INFO={"compiler": "GNU 10"},
        get_system_info=lambda: "CPU : AVX2 = 1 |  F16C = 1 | ",
    )
    monkeypatch.setitem(sys.modules, llama_cpp.WHEEL, pretended)
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "9.9")
    monkeypatch.setattr(llama_cpp, "REST_S", 0.0)


def test_it_gets_the_same_tokens_and_threads_and_is_timed_by_its_own_clock(
    pair: Pair, library: None, tmp_path: Path
) -> None:
    file = tmp_path / "t.gguf"
    file.touch()
    (peer,) = peers.peers([f"llama.cpp[file={file}]"], pair, Sampling())
    assert isinstance(peer, llama_cpp.LlamaCpp) and peer.label == "llama.cpp"
    outcome = peer.run("the cat sat", (), 6)
    (asked,) = peer._server.asked
    wanted = peer._server.wanted
    assert asked["prompt"] == pair.encode("the cat sat", chat=False)
    assert (asked["n_predict"], asked["ignore_eos"], asked["temperature"]) == (6, True, 0.0)
    assert wanted.cpuparams.n_threads == pair.environment.threads
    assert wanted.model.path == str(file)
    total = outcome.total
    assert (total.tokens, total.passes, outcome.first.seconds.prefill) == (6, 6, 0.01)
    assert total.seconds.decode == pytest.approx(0.01)
    assert outcome.before(4).total.seconds.decode == pytest.approx(0.006)
    assert "xllamacpp 9.9 (GNU 10; CPU : AVX2 = 1 | F16C = 1) on t.gguf" in peer.remark
    assert "another function" in peer.remark and not peer.repeats_plain_text


def test_tokens_that_come_together_are_one_step_and_what_has_none_is_no_step() -> None:
    steps = llama_cpp.steps([*told(20, (1, 0.0), (3, 4.0), (3, 4.0)), {}])
    assert steps == [
        Spent(1, 1, 1, 0, Seconds(prefill=0.02)),
        Spent(2, 2, 2, 0, Seconds(verify=0.004)),
    ]
    with pytest.raises(InvalidInput, match=r"prompt: too long\. .* 4096 .* lower max_new_tok"):
        llama_cpp.steps([{"error": {"message": "too long"}}])
    with pytest.raises(InvalidInput, match="wrote nothing"):
        llama_cpp.steps([])


def test_what_is_missing_is_said_with_the_remedy(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, llama_cpp.WHEEL, None)
    with pytest.raises(InvalidInput, match="-m pip install xllamacpp`, or leave the peer out"):
        peers.peers(["llama.cpp"], pair, Sampling())
    with pytest.raises(InvalidInput, match="leave --temperature out"):
        peers.peers(["llama.cpp"], pair, Sampling(temperature=0.5))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("llama.cpp", "reads a GGUF file of target: name it"),
        ("llama.cpp[file=no.gguf]", "there is no file no.gguf"),
        ("llama.cpp[threads=2]", "expected llama.cpp"),
    ],
)
def test_a_file_that_is_not_there_is_refused(
    pair: Pair, library: None, name: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        peers.peers([name], pair, Sampling())
