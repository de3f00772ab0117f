"""Learn: the lessons and the map of methods."""
