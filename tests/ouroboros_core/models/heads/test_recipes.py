"""A kind of head is declared once, as a recipe; its files and its need are found by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from ouroboros_core.loading.heads import drafter_class
from ouroboros_core.methods.parts.needs import HEAD_KINDS
from ouroboros_core.models import heads
from ouroboros_core.models.heads.recipes import HEADS, RECIPES
from ouroboros_core.training.student import HeadStudent


@pytest.mark.parametrize("kind", HEADS)
def test_a_kind_has_a_drafter_and_a_student_in_files_of_its_name(kind: str) -> None:
    """The oracle is the class that trains and the class that drafts: both name the same recipe."""
    drafter = drafter_class(kind)
    student = heads.class_in(f"ouroboros_core.training.{kind}", HeadStudent)
    assert drafter.weights.Recipe is RECIPES[kind] and RECIPES[kind].kind == kind
    assert student.__module__.endswith(f"training.{kind}")


def test_every_file_of_a_head_is_a_kind_and_every_kind_meets_a_need() -> None:
    shared = {"__init__", "head", "layer", "recipes"}
    folder = Path(heads.__file__).parent
    assert {file.stem for file in folder.glob("*.py")} - shared == set(HEADS)
    assert set(HEAD_KINDS.values()) == set(HEADS)
