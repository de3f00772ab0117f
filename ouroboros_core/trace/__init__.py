"""The record of a run, its file, and the figures computed from it."""
