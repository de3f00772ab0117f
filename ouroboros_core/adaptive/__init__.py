"""A controller around a method that chooses 'auto' amounts to draft and check by measured costs."""
