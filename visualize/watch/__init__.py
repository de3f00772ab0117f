"""Watch: a prompt, a method, and the text while it is written."""
