"""Models that score token trees."""
