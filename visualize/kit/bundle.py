"""One script out of a module and all that it imports: a page that is opened from disk loads no
modules.

Each module becomes a function that returns what it exports, so that names of two modules never
meet. It understands the part of the language in which the modules are written: imports of names
from a file beside, one to a line at the top, and exports where something is declared.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

VISUALIZE = Path(__file__).parents[1]

IMPORT = re.compile(r'import \{ ([\w, ]+) \} from "\.{1,2}(?:/\w+)*/(\w+)\.js";')
EXPORT = re.compile(r"export (?:const|class|function|async function) (\w+)\b")
RENAMED = re.compile(r"(\w+) as (\w+)")
NAMES = re.compile(r"\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*")
LATER = re.compile(r"\bimport\s*\(|\bimport\.meta\b")


@cache
def bundle(name: str, folder: Path | None = None) -> str:
    """The script that does what the module `name` does.

    folder  where the modules lie; the page's own, where it is left out

    Raises ValueError for an import or export that is written in another way, for a name that its
    module does not export, and for modules that import each other.
    """
    return f"{_enclosed(name, folder, '')};\n"


@cache
def exported(name: str) -> str:
    """An expression in place of the module `name` of the page: an object of what it exports."""
    return _enclosed(name, None, f"return module_{name};\n")


def _enclosed(name: str, folder: Path | None, last: str) -> str:
    """A function that is called at once: the modules, then the line `last`."""
    written: dict[str, list[str]] = {}
    parts: list[str] = []
    _add(name, folder or VISUALIZE, (), written, parts)
    return '(() => {\n"use strict";\n' + "\n".join(parts) + f"\n{last}}})()"


def imports(source: str) -> list[tuple[str, str]]:
    """Of a module: the names that it imports as they are written, and from which module."""
    return IMPORT.findall(source)


def _add(
    name: str, folder: Path, above: tuple[str, ...], written: dict[str, list[str]], parts: list[str]
) -> None:
    """Write a module behind those that it imports; `written` has what each of them exports."""
    if name in above:
        raise ValueError(f"{' imports '.join((*above, name))}: modules may not import each other")
    if name in written:
        return
    lines: list[str] = []
    exported: list[str] = []
    for number, line in enumerate(
        next(folder.rglob(f"{name}.js")).read_text("utf-8").split("\n"), 1
    ):
        where = f"{name}.js, line {number}"
        if found := IMPORT.fullmatch(line):
            names, other = found.groups()
            if not NAMES.fullmatch(names):
                raise ValueError(f"{where}: these are not names to import: {names}")
            _add(other, folder, (*above, name), written, parts)
            asked = [part.split(" as ")[0] for part in names.split(", ")]
            missing = [one for one in asked if one not in written[other]]
            if missing:
                raise ValueError(f"{where}: {other}.js does not export {', '.join(missing)}")
            taken = RENAMED.sub(r"\1: \2", names)
            lines.append(f"const {{ {taken} }} = module_{other};")
        elif line.startswith("import") or LATER.search(line):
            wanted = 'import { a, b as c } from "./file.js";'
            raise ValueError(f"{where}: write an import as {wanted}, got {line.strip()}")
        elif found := EXPORT.match(line):
            exported.append(found[1])
            lines.append(line.removeprefix("export "))
        elif line.startswith("export"):
            wanted = "const, class, function or async function"
            raise ValueError(f"{where}: what may be exported is a {wanted}, got {line.strip()}")
        else:
            lines.append(line)
    written[name] = exported
    body = "\n".join(lines).rstrip("\n")
    parts.append(
        f"const module_{name} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"
    )
