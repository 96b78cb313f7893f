"""Access rules for lists and subscriptions: components that only some users may see or use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..components.component import Component
from ..identity.principal import Principal
from ..requests.access import check_identified, shortfall
from ..requests.call import Call
from .registry import CompositeCatalog


class Conditional:
    """The components of a registry that only some users see.

    Args:
        catalog: The catalog; it must outlive this object.
        is_closed: Whether the server is protected, so that users must authenticate for components that do not allow
            anonymous clients.
    """

    def __init__(self, catalog: CompositeCatalog, *, is_closed: bool) -> None:
        self._catalog = catalog
        self._is_closed = is_closed
        self._guarded: tuple[int, bool] | None = None  # by the state of the registry
        self._found: dict[tuple[str, ...], tuple[int, tuple[Component, ...]]] = {}

    def among(self, *parts: str) -> tuple[Component, ...]:
        """Return the enabled components with a `visible=` predicate; computed once for each state of the catalog.

        Args:
            parts: Kinds of components: attributes of the catalog.
        """
        changes = self._catalog.changes
        found = self._found.get(parts)
        if found is None or found[0] != changes:
            components: Iterable[Component] = (
                each for name in parts for each in getattr(self._catalog, name)
            )
            found = (
                changes,
                tuple(each for each in components if each.is_enabled and each.visible is not None),
            )
            self._found[parts] = found
        return found[1]

    def check_hearing(self, call: Call, uris: Iterable[str]) -> None:
        """Check that a user may subscribe to URIs.

        A URI that only hidden components serve is accepted, so that the response does not reveal them.

        Raises:
            ChallengeError: The client must authenticate or get more scopes; the challenge has the scopes of all URIs.
            InsufficientScopeError: The client needs more scopes, and no HTTP status can report it.
        """
        principal, is_closed = (
            call.principal,
            self._is_closed and not getattr(call.channel, "is_local", False),
        )
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
        if self._is_closed:
            return True
        changes = self._catalog.changes
        if self._guarded is None or self._guarded[0] != changes:
            parts = (self._catalog.resources, self._catalog.resource_templates)
            is_guarded = any(
                each.is_enabled and (each.visible is not None or each.scopes)
                for part in parts
                for each in part
            )
            self._guarded = changes, is_guarded
        return self._guarded[1]

    def _serving(self, uri: str) -> tuple[Component, ...]:
        catalog = self._catalog
        serving: list[Component] = [
            each
            for part in (catalog.resources, catalog.resource_templates)
            if (each := part.spelled(uri)) is not None
        ]
        serving += (
            template
            for template in catalog.resource_templates
            if template.is_enabled and template.template.match(uri) is not None
        )
        return tuple(serving)


class Guards:
    """The components that serve a URI. Their access rules apply to notifications of its changes.

    Attributes:
        serving: The components.
        is_closed: Whether anonymous clients are excluded, except by components that allow them.
    """

    __slots__ = ("is_closed", "serving")

    def __init__(self, serving: tuple[Component, ...], is_closed: bool) -> None:
        self.serving = serving
        self.is_closed = is_closed


class Hearer(Protocol):
    """A subscriber to changes."""

    @property
    def principal(self) -> Principal:
        """The user."""
        ...

    @property
    def is_local(self) -> bool:
        """True if the transport has no access tokens, so that the user need not authenticate; see `Channel`."""
        ...


def may_hear(hearer: Hearer, guards: Guards | None) -> bool:
    """Return True if a subscriber may be notified of changes of a URI.

    Every authenticated user may subscribe to a URI that no component serves, so that the response reveals nothing.

    Args:
        hearer: The subscriber.
        guards: The return value of `Conditional.guards` for the URI.
    """
    if guards is None:
        return True
    principal = hearer.principal
    is_closed = guards.is_closed and not hearer.is_local
    if not guards.serving:
        return not is_closed or principal.id is not None
    return any(each.is_visible(principal) and _may_use(principal, each, is_closed) for each in guards.serving)


def _may_use(principal: Principal, component: Component, is_closed: bool) -> bool:
    """Return True if `check_access` lets a user pass who can see the component."""
    is_known = principal.id is not None or component.is_anonymous or not is_closed
    return is_known and principal.scopes.issuperset(component.scopes)
