"""The worked example of sampled speculative decoding: three tokens, counted in a hundred draws."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

EXAMPLE = {
    "sun": (Fraction("0.3"), Fraction("0.6")),
    "rain": (Fraction("0.5"), Fraction("0.2")),
    "snow": (Fraction("0.2"), Fraction("0.2")),
}
"""The target's p and the draft's q, with which the game of dice begins."""
DRAWS = 100


def sibling_draws() -> dict[str, Any]:
    """The draws with a second guess, which is drawn without the first and tested against the
    residual: {columns, rows: [[token, *counts]], title}"""
    first = {token: min(p, q) for token, (p, q) in EXAMPLE.items()}
    lost = 1 - sum(first.values())
    residual = {token: (p - first[token]) / lost for token, (p, _) in EXAMPLE.items()}
    second, kept, drawn = ({token: Fraction(0) for token in EXAMPLE} for _ in range(3))
    for rejected, (_, q) in EXAMPLE.items():
        reached = q - first[rejected]
        for token, (_, of_all) in EXAMPLE.items():
            guess = Fraction(0) if token == rejected else of_all / (1 - q)
            second[token] += reached * guess
            kept[token] += reached * min(residual[token], guess)
            drawn[token] += reached * max(Fraction(0), residual[token] - guess)
    rows: list[list[Any]] = []
    for token, (p, _) in EXAMPLE.items():
        in_all = first[token] + kept[token] + drawn[token]
        counts = (p, first[token], second[token], kept[token], drawn[token], in_all)
        rows.append([token, *(int(DRAWS * count) for count in counts)])
    columns = ["token", "target wants", "first kept"]
    columns += ["second guess", "second kept", "drawn anew", "in all"]
    title = f"{DRAWS} draws, with a second guess wherever the first is rejected"
    links = {"column_parts": ["", "", "one two", "", "two", "", ""]}
    return {"kind": "table", "columns": columns, "rows": rows, "title": title} | links


def rule_facts() -> dict[str, float]:
    """The chance that a guess is accepted by min(1, p/q) and by shared random numbers; and that one
    of two guesses is, if the second is drawn without the first."""
    p, q = ([float(pair[n]) for pair in EXAMPLE.values()] for n in (0, 1))
    tokens = range(len(p))
    one = sum(map(min, p, q))

    # The same token wins twice if it comes first in a race of exponential clocks, in which each
    # token runs at the larger of its two rates (Daliri et al., arXiv 2408.07978).
    both = sum(1 / sum(max(p[j] / p[i], q[j] / q[i]) for j in tokens) for i in tokens)

    draws = sibling_draws()
    first, second = (draws["columns"].index(column) for column in ("first kept", "second kept"))
    two = sum(row[first] + row[second] for row in draws["rows"]) / DRAWS
    return {"one_guess": one, "shared_guess": both, "two_guesses": two}
