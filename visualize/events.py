"""How Gradio's events of this page are asked for."""

from __future__ import annotations

from typing import Any, Final

PRIVATE: Final[dict[str, Any]] = {
    "api_visibility": "private",
    "show_progress": "hidden",
    "show_progress_on": [],
}
"""Of every event that is the page's own: no endpoint, and nothing laid over what it changes.

`show_progress_on` names no component, so that the browser keeps no loading state. It would keep one
for each output of every event that has run, and with each update of a run look for all of them
among all components: 43 ms an update, on the processor that the run needs.
"""
