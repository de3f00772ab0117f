"""Decoding inside transformers' `generate`."""
