"""Drafts and models: how the shipped drafts were trained."""
