"""The checks of a request for a run."""

import pytest

from ouroboros_core.errors import InvalidInput
from visualize.run.request import RunRequest


def test_all_faults_of_a_request_are_named_at_once() -> None:
    settings, sampling = {"gamma": "banana", "foo": 3}, {"temperature": 9}
    request = RunRequest("", "speculative", settings, "yes", 0, sampling, prediction=3)
    with pytest.raises(InvalidInput) as refused:
        request.task()
    parts = ("prompt is empty", "gamma must", "foo is not", "temperature", "chat", "prediction")
    for part in (*parts, "max_new_tokens"):
        assert part in str(refused.value)
