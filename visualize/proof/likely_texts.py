"""Drawing the beginning of a text with many seeds, and the target's own probabilities of what may
come: what a lossless method has to agree with."""

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
    """All continuations of `length` tokens, shorter where a stop token ends them, that the target
    draws with a probability of at least `least`, and that probability; the likeliest first.

    One plain forward pass, without a cache, for each beginning that is as likely; yields how many
    there have been. Raises InvalidInput for temperature 0, where nothing is drawn.
    """
    if sampling.temperature == 0:
        raise InvalidInput("temperature 0 draws nothing: choose a higher one")
    found: dict[Text, float] = {}
    begun: dict[Text, float] = {(): 1.0}
    passes = 0
    while begun:
        prefix, chance = begun.popitem()
        p = chance * softmax(process(model.plain((*context, *prefix)), sampling))
        for token in map(int, np.flatnonzero(p >= least)):
            text = (*prefix, token)
            whole = len(text) == length or token in stop_tokens
            (found if whole else begun)[text] = float(p[token])
        passes += 1
        yield passes
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def beginning(pair: Pair, task: Task, seed: int, length: int) -> tuple[Text, list[Step]]:
    """The first tokens of the text that a task writes with a seed, at most `length`, and the steps
    that wrote them; no further ones are computed.

    The task should be allowed more, because a proposal never reaches behind the end of a text.
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
