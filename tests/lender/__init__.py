"""What stands in for a machine that lends a GPU: a directory for PYTHONPATH."""
