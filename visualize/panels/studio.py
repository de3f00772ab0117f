"""What the tabs share on the server: the models, loaded in the background, and the runs."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from ouroboros_core import methods
from ouroboros_core.errors import InvalidInput, OuroborosError
from ouroboros_core.sampling import Sampler, Sampling
from visualize import figures, views

if TYPE_CHECKING:
    from ouroboros_core.decoding.generation import Generation, Task
    from ouroboros_core.decoding.trace import Trace
    from ouroboros_core.models.pairs import Pair

log = logging.getLogger(__name__)

TEXT_INTERVAL = 1 / 16
CHART_INTERVAL = 1 / 4
BASELINE_SECONDS = 600.0
BASELINES_KEPT = 64
WARM_UP_TOKENS = 8


class Baselines:
    """Plain runs, kept for ten minutes at most, by what decides their tokens and their speed; the key is a hash."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, tuple[float, Trace]] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def key(generation: Generation) -> str:
        """Prompt, length, sampling, pair, dtype, device and threads."""
        task, place = generation.task, generation.pair.environment
        facts = (generation.prompt.tokens, task.max_new_tokens, task.sampling, generation.pair.target.name)
        return hashlib.sha256(repr((*facts, place.dtype, place.device, place.threads)).encode()).hexdigest()

    def get(self, key: str) -> Trace | None:
        with self._lock:
            self._forget()
            return self._kept[key][1] if key in self._kept else None

    def put(self, key: str, trace: Trace) -> None:
        with self._lock:
            self._kept[key] = (self._clock(), trace)
            self._kept.move_to_end(key)
            self._forget()

    def _forget(self) -> None:
        old = self._clock() - BASELINE_SECONDS
        while self._kept and (next(iter(self._kept.values()))[0] < old or len(self._kept) > BASELINES_KEPT):
            self._kept.popitem(last=False)


class Studio:
    """The pair of models and what is done with it. One run computes at a time; the page's queue sees to that."""

    def __init__(self, load: Callable[[], Pair]) -> None:
        self._load = load
        self._pair: Future[Pair] = Future()
        self._baselines = Baselines()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Load the models in the background."""
        self._thread = threading.Thread(target=self._run_load, name="load-models", daemon=True)
        self._thread.start()

    def _run_load(self) -> None:
        try:
            pair = self._load()
            self._warm_up(pair)
            self._pair.set_result(pair)
        except BaseException as error:
            log.error("the models could not be loaded: %s", error)
            self._pair.set_exception(error)

    @staticmethod
    def _warm_up(pair: Pair) -> None:
        """A few tokens, so that the first visitor's clock measures no first calls."""
        from ouroboros_core.decoding.generation import Generation, Task

        for method in methods.available().values():
            if pair.draft is not None or not method.needs_draft_model:
                Generation(pair, Task("Hello", method.id, method.Hyperparameters(), Sampling(), WARM_UP_TOKENS, chat=False)).run()

    @property
    def ready(self) -> bool:
        return self._pair.done()

    def pair(self) -> Pair:
        """The models; waits for them. A failure to load is said to every visitor who asks."""
        try:
            return self._pair.result()
        except OuroborosError:
            raise
        except Exception as error:
            raise InvalidInput(f"the models could not be loaded: {error}") from error

    def state(self) -> str:
        """Loading, ready, or what went wrong, in a sentence."""
        if not self._pair.done():
            return "Loading the models; meanwhile, this run was recorded earlier."
        error = self._pair.exception()
        if error is not None:
            return f"The models could not be loaded: {error}"
        pair = self.pair()
        draft = pair.draft.name if pair.draft else "no draft model"
        place = pair.environment
        return f"Ready: {pair.target.name} with {draft}, {place.dtype} on {place.processor}, {place.threads} threads."

    def run(self, task: Task, compare: bool) -> Iterator[dict[str, Any]]:
        """Run a task and then, unless already measured, plain decoding; yields views of what is new.

        Each view has `view` (for the token view) and at times `charts`; the last has `trace` and `baseline`, too.
        """
        from ouroboros_core.decoding.generation import Generation

        pair = self.pair()
        generation = Generation(pair, task)
        name = uuid.uuid4().hex
        common = {"run": name, "badge": "live", "prompt": task.prompt, "chat": task.chat}
        yield {"view": {**common, "seq": 0, "from": 0, "steps": [], "status": "Reading the prompt …", "tiles": []}}
        seq, shown, text_due, charts_due = 1, 0, 0.0, 0.0
        for step in generation:
            now = time.monotonic()
            if now < text_due:
                continue
            text_due = now + TEXT_INTERVAL
            count = sum(len(s.tokens) for s in generation.steps)
            view = {**common, "seq": seq, "from": shown, "steps": views.steps_view(generation.steps, generation.texts, shown)}
            update: dict[str, Any] = {"view": {**view, "status": f"Step {step.index + 1}: {count} tokens"}}
            if now >= charts_due:
                charts_due = now + CHART_INTERVAL
                update["charts"] = {"acceptance": figures.acceptance_length(generation.steps)}
            shown, seq = len(generation.steps), seq + 1
            yield update
        trace = generation.trace()
        baseline = None
        if compare and trace.steps:
            kind = "greedy" if task.sampling.temperature == 0 else "plain sampling"
            waiting = views.run_view(trace, None, run=name, seq=seq, badge_text="live")
            waiting |= {"status": f"{waiting['status']}. Now {kind}, to compare with …", "done": False}
            charts = {"acceptance": figures.acceptance_length(trace.steps), "time": figures.tokens_against_time(trace, None)}
            yield {"view": waiting, "charts": charts}
            baseline = yield from self._baseline(pair, task, trace)
        tie = self._judge(pair, trace, baseline, task.sampling) if baseline else None
        view = views.run_view(trace, baseline, run=name, seq=seq + 1, badge_text="live", tie=tie)
        yield {"view": view, "charts": self.charts(trace, baseline), "trace": trace, "baseline": baseline, "tie": tie}

    def _baseline(self, pair: Pair, task: Task, trace: Trace) -> Generator[dict[str, Any], None, Trace]:
        """The plain run of a task: measured now, or within the last ten minutes. A generator, so that Stop reaches it."""
        from ouroboros_core.decoding.generation import Generation

        if task.method == "autoregressive":
            return trace
        generation = Generation(pair, task.plain())
        key = Baselines.key(generation)
        known = self._baselines.get(key)
        if known is not None:
            return known
        due = 0.0
        for _ in generation:
            now = time.monotonic()
            if now >= due:
                due = now + CHART_INTERVAL
                yield {}
        baseline = generation.trace()
        self._baselines.put(key, baseline)
        return baseline

    @staticmethod
    def _judge(pair: Pair, trace: Trace, baseline: Trace, sampling: Sampling) -> str | None:
        """In words, a difference that rounding made; None if there is none, or if rounding does not explain it."""
        from ouroboros_core.decoding.equality import divergence

        sampler = Sampler(sampling, pair.target.vocabulary)
        found = divergence(pair.target, trace.environment.dtype, trace.prompt.tokens, trace.tokens, baseline.tokens, sampler)
        if found is None or not found.tie:
            return None
        dtype, gap = trace.environment.dtype, f"gap {found.gap:.3g}, {found.ulps:.2g} ulp"
        return (
            f"At token {found.position + 1} two choices tie in {dtype} ({gap}), and a pass over many tokens rounds otherwise "
            f"than a pass over one. In float32 the text is the same."
        )

    @staticmethod
    def charts(trace: Trace, baseline: Trace | None) -> dict[str, Any]:
        """The three charts of a finished run."""
        speedup = (
            figures.speedup_by_token(trace, baseline)
            if baseline is not None and trace.steps
            else figures.empty("Run with comparison to see it.")
        )
        return {
            "acceptance": figures.acceptance_length(trace.steps),
            "time": figures.tokens_against_time(trace, baseline),
            "speedup": speedup,
        }
