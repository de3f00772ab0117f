"""numpy, imported when the first array is computed.

Greedy text needs no arrays. Text sampled under `match` needs none either, if the model draws its
tokens itself (`tree.DrawsTokens`). So the core runs where numpy is missing, for example in a
browser.
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING, Any

from ouroboros_core.errors import MissingPackage

__all__ = ["installed", "np", "npt"]


@cache
def installed() -> bool:
    """Return whether there are arrays to compute with; where not, plain numbers must do."""
    try:
        importlib.import_module("numpy")
    except ModuleNotFoundError:
        return False
    return True


if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:

    class _Module:
        """Looks like a module, which the first use of an attribute imports. Attributes are kept
        here, so that each further use is as fast as the module's."""

        def __init__(self, module: str) -> None:
            self.__dict__["_module"] = module

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            try:
                module = importlib.import_module(self._module)
            except ModuleNotFoundError as error:
                if error.name != "numpy":
                    raise
                raise MissingPackage(
                    "numpy is not installed, and this setting needs it: choose temperature 0, or "
                    "install numpy"
                ) from None
            value = self.__dict__[name] = getattr(module, name)
            return value

    np, npt = _Module("numpy"), _Module("numpy.typing")
