"""Tests, in folders that mirror the packages; what they share lies beside this file."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
"""Of the repository."""
