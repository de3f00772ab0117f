"""Estimate a recorded run's time on another machine."""
