"""Capabilities of servers and clients, by name (`ServerCapabilities`, `ClientCapabilities` of the schema)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from .jsonrpc import is_object
from .types import Json

CAPABILITIES = frozenset(
    {
        "elicitation",
        "elicitation.form",
        "elicitation.url",
        "roots",
        "sampling",
        "sampling.context",
        "sampling.tools",
    }
)
"""Those of the specification; `extensions.<id>` and `experimental.<name>` come beside them."""

SERVER_CAPABILITIES: dict[str, dict[str, bool]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
"""Capabilities that a server can declare, with their members."""

_OPEN = ("extensions.", "experimental.")


@lru_cache(maxsize=256)
def capability_path(name: str) -> tuple[str, ...]:
    """Return the keys under which a client declares a capability.

    Raises:
        ValueError: There is no such capability; the message names all there are.
    """
    parts = tuple(name.split(".", 1))
    if name in CAPABILITIES or (name.startswith(_OPEN) and parts[1]):
        return parts
    known = ", ".join(sorted(CAPABILITIES))
    raise ValueError(
        f"unknown client capability {name!r}. The capabilities are {known}, extensions.<id> and experimental.<name>"
    )


def declares(capabilities: Json, name: str) -> bool:
    """Return whether declared client capabilities have a capability.

    Raises:
        ValueError: There is no such capability.
    """
    first, *rest = capability_path(name)
    declared = capabilities.get(first)
    if not is_object(declared):
        return False
    if name == "elicitation.form" and not declared:
        return True  # what `elicitation: {}` meant before there were modes
    return not rest or is_object(declared.get(rest[0]))


def tree(names: Iterable[str]) -> Json:
    """Return capabilities as a client declares them."""
    declared: Json = {}
    for name in names:
        first, *rest = capability_path(name)
        within = declared.setdefault(first, {})
        for key in rest:
            within[key] = {}
    return declared
