"""The target's own probabilities of the next tokens, and texts drawn with a seed.

A lossless method draws each text with the target's probability.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from ouroboros_core.decoding.generation import Generation, Task
from ouroboros_core.errors import InvalidInput
from ouroboros_core.interfaces import LanguageModel
from ouroboros_core.loading.pairs import Pair
from ouroboros_core.sampling import Sampling, process, softmax
from ouroboros_core.trace.trace import Step
from ouroboros_core.tree import until_stop

Text = tuple[int, ...]


def likely_texts(
    model: LanguageModel,
    context: Sequence[int],
    sampling: Sampling,
    length: int,
    least: float,
    stop_tokens: AbstractSet[int] = frozenset(),
) -> Generator[int, None, dict[Text, float]]:
    """Return all continuations of probability `least` or more, the likeliest first.

    They have `length` tokens, fewer if a stop token ends them. Each beginning that is as likely
    takes one plain forward pass, without a cache; yields the number of passes so far. Raises
    InvalidInput for temperature 0, where nothing is drawn.
    """
    if sampling.temperature == 0:
        raise InvalidInput("temperature 0 draws nothing: choose a higher one")
    complete: dict[Text, float] = {}
    begun: dict[Text, float] = {(): 1.0}
    passes = 0
    while begun:
        prefix, chance = begun.popitem()
        p = chance * softmax(process(model.plain((*context, *prefix)), sampling))
        for token in map(int, np.flatnonzero(p >= least)):
            text = (*prefix, token)
            is_complete = len(text) == length or token in stop_tokens
            (complete if is_complete else begun)[text] = float(p[token])
        passes += 1
        yield passes
    return dict(sorted(complete.items(), key=lambda item: -item[1]))


def beginning(pair: Pair, task: Task, seed: int, length: int) -> tuple[Text, list[Step]]:
    """Return the first tokens that a task writes with a seed, at most `length`, and their steps.

    No further steps are computed. The task should allow more tokens, because a proposal never
    reaches beyond the end of a text.
    """
    sampling = task.sampling.model_copy(update={"seed": seed})
    generation = Generation(pair, replace(task, sampling=sampling))
    written = 0
    for step in generation:
        written += len(step.tokens)
        if written >= length:
            break
    tokens = [token for step in generation.steps for token in step.tokens]
    return until_stop(tokens, generation.stop_tokens)[:length], generation.steps
