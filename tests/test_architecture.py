"""Who may import whom, and what no file may do."""

import ast
import re
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.commands import finished, words

GROUND = {
    *words("arrays bounds interfaces sources tree rules sampling settings errors environment"),
    *words("locations progress messages version"),
}
STEP = {"methods.parts.base"}
"""The interface between a method and the controller around it."""
_DECODING = GROUND | {"lookup", "methods", "adaptive", "models", "loading", "decoding", "trace"}
MAY_USE = {
    "rules": GROUND,
    "lookup": GROUND | {"lookup"},
    "models": GROUND | {"models"},
    "methods": GROUND | {"lookup", "methods.parts"},
    "adaptive": GROUND | STEP | {"adaptive"},
    "loading": GROUND | {"lookup", "models", "adaptive", "loading"},
    "trace": GROUND | {"lookup", "methods", "loading", "trace"},
    "decoding": _DECODING,
    "benchmark": _DECODING | {"benchmark"},
    "sweeps": _DECODING | {"benchmark", "sweeps"},
    "what_if": _DECODING | {"what_if"},
    "training": GROUND | {"models", "loading", "training"},
    "integrations": _DECODING | {"integrations"},
    "notebook": _DECODING | {"benchmark", "sweeps", "notebook"},
    "cli": _DECODING | {"benchmark", "sweeps", "what_if", "training", "cli"},
}
"""Package of ouroboros_core -> what it may import of it; a package includes what is in it."""

TORCH_PACKAGES = {"models", "loading", "training", "benchmark", "integrations"}
"""Packages that may import torch at the top of a file."""


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def imports(path: Path, *, bound_at_import: bool = False) -> set[str]:
    """Return every absolute module name that a file imports. Of `from a import b` they are a and
    a.b.

    bound_at_import  only those that are loaded with the file: not in functions, and not under
                     TYPE_CHECKING
    """
    return {
        name
        for module, member in statements(path, bound_at_import=bound_at_import)
        for name in ((module, f"{module}.{member}") if member else (module,))
    }


def statements(path: Path, *, bound_at_import: bool = False) -> set[tuple[str, str]]:
    """Return the imports of a file: (a, b) of `from a import b`, and (a, "") of `import a`."""
    imported: set[tuple[str, str]] = set()

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                visit(child, True)
                continue
            if isinstance(child, ast.Import) and not (inside and bound_at_import):
                imported.update((alias.name, "") for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and not (inside and bound_at_import):
                assert child.level == 0, f"{path}: imports are absolute"
                imported.update((child.module or "", alias.name) for alias in child.names)
            visit(child, inside or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef))

    visit(ast.parse(path.read_text(encoding="utf-8")), False)
    return imported


def within(name: str, allowed: set[str]) -> bool:
    return any(name == a or name.startswith(a + ".") for a in allowed)


@pytest.mark.parametrize("path", modules("ouroboros_core"), ids=lambda p: str(p.relative_to(ROOT)))
def test_the_core_imports_downwards_only(path: Path) -> None:
    parts = path.relative_to(ROOT / "ouroboros_core").with_suffix("").parts
    names = imports(path)
    foreign = {n for n in names if within(n, {"gradio", "plotly", "visualize"})}
    assert all(parts[0] == "cli" and within(name, {"visualize"}) for name in foreign)
    if parts[0] in MAY_USE:
        allowed = MAY_USE[parts[0]]
    elif len(parts) == 1 and parts[0] not in ("__init__", "__main__"):
        allowed = GROUND
    else:
        return
    mine = {n.removeprefix("ouroboros_core.") for n in names if n.startswith("ouroboros_core.")}
    beyond = {n for n in mine if not within(n, allowed) and n not in ("__version__",)}
    packages = {n for n in beyond if any(a.startswith(n + ".") for a in allowed)}
    assert beyond <= packages, f"{path.name} reaches up or across to {sorted(beyond - packages)}"


def imported_modules(path: Path, known: set[str]) -> set[str]:
    """The modules among `known` that a file imports anywhere, inside functions, too; of `from a
    import b` it is a.b where that is a module, else a."""
    pairs = ((module, f"{module}.{name}") for module, name in statements(path))
    return {whole if whole in known else module for module, whole in pairs} & known


def circles(graph: dict[str, set[str]]) -> set[str]:
    """The modules that reach themselves: what is left when those that import nothing that is left
    are taken away, and then those that nothing left imports."""
    left = {name: set(targets) for name, targets in graph.items()}
    while ends := {name for name, targets in left.items() if not targets & left.keys()}:
        left = {name: targets for name, targets in left.items() if name not in ends}
    while starts := left.keys() - set().union(*left.values()):
        left = {name: targets for name, targets in left.items() if name not in starts}
    return set(left)


def test_no_module_reaches_itself_by_its_imports_lazy_ones_and_those_of_types_included() -> None:
    def name(path: Path) -> str:
        parts = path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts).removesuffix(".__init__")

    paths = {name(path): path for path in modules("ouroboros_core") + modules("visualize")}
    graph = {
        module: imported_modules(path, paths.keys() - {module}) for module, path in paths.items()
    }
    assert "ouroboros_core.loading.pairs" in graph["ouroboros_core.benchmark.comparison"], "typing"
    assert "visualize.launch" in graph["ouroboros_core.cli.serve"], "lazily"
    assert circles(graph) == set()
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b", "c"}


@pytest.mark.parametrize("path", modules("ouroboros_core"), ids=lambda p: str(p.relative_to(ROOT)))
def test_torch_stays_in_its_packages(path: Path) -> None:
    parts = path.relative_to(ROOT / "ouroboros_core").with_suffix("").parts
    names, heavy = imports(path, bound_at_import=True), {"torch", "transformers", "accelerate"}
    if any(within(name, heavy) for name in names):
        assert parts[0] in TORCH_PACKAGES
        assert parts[-1] != "__init__"


@pytest.mark.parametrize("path", modules("visualize"), ids=lambda p: str(p.relative_to(ROOT)))
def test_only_tabs_inputs_the_kit_and_the_page_know_gradio(path: Path) -> None:
    name = path.relative_to(ROOT / "visualize").as_posix()
    if not (
        name.startswith("kit/") or name.endswith(("/tab.py", "/inputs.py")) or name == "page.py"
    ):
        assert not {n for n in imports(path) if within(n, {"gradio", "torch", "transformers"})}


@pytest.mark.parametrize("path", modules("visualize/server"), ids=lambda p: p.name)
def test_the_server_knows_no_feature(path: Path) -> None:
    """Type annotations count, too."""
    code = path.read_text(encoding="utf-8")
    assert set(re.findall(r"\bvisualize\.(\w+)", code)) <= {"server"}


COMPARES_IDS = re.compile(r"ouroboros_core/(methods/\w+\.py|integrations/|benchmark/)")
"""Files that may: methods of each other, the interfaces of other projects, whose options have such
names, and benchmarks, which name what they compare."""


def questions_by_id(code: str, ids: set[str]) -> list[int]:
    """Return the lines that compare something with an id of a method, or with a constant of the
    same file that holds some: `==`, `in`, `endswith`."""
    tree = ast.parse(code)
    constants: dict[str, set[str]] = {}

    def names(node: ast.expr) -> set[str]:
        if isinstance(node, ast.Name):
            return constants.get(node.id, set())
        parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
        return {str(part.value) for part in parts if isinstance(part, ast.Constant)} & ids

    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name):
            constants[line.targets[0].id] = names(line.value)
    lines = []
    for node in ast.walk(tree):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "").endswith("swith"):
            asked = node.args
        lines += [part.lineno for part in asked if names(part)]
    return lines


def test_general_code_asks_a_method_for_its_properties_and_not_for_its_id() -> None:
    from ouroboros_core import methods

    ids = methods.available().keys() - {"ouroboros"}  # which is the name of the program, too
    asked = [
        f"{name}:{line}"
        for path in modules("ouroboros_core") + modules("visualize")
        if not COMPARES_IDS.match(name := path.relative_to(ROOT).as_posix())
        for line in questions_by_id(path.read_text(encoding="utf-8"), ids)
    ]
    assert asked == []
    code = 'A = "sam", 1\nx == "sam"\nx.id in A\nx not in ["sam"]\nx.endswith(("sam",))\nx == y\n'
    assert questions_by_id(code, ids) == [2, 3, 4, 5]


KNOBS = {
    *("ouroboros_core/cli/sweep.py", "ouroboros_core/sweeps/sweep.py", "visualize/page.py"),
    *("visualize/learn/pictures.py", "visualize/watch/endpoint.py", "visualize/watch/job.py"),
}
"""Code that reads or writes files and requests in which settings are `knobs`."""


def test_settings_have_their_earlier_name_only_in_files_and_requests() -> None:
    code = [*modules("ouroboros_core"), *modules("visualize")]
    files = {path for path in code if re.search(r"\bknobs\b", path.read_text("utf-8"))}
    assert {path.relative_to(ROOT).as_posix() for path in files} == KNOBS


HEAVY = ["torch", "transformers", "gradio"]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("ouroboros_core", [*HEAVY, "numpy", "plotly", "visualize", "pydantic"]),
        ("ouroboros_core.methods", [*HEAVY, "numpy"]),
        ("ouroboros_core.decoding.generation", [*HEAVY, "numpy", "psutil"]),
        ("ouroboros_core.cli", [*HEAVY, "plotly", "visualize"]),
        ("visualize", HEAVY),
        ("visualize.run.figures", HEAVY),
        ("visualize.run.view", HEAVY),
    ],
)
def test_an_import_loads_only_what_it_needs(module: str, absent: list[str]) -> None:
    code = f"import sys, {module}; print(*[m for m in {absent!r} if m in sys.modules])"
    assert finished([sys.executable, "-c", code], check=True).stdout.split() == []


def test_the_public_names_exist_and_are_typed() -> None:
    import ouroboros_core

    for name in ouroboros_core.__all__:
        assert getattr(ouroboros_core, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        ouroboros_core.nonsense  # noqa: B018


NUMBER_BEFORE = {"read_text": 0, "write_text": 1}
"""Of a method of Path, how many arguments come before the encoding."""
FILES = {"open", "fdopen", "NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile"}
BINARY_BY_DEFAULT = {"NamedTemporaryFile", "TemporaryFile", "SpooledTemporaryFile"}
PROCESSES = {"run", "Popen", "call", "check_call", "check_output"}


def leaves_encoding_open(call: ast.Call) -> bool:
    """Whether a call reads or writes text in the encoding of the machine."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    if "encoding" in keywords:
        return False
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    if name in NUMBER_BEFORE:
        return len(call.args) <= NUMBER_BEFORE[name]
    if name in PROCESSES:
        asks = (keywords.get("text"), keywords.get("universal_newlines"))
        return any(isinstance(value, ast.Constant) and bool(value.value) for value in asks)
    if name == "TextIOWrapper":
        return len(call.args) < 2
    if name not in FILES:
        return False
    # The first argument of Path.open is the mode, that of `open` and `fdopen` is the file.
    is_method = name == "open" and isinstance(call.func, ast.Attribute) and len(call.args) < 2
    where = 0 if is_method or name in BINARY_BY_DEFAULT else 1
    mode = keywords.get("mode", call.args[where] if len(call.args) > where else None)
    if mode is None:
        return name not in BINARY_BY_DEFAULT
    return isinstance(mode, ast.Constant) and set(str(mode.value)) <= set("rwxat+")


@pytest.mark.parametrize("folder", ["", "ouroboros_core", "visualize", "scripts", "tests"])
def test_no_file_and_no_output_of_a_process_is_in_the_encoding_of_the_machine(folder: str) -> None:
    files = modules(folder) if folder else sorted(ROOT.glob("*.py"))
    assert files
    unspecified = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in files
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call) and leaves_encoding_open(node)
    ]
    assert not unspecified, 'say encoding="utf-8" there'


CALLS = """
open(name).close()
open(name, "w").close()
open(name, mode="a").close()
open(name, "rb").close()
open(name, "w", encoding="utf-8").close()
Path(name).open().close()
Path(name).open("r+").close()
Path(name).open("rb").close()
Path(name).open(encoding="utf-8").close()
Path(name).read_text()
Path(name).read_text("utf-8")
Path(name).write_text("a")
Path(name).write_text("a", "utf-8")
Path(name).read_bytes()
os.fdopen(os.open(name, os.O_RDONLY)).close()
os.fdopen(os.open(name, os.O_RDONLY), "rb").close()
io.TextIOWrapper(io.BytesIO())
io.TextIOWrapper(io.BytesIO(), "utf-8")
tempfile.NamedTemporaryFile().close()
tempfile.NamedTemporaryFile("w").close()
tempfile.TemporaryFile(mode="w+").close()
tempfile.TemporaryFile("w+b").close()
subprocess.run(["true"], text=True, capture_output=True)
subprocess.run(["true"], capture_output=True)
subprocess.run(["true"], text=True, encoding="utf-8", capture_output=True)
subprocess.check_output(["true"], universal_newlines=True)
subprocess.Popen(["true"], text=True, stdout=-1).communicate()
""".strip().splitlines()


def test_python_itself_warns_of_the_calls_that_are_found_and_of_no_others(tmp_path: Path) -> None:
    """The oracle is `python -X warn_default_encoding`."""
    program = (
        "import io, os, subprocess, sys, tempfile, warnings\n"
        "from pathlib import Path\n"
        "name = sys.argv[1]\n"
        "Path(name).touch()\n"
        "for line in sys.argv[2:]:\n"
        "    with warnings.catch_warnings(record=True) as caught:\n"
        "        warnings.simplefilter('ignore')\n"
        "        warnings.simplefilter('always', EncodingWarning)\n"
        "        exec(line)\n"
        "    print(bool(caught))\n"
    )
    command = [sys.executable, "-X", "warn_default_encoding", "-c", program, str(tmp_path / "file")]
    warned = finished([*command, *CALLS], check=True).stdout.split()
    found = [
        any(leaves_encoding_open(n) for n in ast.walk(ast.parse(c)) if isinstance(n, ast.Call))
        for c in CALLS
    ]
    assert dict(zip(CALLS, map(str, found), strict=True)) == dict(zip(CALLS, warned, strict=True))
