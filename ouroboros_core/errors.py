"""Errors that a user can cause. A message says what failed, the value, the allowed values and the
remedy."""

from __future__ import annotations

import zipfile

UNREADABLE = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, EOFError),
    zipfile.BadZipFile,
)
"""Exceptions of numpy for a file without arrays, or with other arrays than expected."""


class OuroborosError(Exception):
    """The base class of errors caused by the input, not by a bug. The text is for the user."""


class InvalidInput(OuroborosError, ValueError):
    """A prompt, a setting or a file that cannot be used."""


class NotEnoughMemory(InvalidInput):
    """A text for which too little memory is free at the moment."""


class UnsupportedModel(OuroborosError):
    """A model whose attention or state cannot be verified over a token tree."""


class VocabularyMismatch(OuroborosError):
    """A draft model that does not share the target's vocabulary."""


class WeightsUnavailable(OuroborosError):
    """Weights that could not be downloaded, verified or converted."""


class MissingPackage(OuroborosError):
    """A computation that needs a package that is not installed."""
