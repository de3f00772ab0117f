"""The flags of `train` come from settings classes; the oracle is the table of the flags, defaults
and bounds that version 2.0.0 wrote by hand."""

import argparse
from typing import Any

import pytest

from ouroboros_core import cli
from ouroboros_core.cli import options, train
from ouroboros_core.errors import InvalidInput
from ouroboros_core.models.heads.recipes import RECIPES

LAYERS = 30

CALL = {"out", "data", "texts", "work", "teacher", "start", "note", "license"}
COMMON = {"target", "minutes", "resume", "device", "dtype"}

SHARED: dict[str, tuple[Any, float]] = {
    **{"tokens": (5_000_000, 1), "outputs": (12_288, 0), "within": (0, 1)},
    **{"batch_tokens": (2048, 16), "held_out": (64, 1), "seed": (0, 0)},
}
"""Default and least value by setting, the same in every training."""

SEPARATE: dict[str, dict[str, tuple[Any, float]]] = {
    "draft": {"hidden": (0, 0)},
    "eagle": {"steps": (2, 1), "feature_weight": (0.2, 0), "noise": (0.1, 0)},
    "eagle3": {"steps": (4, 1), "feature_weight": (0.0, 0), "noise": (0.1, 0)},
    "mtp": {"steps": (3, 1), "feature_weight": (0.0, 0), "noise": (0.1, 0)},
    "medusa": {"heads": (5, 1)},
    "glide": {"block": (5, 1)},
    "parallel": {"group": (4, 2)},
    "dspark": {"block": (6, 2), "layers": (2, 1), "rank": (64, 0), "anchors": (512, 1)},
}
LISTS: dict[str, dict[str, Any]] = {
    "draft": {"layers": [0, 1, 15, 29]},
    "eagle3": {"depths": [10, 20]},
    "dspark": {"depths": [10, 20]},
}


def parsed(*words: str) -> argparse.Namespace:
    return cli.build_parser().parse_args(["train", *words])


def recorded(kind: str, *words: str) -> dict[str, Any]:
    """The recipe that a training of these flags saves."""
    return train._recipe(parsed(kind, "--out", "folder", *words), "target", "0", LAYERS).record


@pytest.mark.parametrize("kind", RECIPES)
def test_a_training_has_the_flags_and_defaults_of_version_2(kind: str) -> None:
    rate = 8e-4 if kind == "draft" else 1e-3
    numbers = {name: default for name, (default, _) in (SHARED | SEPARATE[kind]).items()}
    expected = {**numbers, "learning_rate": rate, **LISTS.get(kind, {})}
    record = recorded(kind)
    assert {name: record[name] for name in expected} == expected
    bits = set() if kind == "draft" else {"bits"}
    flags = vars(parsed(kind, "--out", "folder")).keys() - {"command", "what", "run", "debug"}
    assert flags == expected.keys() | CALL | COMMON | bits


@pytest.mark.parametrize("kind", RECIPES)
def test_a_number_below_its_bound_is_refused(kind: str) -> None:
    for name, (_, low) in (SHARED | SEPARATE[kind]).items():
        flag = "--" + name.replace("_", "-")
        assert recorded(kind, flag, str(low))[name] == low
        with pytest.raises(InvalidInput, match=rf"^{name} must be .*, got {low - 1}$"):
            recorded(kind, f"{flag}={low - 1}")
    for rate in ("0", "1.01", "nan", "fast"):
        with pytest.raises(InvalidInput, match=f"above 0 and at most 1, got {rate}"):
            recorded(kind, "--learning-rate", rate)


def test_weights_of_an_eagle_head_have_an_upper_bound() -> None:
    for name in ("feature_weight", "noise"):
        for value in ("100.1", "nan"):
            with pytest.raises(InvalidInput, match=f"{name} must be between 0 and 100"):
                recorded("eagle", "--" + name.replace("_", "-"), value)


def test_lists_of_layers_are_read_for_the_target() -> None:
    assert recorded("draft", "--layers", "3")["layers"] == [0, 14, 29]
    assert recorded("eagle3", "--depths", "16, 3")["depths"] == [3, 16]


def test_the_settings_of_texts_have_the_defaults_and_bounds_of_version_2() -> None:
    texts = {"tokens": (500_000, 1), "answer_tokens": (136, 2), "batch": (96, 4), "seed": (0, 0)}

    def values(*flags: str) -> dict[str, Any]:
        arguments = parsed("data", "--out", "folder", *flags)
        settings = train.DataSettings
        return dict(settings.parse(options.flag_values(arguments, settings.settings())))

    assert values() == {name: default for name, (default, _) in texts.items()}
    for name, (_, low) in texts.items():
        flag = "--" + name.replace("_", "-")
        assert values(flag, str(low))[name] == low
        with pytest.raises(InvalidInput, match=f"whole number of at least {low}, got"):
            values(f"{flag}={low - 1}")
