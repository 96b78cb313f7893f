"""The list methods, rendered to bytes once for each state of the catalog, and which components a user may see."""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Protocol

from .._utils.exceptions import INVALID_PARAMS, ProtocolError
from ..components.component import Component, Listed, listed
from ..execution.lifespan import Lifespans
from ..identity.principals_and_scopes import ListName, Principal
from ..protocol.jsonrpc import Json
from ..protocol.revisions import narrow
from ..providers.provider_and_transforms import Kind, lists_of
from ..requests.access_and_error_responses import check_identified, shortfall
from ..requests.request_record import Call, Runtime
from .included_providers_and_extensions import CompositeCatalog

if TYPE_CHECKING:
    from ..components.resource import ResourceTemplate
    from ..providers.provider_and_transforms import Lookup, Offer

logger = logging.getLogger(__name__)


# Visibility


class Visibility:
    """The access rules of the components of a catalog.

    Args:
        catalog: The catalog; it must outlive this object.
        is_closed: Whether the server is protected, so that users must authenticate for components that do not allow
            anonymous clients.
    """

    def __init__(self, catalog: CompositeCatalog, *, is_closed: bool) -> None:
        self._catalog = catalog
        self._is_closed = is_closed

    def restricted(self, parts: tuple[str, ...]) -> tuple[Component, ...]:
        """Return the enabled components that only some users see.

        Args:
            parts: Kinds of components: attributes of the catalog.
        """

        def find() -> tuple[Component, ...]:
            components = chain.from_iterable(getattr(self._catalog, part) for part in parts)
            return tuple(each for each in components if each.is_enabled and each.visible is not None)

        return self._catalog.derived(parts, find)

    def check_subscriptions(self, call: Call, uris: Iterable[str]) -> None:
        """Check that a user may subscribe to URIs.

        A URI that only hidden components serve is accepted, so that the response does not reveal them.

        Raises:
            ChallengeError: The client must authenticate or get more scopes; the challenge has the scopes of all URIs.
            InsufficientScopeError: The client needs more scopes, and no HTTP status can report it.
        """
        principal = call.principal
        is_closed = self._is_closed and not getattr(call.channel, "is_local", False)
        refused: list[Component] = []
        for uri in uris if self._has_guards else ():
            serving = [each for each in self._serving(uri) if each.is_visible(principal)]
            if serving and not any(_may_use(principal, each, is_closed) for each in serving):
                refused.append(serving[0])
        needed = [scope for each in refused for scope in each.scopes]
        if not principal.scopes.issuperset(needed):
            raise shortfall(call, needed)
        if refused:
            check_identified(call)

    def receivers(self, uri: str | None) -> Callable[[Subscriber], bool]:
        """Return the function that decides which subscribers are notified of changes of a URI.

        Every authenticated user may subscribe to a URI that no component serves, so that the response reveals nothing.

        Args:
            uri: A URI, or the text of a template; None for a list or a topic, of which all are notified.
        """
        serving = self._serving(uri) if uri is not None and self._has_guards else None
        if serving is None or (
            not self._is_closed
            and (not serving or any(each.visible is None and not each.scopes for each in serving))
        ):
            return lambda _: True

        def may_receive(subscriber: Subscriber) -> bool:
            principal = subscriber.principal
            is_closed = self._is_closed and not subscriber.is_local
            if not serving:
                return not is_closed or principal.id is not None
            return any(
                each.is_visible(principal) and _may_use(principal, each, is_closed) for each in serving
            )

        return may_receive

    @property
    def _has_guards(self) -> bool:
        """False if every user may get the notifications of every URI."""

        def find() -> bool:
            components = chain(self._catalog.resources, self._catalog.resource_templates)
            return any(each.is_enabled and (each.visible is not None or each.scopes) for each in components)

        return self._is_closed or self._catalog.derived("has guards", find)

    def _serving(self, uri: str) -> tuple[Component, ...]:
        """Return the components that serve a URI, or that have it as their template."""
        templates = self._catalog.resource_templates
        by_key = (self._catalog.resources.spelled(uri), templates.spelled(uri))
        matching = (each for each in templates if each.is_enabled and each.template.match(uri) is not None)
        return tuple(each for each in (*by_key, *matching) if each is not None)


class Subscriber(Protocol):
    """A subscriber to changes."""

    @property
    def principal(self) -> Principal:
        """The user."""
        ...

    @property
    def is_local(self) -> bool:
        """True if the transport has no access tokens, so that the user need not authenticate; see `Channel`."""
        ...


def _may_use(principal: Principal, component: Component, is_closed: bool) -> bool:
    """Return True if `check_access` permits a user who can see the component."""
    is_known = principal.id is not None or component.is_anonymous or not is_closed
    return is_known and principal.scopes.issuperset(component.scopes)


# Lists


LIST_METHODS: dict[str, Kind] = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
    "prompts/list": "prompts",
}

# Kinds of components with entries in each list.
_KINDS = {method: (kind,) for method, kind in LIST_METHODS.items()} | {
    "resources/list": ("resources", "resource_templates")
}

# Maximum number of cached pages. A client may request any position, so it must be limited.
_MAX_PAGES = 256

# Maximum length of the text in the position of a cached page, as it comes from the client.
_MAX_POSITION = 512

# Position of an entry in a list: that of its component or provider, and the position within its entries.
Position = tuple[int, str]

# First position of dynamic providers, after all registered components.
_AFTER_REGISTERED = 10**15

_NONE: frozenset[Component] = frozenset()

_position = attrgetter("position")


class Listing:
    """Serves the list methods of one server.

    Args:
        catalog: Components of the server.
        runtime: Limits, workers, storage and the like for running calls.
        lifespans: The lifespan that provides the state of providers.
        page_size: Entries in one page; None puts all in one.

    Attributes:
        visibility: The access rules of the components.
    """

    def __init__(
        self, catalog: CompositeCatalog, runtime: Runtime, lifespans: Lifespans, page_size: int | None
    ) -> None:
        self._catalog = catalog
        self._runtime = runtime
        self._lifespans = lifespans
        self._page_size = page_size
        # By method, revision, position, components that only some users see, whether the user is known, and what
        # dynamic providers offered: the state of the catalog, and the page.
        self._pages: dict[tuple[Any, ...], tuple[int, bytes]] = {}
        self._logged: set[tuple[str, str]] = set()
        self.visibility = Visibility(catalog, is_closed=runtime.is_protected)

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
        kind = LIST_METHODS[call.method]
        providers = self._catalog.providers
        lookups = [each for each in providers if kind in each.kinds] if providers else ()
        templates = self._templates_with_entries() if kind == "resources" else ()
        if lookups or templates:
            return self._collect(call, after, changes, lookups, templates)
        if after is not None:
            after = (after[0], "")  # components have no entries within them
        return self._page(call, after, changes)

    async def _collect(
        self,
        call: Call,
        after: Position | None,
        changes: int,
        lookups: Sequence[Lookup],
        templates: Sequence[ResourceTemplate],
    ) -> bytes:
        """Return a page with entries of `list_entries=` functions and of dynamic providers."""
        entries: list[tuple[Position, Json]] | None = None
        if templates:
            visible = [each for each in templates if each.is_visible(call.principal)]
            arguments = {"templates": visible, "principal": call.principal, "revision": call.revision}
            entries = await self._runtime.threads.run(_template_entries, arguments)
        offers = [await each.list(LIST_METHODS[call.method], call, self._lifespans) for each in lookups]
        return self._page(call, after, changes, lookups, offers, entries)

    def _page(
        self,
        call: Call,
        after: Position | None,
        changes: int,
        lookups: Sequence[Lookup] = (),
        offers: Sequence[Offer] = (),
        template_entries: list[tuple[Position, Json]] | None = None,
    ) -> bytes:
        """Return a page, which is rendered unless one of the same components is in the cache."""
        method, revision = call.method, call.envelope.revision
        kind = LIST_METHODS[method]
        restricted = self.visibility.restricted(_KINDS[method])
        is_for_all = not (restricted or offers)
        for offer in offers:
            restricted += offer.restricted
        visible = (
            frozenset(each for each in restricted if each.is_visible(call.principal)) if restricted else _NONE
        )
        is_known = self._runtime.is_protected and call.channel.principal.id is not None  # as `render` has it
        position = after
        key = (method, revision, position, visible, is_known, *offers)
        is_reusable = template_entries is None and (not offers or all(each.is_reusable for each in offers))
        if is_reusable:
            kept = self._pages.get(key)
            if kept is not None and kept[0] == changes:
                return kept[1]
        entries = [
            ((each.position, ""), listed(each, revision, self._runtime))
            for each in getattr(self._catalog, kind)
            if each.is_enabled and (each.visible is None or each in visible)
        ]
        if template_entries is not None:
            entries = sorted((*entries, *template_entries), key=itemgetter(0))
            is_for_all = is_for_all and not any(
                template.entries_parameter for template in self._templates_with_entries()
            )
        if offers:
            served = {entry["uri"] for _, entry in template_entries or ()}
            for lookup, offer in zip(lookups, offers, strict=True):
                entries += self._offered(call, lookup, offer, visible, served)
            if after is not None:
                after = _resumed(after, entries)
        if after is not None:
            entries = [entry for entry in entries if entry[0] > after]
        result: Json = {}
        size = self._page_size
        if size is not None and len(entries) > size:
            del entries[size:]
            result["nextCursor"] = encode_cursor(entries[-1][0])
        member = "resourceTemplates" if kind == "resource_templates" else kind
        result = {member: [entry for _, entry in entries], **result}
        page = call.render(result, None if is_for_all else self._runtime.cache[method].private)
        if is_reusable and (position is None or len(position[1]) <= _MAX_POSITION):
            if len(self._pages) >= _MAX_PAGES:
                self._pages.clear()
            self._pages[key] = (changes, page)
        return page

    def _offered(
        self, call: Call, lookup: Lookup, offer: Offer, visible: frozenset[Component], served: set[str]
    ) -> Iterator[tuple[Position, Json]]:
        """Yield the entries of a dynamic provider, without those of a name or URI that comes before: it is served."""
        registered = getattr(self._catalog, LIST_METHODS[call.method])
        for number, each in enumerate(offer.components):
            if each.visible is not None and each not in visible:
                continue
            if each.key in registered or each.key in served:
                if len(self._logged) < _MAX_PAGES and (each.kind, each.key) not in self._logged:
                    self._logged.add((each.kind, each.key))
                    logger.warning(
                        "two %ss are named %r: the second is of %s, and is not served. Rename one of them",
                        each.kind,
                        each.key,
                        lookup.name,
                    )
                continue
            served.add(each.key)
            position = (_AFTER_REGISTERED + lookup.position, f"{number:09}:{each.key}")
            yield position, listed(each, call.revision, self._runtime)

    def _templates_with_entries(self) -> tuple[ResourceTemplate, ...]:
        templates = self._catalog.resource_templates
        return self._catalog.derived(
            "templates with entries",
            lambda: tuple(each for each in templates if each.list_entries is not None and each.is_enabled),
        )

    def shown(self, name: ListName, revision: str, principal: Principal) -> list[Json] | None:
        """Return all entries of a list that a user sees, with templates among resources.

        It returns None if functions provide some of the entries.
        """
        dynamic: set[Kind] = {kind for each in self._catalog.providers for kind in each.kinds}
        if name in lists_of(dynamic) or (name == "resources" and self._templates_with_entries()):
            return None
        components: list[Listed] = [
            component
            for kind in _KINDS[f"{name}/list"]
            for component in getattr(self._catalog, kind)
            if component.is_enabled and component.is_visible(principal)
        ]
        return [component.listed(revision) for component in sorted(components, key=_position)]


def _template_entries(
    templates: Sequence[ResourceTemplate], revision: str, principal: Principal
) -> list[tuple[Position, Json]]:
    """Return what `list_entries=` functions return; runs in a worker thread."""
    entries = [
        ((template.position, entry["uri"]), narrow("Resource", entry, revision))
        for template in templates
        for entry in template.listed_entries(principal)
    ]
    return sorted(entries, key=itemgetter(0))


def _resumed(after: Position, entries: Sequence[tuple[Position, object]]) -> Position:
    """Return the position of the entry after which a list continues.

    The order of a provider may change between pages. If the entry that a cursor names has moved, the list continues
    after its new position. If it is gone, the list continues at its old position.
    """
    place, text = after
    if place < _AFTER_REGISTERED:
        return after
    number, _, key = text.partition(":")
    moved = (each for each, _ in entries if each[0] == place and each[1].partition(":")[2] == key)
    return next(moved, (place, number))


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
