"""Classes of an installed `mcp` or `fastmcp`, which are recognized by name and treated like those of mcpkit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeGuard, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from ..protocol.objects import Incomplete
from . import types

INSTALLED = ("mcp.", "mcp_types.", "fastmcp.")
BLOCKS = ("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource")


def is_kind(of: type, *names: str) -> bool:
    """Return True if a class, or a base class of it, has one of these names in an SDK."""
    return not _names(of).isdisjoint(names)


@lru_cache(1024)
def _names(of: type) -> frozenset[str]:
    homes = ("mcpkit.compat.", *INSTALLED)
    return frozenset(each.__name__ for each in of.__mro__ if each.__module__.startswith(homes))


def find_context_parameter(fn: object) -> str | None:
    """Return the name of the first parameter with the annotation `Context`, optional or not."""
    try:
        hints = get_type_hints(fn)
    except Exception:  # noqa: BLE001 - whatever keeps annotations from being evaluated
        return None
    for name, hint in hints.items():
        kinds = (get_origin(each) or each for each in (hint, *get_args(hint)))
        if any(isinstance(of, type) and is_kind(of, "Context") for of in kinds):
            return name
    return None


def is_several(value: object) -> TypeGuard[Sequence[object]]:
    """Return True for a list or a tuple."""
    return isinstance(value, list | tuple)


def own(value: Incomplete) -> Incomplete:
    """Convert models of an installed SDK, also in lists, to those of mcpkit; return other values unchanged."""
    if is_several(value):
        return [own(each) for each in value]
    if isinstance(value, BaseModel):
        for each in type(value).__mro__:
            model = getattr(types, each.__name__, None) if each.__module__.startswith(INSTALLED) else None
            if model is not None:
                without = {"result_type"}  # what mcp 2.x says for clients of 2026-07-28
                said = value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=without)
                return model.model_validate(said)
    return value
