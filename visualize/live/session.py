"""The models of a browser, and its runs: `worker.js` calls this module in Pyodide.

A run is the same job as on the page (`visualize/watch/job.py`), so text, tree, charts and words
come from the same code. Only the tokenizer and the passes are JavaScript and WebAssembly.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from ouroboros_core import methods
from ouroboros_core.adaptive.cost_model import Costs, PassCosts
from ouroboros_core.adaptive.profiler import HEAD_ROWS, Timer, in_turn, level_of, pass_of
from ouroboros_core.decoding.generation import Task
from ouroboros_core.environment import Environment
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.interfaces import Drafter, LanguageModel
from ouroboros_core.models.web import WebHead, WebModel
from ouroboros_core.sampling import Sampling
from ouroboros_core.trace.summary import Summary
from ouroboros_core.version import VERSION
from visualize.live import graph_objects

if "plotly" not in sys.modules and find_spec("plotly") is None:
    sys.modules["plotly"] = ModuleType("plotly")
    sys.modules["plotly.graph_objects"] = graph_objects

from visualize.compare import view as compare_view
from visualize.compare.comparison import Comparison, Plan
from visualize.compare.job import CompareJob
from visualize.run import figures
from visualize.run import view as views
from visualize.run.view import View
from visualize.server.jobs import Turn
from visualize.watch.job import Compared, Finished, RunJob, RunUpdate, Written

if TYPE_CHECKING:
    from ouroboros_core.loading.pairs import Pair

TIMED_ROWS, TIMED_CONTEXT, TIMED_ROUNDS, TIMED_SECONDS = (1, 2, 4, 8), 32, 8, 1.0
"""Row counts, context tokens, most rounds and seconds of the passes that are timed when the models
are there."""
LONGEST_TEXT = 512
"""Tokens of prompt and answer: a browser reads a prompt slowly."""
MOST_PROMPTS, MOST_TOKENS = 1, 256
"""Most prompts of a comparison, which takes long enough with one, and tokens of a run."""
SECONDS = 600.0
"""Longest time of a run with its comparison."""


class Words:
    """The tokenizer. `tokens` is a `Tokenizer` of the package @huggingface/tokenizers."""

    is_fast = True

    def __init__(self, tokens: Any, special: Sequence[str], before: Sequence[int], after: Any):
        """
        special        texts of the control tokens
        before, after  token ids of the chat template around a prompt
        """
        self._tokens, self._special = tokens, special
        self._before, self._after = list(before), list(after)
        self._texts: dict[int, str] = {}

    def decode(self, token_ids: Sequence[int], **options: bool) -> str:
        """Return the text of tokens, with special ones."""
        if len(token_ids) != 1:
            return self._decoded(token_ids)
        (token,) = token_ids
        if token not in self._texts:
            self._texts[token] = self._decoded(token_ids)
        return self._texts[token]

    def _decoded(self, token_ids: Sequence[int]) -> str:
        return str(self._tokens.decode([*token_ids]))

    def convert_ids_to_tokens(self, ids: int) -> str | None:
        return cast(str | None, self._tokens.name(ids))

    def raw(self, text: str) -> list[int]:
        """Return the token ids of a text; a control token in it is one."""
        return [int(token) for token in self._tokens.encode(text)]

    def plain(self, text: str) -> list[int]:
        """Return the token ids of a text; a control token in it is text. Its first character is
        encoded apart from the others."""
        for word in self._special:
            before, control, after = text.partition(word)
            if control:
                first = self.plain(before) + self.raw(word[:1])
                return first + self.plain(word[1:] + after)
        return self.raw(text) if text else []

    def chat(self, prompt: str) -> list[int]:
        """Return the token ids of a prompt with the chat template around it."""
        return [*self._before, *self.plain(prompt), *self._after]


@dataclass(frozen=True)
class BrowserPair:
    """The models of the page as `Generation` needs them; see `loading.pairs.Pair`."""

    target: LanguageModel
    draft: LanguageModel | None
    tokenizer: Words
    stop_tokens: frozenset[int]
    browser: str
    corpus = self_draft = None
    foreign = fingerprint = ""
    small = True
    heads: Mapping[str, Drafter] = field(default_factory=dict)
    candidate_generators: Mapping[str, Any] = field(default_factory=dict)
    generation_config: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def costs(self) -> Costs:
        """Return the seconds of passes, measured once."""
        draft = self.draft
        return Costs(
            _timed(self.target, pass_of, TIMED_ROWS),
            _timed(draft, pass_of, TIMED_ROWS) if draft else None,
            {kind: _timed(head, level_of, HEAD_ROWS) for kind, head in self.heads.items()},
        )

    @cached_property
    def environment(self) -> Environment:
        return Environment(
            device="browser",
            dtype="bfloat16",
            threads=1,
            processor=self.browser,
            python=platform.python_version(),
            torch="none",
            transformers="none",
            ouroboros=VERSION,
            passes="web",
            weights="blocks",
        )

    def encode(self, prompt: str, *, chat: bool, history: Sequence[str] = ()) -> list[int]:
        return self.tokenizer.chat(prompt) if chat else self.tokenizer.raw(prompt)

    def as_text(self, text: str) -> list[int]:
        return self.tokenizer.plain(text)

    def stops(self, *, chat: bool) -> frozenset[int]:
        return self.stop_tokens

    def rules(self, prompt: Sequence[int], max_new_tokens: int, stops: frozenset[int]) -> None:
        """Return None: the models have no generation settings that change a choice."""

    def check_memory(self, models: Sequence[LanguageModel], tokens: int) -> None:
        if tokens > LONGEST_TEXT:
            raise InvalidInput(
                f"prompt and answer have {tokens} tokens, and this page has room for "
                f"{LONGEST_TEXT}: shorten the prompt or ask for fewer tokens"
            )


def _timed(
    model: Drafter, timer: Callable[[Any, int, int], Timer], rows: tuple[int, ...]
) -> PassCosts:
    """Time passes of a model by their rows. More rows never count as cheaper than fewer."""
    timers = [timer(model, count, TIMED_CONTEXT) for count in rows]
    # Other work, and code that the browser has not optimised yet, only add to a time.
    least = [min(times) for times in in_turn(timers, TIMED_ROUNDS, TIMED_SECONDS)]
    rising = [min(least[n:]) for n in range(len(least))]
    model.forget()
    model.passes = model.rows = 0
    return PassCosts(rows, tuple(max(seconds, 1e-6) for seconds in rising))


class Session:
    """The runs of one visitor."""

    def __init__(self, pair: BrowserPair) -> None:
        self.pair = pair
        self.runs = 0
        self.comparison: Comparison | None = None

    def run(self, asked: str) -> Iterator[str]:
        """Yield the views of a run as JSON: {view, charts}, {pause} where nothing is new, or
        {error}.

        asked  JSON: {prompt, method, settings, run} of visualize/watch/asked.js, a {plan} of
               visualize/compare/compare_form.js, or {lane, prompt} or {} for a run or the table of
               the last comparison
        """
        self.runs += 1
        values, name = json.loads(asked), f"live {self.runs}"
        turn = Turn(name, SECONDS)
        updates: Iterator[View]
        try:
            if "method" in values:
                job = RunJob(task(values), compare=True)
                updates = map(_sent, job.updates(cast("Pair", self.pair), turn))
            elif "plan" in values:
                updates = self._compared(values["plan"], turn)
            else:
                updates = iter([self._measured(values, name)])
            for update in updates:
                yield json.dumps(update)
        except OuroborosError as error:
            yield json.dumps({"error": str(error)})

    def _compared(self, asked: Mapping[str, Any], turn: Turn) -> Iterator[View]:
        """Yield the views of a comparison."""
        pair = cast("Pair", self.pair)
        plan = Plan.read(asked, MOST_PROMPTS, MOST_TOKENS)
        job = CompareJob(plan).prepared(pair)
        for view, self.comparison in compare_view.stream(job.updates(pair, turn), plan):
            yield {"compare": view} if view else {"pause": True}

    def _measured(self, asked: Mapping[str, int], name: str) -> View:
        """Return a run of the last comparison, or its table if none is named."""
        assert self.comparison is not None, "something was measured"
        if not asked:
            return {"compare": {"seq": name, "file": compare_view.table(self.comparison)}}
        trace, plain = self.comparison.shown(asked["lane"])[asked["prompt"]]
        summary = Summary(trace, plain)
        view = views.run_view(summary, run=name, seq=self.runs, badge_text=views.LIVE)
        charts = figures.more_charts(summary)
        return {"view": view, "charts": charts, "has": figures.applying(trace)}


def _sent(update: Any) -> View:
    if not isinstance(update, RunUpdate):
        return {"pause": True}
    sent: View = {"view": update.view, "charts": update.charts}
    if isinstance(update, Written | Compared | Finished):
        sent |= {"has": figures.applying(update.trace)}
    return sent


def task(asked: Mapping[str, Any]) -> Task:
    """Return the task of a visitor's inputs; raise InvalidInput for values that are not allowed."""
    kind, run = methods.get(asked["method"]), asked["run"]
    return Task(
        asked["prompt"],
        kind.id,
        kind.Hyperparameters.parse(asked["settings"]),
        Sampling.parse({name: run[name] for name in Sampling.settings() if name in run}),
        int(run["max_new_tokens"]),
        chat=bool(run["chat"]),
        prediction=asked.get("predicted", ""),
        generation_config=False,
    )


def start(target: Any, draft: Any, eagle3: Any, tokens: Any, facts: str, browser: str) -> Session:
    """Return a session, after the passes were timed.

    target, draft, eagle3  models of `pass.js`
    tokens   the tokenizer, see `Words`
    facts    JSON that `packing.py` writes: special, before, after, stops
    browser  its name
    """
    packed = json.loads(facts)
    words = Words(tokens, packed["special"], packed["before"], packed["after"])
    stops = frozenset(packed["stops"])
    written = WebModel(target)
    heads = {"eagle3": WebHead(eagle3, written)}
    pair = BrowserPair(written, WebModel(draft), words, stops, browser, heads)
    assert pair.costs.target, "the passes are timed before the first run"
    return Session(pair)
