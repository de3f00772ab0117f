"""Where numbers come from."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ouroboros_core.bounds import Count, Name


@dataclass(frozen=True)
class Environment:
    """The environment of a measurement; a number without it is not a result."""

    device: Name
    dtype: Name
    threads: Count
    processor: Name
    python: Name
    torch: Name
    transformers: Name
    ouroboros: Name
    quantization: Name | None = None
    """The quantization of the target's weights: 8bit, 4bit, or none."""
    passes: Name = "transformers"
    """What computed the target's passes: `native`, `compact`, `static`, or transformers' own
    code."""

    weights: Name = ""
    """In what format the native pass reads the target's weights: `bf16`, `blocks`, or blocks up to
    so many rows; empty where it does not compute."""

    @property
    def where(self) -> str:
        """Processor, threads and dtype in words."""
        return (
            f"{self.processor}, {self.threads} {'thread' if self.threads == 1 else 'threads'}, "
            f"{self.dtype}"
        )


def processor_name(processor: str) -> str:
    """A processor as people call it: `Intel Xeon` for `Intel(R) Xeon(R) Processor (amx_bf16)`."""
    return re.sub(r"\((R|TM)\)| (Processor|CPU)\b.*| \(.*", "", processor)
