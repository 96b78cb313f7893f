"""Writes the public names of the installed package `fastmcp` as JSON to standard output.

The Python of `.servers/fastmcp` runs this file; its output is kept in `fastmcp_names.json`, beside it.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import warnings

from pydantic import BaseModel

PARTS_WITH_CLASSES = (
    "fastmcp", "fastmcp.client", "fastmcp.exceptions", "fastmcp.prompts", "fastmcp.resources", "fastmcp.server.context",
    "fastmcp.tools", "fastmcp.utilities.types",
)  # fmt: skip


def parameters(value: object) -> list[str] | None:
    """Return the parameters of a function, those that are given by name alone behind a star; None for other values."""
    try:
        found = [
            each for each in inspect.signature(value).parameters.values() if each.name not in ("self", "cls")
        ]
    except (TypeError, ValueError):
        return None
    by_place = [
        each.name for each in found if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return [*by_place, *(f"*{each.name}" for each in found if each.kind is each.KEYWORD_ONLY)]


def attributes(found: type) -> dict[str, list[str] | None]:
    """Return the public attributes of a class; functions with their parameters."""
    names = sorted(name for name in dir(found) if not name.startswith("_") and not hasattr(BaseModel, name))
    said = {
        name: parameters(getattr(found, name)) if callable(getattr(found, name, None)) else None
        for name in names
    }
    return {"__init__": None if issubclass(found, BaseException) else parameters(found), **said}


def names_of(package: str) -> dict[str, dict[str, object]]:
    """Return the public names of each module of a package; classes of some with their attributes."""
    root = importlib.import_module(package)
    found: dict[str, dict[str, object]] = {}
    for name in [package, *(each.name for each in pkgutil.walk_packages(root.__path__, f"{package}."))]:
        if ".cli" in name or any(part.startswith("_") for part in name.split(".")):
            continue
        try:
            module = importlib.import_module(name)
        except Exception:  # it needs an extra
            found[name] = {}
            continue
        public = getattr(module, "__all__", None) or [
            each for each, value in vars(module).items() if getattr(value, "__module__", None) == name
        ]
        known: dict[str, object] = {}
        for each in sorted(each for each in public if not each.startswith("_") and each.isidentifier()):
            value = getattr(module, each, None)
            is_told = name in PARTS_WITH_CLASSES and isinstance(value, type)
            known[each] = attributes(value) if is_told else None
        found[name] = known
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    said = {
        name: names for package in ("fastmcp", "fastmcp_tasks") for name, names in names_of(package).items()
    }
    lines = (f"{json.dumps(name)}: {json.dumps(said[name], sort_keys=True)}" for name in sorted(said))
    print("{\n" + ",\n".join(lines) + "\n}")
