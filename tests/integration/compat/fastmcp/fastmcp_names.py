"""Writes the public names of the installed package `fastmcp` as JSON to standard output.

The Python of `.servers/fastmcp` runs this file; its output is kept in `fastmcp_names.json`, beside it.
"""

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
    """Return the parameters of a function, keyword-only ones with a star; None for other values."""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    found = [each for each in found if each.name not in ("self", "cls")]
    by_place = [
        each.name for each in found if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
    ]
    return [*by_place, *(f"*{each.name}" for each in found if each.kind is each.KEYWORD_ONLY)]


def attributes(found: type) -> dict[str, list[str] | None]:
    """Return the public attributes of a class; functions with their parameters."""
    names = sorted(name for name in dir(found) if not name.startswith("_") and not hasattr(BaseModel, name))
    values = {name: getattr(found, name, None) for name in names}
    made = None if issubclass(found, BaseException) else parameters(found)
    return {
        "__init__": made,
        **{name: parameters(each) if callable(each) else None for name, each in values.items()},
    }


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
        values = {each: getattr(module, each, None) for each in sorted(public) if each.isidentifier()}
        found[name] = {
            each: attributes(value) if name in PARTS_WITH_CLASSES and isinstance(value, type) else None
            for each, value in values.items()
            if not each.startswith("_")
        }
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    said = names_of("fastmcp") | names_of("fastmcp_tasks")
    lines = (f"{json.dumps(name)}: {json.dumps(said[name], sort_keys=True)}" for name in sorted(said))
    print("{\n" + ",\n".join(lines) + "\n}")
