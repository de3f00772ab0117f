"""Live in a browser: the same runs as on the page, computed in a Web Worker by the same core."""
