"""Measured runs beside the runs of others."""

from collections.abc import Iterator
from typing import Any

import pytest

from visualize.run.live import undisturbed


class Steps:
    """A generation of three steps."""

    begun = 0

    def __init__(self) -> None:
        Steps.begun += 1

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))

    def trace(self) -> str:
        return ""


@pytest.mark.parametrize(("pause_after", "begun"), [(None, 1), (0, 2), (1, 2), (2, 1)])
def test_a_run_is_repeated_only_if_others_compute_between_two_of_its_steps(
    pause_after: int | None, begun: int
) -> None:
    """A pause after the last step disturbs nothing."""
    Steps.begun, pauses = 0, 0
    make: Any = Steps
    run = undisturbed(make, lambda: pauses)
    for number, _ in enumerate(run):
        pauses += number == pause_after
    assert Steps.begun == begun
