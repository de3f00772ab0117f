"""A model hub on this machine, for huggingface_hub with HF_ENDPOINT: what it asks about a model,
and the model's files."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import transformers

from tests.folders import save

COMMIT = "c" * 40
SECOND = "model-00002"


class Hub:
    """root    has the models' files as owner/model/file
    gated   models whose files nobody may read
    open    while it is not set, the second file of weights comes byte by byte
    asked   the addresses that were asked for
    """

    def __init__(self, root: Path) -> None:
        self.root, self.address = root, ""
        self.gated: set[str] = set()
        self.open = threading.Event()
        self.open.set()
        self.asked: list[str] = []

    @property
    def variables(self) -> dict[str, str]:
        """Of a process whose hub this is, with an empty cache beside the models."""
        return {
            "HF_ENDPOINT": self.address,
            "HF_HOME": str(self.home),
            "HF_HUB_OFFLINE": "",
            "HF_TOKEN": "",
        }

    @property
    def home(self) -> Path:
        return self.root.with_name("home")

    @property
    def incomplete(self) -> list[Path]:
        return list(self.home.rglob("*.incomplete"))

    def add(self, name: str, **changes: Any) -> Path:
        """Make a tiny model with weights in several files, and beside them what is not loaded."""
        folder = self.root / name
        save(folder, eos_token_id=None, **changes)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder, max_shard_size="80KB")
        template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
        (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
        (folder / "onnx").mkdir()
        for other in ("onnx/config.json", "pytorch_model.bin"):
            (folder / other).write_bytes(b"x" * 10_000)
        return folder


class Handler(BaseHTTPRequestHandler):
    def __init__(self, hub: Hub, *rest: Any) -> None:
        self.hub = hub
        super().__init__(*rest)

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        content, sent = self.answer(), 0
        with suppress(ConnectionError):  # who asked has left
            while SECOND in self.path and sent < len(content) and not self.hub.open.wait(0.1):
                self.wfile.write(content[sent : sent + 1])  # so that nobody gives up
                sent += 1
            self.wfile.write(content[sent:])

    def answer(self) -> bytes:
        """Send status and headers, and return the body."""
        path = self.path.partition("?")[0].removeprefix("/")
        self.hub.asked.append(path)
        name = "/".join(path.removeprefix("api/models/").split("/")[:2])
        folder, file = self.hub.root / name, path.partition("/resolve/main/")[2]
        if not folder.is_dir():
            return self.headed(404, {"X-Error-Code": "RepoNotFound"})
        if file and name in self.hub.gated:
            return self.headed(403, {"X-Error-Code": "GatedRepo"})
        if "/tree/" in path:  # transformers looks for a folder of chat templates
            return self.headed(200, {"Content-Type": "application/json"}, b"[]")
        if not file:
            files = sorted(one for one in folder.rglob("*") if one.is_file())
            siblings = [
                {"rfilename": one.relative_to(folder).as_posix(), "size": one.stat().st_size}
                for one in files
            ]
            about = {"id": name, "sha": COMMIT, "siblings": siblings}
            return self.headed(
                200, {"Content-Type": "application/json"}, json.dumps(about).encode()
            )
        if not (folder / file).is_file():
            return self.headed(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT})
        content = (folder / file).read_bytes()
        tag = f'"{hashlib.sha256(content).hexdigest()}"'
        return self.headed(200, {"ETag": tag, "X-Repo-Commit": COMMIT}, content)

    def headed(self, status: int, headers: dict[str, str], content: bytes = b"") -> bytes:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return content


@contextmanager
def hub(folder: Path) -> Iterator[Hub]:
    """Serve the models that are added below a folder."""
    made = Hub(folder / "hub")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, made)) as server:
        server.daemon_threads = True
        made.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made
        finally:
            made.open.set()
            server.shutdown()
            thread.join()
