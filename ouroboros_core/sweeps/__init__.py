"""Measure a grid of settings, cell by cell."""
