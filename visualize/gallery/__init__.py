"""Recorded runs: the gallery, opened files, two runs compared."""
