"""Compare: settings and methods side by side, on one axis of seconds."""
