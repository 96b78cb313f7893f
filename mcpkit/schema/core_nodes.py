"""pydantic's core schemas, gone through, and copied with changes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeGuard

from ..protocol.jsonrpc import is_object


def nodes(core: object, skipped: Collection[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield a core schema and those that are written within it.

    Args:
        core: The schema, or several.
        skipped: Keys of schemas below which nothing is looked for.
    """
    if is_object(core):
        is_node = isinstance(
            core.get("type"), str
        )  # else it holds fields by their names, or is a default value
        if is_node:
            yield core
        for key, inner in core.items():
            if not (is_node and key in skipped):
                yield from nodes(inner, skipped)
    elif _holds_several(core):
        for inner in core:
            yield from nodes(inner, skipped)


def copied(core: Any, change: Callable[[Any], Any], kept: Collection[str] = ()) -> Any:
    """Return a copy of a core schema with what it holds, if anything, changed.

    Args:
        core: The schema, or several.
        change: Returns what stands in the place of what the schema holds.
        kept: Keys of schemas whose values stay what they are.
    """
    if is_object(core):
        kept = kept if isinstance(core.get("type"), str) else ()
        return {key: inner if key in kept else change(inner) for key, inner in core.items()}
    return type(core)(map(change, core)) if _holds_several(core) else core


def _holds_several(core: object) -> TypeGuard[list[object] | tuple[object, ...]]:
    return type(core) in (list, tuple)  # a default value may be of a class derived from these
