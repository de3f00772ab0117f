"""Code that all features of the page use."""
