"""Record the runs that the page shows before any model is loaded: python -m ouroboros_core.benchmark.record"""

from __future__ import annotations

from ouroboros_core import methods
from ouroboros_core.decoding import metrics
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.locations import assets
from ouroboros_core.models.pairs import load_pair

HEAP = "Write a Java program to implement a heap\nclass Heap {"
TOKENS = 128


def main() -> None:
    pair = load_pair()
    folder = assets() / "traces"
    folder.mkdir(exist_ok=True)
    for name in ("ouroboros", "autoregressive"):
        kind = methods.get(name)
        task = Task(HEAP, name, kind.Hyperparameters(), max_new_tokens=TOKENS, chat=False)
        Generation(pair, Task(HEAP, name, kind.Hyperparameters(), max_new_tokens=8, chat=False)).run()
        trace = Generation(pair, task).run()
        (folder / f"heap-{name}.json").write_text(trace.to_json() + "\n")
        rate, length = metrics.tokens_per_second(trace), metrics.mean_acceptance_length(trace)
        print(f"{name}: {rate:.1f} tokens/s, {length:.2f} tokens per pass")


if __name__ == "__main__":
    main()
