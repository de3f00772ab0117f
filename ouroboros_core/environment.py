"""The environment of a measurement."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ouroboros_core.bounds import Count, Name


@dataclass(frozen=True)
class Environment:
    """The machine and the software of a measurement; a number without it is not a result."""

    device: Name
    dtype: Name
    threads: Count
    processor: Name
    python: Name
    torch: Name
    transformers: Name
    ouroboros: Name
    quantization: Name | None = None
    """The quantization of the target's weights: 8bit, 4bit, or None."""
    passes: Name = "transformers"
    """The engine of the target's passes: `native`, `compact`, `static`, or `transformers`."""

    weights: Name = ""
    """The format in which the native pass reads the target's weights: `bf16`, `blocks`, or blocks
    up to a number of rows; empty for other engines."""

    @property
    def where(self) -> str:
        """Processor, threads and dtype, for people."""
        return (
            f"{self.processor}, {self.threads} {'thread' if self.threads == 1 else 'threads'}, "
            f"{self.dtype}"
        )


def processor_name(processor: str) -> str:
    """Return a processor's short name: `Intel Xeon` for `Intel(R) Xeon(R) Processor
    (amx_bf16)`."""
    return re.sub(r"\((R|TM)\)| (Processor|CPU)\b.*| \(.*", "", processor)
