"""Another machine: modelled seconds and speedup of a run."""
