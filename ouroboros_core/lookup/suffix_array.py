"""Suffixes of documents of token ids, sorted."""

from __future__ import annotations

from typing import Any, TypeAlias

from ouroboros_core.arrays import np, npt

Ids: TypeAlias = "npt.NDArray[np.int32]"

DEPTH = 64
"""Tokens by which suffixes are sorted; no match is longer."""

END = -1
"""Separator after each document."""


def suffix_array(tokens: Ids) -> Ids:
    """Return the suffixes sorted by at least their first DEPTH tokens; ties keep the text's order.

    They are sorted first by the tokens that fit into one number, then by doubling (Manber and Myers
    1993), each time only among suffixes that are still tied (Larsson and Sadakane 2007).
    """
    count, bits = len(tokens), int(tokens.max() + 1).bit_length()
    width = 62 // bits
    padded = np.zeros(count + width, dtype=np.int64)
    padded[:count] = tokens
    padded[:count] += 1
    key: Any = np.zeros(count, dtype=np.int64)
    for offset in range(width):
        key = (key << bits) | padded[offset : offset + count]
    rows = np.arange(count)  # rows that are still to sort by key
    order = rows.copy()
    rank = np.full(count + 1, -1)  # by position, the first row of its tie; -1 after the last
    while True:
        sort = np.argsort(key, kind="stable")
        key, positions = key[sort], order[rows][sort]
        starts = np.concatenate([[True], key[1:] != key[:-1]])
        order[rows] = positions
        rank[positions] = np.maximum.accumulate(np.where(starts, rows, 0))
        rows = rows[~(starts & np.concatenate([starts[1:], [True]]))]
        if width >= DEPTH or not len(rows):
            return order.astype(np.int32)
        tied = order[rows]
        key = rank[tied] * (count + 1) + rank[np.minimum(tied + width, count)] + 1
        width *= 2
