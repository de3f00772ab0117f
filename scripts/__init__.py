"""Tools of the project; run as `python -m scripts.NAME` from the repository."""

from ouroboros_core.progress import accept_any_text

accept_any_text()
