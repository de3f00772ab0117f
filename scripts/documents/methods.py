"""The table of the methods, and the generated parts of a method's page."""

from __future__ import annotations

from typing import Any

from ouroboros_core.cli.methods import describe
from scripts.documents.markdown import table, wrapped

STOP_PAGE = "speculative"
"""The method whose page explains the values of `stop`."""


def methods_table() -> str:
    rows = []
    for method in describe():
        mark = " (default)" if method["default"] else ""
        paper = f" ([source]({method['paper']}))" if method["paper"] else ""
        name = f"[`{method['id']}`]({method['id']}.md){mark}: {method['name']}{paper}"
        rows.append((name, ", ".join(method["needs"]), method["summary"]))
    return table("method | needs | what it does", rows)


def facts_of(method: dict[str, Any]) -> str:
    source = f"[{method['paper'].removeprefix('https://')}]({method['paper']})"
    needs = ", ".join(method["needs"]) or "nothing but the target model"
    name = f"`{method['id']}`" + (" (the default method)" if method["default"] else "")
    source = source if method["paper"] else "this project"
    return wrapped(f"{name}. Needs: {needs}. Source: {source}.") + "\n"


def settings_of(method: dict[str, Any]) -> str:
    """Return the settings of a method, and the values of its paper."""
    if not method["settings"]:
        return "This method has no settings.\n"
    rows = (
        (f"`{name}`", f"`{default_of(of)}`", allowed_of(of), help_of(method["id"], name, of))
        for name, of in method["settings"].items()
    )
    text = table("setting | default | allowed | what it is", rows)
    if method["published"]:
        values = (
            f"`{name}={str(value).lower() if isinstance(value, bool) else value}`"
            for name, value in method["published"].items()
        )
        text += f"\nPreset `published`: {', '.join(values)}.\n"
    return text


def help_of(method: str, name: str, setting: dict[str, Any]) -> str:
    """Return the description of a setting; only the page of `STOP_PAGE` explains `stop`."""
    if name == "stop" and method != STOP_PAGE:
        return f"When a draft ends: see [speculative decoding]({STOP_PAGE}.md#settings)."
    return str(setting["help"])


def default_of(setting: dict[str, Any]) -> str:
    value = setting["default"]
    return str(value).lower() if setting["type"] == "bool" else str(value)


def allowed_of(setting: dict[str, Any]) -> str:
    bounds = f"{setting['min']} to {setting['max']}" if setting["min"] is not None else ""
    if setting["type"] == "bool":
        bounds = "true or false"
    if setting["type"] == "str" and setting["auto"]:
        bounds = f"such as `{setting['fixed']}`"
    bounds = ", ".join(f"`{choice}`" for choice in setting["choices"]) or bounds
    return f"{bounds}, or `auto`" if setting["auto"] else bounds
