"""The components of one kind by name, in order of registration."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from ..component import Component
from ..errors import RegistrationError
from ..schema import UnresolvedHint

if TYPE_CHECKING:
    from .registry import Registry

C = TypeVar("C", bound=Component)

ListName = Literal["tools", "resources", "prompts"]
"""The lists whose changes the protocol announces; templates belong to `resources`."""

_positions = itertools.count(1)
"""One count for all: a cursor names a position, so a position is never given twice."""


class Components(Generic[C]):
    """The components of one kind, in order of registration. All of it may be used from any thread.

    Attributes:
        list_name: The list of the protocol that they are announced under; None where none holds them.
    """

    def __init__(self, registry: Registry, list_name: ListName | None) -> None:
        self._registry = registry
        self._lock = registry._lock
        self._by_key: dict[str, C] = {}
        self.list_name = list_name

    def add(self, component: C, *, replace: bool = False) -> None:
        """Add a component.

        Args:
            component: What to add.
            replace: Whether it may take the place of another with the same name or URI.

        Raises:
            RegistrationError: There is one already, and the message names both places; or it is of another kind.
        """
        if self._registry._part_of(component) is not self:
            raise RegistrationError(f"{component!r} belongs elsewhere; write add(...) of the registry itself")
        if component.registry is not None:  # it may be served elsewhere, and be disabled there alone
            component = component.renamed(component.key)
        component.registry = self._registry
        self._insert(component, replace=replace)

    def _insert(self, component: C, *, replace: bool) -> None:
        try:
            component.resolve()
        except UnresolvedHint:
            if self._registry._is_resolved:
                raise
            # A class that is defined further down: `Registry.resolve` tries again, and complains.
        with self._lock:
            present = self._by_key.get(component.key)
            if present is not None and not replace:
                raise RegistrationError(
                    f"there are two {component.kind}s {component.key!r}: {present.origin} and {component.origin}; "
                    "rename one, or pass replace=True to let the second take the place of the first"
                )
            component.position = present.position if present is not None else next(_positions)
            self._by_key[component.key] = component
            component.is_enabled = component.is_enabled and not self._registry._hides(component)
            self._changed("added", component)

    def remove(self, key: str) -> C:
        """Remove a component and return it.

        Raises:
            KeyError: There is none of this name or URI.
        """
        with self._lock:
            component = self._by_key.pop(key)
            self._changed("removed", component)
        return component

    def enable(self, key: str) -> None:
        """Show a component to clients again.

        Raises:
            KeyError: There is none of this name or URI.
        """
        self._switch(key, is_enabled=True)

    def disable(self, key: str) -> None:
        """Hide a component: it is neither listed nor served until it is enabled again.

        Raises:
            KeyError: There is none of this name or URI.
        """
        self._switch(key, is_enabled=False)

    def get(self, key: str) -> C | None:
        """Return the component of this name or URI when it is there and enabled, else None."""
        component = self._by_key.get(key)
        return component if component is not None and component.is_enabled else None

    def __getitem__(self, key: str) -> C:
        """Return the component of this name or URI, enabled or not; KeyError when there is none."""
        return self._by_key[key]

    def __contains__(self, key: object) -> bool:
        """Say whether there is a component of this name or URI, enabled or not."""
        return key in self._by_key

    def __iter__(self) -> Iterator[C]:
        """Iterate over a snapshot of all components, those that are disabled too."""
        with self._lock:
            return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        """Count all components, those that are disabled too."""
        return len(self._by_key)

    def _switch(self, key: str, *, is_enabled: bool) -> None:
        with self._lock:
            component = self._by_key[key]
            if component.is_enabled is not is_enabled:
                component.is_enabled = is_enabled
                self._changed("switched", component)

    def _changed(self, action: str, component: C) -> None:
        self._registry._publish(self, action, component)
