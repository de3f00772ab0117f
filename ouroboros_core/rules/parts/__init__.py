"""Code that several acceptance rules share."""
