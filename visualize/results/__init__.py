"""Results: the benchmark's tables and charts."""
