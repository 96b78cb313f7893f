"""Asks providers: for what they list, and for what goes by a name."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from ..calls.call import NO_STATE, Call
from ..calls.lifespan import Lifespans
from ..calls.limits import run_limited
from ..components.component import Listed
from ..context import Context
from ..errors import INTERNAL_ERROR, ProtocolError
from .provider import Kind, Provided
from .registry import Registry

logger = logging.getLogger("mcpkit")

Position = tuple[int, str]
"""Where an entry of a list stands: its component's place, and its URI among the entries of a template."""

_BEHIND = 10**15
"""Positions of providers are behind those of components."""


class Providing:
    """Asks the providers of one server.

    Args:
        registry: Has them.
        lifespans: Fills the state that they find.
    """

    def __init__(self, registry: Registry, lifespans: Lifespans) -> None:
        self._registry = registry
        self._lifespans = lifespans

    async def find(self, call: Call, kind: Kind, key: str) -> Listed | None:
        """Return what the first provider that knows a name or URI has; None where nobody does.

        Raises:
            Exception: Whatever a provider raises.
        """
        for provided in self._among(kind):
            found: Listed | None = await self._ask(call, provided, provided.find, kind, key)
            if found is not None:
                return found
        return None

    async def entries(
        self, call: Call, kind: Kind, taken: Mapping[str, str]
    ) -> list[tuple[Position, dict[str, Any]]]:
        """Return what providers list, for who asks, as `call.revision` shows it.

        Args:
            call: The request.
            kind: What is listed.
            taken: Where each name or URI comes from that is registered.

        Raises:
            ProtocolError: -32603, when two things have one name.
            Exception: Whatever a provider raises.
        """
        origins = dict(taken)
        found: list[tuple[Position, dict[str, Any]]] = []
        for provided in self._among(kind):
            for number, each in enumerate(await self._ask(call, provided, provided.list, kind)):
                if not each.is_visible(call.principal):
                    continue
                mine = f"one of {provided.name}"
                other = origins.setdefault(each.key, mine)
                if other is not mine:
                    what = f"there are two {each.kind}s {each.key!r}"
                    logger.error("%s: %s, and %s", what, other, mine)
                    raise ProtocolError(INTERNAL_ERROR, f"{what}; one of them is of {provided.name}")
                position = (_BEHIND + provided.position, f"{number:09}:{each.key}")
                found.append((position, each.listed(call.revision)))
        return found

    def _among(self, kind: Kind) -> Iterable[Provided]:
        return [each for each in self._registry.providers if kind in each.kinds]

    async def _ask(
        self, call: Call, provided: Provided, method: Callable[..., Coroutine[Any, Any, Any]], *args: Any
    ) -> Any:
        """Ask a provider, within the server's time; it finds the state of the server that has included it."""
        call.state = await self._lifespans.state_of(provided.home or self._lifespans)
        try:
            return await run_limited(method(*args, Context(call)), call, None)
        finally:
            call.state = NO_STATE


def resumed(after: Position, entries: Iterable[tuple[Position, object]]) -> Position:
    """Return the position of the entry after which a list goes on.

    The order of a provider is its own. Where what a cursor names has moved, the list goes on behind where it is now;
    where it is gone, with what has taken its place.
    """
    place, text = after
    if place < _BEHIND:
        return after
    number, _, key = text.partition(":")
    moved = (each for each, _ in entries if each[0] == place and each[1].partition(":")[2] == key)
    return next(moved, (place, number))
