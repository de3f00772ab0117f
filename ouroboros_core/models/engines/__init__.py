"""Ways to compute a forward pass of a decoder."""
