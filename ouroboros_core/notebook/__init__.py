"""Pictures and texts of results for notebooks."""
