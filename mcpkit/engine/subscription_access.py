"""Access rules for lists and subscriptions: components that only some users may see or use."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import NamedTuple, Protocol

from ..components.component import Component
from ..identity.principals_and_scopes import Principal
from ..requests.access import check_identified, shortfall
from ..requests.request_record import Call
from .included_providers_and_extensions import CompositeCatalog


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

    def guards(self, uri: str) -> Guards | None:
        """Return the access rules for notifications of a URI; None if every user may get them.

        Args:
            uri: A URI, or the text of a template.
        """
        if not self._has_guards:
            return None
        serving = self._serving(uri)
        if not self._is_closed and (
            not serving or any(each.visible is None and not each.scopes for each in serving)
        ):
            return None
        return Guards(serving, self._is_closed)

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


class Guards(NamedTuple):
    """The components that serve a URI. Their access rules apply to notifications of its changes.

    Attributes:
        serving: The components.
        is_closed: Whether anonymous clients are excluded, except by components that allow them.
    """

    serving: tuple[Component, ...]
    is_closed: bool


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


def may_receive(subscriber: Subscriber, guards: Guards | None) -> bool:
    """Return True if a subscriber may be notified of changes of a URI.

    Every authenticated user may subscribe to a URI that no component serves, so that the response reveals nothing.

    Args:
        subscriber: The subscriber.
        guards: The return value of `Visibility.guards` for the URI.
    """
    if guards is None:
        return True
    principal = subscriber.principal
    is_closed = guards.is_closed and not subscriber.is_local
    if not guards.serving:
        return not is_closed or principal.id is not None
    return any(each.is_visible(principal) and _may_use(principal, each, is_closed) for each in guards.serving)


def _may_use(principal: Principal, component: Component, is_closed: bool) -> bool:
    """Return True if `check_access` permits a user who can see the component."""
    is_known = principal.id is not None or component.is_anonymous or not is_closed
    return is_known and principal.scopes.issuperset(component.scopes)
