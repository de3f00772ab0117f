"""Record the runs that the page shows before any model is loaded: python -m ouroboros_core.benchmark.record"""

from __future__ import annotations

from ouroboros_core import methods
from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.decoding.trace import Trace
from ouroboros_core.locations import assets
from ouroboros_core.models.pairs import Pair, load_pair

HEAP = "Write a Java program to implement a heap\nclass Heap {"
TOKENS = 128


def main() -> None:
    """Record in the machine's own dtype; in float32 if there the two texts part at a rounding tie, which needs explaining."""
    traces = _record(load_pair())
    if traces["ouroboros"].tokens != traces["autoregressive"].tokens:
        print("the texts part at a rounding tie; once more in float32")
        traces = _record(load_pair(dtype="float32"))
        assert traces["ouroboros"].tokens == traces["autoregressive"].tokens
    folder = assets() / "traces"
    folder.mkdir(exist_ok=True)
    for name, trace in traces.items():
        (folder / f"heap-{name}.json").write_text(trace.to_json() + "\n")
        rate, length = metrics.tokens_per_second(trace), metrics.mean_acceptance_length(trace)
        print(f"{name}, {trace.environment.dtype}: {rate:.1f} tokens/s, {length:.2f} tokens per pass")


def _record(pair: Pair) -> dict[str, Trace]:
    traces = {}
    for name in ("ouroboros", "autoregressive"):
        kind = methods.get(name)
        knobs = kind.Hyperparameters(**kind.Hyperparameters.fixed())  # so that every origin is seen
        for count in (8, TOKENS):  # the first warms the process up
            task = Task(HEAP, name, knobs, max_new_tokens=count, chat=False, record=name == "ouroboros")
            traces[name] = Generation(pair, task).run()
    return traces


if __name__ == "__main__":
    main()
