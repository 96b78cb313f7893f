"""What not everybody may see of a registry, held against lists and subscriptions alike."""

from __future__ import annotations

from collections.abc import Iterable

from ..components.component import Component
from ..state.principal import Principal
from .registry import Registry


class Conditional:
    """The components of a registry that not everybody sees.

    Args:
        registry: The registry; it must outlive this.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._found: dict[tuple[str, ...], tuple[int, tuple[Component, ...]]] = {}

    def among(self, *parts: str) -> tuple[Component, ...]:
        """Return those that are enabled, found once for each state of the registry.

        Args:
            parts: The kinds of components: attributes of the registry.
        """
        changes = self._registry.changes
        found = self._found.get(parts)
        if found is None or found[0] != changes:
            components: Iterable[Component] = (
                each for name in parts for each in getattr(self._registry, name)
            )
            found = (
                changes,
                tuple(each for each in components if each.is_enabled and each.visible is not None),
            )
            self._found[parts] = found
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
    return not guards or any(each.is_visible(principal) for each in guards)
