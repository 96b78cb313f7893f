"""Names that a module exports from others, which are imported on first use (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def late_names(module: dict[str, object], homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a module: it imports a name on first use, and keeps it in the module.

    Args:
        module: The `globals()` of the module.
        homes: The names of each module, separated by spaces, by module, such as `{".client": "Client connect"}`.
    """
    places = {name: home for home, names in homes.items() for name in names.split()}

    def find(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        found = module[name] = getattr(import_module(places[name], str(module["__package__"])), name)
        return found

    return find
