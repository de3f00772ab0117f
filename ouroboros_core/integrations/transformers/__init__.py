"""Decode inside transformers' own `generate`."""
