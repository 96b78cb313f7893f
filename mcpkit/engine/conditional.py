"""What not everybody may see of a catalog, or hear of, held against lists and subscriptions alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..calls.access import check_identified, shortfall
from ..calls.call import Call
from ..components.component import Component
from ..state.principal import Principal
from .registry import CompositeCatalog


class Conditional:
    """The components of a registry that not everybody sees.

    Args:
        catalog: The registry; it must outlive this.
        is_closed: Whether the server is protected, so that its components are for whoever says who they are, unless
            they are open to anybody.
    """

    def __init__(self, catalog: CompositeCatalog, *, is_closed: bool) -> None:
        self._catalog = catalog
        self._is_closed = is_closed
        self._guarded: tuple[int, bool] | None = None  # by the state of the registry
        self._found: dict[tuple[str, ...], tuple[int, tuple[Component, ...]]] = {}

    def among(self, *parts: str) -> tuple[Component, ...]:
        """Return those that are enabled, found once for each state of the catalog.

        Args:
            parts: The kinds of components: attributes of the catalog.
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
        """Refuse whoever wants to hear of what they may not use; what they may not see anybody may wait for.

        Raises:
            ChallengeError: They have to say who they are, or to be granted more: all that the URIs need.
            InsufficientScopeError: They have to be granted more, and that cannot be said by a status of HTTP.
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
        """Return what says who may hear of a URI; None where everybody may.

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
    """What serves a URI, and so says who may hear that this has changed.

    Attributes:
        serving: The components.
        is_closed: Whether nobody may who does not say who they are, unless it is open to anybody.
    """

    __slots__ = ("is_closed", "serving")

    def __init__(self, serving: tuple[Component, ...], is_closed: bool) -> None:
        self.serving = serving
        self.is_closed = is_closed


class Hearer(Protocol):
    """Whoever wants to hear of changes."""

    @property
    def principal(self) -> Principal:
        """Who that is."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether nobody has to say who they are there; see `Channel`."""
        ...


def may_hear(hearer: Hearer, guards: Guards | None) -> bool:
    """Say whether somebody may hear that what a URI stands for has changed.

    What nobody serves whoever is known may wait for, so that waiting tells nothing.

    Args:
        hearer: Who listens.
        guards: What `Conditional.guards` returned for the URI.
    """
    if guards is None:
        return True
    principal = hearer.principal
    is_closed = guards.is_closed and not hearer.is_local
    if not guards.serving:
        return not is_closed or principal.id is not None
    return any(each.is_visible(principal) and _may_use(principal, each, is_closed) for each in guards.serving)


def _may_use(principal: Principal, component: Component, is_closed: bool) -> bool:
    """Say what `check_access` would of somebody who sees a component."""
    is_known = principal.id is not None or component.is_anonymous or not is_closed
    return is_known and principal.scopes.issuperset(component.scopes)
