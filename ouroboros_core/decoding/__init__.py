"""The loop, what it records, and what can be read from the record."""
