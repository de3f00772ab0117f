"""The command line as a person uses it: what it prints, its exit code."""

import argparse
import importlib
import io
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from rich.console import Console

from ouroboros_core import methods
from ouroboros_core.cli import build_parser, generate, main, options, serve
from ouroboros_core.loading import pairs
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.lookup.corpus import Corpus
from ouroboros_core.lookup.phrase_pool import PhrasePool
from ouroboros_core.sources import Source
from ouroboros_core.trace import metrics
from ouroboros_core.trace.file import read_trace
from ouroboros_core.trace.trace import Trace
from ouroboros_core.tree import Learned
from ouroboros_core.version import VERSION
from tests import ROOT
from tests.commands import Answer, Ask, finished, load_once, words
from tests.folders import save
from tests.traces import typed_trace


def parsers(
    name: str, parser: argparse.ArgumentParser
) -> Iterator[tuple[str, str, argparse.ArgumentParser]]:
    """Yield each command and subcommand with its summary in the list, and its parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for listed in action._choices_actions:
                command = action.choices[listed.dest]
                yield f"{name} {listed.dest}".strip(), str(listed.help), command
            for word, command in action.choices.items():
                yield from parsers(f"{name} {word}".strip(), command)


def test_the_help_of_a_command_is_a_whole_sentence() -> None:
    """The oracle is the first paragraph of the file of a command: it ends in a full stop."""
    commands = list(parsers("", build_parser()))
    assert len(commands) > 15 and any(" " in name for name, *_ in commands)
    for name, summary, command in commands:
        if " " in name:  # a subcommand has a phrase in the list, and a sentence in its own help
            assert command.description == f"{summary[0].upper()}{summary[1:]}."
            assert not re.search(r"(\b(and|or|of|the|a|an|to|for|in|on|with|that)|,)$", summary)
            continue
        text = importlib.import_module(f"ouroboros_core.cli.{name.replace('-', '_')}").__doc__
        assert text and " ".join(text.split("\n\n")[0].split()) == summary
        assert summary.endswith("."), f"{name}: {summary}"


def test_a_setting_of_several_methods_is_explained_as_each_of_them_has_it() -> None:
    """The oracle: each method's own text, and its id in the bracket after it."""
    parser = argparse.ArgumentParser()
    options.add_method(parser)
    helps = {action.dest: str(action.help) for action in parser._actions}
    for method in methods.available().values():
        for name, setting in method.Hyperparameters.settings().items():
            _, _, after = helps[name].partition(setting.help.removesuffix(".") + " [")
            assert method.id in after.partition("]")[0].split(", "), (method.id, name)
    assert sum("]; " in text for text in helps.values()) > 3, "several methods, several texts"


def process(*arguments: str) -> Answer:
    return finished([sys.executable, "-m", "ouroboros_core", *arguments])


def test_methods_are_listed_with_their_settings_and_the_default() -> None:
    listed = json.loads(process("methods", "--json").stdout)
    assert [m["id"] for m in listed] == list(methods.available())
    assert [m["id"] for m in listed if m["default"]] == [methods.DEFAULT]
    gamma = {"type": "int", "default": "auto", "min": 1, "max": 32, "choices": []}
    gamma |= {"help": "Draft tokens per step.", "auto": True, "fixed": 4}
    (ouroboros,) = [m for m in listed if m["id"] == "ouroboros"]
    assert ouroboros["settings"]["gamma"] == gamma
    text = process("methods").stdout
    assert all(m["id"] in text for m in listed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--method speculative --gamma 4.5", "gamma must be auto, or between 1 and 32, got 4.5"),
        ("--method speculative --window-size 3", "window_size is not a setting of speculative; "),
        ("--method telepathy", f"method must be one of {', '.join(methods.available())}, got t"),
        ("--method union --preset published", "union has no published settings"),
        ("--temperature -1", "temperature must be between 0 and 2, got -1"),
        ("--max-new-tokens x", "max_new_tokens must be a whole number of at least 0, got x"),
        ("--target ./nowhere", "there is no model folder or GGUF file ./nowhere"),
        ("--device cuda:77", "device must be one this machine has, such as cpu, got cuda:77"),
        ("--prompt ''", "the prompt is empty; write at least one character"),
        ("--method autoregressive --pool p.json", "autoregressive keeps nothing"),
        ("--method ouroboros --memory README.md", "this is not a memory of a method"),
        ("--max-new-tokens 9000", "has room for 8192"),
    ],
)
def test_bad_input_is_refused_with_what_is_allowed_and_no_traceback(
    ouroboros: Ask, arguments: str, message: str
) -> None:
    prompt = [] if "--prompt" in arguments else ["--prompt", "Hello"]
    result = ouroboros("generate", *prompt, *shlex.split(arguments))
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("error: ")
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_process_ends_with_the_exit_code_and_says_why() -> None:
    result = process("generate", "--prompt", "a", "--method", "speculative", "--gamma", "99")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "error: gamma must be auto, or between 1 and 32, got 99\n"


FIRST_LINE = """
import sys
from ouroboros_core.cli import main

class Notes:
    encoding, isatty, flush = "utf-8", lambda self: False, lambda self: None

    def write(self, text):
        print(text.strip(), "torch" in sys.modules)
        raise SystemExit

sys.stderr = Notes()
main(["generate", "--prompt", "x", "--target", "a/target", "--draft", "a/draft"])
"""


def test_what_is_loaded_is_said_before_anything_slow_is_imported() -> None:
    answer = finished([sys.executable, "-c", FIRST_LINE])
    assert answer.stdout == "Loading a/target, a/draft … False\n", answer.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("generate", "the following arguments are required: --prompt (python -m ouroboros_core g"),
        ("generate --prompt x --speed 9", "unrecognized arguments: --speed 9 (python -m ourob"),
        ("", "the following arguments are required: COMMAND"),
    ],
)
def test_a_wrong_command_line_is_answered_in_a_line(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(arguments.split())
    except SystemExit as left:
        code = left.code
    said = capsys.readouterr().err
    assert code == 2
    assert said.startswith(f"error: {message}")
    assert said.count("\n") == 1


def test_a_queue_without_room_is_refused(ouroboros: Ask) -> None:
    said = ouroboros("serve", "--max-queue", "0")
    assert said.returncode == 2
    assert "max_queue must be a whole number of at least 1, got 0" in said.stderr


@pytest.mark.embedded
def test_generate_writes_text_numbers_and_a_trace(ouroboros: Ask, tmp_path: Path) -> None:
    trace_file, pool_file = tmp_path / "trace.json", tmp_path / "pool.json"
    options = words("--raw --max-new-tokens 24 --dtype float32 --method ouroboros --gamma 3")
    options += words(f"--top-k-suffixes 3 --json {trace_file} --memory {pool_file}")
    prompt = "a\tb\ta\tb\ta\tb\ta\t"
    result = ouroboros("generate", "--prompt", "-", *options, "--compare", stdin=prompt)
    assert result.returncode == 0, result.stderr
    trace = read_trace(trace_file.read_bytes())
    assert result.stdout == trace.text + "\n"
    assert len(trace.tokens) == 24
    assert trace.prompt.text == prompt
    assert "\t" in trace.text, "the case must contain a tab, which a terminal library might widen"
    assert not trace.prompt.chat
    assert trace.hyperparameters["gamma"] == 3
    assert "identical to plain decoding, token by token" in result.stderr
    number = r"\d+\.\d\d"
    told = rf"speedup {number}(, 1 round| \({number}–{number}\), \d rounds)$"
    assert re.search(told, result.stderr, re.MULTILINE)
    assert len(PhrasePool.load(pool_file)) > 0
    warm = ouroboros("generate", "--prompt", prompt, *options, "--record")
    assert warm.returncode == 0, warm.stderr
    again = read_trace(trace_file.read_bytes())
    assert again.tokens == trace.tokens
    origins = {p.learned for step in again.steps for p in step.tree.provenance}
    assert Learned.HISTORY in origins, "what the pool file brought was proposed"
    assert all(step.judged for step in again.steps) and not any(step.judged for step in trace.steps)


@pytest.mark.embedded
def test_sampling_is_reproducible_and_the_same_whatever_the_method(ouroboros: Ask) -> None:
    texts = set()
    options = words("--dtype float32 --temperature 0.8 --top-p 0.9 --seed 7 --max-new-tokens 20")
    for method in ("autoregressive", "ouroboros", methods.DEFAULT):
        result = ouroboros("generate", "--prompt", "Tell me a story.", "--method", method, *options)
        assert result.returncode == 0, result.stderr
        texts.add(result.stdout)
    assert len(texts) == 1
    assert len(texts.pop()) > 20


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("draft_only", "The draft model wrote this alone"),
        (
            "speculative --temperature 0.8 --acceptance rejection",
            "keeps the target's probabilities",
        ),
    ],
)
def test_a_comparison_says_what_may_differ_and_why(
    ouroboros: Ask, arguments: str, message: str
) -> None:
    options = words("--max-new-tokens 24 --dtype float32 --compare --repeats 1 --method")
    prompt = ("--prompt", "Tell me a story.")
    result = ouroboros("generate", *prompt, *options, *arguments.split())
    assert result.returncode == 0, result.stderr
    assert message in result.stderr
    assert ", 1 round\n" in result.stderr
    assert "identical" not in result.stderr
    alone = arguments == "draft_only"
    assert ("24 draft passes, no target pass" in result.stderr) == alone


def test_ctrl_c_while_it_is_measured_again_keeps_the_rounds_that_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Plain decoding ends the first round and begins the second; the run behind it is stopped."""
    runs: list[Any] = []

    class Interrupted:
        def __init__(self, *_: Any) -> None:
            pass

        def run(self) -> Trace:
            runs.append(self)
            if len(runs) == 3:
                raise KeyboardInterrupt
            return typed_trace()

    monkeypatch.setattr(generate, "Generation", Interrupted)
    monkeypatch.setattr(metrics, "busy", lambda *_: None)
    said = io.StringIO()
    task: Any = SimpleNamespace(plain=lambda: None)
    pair: Any = None
    found = generate._measure(pair, typed_trace(), task, None, 3, Console(file=said))
    assert found.speedup().remark == "1 round"
    assert said.getvalue() == "stopped measuring\n"


@pytest.mark.slow
@pytest.mark.embedded
def test_a_corpus_is_built_used_and_refused(ouroboros: Ask, tmp_path: Path) -> None:
    text, lines, corpus = tmp_path / "a.txt", tmp_path / "b.jsonl", tmp_path / "corpus.npz"
    text.write_text("The quick brown fox jumps over the lazy dog. " * 3, encoding="utf-8")
    lines.write_text('{"prompt": "one document"}\n{"prompt": "and another"}\n', encoding="utf-8")
    built = ouroboros("sam", "build", str(text), str(lines), "--out", str(corpus))
    assert built.returncode == 0, built.stderr
    assert built.stdout.startswith("documents: 3, tokens: ")
    assert "µs a token; to follow a text takes" in built.stdout
    trace_file, rest = tmp_path / "trace.json", ("generate", "--method", "rest", "--corpus")
    more = words(f"--raw --max-new-tokens 16 --dtype float32 --tree-size 6 --json {trace_file}")
    used = ouroboros(*rest, str(corpus), *more, "--prompt", "Once more: The quick brown")
    assert used.returncode == 0, used.stderr
    trace = read_trace(trace_file.read_bytes())
    assert Source.CORPUS in {p.source for step in trace.steps for p in step.tree.provenance}
    Corpus.build([[1, 2]], "another").save(corpus)
    refused = ouroboros(*rest, str(corpus), "--prompt", "Hi")
    assert refused.returncode == 2
    assert "made with another tokenizer" in refused.stderr
    none = ouroboros(*rest, "none", "--prompt", "Hi")
    assert "rest needs a corpus: name one with --corpus, make one (sam build), or" in none.stderr


@pytest.mark.embedded
def test_the_target_answers_prompts_for_a_corpus(
    ouroboros: Ask, tmp_path: Path, embedded_pair: Pair
) -> None:
    prompts, corpus = tmp_path / "prompts.jsonl", tmp_path / "corpus.npz"
    heap = "What is a heap in computer science?"
    lines = [json.dumps({"prompt": text}) for text in ("Name a colour.", heap)]
    prompts.write_text("\n".join(lines), encoding="utf-8")
    asked = f"sam corpus --prompts {prompts} --out {corpus} --max-new-tokens 8"
    result = ouroboros(*words(asked))
    assert result.returncode == 0, result.stderr
    found = Corpus.load(corpus, embedded_pair.fingerprint)
    assert found.documents == 2
    question = embedded_pair.encode(heap, chat=False)
    occurs = found.cursor().extend(question).match
    assert occurs is not None and occurs.length == len(question)
    assert len(found) > 2 * 8


@pytest.mark.embedded
def test_an_expected_text_is_copied_and_refused_where_it_is_of_no_use(
    ouroboros: Ask, tmp_path: Path
) -> None:
    trace_file, expected = tmp_path / "trace.json", tmp_path / "expected.txt"
    options = ["generate", "--prompt", "Count from one to ten in words."]
    options += ["--max-new-tokens", "24", "--dtype", "float32", "--method"]
    first = ouroboros(*options, "autoregressive")
    expected.write_text(first.stdout.rstrip("\n"), encoding="utf-8")
    known = ("--prediction", str(expected))
    again = ouroboros(*options, "sam", *known, "--json", str(trace_file))
    assert again.returncode == 0, again.stderr
    assert again.stdout == first.stdout
    trace = read_trace(trace_file.read_bytes())
    assert len(trace.steps) <= 6
    assert trace.prediction == expected.read_text(encoding="utf-8")
    refused = ouroboros(*options, "ouroboros", *known)
    assert refused.returncode == 2
    assert "has no use for a prediction; leave --prediction out, or choose sam" in refused.stderr


@pytest.mark.parametrize(
    ("variables", "flags", "place"),
    [
        ("", "", ("127.0.0.1", 7860)),
        ("PORT=7001", "", ("127.0.0.1", 7001)),
        ("PORT=7001 GRADIO_SERVER_PORT=7002", "", ("127.0.0.1", 7002)),
        ("PORT=7001 GRADIO_SERVER_PORT=", "", ("127.0.0.1", 7001)),
        ("PORT= GRADIO_SERVER_PORT= GRADIO_SERVER_NAME=", "", ("127.0.0.1", 7860)),
        ("GRADIO_SERVER_PORT=7002", "--port 7003", ("127.0.0.1", 7003)),
        ("GRADIO_SERVER_NAME=::1", "", ("::1", 7860)),
        ("GRADIO_SERVER_NAME=::1", "--host 0.0.0.0", ("0.0.0.0", 7860)),
    ],
)
def test_a_flag_wins_over_gradios_variable_and_that_over_port_and_an_empty_one_is_none(
    variables: str, flags: str, place: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PORT", "GRADIO_SERVER_PORT", "GRADIO_SERVER_NAME"):
        monkeypatch.delenv(name, raising=False)
    for variable in variables.split():
        monkeypatch.setenv(*variable.split("="))
    arguments = build_parser().parse_args(["serve", *flags.split()])
    assert (arguments.host, arguments.port) == place


def test_a_pair_with_long_names_is_served_under_their_beginning() -> None:
    """200 letters are what a pair's name may have; the folders stay whole."""
    named = {"target": "t" * 150, "draft": "d" * 150, "head": None, "corpus": None}
    (one,) = serve.offered(argparse.Namespace(**named, pairs=None))
    assert one.name == ("t" * 150 + " + " + "d" * 150)[:200]
    assert (one.target, one.draft) == (named["target"], named["draft"])


@pytest.mark.parametrize(
    ("memory", "names"),
    [
        (8 * 10**9, ["SmolLM2-360M with SmolLM2-135M"]),
        (64 * 10**9, ["SmolLM2-360M with SmolLM2-135M", "Qwen2.5-7B with Qwen2.5-0.5B"]),
    ],
)
def test_a_laptop_is_offered_the_pairs_that_its_memory_can_hold(
    memory: int, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(total=memory))
    assert [choice.name for choice in serve.shipped()] == names


@pytest.fixture(scope="module")
def tiny_target(tmp_path_factory: pytest.TempPathFactory) -> str:
    return save(tmp_path_factory.mktemp("models") / "target", eos_token_id=None)


def printed(arguments: list[str], encoding: str, patch: pytest.MonkeyPatch) -> bytes:
    """What a command that succeeds writes to a standard output of such an encoding."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
    patch.setattr(sys, "stdout", out)
    assert main(arguments) == 0
    out.flush()
    assert isinstance(out.buffer, io.BytesIO)
    return out.buffer.getvalue()


@pytest.mark.parametrize("encoding", ["cp1252", "cp437", "ascii", "cp932", "koi8-r"])
def test_a_run_prints_the_same_text_in_every_encoding_and_escapes_what_that_lacks(
    encoding: str, tiny_target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "load_pair", load_once)
    command = ["generate", "--target", tiny_target, "--prompt", "你好 €", "--raw"]
    command += ["--max-new-tokens", "24", "--dtype", "float32", "--method", "autoregressive"]
    whole = printed(command, "utf-8", monkeypatch).decode()
    assert not whole.isascii()
    assert printed(command, encoding, monkeypatch) == whole.encode(encoding, "backslashreplace")


@pytest.mark.parametrize("encoding", ["cp437", "ascii"])
def test_a_table_and_a_file_outlive_an_encoding_that_lacks_their_signs(
    encoding: str, tiny_target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pairs, "load_pair", load_once)
    prompts, table = tmp_path / "prompts.jsonl", tmp_path / "table.csv"
    prompts.write_text('{"category": "Übung ≥ 2", "turns": ["the cat"]}\n', encoding="utf-8")
    command = ["bench", "--target", tiny_target, "--prompts", str(prompts), "--dtype", "float32"]
    command += ["--methods", "autoregressive,prompt_lookup", "--max-new-tokens", "4"]
    command += ["--repeats", "1", "--csv", str(table)]
    shown = printed(command, encoding, monkeypatch).decode(encoding)
    assert "prompt_lookup" in shown or "Prompt lookup" in shown
    assert "Übung ≥ 2" in table.read_text(encoding="utf-8")


def test_a_locale_that_knows_ascii_alone_loses_neither_prompt_nor_trace(
    tiny_target: str, tmp_path: Path
) -> None:
    """A process of its own, because Python asks the locale when it starts."""
    file = tmp_path / "ö.json"
    command = [sys.executable, "-m", "ouroboros_core", "generate", "--target", tiny_target]
    command += ["--raw", "--prompt", "grün — 你好", "--max-new-tokens", "9", "--json", str(file)]
    ascii_alone = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONIOENCODING"}
    result = finished(command, env=environment | ascii_alone, encoding="ascii")
    assert result.returncode == 0, result.stderr
    trace = read_trace(file.read_bytes())
    assert trace.prompt.text == "grün — 你好"
    assert result.stdout == f"{trace.text}\n".encode("ascii", "backslashreplace").decode()


def test_bytes_of_another_encoding_in_a_prompt_are_refused_with_the_reason(ouroboros: Ask) -> None:
    """What Python makes of an argument in Latin-1 where the locale is UTF-8."""
    result = ouroboros("generate", "--prompt", b"gr\xfcn".decode(errors="surrogateescape"))
    assert result.returncode == 2
    assert "bytes that are no UTF-8, the first of them 0xFC: set the terminal to" in result.stderr


def test_the_version_names_the_commit_of_a_checkout(tmp_path: Path) -> None:
    """The oracle is git: a checkout of its own, as it was committed, changed, and as a copy that
    git does not know."""
    assert process("--version").stdout.split()[0] == VERSION

    def git(*arguments: str) -> str:
        named = ("-c", "user.name=a", "-c", "user.email=a@example.org", *arguments)
        return run("git", "-C", str(tmp_path), *named)

    def run(*command: str) -> str:
        return finished(command, cwd=tmp_path, check=True).stdout.strip()

    def commit() -> str:
        return run(sys.executable, "-c", "import version; print(version.commit())")

    file = tmp_path / "version.py"
    shutil.copy(ROOT / "ouroboros_core" / "version.py", file)
    git("init", "--quiet")
    assert commit() == ""
    git("add", "version.py")
    git("commit", "--quiet", "--message", "one file")
    head = git("rev-parse", "--short=8", "HEAD")
    assert commit() == head
    file.write_text(file.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert commit() == f"{head}+"
