"""The state and the commands of the chat console: one method for each command, which begins with a
slash."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.benchmark.entrants import BASELINE, Spec, read_spec, split
from ouroboros_core.cli import options
from ouroboros_core.decoding.generation import Task, lacking
from ouroboros_core.errors import InvalidInput
from ouroboros_core.sampling import Sampling
from ouroboros_core.sources import Source
from ouroboros_core.trace.trace import Trace

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

FALLBACK = "prompt_lookup"
"""The method that answers if no other one can."""
PROCESSORS = {
    "greedy": (),
    "multinomial": ("temperature",),
    "topk": ("temperature", "top_k"),
    "nucleus": ("temperature", "top_p"),
    "topknucleus": ("temperature", "top_k", "top_p"),
}
"""What each way to choose a token asks for, as in romsto/Speculative-Decoding's console."""


class Quit(Exception):
    """Raised to leave the console."""


@dataclass(frozen=True)
class Answer:
    """A task, and whether its text is shown; plain decoding may run only to be compared with."""

    task: Task
    shown: bool


@dataclass
class Session:
    """The state of a console. `do` runs a command and returns its output; `answers` are the tasks
    of a line of text.

    specs    the methods that answer, one after the other
    target   whether plain decoding also answers; draft: whether the draft model alone also answers
    compare  whether each answer is compared with plain decoding, which then runs anyway
    chatty   whether texts go through the chat template, where the target has one
    generation_config  whether the checkpoint's own generation settings hold
    step     whether to wait after every step; debug: whether to show each step on its own line
    history  earlier turns of the conversation
    traces   traces of the last answers
    warm     methods that have run on this pair before, so that no clock measures first calls
    """

    pair: Pair
    load: Callable[[str | None, str | None], Pair]
    specs: tuple[Spec, ...]
    sampling: Sampling = field(default_factory=Sampling)
    length: int = 128
    chatty: bool = True
    target: bool = False
    draft: bool = False
    compare: bool = True
    generation_config: bool = True
    step: bool = False
    debug: bool = False
    history: list[str] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    warm: set[str] = field(default_factory=set)

    @property
    def chat(self) -> bool:
        """Whether the next text gets a chat template."""
        return self.chatty and bool(self.pair.tokenizer.chat_template)

    def answers(self, text: str) -> list[Answer]:
        """Return the tasks of a line of text, in order."""
        specs = [(spec, True) for spec in self.specs]
        names = {spec.method for spec in self.specs}
        alone = next(m.id for m in methods.available().values() if m.writer is Source.DRAFT)
        if self.draft and alone not in names:
            specs.append((read_spec(alone, self.sampling), True))
        if (self.target or self.compare) and BASELINE not in names:
            specs.append((read_spec(BASELINE, self.sampling), self.target))
        history = tuple(self.history) if self.chat else ()
        limits: dict[str, Any] = {"max_new_tokens": self.length, "chat": self.chat}
        limits |= {"history": history, "generation_config": self.generation_config}
        return [Answer(spec.task(text, **limits), is_shown) for spec, is_shown in specs]

    def do(self, line: str) -> str:
        """Run a command such as `/gamma 6`; raises InvalidInput with the remedy, Quit to leave."""
        try:
            name, *words = shlex.split(line[1:]) or [""]
        except ValueError as error:
            raise InvalidInput(f"{line}: {error}") from None
        command = self.commands().get(name)
        if command is None:
            raise InvalidInput(
                f"there is no command /{name}: /help lists them; a text that begins with / is not "
                "sent"
            )
        parameters = list(inspect.signature(command).parameters.values())[1:]
        if len(words) > len(parameters) and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
            raise InvalidInput(
                f"/{name} takes at most {len(parameters)} words, got {' '.join(words)}: "
                f"{usage(name)}"
            )
        return str(command(self, *words))

    @classmethod
    def commands(cls) -> dict[str, Any]:
        """Name -> method, in the order of their definition."""
        members = vars(cls).items()
        return {name[3:]: member for name, member in members if name.startswith("do_")}

    def _rebuild(self, **changes: Any) -> None:
        specs = []
        for spec in self.specs:
            kind = methods.get(spec.method)
            own = {k: v for k, v in changes.items() if k in kind.Hyperparameters.settings()}
            settings = kind.Hyperparameters.parse(spec.hyperparameters.model_dump() | own)
            sampling = self.sampling.model_copy(update={"acceptance": spec.sampling.acceptance})
            specs.append(Spec(_named(spec.method, settings), spec.method, settings, sampling))
        self.specs = tuple(specs)

    def do_method(self, *methods_: str) -> str:
        """[ID[setting=value,...] ...]: which methods answer, in turn; without a name, list them."""
        if not methods_:
            return "\n".join(f"  {m.id:<16}{m.summary}" for m in methods.available().values())
        return self.choose(
            tuple(read_spec(text, self.sampling) for text in split(",".join(methods_)))
        )

    def choose(self, specs: tuple[Spec, ...]) -> str:
        """Let these methods answer; raises InvalidInput if one cannot."""
        for spec in specs:
            need = lacking(self.pair, methods.get(spec.method), spec.hyperparameters)
            if need is not None:
                remedy = f"start the console with {need.flag}"
                wanting = methods.wanting(need, self.pair.foreign, remedy)
                raise InvalidInput(f"{spec.text} needs {wanting}, or choose another method")
            if spec.warm:
                raise InvalidInput(
                    f"{spec.text}: the console starts every answer cold; leave warm out"
                )
        self.specs = specs
        return self._methods()

    def _methods(self) -> str:
        return "answered by " + ", then ".join(spec.text for spec in self.specs)

    def do_gamma(self, value: str = "") -> str:
        """[N]: draft tokens per step, for every method that has the setting."""
        if not self._with_gamma():
            raise InvalidInput(
                f"no gamma in {', '.join(spec.method for spec in self.specs)}: choose others with "
                "/method"
            )
        if value:
            self._rebuild(gamma=value)
        return ", ".join(
            f"{spec.method}: gamma {spec.hyperparameters.model_dump()['gamma']}"
            for spec in self._with_gamma()
        )

    def _with_gamma(self) -> list[Spec]:
        kinds = ((spec, methods.get(spec.method)) for spec in self.specs)
        return [spec for spec, kind in kinds if "gamma" in kind.Hyperparameters.settings()]

    def do_length(self, value: str = "") -> str:
        """[N]: new tokens at most."""
        if value:
            self.length = options.whole_number(value, "length", 1)
        return f"at most {self.length} new tokens"

    def do_processor(self, name: str = "", *values: str) -> str:
        """[greedy | multinomial T | topk T K | nucleus T P | topknucleus T K P]: how the next token
        is chosen."""
        if name:
            if name not in PROCESSORS or len(values) != len(PROCESSORS[name]):
                raise InvalidInput(
                    f"there is no processor {' '.join((name, *values))}: {usage('processor')}"
                )
            settings = dict(zip(PROCESSORS[name], values, strict=True)) or {"temperature": "0"}
            chosen = Sampling.parse(
                {**settings, "seed": self.sampling.seed, "acceptance": self.sampling.acceptance}
            )
            if name != "greedy" and chosen.temperature == 0:
                raise InvalidInput(
                    "temperature must be above 0 here, got 0: for greedy decoding say /processor "
                    "greedy"
                )
            self.sampling = chosen
            self._rebuild()
        if self.sampling.temperature == 0:
            return "greedy"
        names = ("temperature", "top_k", "top_p")
        return ", ".join(f"{name} {getattr(self.sampling, name)}" for name in names)

    def do_seed(self, value: str = "") -> str:
        """[N]: seed of sampling."""
        if value:
            self.sampling = Sampling.parse({**self.sampling.model_dump(), "seed": value})
            self._rebuild()
        return f"seed {self.sampling.seed}"

    def do_pair(self, target: str = "", draft: str = "") -> str:
        """[TARGET [DRAFT]]: load other models (folder, GGUF file, Hub id, or embedded); without a
        name, say which are loaded."""
        dropped: list[str] = []
        if target:
            pair = self.load(None if target == "embedded" else target, draft or None)
            needs = [
                lacking(pair, methods.get(spec.method), spec.hyperparameters) for spec in self.specs
            ]
            dropped = [
                f"{spec.text}, which needs {need.phrase}"
                for spec, need in zip(self.specs, needs, strict=True)
                if need
            ]
            able = tuple(spec for spec, need in zip(self.specs, needs, strict=True) if need is None)
            self.specs = able or (read_spec(FALLBACK, self.sampling),)
            self.draft = self.draft and pair.draft is not None
            self.pair, self.history, self.warm = pair, [], set()
        names = [self.pair.target.name, *self.pair.beside]
        lines = [
            f"{names[0]} with {', '.join(names[1:])}" if names[1:] else names[0],
            self._methods(),
        ]
        lines += [f"left out: {'; '.join(dropped)}"] if dropped else []
        lines += ["the conversation starts over"] if target else []
        return "; ".join(lines)

    def do_target(self) -> str:
        """Whether plain decoding answers, too."""
        self.target = not self.target
        return f"plain decoding by the target: {_on(self.target)}"

    def do_draft(self) -> str:
        """Whether the draft model alone answers, too."""
        if not self.draft and self.pair.draft is None:
            raise InvalidInput("there is no draft model: name one with /pair TARGET DRAFT")
        self.draft = not self.draft
        return f"the draft model alone: {_on(self.draft)}"

    def do_compare(self) -> str:
        """Whether each answer is compared with plain decoding: speed, and the text token by
        token."""
        self.compare = not self.compare
        return f"comparison with plain decoding: {_on(self.compare)}"

    def do_step(self) -> str:
        """Whether to show one step at a time, and wait for Enter."""
        self.step = not self.step
        return f"step by step: {_on(self.step)}"

    def do_debug(self) -> str:
        """Whether each step has a line of its own: accepted tokens, rejected ones struck through,
        the target's token."""
        self.debug = not self.debug
        return f"a line for each step: {_on(self.debug)}"

    def do_chat(self) -> str:
        """Send texts through the chat template, with the turns before them."""
        if not self.pair.tokenizer.chat_template:
            raise InvalidInput(
                f"{self.pair.target.name} has no chat template: texts are continued as they are "
                "(/raw)"
            )
        self.chatty = True
        return "chat: the model sees the conversation"

    def do_raw(self) -> str:
        """Continue texts as they are, each on its own."""
        self.chatty = False
        return "raw: each text is continued as it is"

    def do_clear(self) -> str:
        """Forget the conversation."""
        self.history = []
        return "the conversation starts over"

    def do_save(self, file: str = "") -> str:
        """FILE: write the last answer's trace as JSON; of several answers, each to a file of its
        own, FILE-1-METHOD."""
        if not file:
            raise InvalidInput("name a file, as in /save trace.json")
        if not self.traces:
            raise InvalidInput("there is nothing to save yet: send a text first")
        path = Path(file).expanduser()
        several = enumerate(self.traces, 1) if len(self.traces) > 1 else ()
        names = [path.with_stem(f"{path.stem}-{n}-{trace.method}") for n, trace in several]
        names = names or [path]
        for name, trace in zip(names, self.traces, strict=True):
            name.write_text(trace.to_json(), encoding="utf-8")
        return "written: " + ", ".join(map(str, names))

    def do_help(self) -> str:
        """This list."""
        lines = [f"  /{name:<11}{inspect.getdoc(act)}" for name, act in self.commands().items()]
        lines += ["  anything else is sent to the model; Ctrl-C ends an answer, Ctrl-D leaves"]
        return "\n".join(lines)

    def do_quit(self) -> str:
        """Leave."""
        raise Quit


def _on(value: bool) -> str:
    return "on" if value else "off"


def usage(name: str) -> str:
    """Return a line about a command and its arguments."""
    return f"/{name} {inspect.getdoc(Session.commands()[name])}"


def _named(method: str, settings: Any) -> str:
    """Return a method as it is asked for, with the settings that are not defaults."""
    defaults = methods.get(method).Hyperparameters().model_dump()
    values = settings.model_dump().items()
    texts = ",".join(f"{name}={value}" for name, value in values if value != defaults[name])
    return f"{method}[{texts}]" if texts else method
