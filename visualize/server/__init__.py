"""The server: it runs jobs of features that it does not know, with queue, budgets and log."""
