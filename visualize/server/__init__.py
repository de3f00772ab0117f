"""What a public page needs: the job runner, its queue, limits, sessions, the endpoint,
the log."""
