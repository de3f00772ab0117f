"""A language model in pure Python, and a run of it in an interpreter without numpy and torch.

`python -m tests.plain_python` refuses to import them, and prints the texts of all methods as JSON.
"""

import json
import math
import sys
from collections.abc import Sequence
from functools import cache, cached_property
from hashlib import blake2b
from typing import Any

REFUSED = {"numpy", "torch", "transformers", "scipy", "safetensors", "psutil", "plotly", "gradio"}
VOCABULARY = 10
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 1, 4)
NEW_TOKENS = 40
TEMPERATURE, SEED = 0.8, 7


def fraction(*values: int) -> float:
    """Return a number between 0 and 1 that depends on the values alone."""
    digest = blake2b(repr(values).encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "little") + 0.5) / 2**64


@cache
def scores(before: int, token: int, salt: int) -> tuple[float, ...]:
    """Return the logits after two tokens. Every seventh context depends on `salt`, so that two
    models agree on most contexts only."""
    differs = salt if (3 * before + token) % 7 == 0 else 0
    return tuple(4 * fraction(before, token, after, differs) for after in range(VOCABULARY))


class PlainEvaluation:
    """Outputs after the nodes of a tree."""

    def __init__(self, context: tuple[int, ...], tree: Any, salt: int) -> None:
        self.context, self.tree, self._salt = context, tree, salt

    @cached_property
    def rows(self) -> list[tuple[float, ...]]:
        """Return the logits after each node."""
        texts = ((*self.context, *self.tree.tokens_to(node)) for node in range(len(self.tree)))
        return [scores(text[-2], text[-1], self._salt) for text in texts]

    def argmax(self) -> list[int]:
        best = [row.index(max(row)) for row in self.rows]
        return [-1 if node in self.tree.silent else best[node] for node in range(len(best))]

    def likeliest(self, k: int) -> dict[int, list[int]]:
        nodes = [node for node in range(len(self.tree)) if node not in self.tree.silent]
        return {node: [token for token, _ in self.scored([node], k)[0]] for node in nodes}

    def scored(self, nodes: Sequence[int], k: int) -> list[list[tuple[int, float]]]:
        return [
            [(token, math.log(self.confidence(node, token))) for token in self._ordered(node)[:k]]
            for node in nodes
        ]

    def _ordered(self, node: int) -> list[int]:
        return sorted(range(VOCABULARY), key=lambda token: -self.rows[node][token])

    def confidence(self, node: int, token: int) -> float:
        weights = [math.exp(score) for score in self.rows[node]]
        return weights[token] / sum(weights)

    def confidences(self, pairs: Sequence[tuple[int, int]]) -> list[float]:
        return [self.confidence(node, token) for node, token in pairs]

    def drawn(self, node: int, k: int, draw: Any) -> list[int]:
        noise = (
            -math.log(-math.log(fraction(draw.seed, draw.position, draw.turn, token)))
            for token in range(VOCABULARY)
        )
        sums = [
            score / draw.temperature + gumbel
            for score, gumbel in zip(self.rows[node], noise, strict=True)
        ]
        return sorted(range(VOCABULARY), key=lambda token: -sums[token])[:k]

    def logits(self, node: int) -> Any:
        return list(self.rows[node])


class PlainModel:
    """A LanguageModel, or a head, that knows the last two tokens; `salt` makes another model."""

    vocabulary, max_length = VOCABULARY, 1_000

    def __init__(self, salt: int = 0) -> None:
        self.name, self._salt = f"plain-{salt}", salt
        self.passes = self.rows = 0

    def forget(self) -> None:
        pass

    def reserve(self, tokens: int) -> None:
        pass

    def prefill(self, context: Sequence[int], candidates: int = 0) -> dict[int, list[int]]:
        if not candidates:
            return {}
        from ouroboros_core.tree import TreeBuilder

        return {
            context[n]: PlainEvaluation(
                tuple(context[: n + 1]), TreeBuilder(context[n]).build(), self._salt
            ).likeliest(candidates)[0]
            for n in range(1, len(context) - 1)
        }

    def plain(self, context: Sequence[int]) -> Any:
        return list(scores(context[-2], context[-1], self._salt))

    def evaluate(self, context: Sequence[int], tree: Any) -> PlainEvaluation:
        self.passes += 1
        self.rows += len(tree)
        return PlainEvaluation(tuple(context), tree, self._salt)

    def extend(self, evaluation: Any, tree: Any) -> PlainEvaluation:
        self.passes += 1
        self.rows += len(tree) - len(evaluation.tree)
        return PlainEvaluation(evaluation.context, tree, self._salt)


def plain_text(temperature: float, seed: int = SEED) -> list[int]:
    """Return the text of plain decoding, by a loop of its own: the oracle."""
    tokens = list(PROMPT)
    for position in range(len(PROMPT), len(PROMPT) + NEW_TOKENS):
        row: Sequence[float] = scores(tokens[-2], tokens[-1], 0)
        if temperature:
            row = [
                score / temperature - math.log(-math.log(fraction(seed, position, 0, token)))
                for token, score in enumerate(row)
            ]
        tokens.append(row.index(max(row)))
    return tokens[len(PROMPT) :]


class Refusing:
    """A finder that says of the refused packages that they are missing."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def steps_of(method: str, temperature: float, chosen: dict[str, Any], **settings: Any) -> list[Any]:
    """Return the steps of a method with the chosen hyperparameters."""
    from ouroboros_core import methods
    from ouroboros_core.adaptive.controller import controlled
    from ouroboros_core.adaptive.cost_model import TYPICAL
    from ouroboros_core.decoding.loop import decode
    from ouroboros_core.sampling import Sampler, Sampling

    kind = methods.get(method)
    sampling = Sampling.model_validate({"temperature": temperature, "seed": SEED, **settings})
    sampler = Sampler(sampling, VOCABULARY)
    hyperparameters = kind.Hyperparameters.parse(chosen)
    used = methods.create(kind, hyperparameters, resources(sampler))
    model, adaptive = PlainModel(), controlled(used, TYPICAL)
    return [*decode(model, adaptive, PROMPT, max_new_tokens=NEW_TOKENS, sampler=sampler)]


def written(method: str, temperature: float = 0.0, **settings: Any) -> tuple[list[int], int]:
    """Return the text that a method writes, and the number of target passes."""
    steps = steps_of(method, temperature, {}, **settings)
    return [token for step in steps for token in step.tokens], len(steps)


def drafted(rule: str) -> list[int]:
    """Return the length of each greedy draft that a rule of `stop` ends."""
    steps = steps_of("speculative", 0.0, {"gamma": 6, "stop": rule})
    return [len(step.tree.proposals) for step in steps]


def resources(sampler: Any) -> Any:
    """Return a draft model and a head in pure Python, which agree with the target mostly."""
    from ouroboros_core.methods.parts.base import Resources

    heads = {kind: PlainModel(5) for kind in ("eagle", "eagle3", "mtp")}
    return Resources(sampler, PlainModel(3), heads=heads)


def runnable() -> list[str]:
    """Return the ids of the methods that need nothing else and write the target's text."""
    from ouroboros_core import methods
    from ouroboros_core.sampling import Sampler, Sampling
    from ouroboros_core.sources import Source

    able = resources(Sampler(Sampling(), VOCABULARY))
    return [
        name
        for name, kind in methods.available().items()
        if kind.writer is Source.TARGET
        and name != "superposed"  # its draft model reads mixed embeddings
        and all(able.has(need) for need in methods.needed(kind, kind.Hyperparameters()))
    ]


def outcome(method: str, temperature: float, **settings: Any) -> tuple[list[int], int] | str:
    """Return text and passes, or the error in words."""
    try:
        return written(method, temperature, **settings)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main() -> None:
    """Print by method what it writes, greedy and sampled, what other rules answer, how long drafts
    are by each value of `stop`, and which packages were imported."""
    from ouroboros_core.methods.parts.stopping import RULES as STOP_RULES

    texts = {name: [outcome(name, 0.0), outcome(name, TEMPERATURE)] for name in runnable()}
    rules = {
        rule: outcome("speculative", TEMPERATURE, acceptance=rule)
        for rule in ("rejection", "block", "typical")
    }
    stops = {rule: drafted(rule) for rule in STOP_RULES}
    packages = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
    answers = {"texts": texts, "rules": rules, "stops": stops, "packages": sorted(packages)}
    print(json.dumps(answers))


if __name__ == "__main__":
    sys.meta_path.insert(0, Refusing())
    main()
