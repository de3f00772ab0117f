"""Proof: sampled texts counted against the target's own probabilities."""
