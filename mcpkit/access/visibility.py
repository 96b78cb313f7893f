"""Who may see what: `visible=`, held against lists, uses and subscriptions alike."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..errors import RegistrationError
from .principal import Principal

if TYPE_CHECKING:
    from ..component import Component
    from ..registration.registry import Registry

logger = logging.getLogger("mcpkit")

Visible = Callable[[Principal], bool]
"""Says whether a principal may see a component; quick, and the same each time for the same principal."""


def check_visible(what: str, visible: Any) -> None:
    """Refuse what cannot say at once who may see a component.

    Raises:
        RegistrationError: It is no function, or an async one.
    """
    if visible is None:
        return
    if not callable(visible):
        raise RegistrationError(
            f"{what}: visible= needs a function of the principal, such as "
            f'lambda who: "admin" in who.scopes; got {visible!r}'
        )
    if inspect.iscoroutinefunction(visible):
        raise RegistrationError(
            f"{what}: visible= is asked for each list and each use, so it cannot be async: "
            "find out what it needs where the request is authenticated, and put that into the scopes"
        )


def is_visible(component: Component, principal: Principal) -> bool:
    """Say whether a principal may see a component; where its function cannot say so, it may not."""
    if component.visible is None:
        return True
    try:
        answer: Any = component.visible(principal)
    except Exception:  # whatever it is, nobody sees more because of it
        logger.exception("visible= of %r failed: it is hidden", component)
        return False
    if not isinstance(answer, bool):
        logger.error("visible= of %r returned %r, neither True nor False: it is hidden", component, answer)
        return False
    return answer


class Conditional:
    """The components of a registry that not everybody sees.

    Args:
        registry: The registry; it must outlive this.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._found: dict[str, tuple[int, tuple[Component, ...]]] = {}

    def among(self, *parts: str) -> tuple[Component, ...]:
        """Return those that are enabled, found once for each state of the registry.

        Args:
            parts: The kinds of components: attributes of the registry.
        """
        key = " ".join(parts)
        changes = self._registry.changes
        found = self._found.get(key)
        if found is None or found[0] != changes:
            components: Iterable[Component] = (
                each for name in parts for each in getattr(self._registry, name)
            )
            found = (
                changes,
                tuple(each for each in components if each.is_enabled and each.visible is not None),
            )
            self._found[key] = found
        return found[1]

    def guards(self, uri: str) -> tuple[Component, ...]:
        """Return what serves a URI; nothing where everybody may see some of it.

        Args:
            uri: A URI, or the text of a template.
        """
        if not self.among("resources", "resource_templates"):
            return ()
        registry = self._registry
        serving: list[Component] = [
            each
            for part in (registry.resources, registry.resource_templates)
            if (each := part.get(uri)) is not None
        ]
        serving += (
            template
            for template in registry.resource_templates
            if template.is_enabled and template.template.match(uri) is not None
        )
        return tuple(serving) if all(each.visible is not None for each in serving) else ()


def may_hear(principal: Principal, guards: tuple[Component, ...]) -> bool:
    """Say whether a principal may hear that what a URI stands for has changed.

    What nobody serves anybody may wait for, so that waiting tells nothing.

    Args:
        principal: Who listens.
        guards: What `Conditional.guards` returned for the URI.
    """
    return not guards or any(is_visible(each, principal) for each in guards)
