"""The four list methods, rendered to bytes once for each state of the catalog, revision, page and audience."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .._utils.errors import INVALID_PARAMS, ProtocolError
from ..components.component import Component, Listed
from ..components.security_schemes import listed
from ..execution.lifespan import Lifespans
from ..identity.change import ListName
from ..identity.principal import Principal
from ..protocol.eras import CacheHint
from ..protocol.revisions import narrow
from ..protocol.types import Json
from ..requests.call import Call
from ..requests.runtime import Runtime
from .conditional import Conditional
from .registry import CompositeCatalog

if TYPE_CHECKING:
    from ..components.resources import ResourceTemplate
    from ..providers.base import Kind, Position, Provided

MEMBER = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
"""The member of the result that holds the list."""

_PART: dict[str, Kind] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
    "prompts/list": "prompts",
}

_PARTS = {method: (part,) for method, part in _PART.items()} | {
    "resources/list": ("resources", "resource_templates")
}
"""Kinds of components in each list."""

_MOST_KEPT = 256
"""Maximum number of cached pages. A client may request any position, so it must be limited."""

Shown = frozenset["Component"]
"""The restricted components that the principal of a request may see. Components added later stay hidden."""

_NOTHING: Shown = frozenset()

_position = attrgetter("position")


class Listing:
    """Serves the list methods of one server.

    Args:
        catalog: Components of the server.
        runtime: Limits, workers, storage and the like for running calls.
        lifespans: The lifespan that provides the state of providers.
        page_size: Entries in one page; None puts all in one.

    Attributes:
        conditional: The components that only some users see.
    """

    def __init__(
        self, catalog: CompositeCatalog, runtime: Runtime, lifespans: Lifespans, page_size: int | None
    ) -> None:
        self._catalog = catalog
        self._runtime = runtime
        self._lifespans = lifespans
        self._page_size = page_size
        self._pages: dict[tuple[str, str, Position | None, Shown, bool], tuple[int, bytes]] = {}
        self.conditional = Conditional(catalog, is_closed=runtime.is_protected)

    def answer(self, call: Call) -> bytes | Coroutine[Any, Any, bytes]:
        """Return the rendered result of a list method, or an awaitable of it if functions must be called for entries.

        Raises:
            ProtocolError: -32602 for an invalid cursor.
        """
        cursor = call.params.get("cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise _bad_cursor()
        after = decode_cursor(cursor) if cursor is not None else None
        changes = self._catalog.changes  # first: what changes meanwhile is not in what is kept
        conditional = self.conditional.among(*_PARTS[call.method])
        shown: Shown = _NOTHING
        cache = None
        if conditional:
            shown = frozenset(each for each in conditional if each.is_visible(call.principal))
            cache = self._runtime.cache[call.method].private
        kind = _PART[call.method]
        provided = [each for each in self._catalog.providers if kind in each.kinds]
        listing = _with_entries(self._catalog) if kind == "resources" else []
        if provided or any(template.entries_parameter for template in listing):
            cache = self._runtime.cache[call.method].private
        if provided or listing:
            return self._collect(call, after, shown, cache, provided)
        if after is not None:
            after = (after[0], "")  # components have no entries, and a client's text must not be kept
        is_private = (
            self._runtime.is_protected and call.channel.principal.id is not None
        )  # as `render` has it
        key = (call.method, call.envelope.revision, after, shown, is_private)
        kept = self._pages.get(key)
        if kept is not None and kept[0] == changes:
            return kept[1]
        page = self._render(
            call, after, _components(self._catalog, call.method, call.revision, shown, self._runtime), cache
        )
        if len(self._pages) >= _MOST_KEPT:
            self._pages.clear()
        self._pages[key] = (changes, page)
        return page

    def shown(self, name: ListName, revision: str, principal: Principal) -> list[Json] | None:
        """Return all entries of a list that a user sees, with templates among resources.

        It returns None if functions provide some of the entries.
        """
        catalog = self._catalog
        from ..providers.base import lists_of

        if name in lists_of(catalog.providers) or (name == "resources" and _with_entries(catalog)):
            return None
        components: list[Listed] = [
            component
            for part in _PARTS[f"{name}/list"]
            for component in getattr(catalog, part)
            if component.is_enabled and component.is_visible(principal)
        ]
        return [component.listed(revision) for component in sorted(components, key=_position)]

    async def _collect(
        self,
        call: Call,
        after: Position | None,
        shown: Shown,
        cache: CacheHint | None,
        provided: Sequence[Provided],
    ) -> bytes:
        """Return the result with registered components, entries of `list_entries=` and entries of providers.

        It is not cached.
        """
        catalog, kind = self._catalog, _PART[call.method]
        part: Iterable[Listed] = getattr(catalog, kind)
        taken = {each.key: each.origin for each in part if each.is_enabled}
        entries: list[tuple[Position, Json]]
        if kind == "resources":
            given = {
                "catalog": catalog,
                "shown": shown,
                "principal": call.principal,
                "runtime": self._runtime,
            }
            entries = await self._runtime.threads.run(_all_resources, {**given, "revision": call.revision})
            taken = {entry["uri"]: "one of list_entries=" for _, entry in entries} | taken
        else:
            entries = list(_components(catalog, call.method, call.revision, shown, self._runtime))
        if provided:
            from ..providers import base as provider

            entries += await provider.entries(provided, self._lifespans, call, kind, taken)
            if after is not None:
                after = provider.resumed(after, entries)
        return self._render(call, after, entries, cache)

    def _render(
        self,
        call: Call,
        after: Position | None,
        entries: Iterable[tuple[Position, Json]],
        cache: CacheHint | None,
    ) -> bytes:
        if after is not None:
            entries = (entry for entry in entries if entry[0] > after)
        page = list(entries)
        size = self._page_size
        result: Json = {}
        if size is not None and len(page) > size:
            del page[size:]
            result["nextCursor"] = encode_cursor(page[-1][0])
        result = {MEMBER[call.method]: [entry for _, entry in page], **result}
        return call.render(result, cache)


def _components(
    catalog: CompositeCatalog, method: str, revision: str, shown: Shown, runtime: Runtime
) -> Iterator[tuple[Position, Json]]:
    components: list[Listed] = sorted(getattr(catalog, _PART[method]), key=_position)
    for component in components:
        if component.is_enabled and _is_shown(component, shown):
            yield (component.position, ""), listed(component, revision, runtime)


def _is_shown(component: Component, shown: Shown) -> bool:
    return component.visible is None or component in shown


def _with_entries(catalog: CompositeCatalog) -> list[ResourceTemplate]:
    return [
        template
        for template in catalog.resource_templates
        if template.list_entries is not None and template.is_enabled
    ]


def _all_resources(
    catalog: CompositeCatalog, revision: str, shown: Shown, principal: Principal, runtime: Runtime
) -> list[tuple[Position, Json]]:
    found = list(_components(catalog, "resources/list", revision, shown, runtime))
    for template in _with_entries(catalog):
        if not _is_shown(template, shown):
            continue
        entries = sorted(template.listed_entries(principal), key=lambda entry: str(entry["uri"]))
        found += [
            ((template.position, entry["uri"]), narrow("Resource", entry, revision)) for entry in entries
        ]
    found.sort(key=lambda entry: entry[0])
    return found


def encode_cursor(position: Position) -> str:
    """Return a position as the opaque text of a `nextCursor`."""
    return base64.urlsafe_b64encode(f"{position[0]}:{position[1]}".encode()).decode()


def decode_cursor(cursor: str) -> Position:
    """Return the position of a cursor.

    A cursor names the last entry of a page instead of a number of entries, so it stays valid when entries are added or
    removed.

    Raises:
        ProtocolError: -32602 if this server did not create the cursor (utilities/pagination).
    """
    try:
        place, separator, uri = (
            base64.b64decode(cursor, altchars=b"-_", validate=True).decode().partition(":")
        )
    except (binascii.Error, ValueError):
        raise _bad_cursor() from None
    if not separator or not place.isascii() or not place.isdigit() or len(place) > 18:
        raise _bad_cursor()
    return int(place), uri


def _bad_cursor() -> ProtocolError:
    return ProtocolError(
        INVALID_PARAMS, "Invalid cursor. Send the nextCursor of a previous page, or no cursor"
    )
