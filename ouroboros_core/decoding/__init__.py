"""The loop, its recorder, runs of a task, and the text of tokens."""
