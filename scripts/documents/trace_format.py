"""The schema of a trace: docs/trace.schema.json and the tables of docs/trace-format.md."""

from __future__ import annotations

import json
import re
from typing import Any

from ouroboros_core.trace.trace import adapter
from scripts.documents.markdown import escaped, item


def schema() -> dict[str, Any]:
    """Return the JSON schema of a trace."""
    return adapter().json_schema()


def schema_tables() -> str:
    """Return every object of a trace with its fields."""
    trace = schema()
    lines = []
    for name, entry in {"Trace": trace, **trace.get("$defs", {})}.items():
        description = entry.get("description") or ""
        lines.append(f"### {name}\n\n{escaped(description.partition(chr(10) * 2)[0])}\n")
        if "enum" in entry:
            lines.append("One of " + ", ".join(f"`{value}`" for value in entry["enum"]) + ".\n")
            continue
        helps = _field_helps(description)
        for field, kind in entry.get("properties", {}).items():
            default = "" if field in entry.get("required", ()) else f" (default {_value(kind)})"
            text = f": {helps[field]}" if field in helps else ""
            lines.append(item(f"`{field}`, {_kind(kind)}{default}{text}"))
        lines.append("")
    return "\n".join(lines)


def _value(kind: dict[str, Any]) -> str:
    return f"`{json.dumps(kind['default'])}`" if "default" in kind else "empty"


def _field_helps(description: str) -> dict[str, str]:
    """Return a docstring's text about each field: `name   text`, over one line or several."""
    helps: dict[str, str] = {}
    field = ""
    for line in description.split("\n\n", 1)[-1].splitlines():
        match = re.match(r"^(\w+) {2,}(\S.*)$", line)
        if match:
            field = match[1]
            helps[field] = match[2]
        elif field and line.startswith(" "):
            helps[field] += " " + line.strip()
        else:
            field = ""
    return {name: escaped(text) for name, text in helps.items()}


def _kind(kind: dict[str, Any]) -> str:
    if "$ref" in kind:
        name = kind["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in kind:
        return " or ".join(_kind(choice) for choice in kind["anyOf"])
    if "enum" in kind:
        return ", ".join(f"`{json.dumps(value)}`" for value in kind["enum"])
    if "prefixItems" in kind:
        return "(" + ", ".join(_kind(item) for item in kind["prefixItems"]) + ")"
    if kind.get("type") == "array":
        return f"list of {_kind(kind.get('items', {}))}"
    if kind.get("type") == "object" and isinstance(kind.get("additionalProperties"), dict):
        return f"object of {_kind(kind['additionalProperties'])}"
    return str(kind.get("type", "any"))
