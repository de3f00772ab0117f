"""The examples of Watch: what their texts show with the embedded models."""

from collections import Counter

import pytest

from ouroboros_core import methods
from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.loading.pairs import Pair
from visualize.watch.examples import EXAMPLES, Example

OF_A_METHOD = [example for example in EXAMPLES if example.method]


@pytest.mark.parametrize("example", OF_A_METHOD, ids=lambda example: example.label)
def test_the_settings_of_an_example_are_those_of_its_method(example: Example) -> None:
    kind = methods.get(example.method)
    settings = kind.Hyperparameters.parse(example.settings).model_dump()
    assert example.settings.items() <= settings.items()


@pytest.mark.embedded
def test_one_example_has_many_accepted_candidate_suffixes(embedded_pair: Pair) -> None:
    (example,) = (example for example in OF_A_METHOD if example.method == "ouroboros")
    settings = methods.get("ouroboros").Hyperparameters.parse(example.settings)
    generation = Generation(
        embedded_pair, Task(example.prompt, "ouroboros", settings, max_new_tokens=128)
    )
    for _ in generation:
        pass
    looks = Counter(look for step in generation.trace().steps for look in step.looks)
    assert sum(looks.values()) == 128 and looks["suffix"] >= 8, looks
