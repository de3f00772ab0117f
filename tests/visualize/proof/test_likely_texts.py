"""What is drawn with many seeds, against all texts of a tiny model by brute force."""

from typing import Any

import numpy as np
import pytest
import torch

from ouroboros_core.errors import InvalidInput
from ouroboros_core.models.causal_lm import CausalLM
from ouroboros_core.sampling import Sampling
from tests import tiny
from visualize.proof.likely_texts import likely_texts

LEAST = 0.004


def chances(text: tuple[int, ...], temperature: float) -> Any:
    """By the unwrapped model."""
    with torch.inference_mode():
        logits = tiny.target("llama")(input_ids=torch.tensor([text])).logits[0, -1]
    return torch.softmax(logits.double() / temperature, -1).numpy()


def found(length: int, **more: Any) -> tuple[dict[tuple[int, ...], float], int]:
    model, passes = CausalLM(tiny.target("llama"), "llama"), 0
    searching = likely_texts(model, tiny.prompt(), more.pop("sampling"), length, LEAST, **more)
    while True:
        try:
            passes = next(searching)
        except StopIteration as end:
            return end.value, passes


@pytest.mark.parametrize("temperature", [0.7, 1.0])
def test_the_likely_texts_are_all_there_are_by_brute_force(temperature: float) -> None:
    """Every pair of tokens is multiplied out."""
    context = tuple(tiny.prompt())
    first = chances(context, temperature)
    wanted = {}
    for token in np.flatnonzero(first >= LEAST):
        second = first[token] * chances((*context, int(token)), temperature)
        for other in np.flatnonzero(second >= LEAST):
            wanted[int(token), int(other)] = float(second[other])
    texts, passes = found(2, sampling=Sampling(temperature=temperature))
    assert texts == pytest.approx(wanted, rel=1e-9) and len(wanted) > 5
    assert passes == 1 + (first >= LEAST).sum(), "one for each beginning"
    assert list(texts.values()) == sorted(texts.values(), reverse=True)


def test_a_stop_token_ends_a_text_and_is_a_text_of_its_own() -> None:
    whole, _ = found(2, sampling=Sampling(temperature=1.0))
    stop = next(iter(whole))[0]
    texts, _ = found(2, sampling=Sampling(temperature=1.0), stop_tokens={stop})
    assert texts[(stop,)] == pytest.approx(chances(tuple(tiny.prompt()), 1.0)[stop])
    assert not any(stop in text[:-1] for text in texts)
    kept = {text: p for text, p in whole.items() if text[0] != stop}
    assert {text: p for text, p in texts.items() if len(text) == 2} == pytest.approx(kept)


def test_greedy_decoding_draws_nothing() -> None:
    with pytest.raises(InvalidInput, match="draws nothing"):
        found(1, sampling=Sampling())
    texts, _ = found(3, sampling=Sampling(temperature=0.5))
    assert {*map(len, texts)} == {3}
