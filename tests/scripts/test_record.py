"""What a recording notes beside a run: what passes cost in its minute."""

from __future__ import annotations

import pytest

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.decoding.trace import Trace
from ouroboros_core.loading.pairs import Pair
from scripts.record import costs_beside

pytestmark = pytest.mark.embedded


def written(pair: Pair, method: str) -> Trace:
    kind = methods.get(method)
    settings = kind.Hyperparameters.parse(kind.Hyperparameters.fixed())
    return Generation(pair, Task("Count to nine.", method, settings, max_new_tokens=24)).run()


@pytest.mark.parametrize(
    ("method", "drafter"),
    [("speculative", "draft"), ("eagle2", "head"), ("draft_verify", None), ("prompt_lookup", None)],
)
def test_passes_over_as_many_rows_as_a_run_had_are_timed_and_those_of_its_own_drafter(
    embedded_pair: Pair, method: str, drafter: str | None
) -> None:
    trace = written(embedded_pair, method)
    before = {name: getattr(embedded_pair, name).passes for name in ("draft", "head")}
    costs = costs_beside(embedded_pair, trace)
    assert set(costs["target"].rows) == {1} | {step.width for step in trace.steps}
    asked = {name for name in before if getattr(embedded_pair, name).passes > before[name]}
    assert asked == ({drafter} if drafter else set())
    assert ("draft" in costs) == (drafter is not None)
    assert all(second > 0 for cost in costs.values() for second in cost.seconds)
    if drafter:
        most = max(step.draft_rows / step.draft_passes for step in trace.steps if step.draft_passes)
        assert costs["draft"].rows[0] == 1
        assert costs["draft"].rows[-1] >= most
