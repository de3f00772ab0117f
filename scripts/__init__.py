"""One-off measurements and tools of the project; run as `python -m scripts.NAME` from the
repository."""
