"""Types with bounds: the classes that make up a trace are read from files of strangers.

A bound holds where a file is read (`trace.file`), not where the program makes an object.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Le, MaxLen

Count = Annotated[int, Ge(0), Le(2**31 - 1)]
TokenId = Annotated[int, Ge(0), Le(2**31 - 1)]
Share = Annotated[float, Ge(0), Le(1)]
"""A probability, or a share of a whole."""
Seconds = Annotated[float, Ge(0), Le(1e6)]
Rows = Annotated[int, Ge(1), Le(2**31 - 1)]
Cost = Annotated[float, Gt(0), Le(1e6)]
"""Seconds of a forward pass, or their proportion."""
Estimate = Annotated[float, Ge(0), Le(1e12)]
"""A number of tokens, or of tokens per second, that was expected."""
Noise = Annotated[float, Ge(-1_000), Le(1_000)]
"""Gumbel noise, beside log-probabilities."""

Name = Annotated[str, MaxLen(1_000)]
"""A method, a model, a processor."""
Piece = Annotated[str, MaxLen(1_000)]
"""The text of one token id."""
AddedText = Annotated[str, MaxLen(100_000)]
"""The text that one emitted token added: a run of byte tokens adds all of its text at its end."""
LongText = Annotated[str, MaxLen(1_000_000)]
"""A prompt, or a predicted output."""

MAX_STEPS = 32_768
MAX_TOKENS = 131_072
"""Of a prompt, of an answer, and with a text in `pieces`."""
MAX_NODES = 1_024
"""Of a tree or a lookahead window; the largest that the settings of our methods allow have some
550."""
MAX_ROWS = 512
"""Tokens listed at one judged node: ten of each model, the proposed ones and the chosen one."""
