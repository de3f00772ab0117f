"""llama.cpp as a peer. The oracle is a pretended library, which notes what it is asked, and the
worked example of what its server tells."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from ouroboros_core.benchmark import llama_cpp, peers
from ouroboros_core.benchmark.entrants import Request, Spent
from ouroboros_core.errors import InvalidInput
from ouroboros_core.loading.pairs import Pair, Placement, load_pair
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.trace import Seconds
from tests.folders import save


def told(prompt_ms: float, *moments: tuple[int, float]) -> list[dict[str, Any]]:
    """The chunks of a server: tokens and milliseconds of decoding so far."""
    timings = ({"prompt_ms": prompt_ms, "predicted_n": n, "predicted_ms": ms} for n, ms in moments)
    return [{"timings": one} for one in timings]


LIBRARY = """
import json, os
from pathlib import Path
from types import SimpleNamespace

NOTES = Path(__file__).with_suffix(".json")
BUILD_INFO = {"compiler": "GNU 10"}


def get_system_info():
    return "CPU : AVX2 = 1 |  F16C = 1 | "


def CommonParams():
    threads = {"cpuparams": SimpleNamespace(), "cpuparams_batch": SimpleNamespace()}
    return SimpleNamespace(model=SimpleNamespace(), **threads)


class Server:
    # Writes a token every two milliseconds, after ten for the prompt.
    def __init__(self, wanted):
        if "broken" in wanted.model.path:
            raise RuntimeError("no model in it")
        self.notes = {
            "process": os.getpid(),
            "file": wanted.model.path,
            "threads": wanted.cpuparams.n_threads,
        }

    def handle_completions(self, asked, tell):
        NOTES.write_text(json.dumps({**self.notes, "asked": asked}))
        for n in range(1, asked["n_predict"] + 1):
            tell({"timings": {"prompt_ms": 10, "predicted_n": n, "predicted_ms": 2.0 * n - 2}})
"""


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    folder = save(tmp_path_factory.mktemp("target") / "target")
    return load_pair(folder, "none", placement=Placement("cpu", "float32"))


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pretended library, which notes in a file what it is asked; return the file."""
    packages = tmp_path / "packages"
    facts = packages / f"{llama_cpp.WHEEL}-9.9.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {llama_cpp.WHEEL}\nVersion: 9.9", encoding="utf-8"
    )
    module = packages / f"{llama_cpp.WHEEL}.py"
    module.write_text(LIBRARY, encoding="utf-8")
    monkeypatch.syspath_prepend(packages)
    monkeypatch.setattr(llama_cpp, "REST_S", 0.0)
    return module.with_suffix(".json")


def test_it_gets_the_same_tokens_and_threads_in_its_own_process_and_is_timed_by_its_own_clock(
    pair: Pair, library: Path, tmp_path: Path
) -> None:
    file = tmp_path / "t.gguf"
    file.touch()
    (peer,) = peers.peers([f"llama.cpp[file={file}]"], pair, Sampling())
    assert isinstance(peer, llama_cpp.LlamaCpp) and peer.label == "llama.cpp"
    outcome = peer.run(Request("the cat sat", 6))
    notes = json.loads(library.read_text("utf-8"))
    asked = notes["asked"]
    assert notes["process"] != os.getpid(), "its threads would slow PyTorch's"
    assert asked["prompt"] == pair.encode("the cat sat", chat=False)
    assert (asked["n_predict"], asked["ignore_eos"], asked["temperature"]) == (6, True, 0.0)
    assert (notes["threads"], notes["file"]) == (pair.environment.threads, str(file))
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
    pair: Pair, library: Path, name: str, message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        peers.peers([name], pair, Sampling())


def test_a_file_that_the_library_cannot_read_is_refused_with_its_words(
    pair: Pair, library: Path, tmp_path: Path
) -> None:
    file = tmp_path / "broken.gguf"
    file.touch()
    with pytest.raises(InvalidInput, match=r"cannot load .*broken\.gguf: no model in it"):
        peers.peers([f"llama.cpp[file={file}]"], pair, Sampling())
