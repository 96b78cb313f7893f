"""Names that a module takes from others, which are imported when somebody asks for one of them (PEP 562)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def late_names(module: dict[str, object], homes: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a module: it imports a name when it is first asked for, and keeps it there.

    Args:
        module: The `globals()` of the module.
        homes: The names, and where each is, such as `.client` for a module of the same package.
    """

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {module['__name__']!r} has no attribute {name!r}")
        found = module[name] = getattr(import_module(homes[name], str(module["__package__"])), name)
        return found

    return find
