"""What a public page needs: the job runner, its queue, limits, sessions, baselines, the endpoint,
the log."""
