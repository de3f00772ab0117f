"""Gradio components of our own; their JavaScript and CSS lie in assets."""
