"""Settings of training, one class for a draft model and one for each kind of head.

The command `train KIND`, its flags, bounds and help come from these classes, and so do the names of
the kinds in messages and model cards. The file imports no torch, because every command builds its
parser from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from pydantic import ConfigDict, Field

from ouroboros_core.errors import InvalidInput
from ouroboros_core.messages import allowed
from ouroboros_core.settings import Hyperparameters, Setting, setting_of

EAGLE, EAGLE3 = "eagle", "eagle3"
"""The kinds of heads whose published checkpoints can be loaded."""

MTP = "mtp"
"""The kind of head that can be in the target's files."""


class Recipe(Hyperparameters):
    """Everything that decides the trained weights; it is saved beside them.

    A field with a description is a setting and has a flag. The other fields have fixed values, or
    come from the files that the call names:

    target        name of the target
    data          names of the files of conversations
    digest        hash of the conversations
    start         name of the finished weights that training begins with, or ""
    warmup_steps  steps over which the learning rate rises
    cooldown      share of tokens or minutes over which the learning rate falls to zero at the end
    """

    model_config = ConfigDict(validate_default=False)  # `within` has a default outside its bounds

    kind: ClassVar[str]
    phrase: ClassVar[str]
    """The trained thing in a sentence, with its article."""
    task: ClassVar[str]
    """The help of the command `train KIND`."""
    also_starts_from: ClassVar[str] = ""
    """Other weights that the training can begin with, as a part of the help of --start."""

    target: str
    data: tuple[str, ...] = ()
    digest: str = ""
    start: str = ""
    warmup_steps: int = 100
    cooldown: float = 0.25
    outputs: int = Field(
        12_288, ge=0, description="Size of the output vocabulary: the most frequent tokens; 0: all."
    )
    tokens: int = Field(
        5_000_000, ge=1, description="Answer tokens to train on, all epochs together."
    )
    within: int = Field(
        0,
        ge=1,
        description=(
            "Minutes of training at most; the learning rate ends at zero. No limit by default."
        ),
    )
    batch_tokens: int = Field(
        2048, ge=16, description="Tokens of a batch, prompts and padding included."
    )
    learning_rate: float = Field(8e-4, gt=0, le=1, description="Highest learning rate.")
    seed: int = Field(0, ge=0, description="Seed of batches and initial weights.")
    held_out: int = Field(64, ge=1, description="Conversations kept for measuring.")

    @classmethod
    def settings(cls) -> dict[str, Setting]:
        """Return the settings by name, in the order of declaration."""
        fields = cls.model_fields.items()
        return {name: setting_of(name, field) for name, field in fields if field.description}

    @classmethod
    def read(cls, values: Mapping[str, Any], layers: int) -> Self:
        """Return the recipe of some values, such as texts of flags, for a target of `layers`
        layers. Raises InvalidInput."""
        return cls.parse(values)

    @property
    def record(self) -> dict[str, Any]:
        """Return all values as JSON has them."""
        return self.model_dump(mode="json")


class DraftRecipe(Recipe):
    """A small causal language model, distilled from the target."""

    kind = "draft"
    phrase = "a draft model"
    task = "distil a small draft model"

    layers: tuple[int, ...] = Field(
        (0, 1, 15, 29),
        description=(
            "Number of layers, or the target's layers to begin with, as in 0,1,15,29; 4 by default."
        ),
    )
    hidden: int = Field(0, ge=0, description="Width of a narrower model; 0: the target's width.")

    @classmethod
    def read(cls, values: Mapping[str, Any], layers: int) -> Self:
        text = values.get("layers") or str(min(4, layers))
        return super().read({**values, "layers": choose_layers(text, layers)}, layers)


class HeadRecipe(Recipe):
    """A head that reads the target's states."""

    learning_rate: float = Field(1e-3, gt=0, le=1, description="Highest learning rate.")


DEPTHS: Any = Field(
    (10, 20),
    description=(
        "Layers after which the head reads the target's states, beside the last, as in 10,20; "
        "a third and two thirds of the layers by default."
    ),
)


class EagleRecipe(HeadRecipe):
    """A head of EAGLE and EAGLE-2.

    decay  weight of each further step
    """

    kind = EAGLE
    phrase = "an EAGLE head"
    task = "train an EAGLE head"

    decay: float = 0.8
    steps: int = Field(
        2, ge=1, description="Steps that the head learns to take from its own guesses."
    )
    feature_weight: float = Field(
        0.2, ge=0, le=100, description="Weight of the loss on features, beside that on tokens."
    )
    noise: float = Field(
        0.1, ge=0, le=100, description="Noise on the target's features, as a share of their size."
    )


class Eagle3Recipe(EagleRecipe):
    """A head of EAGLE-3: it reads states of several layers, and learns tokens alone."""

    kind = EAGLE3
    phrase = "an EAGLE-3 head"
    task = "train a head that reads several of the target's layers (EAGLE-3)"

    steps: int = Field(
        4, ge=1, description="Steps that the head learns to take from its own guesses."
    )
    feature_weight: float = Field(
        0.0, ge=0, le=100, description="Weight of the loss on features, beside that on tokens."
    )
    depths: tuple[int, ...] = DEPTHS

    @classmethod
    def read(cls, values: Mapping[str, Any], layers: int) -> Self:
        return super().read({**values, "depths": spread_depths(values, layers)}, layers)


class MtpRecipe(EagleRecipe):
    """A multi-token prediction head.

    decay  weight of each further step, as in FastMTP (arXiv 2509.18362)
    """

    kind = MTP
    phrase = "a multi-token prediction head"
    task = "train a multi-token prediction head (MTP)"

    decay: float = 0.6
    steps: int = Field(
        3, ge=1, description="Steps that the head learns to take from its own guesses."
    )
    feature_weight: float = Field(
        0.0, ge=0, le=100, description="Weight of the loss on features, beside that on tokens."
    )


class MedusaRecipe(HeadRecipe):
    """A set of Medusa heads.

    decay  weight of each further place: lambda of the paper
    """

    kind = "medusa"
    phrase = "a set of Medusa heads"
    task = "train Medusa heads"

    decay: float = 0.8
    heads: int = Field(5, ge=1, description="Number of heads, one for each guessed place.")


class GlideRecipe(HeadRecipe):
    """A GliDe draft."""

    kind = "glide"
    phrase = "a GliDe draft"
    task = "train a draft that reads the target's keys and values (GliDe)"

    block: int = Field(5, ge=1, description="Tokens of a draft that are learned together.")


class ParallelRecipe(HeadRecipe):
    """A parallel drafter.

    decay  weight of each further token of a group
    """

    kind = "parallel"
    phrase = "a parallel drafter"
    task = "train a drafter of several tokens in one pass"
    also_starts_from = ", or of an EAGLE head"

    decay: float = 0.8
    group: int = Field(4, ge=2, description="Tokens that are drafted in one pass.")


class DSparkRecipe(HeadRecipe):
    """A block drafter.

    decay  places over which the weight of a place falls to 1/e, as in DFlash (arXiv 2602.06036)
    """

    kind = "dspark"
    phrase = "a block drafter"
    task = "train a drafter of a block of tokens in one pass, corrected token by token (DSpark)"
    also_starts_from = ", or of an EAGLE-3 head with the same depths"

    decay: float = 4.0
    block: int = Field(6, ge=2, le=32, description="Tokens that are drafted in one pass.")
    layers: int = Field(2, ge=1, le=8, description="Layers of the drafter.")
    rank: int = Field(
        64,
        ge=0,
        description="Rank of the correction of a place by the token before it; 0: none (DFlash).",
    )
    anchors: int = Field(
        512, ge=1, description="Blocks of a batch at most; they begin at random answer tokens."
    )
    depths: tuple[int, ...] = DEPTHS

    @classmethod
    def read(cls, values: Mapping[str, Any], layers: int) -> Self:
        return super().read({**values, "depths": spread_depths(values, layers)}, layers)


def choose_layers(text: str, depth: int) -> tuple[int, ...]:
    """Return the layers that a text names: `0,1,15,29`, or a number of layers, which stands for the
    first two, the last, and layers at even distances between them.

    depth: the target's layers. Raises InvalidInput.
    """
    words = [word.strip() for word in text.split(",")]
    numbers = [int(word) for word in words if word.isdecimal()]
    low, high = (0, depth - 1) if "," in text else (1, depth)
    if len(numbers) < len(words) or not all(low <= number <= high for number in numbers):
        raise InvalidInput(
            f"layers must be how many there are to be, 1 to {depth}, or which of the target's, 0 "
            f"to {depth - 1}, as in 0,1,{depth - 1}; got {text}"
        )
    if "," in text:
        return tuple(numbers)
    count = numbers[0]
    if count < 4:
        return _spread(0, depth - 1, count)
    return (0, *_spread(1, depth - 1, count - 1))


def _spread(first: int, last: int, count: int) -> tuple[int, ...]:
    """Return `count` whole numbers at even distances."""
    return tuple(np.linspace(first, last, count).round().astype(int).tolist())


def choose_depths(text: str, layers: int) -> tuple[int, ...]:
    """Return the layers that a text such as `10,20` names, in ascending order.

    layers: the target's. Raises InvalidInput.
    """
    words = [word.strip() for word in text.split(",")]
    numbers = {int(word) for word in words if word.isdecimal()}
    if len(numbers) < len(words) or not all(0 < number < layers for number in numbers):
        limits = allowed(
            1, layers - 1, "none: a target of one layer has none between (train eagle)"
        )
        raise InvalidInput(
            f"depths, different numbers of layers with commas between them, must be {limits}, "
            f"got {text}"
        )
    return tuple(sorted(numbers))


def spread_depths(values: Mapping[str, Any], layers: int) -> tuple[int, ...]:
    """Return the depths that the values name, or a third and two thirds of the target's layers."""
    thirds = {max(1, layers // 3), max(1, 2 * layers // 3)}
    return choose_depths(values.get("depths") or ",".join(map(str, sorted(thirds))), layers)


RECIPES: dict[str, type[Recipe]] = {
    recipe.kind: recipe
    for recipe in (
        DraftRecipe,
        EagleRecipe,
        Eagle3Recipe,
        MtpRecipe,
        MedusaRecipe,
        GlideRecipe,
        ParallelRecipe,
        DSparkRecipe,
    )
}
"""The recipe of each kind."""

HEADS: Sequence[str] = [kind for kind, recipe in RECIPES.items() if issubclass(recipe, HeadRecipe)]
"""The kinds of heads."""
