"""The chapters, one module each: its stops, its numbers and the data of its pictures."""
