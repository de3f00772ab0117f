"""The page elsewhere: as a Hugging Face Space, and as static files."""
