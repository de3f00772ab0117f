"""Errors a user can cause; each message says what failed, the value, what is allowed and the
remedy."""

from __future__ import annotations


class OuroborosError(Exception):
    """The base of every error that is the input's fault, not the program's; its text is meant for
    the user."""


class InvalidInput(OuroborosError, ValueError):
    """A prompt, a setting or a file that cannot be used as it is."""


class WantOfMemory(InvalidInput):
    """A text for which there is too little free memory at the time."""


class UnsupportedModel(OuroborosError):
    """A model whose attention or state cannot be verified over a tree of tokens."""


class VocabularyMismatch(OuroborosError):
    """A draft model that does not share the target's vocabulary."""


class WeightsUnavailable(OuroborosError):
    """Weights that could not be fetched, verified or converted."""
