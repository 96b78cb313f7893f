"""Writes the public API as griffe reads it from the code, `tests/house/public_api.txt`: names, signatures, members.

python bench/house/public_api.py
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

import griffe

from plain import ROOT

SNAPSHOT: Final = ROOT / "tests" / "house" / "public_api.txt"
MODULES: Final = (
    "mcpkit",
    "mcpkit.auth",
    "mcpkit.client",
    "mcpkit.doctor",
    "mcpkit.elicitation",
    "mcpkit.exceptions",
    "mcpkit.extensions",
    "mcpkit.middleware",
    "mcpkit.storage",
    "mcpkit.testing",
    "mcpkit.transports",
    "mcpkit.types",
)


def signature(function: griffe.Function) -> str:
    """Return the parameters of a function with their types and defaults."""
    parts: list[str] = []
    for each in function.parameters:
        if each.name in {"self", "cls"}:
            continue
        kind = each.kind
        star = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(
            kind, ""
        )
        if kind is griffe.ParameterKind.keyword_only and "*" not in parts:
            parts.append("*")
        hint = "" if each.annotation is None else f": {each.annotation}"
        default = "" if each.default is None or star else f" = {each.default}"
        parts.append(f"{star}{each.name}{hint}{default}")
    returns = "" if function.returns is None else f" -> {function.returns}"
    return f"({', '.join(parts)}){returns}"


def members(found: griffe.Class) -> Iterator[str]:
    """Yield the public members of a class, inherited ones too, in alphabetical order."""
    for name, each in sorted(found.all_members.items()):
        target = each.final_target if isinstance(each, griffe.Alias) else each
        if name == "__init__" and isinstance(target, griffe.Function):
            yield f"    {name}{signature(target)}"
        elif not name.startswith("_"):
            yield f"    {name}{signature(target) if isinstance(target, griffe.Function) else ''}"


def snapshot() -> str:
    """Return the public API as text."""
    package = griffe.load("mcpkit", search_paths=[str(ROOT)], resolve_aliases=True)
    assert isinstance(package, griffe.Module)
    lines: list[str] = []
    for path in MODULES:
        module = package if path == "mcpkit" else package[path.removeprefix("mcpkit.")]
        lines += ["", f"[{path}]"]
        for name in sorted(str(export) for export in module.exports or ()):
            found = module[name.strip("'\"")]
            target = found.final_target if isinstance(found, griffe.Alias) else found
            if isinstance(target, griffe.Class):
                lines += [f"class {name}", *members(target)]
            else:
                lines.append(name + (signature(target) if isinstance(target, griffe.Function) else ""))
    return "\n".join(lines).strip() + "\n"


def main() -> int:
    """Write the snapshot."""
    SNAPSHOT.write_text(snapshot(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
