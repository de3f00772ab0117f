"""Sweep: one or two settings varied."""
