"""A folder for PYTHONPATH that stands in for a ZeroGPU machine."""
