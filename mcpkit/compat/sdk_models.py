"""Models of SDKs: recognition by name, conversion to those of mcpkit, and the log of differences."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeGuard, get_args, get_origin, get_type_hints

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from ..protocol.jsonrpc import Json, is_object
from ..protocol.objects import Incomplete
from . import types

BLOCKS = ("TextContent", "ImageContent", "AudioContent", "ResourceLink", "EmbeddedResource")
_INSTALLED = ("mcp.", "mcp_types.", "fastmcp.")

logger = logging.getLogger("mcpkit.compat")

_logged: set[str] = set()


def log_difference(key: str, text: str) -> None:
    """Log a difference from the SDK for which a server was written, once for each process.

    Args:
        key: Key of the difference.
        text: The difference, and the fix.
    """
    if key not in _logged:
        _logged.add(key)
        logger.warning("%s", text)


def is_kind(of: type, *names: str) -> bool:
    """Return True if a class, or a base class of it, has one of these names in an SDK."""
    return not _names(of).isdisjoint(names)


@lru_cache(1024)
def _names(of: type) -> frozenset[str]:
    modules = ("mcpkit.compat.", *_INSTALLED)
    return frozenset(each.__name__ for each in of.__mro__ if each.__module__.startswith(modules))


def find_context_parameter(fn: object) -> str | None:
    """Return the name of the first parameter with the annotation `Context`, optional or not."""
    try:
        hints = get_type_hints(fn)
    except Exception:  # noqa: BLE001 - annotations may raise anything when they are evaluated
        return None
    for name, hint in hints.items():
        classes = (get_origin(each) or each for each in (hint, *get_args(hint)))
        if any(isinstance(of, type) and is_kind(of, "Context") for of in classes):
            return name
    return None


def is_list(value: object) -> TypeGuard[Sequence[object]]:
    """Return True for a list or a tuple."""
    return isinstance(value, list | tuple)


def to_own(value: Incomplete) -> Incomplete:
    """Convert models of an installed SDK, also in lists, to those of mcpkit; return other values unchanged."""
    if is_list(value):
        return [to_own(each) for each in value]
    if isinstance(value, BaseModel):
        for each in type(value).__mro__:
            model = getattr(types, each.__name__, None) if each.__module__.startswith(_INSTALLED) else None
            if model is not None:
                excluded = {"result_type"}  # which mcp 2.x adds for clients of 2026-07-28
                dump = value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=excluded)
                return model.model_validate(dump)
    return value


def to_json_object(value: Incomplete) -> Json:
    """Return a model of `mcp.types`, of any package, as the JSON object that is sent."""
    root: Incomplete = getattr(value, "root", value)
    if is_object(root):
        return root
    dump: Json = to_jsonable_python(root, by_alias=True, exclude_none=True)
    return dump
