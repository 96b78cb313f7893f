"""The components of one kind by name, in order of registration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Generic, TypeVar

from .._utils.concurrency import Listeners
from .._utils.exceptions import RegistrationError, UnresolvedHint
from ..content.uris import normalized_template
from ..execution.lifespan import Lifespans
from ..identity.principal import ListName, Principal
from .base import Component

C = TypeVar("C", bound=Component)

_positions = itertools.count(1)
"""One count for all: a cursor names a position, so a position is never given twice."""


class Components(Generic[C]):
    """The components of one kind, in order of registration. Thread-safe.

    Args:
        kind: `kind` of the components, such as `resource template`.
        list_name: List of the protocol that clients are notified about; None for kinds without a list.
        lock: Lock that is held during changes.
        home: `Component.home` of components that are added here.
        on_change: Called with `list_name` at each change, with the lock held.
        check: Raises a RegistrationError for components that cannot be served here; None accepts all.
        spellings: Returns the normalized spellings of a URI or URI template; None for kinds with one spelling.

    Attributes:
        listeners: Called with the action (`added`, `removed`, `switched`) and the component, after `on_change`.
    """

    def __init__(
        self,
        kind: str,
        list_name: ListName | None,
        *,
        lock: RLock,
        home: Lifespans | None,
        on_change: Callable[[ListName | None], None],
        check: Callable[[Component], None] | None = None,
        spellings: Callable[[str], tuple[str, ...]] | None = None,
    ) -> None:
        self.kind = kind
        self.list_name: ListName | None = list_name
        self.lock = lock
        self.listeners: Listeners[[str, C]] = Listeners()
        self._home = home
        self._on_change = on_change
        self._check = check
        self._by_key: dict[str, C] = {}
        self._spellings = spellings
        self._keys: dict[str, str] = {}  # by the normalized spellings of what is there
        self._hidden_tags: frozenset[str] = frozenset()
        self._is_resolved = False

    def add(self, component: C, *, replace: bool = False) -> C:
        """Add a component, or a copy of it if it is registered elsewhere.

        Args:
            component: The component.
            replace: Whether it may replace a component with the same name or URI.

        Returns:
            The component that was added.

        Raises:
            RegistrationError: The name or URI is in use, and the message has both places; or the kind is different.
        """
        if not self.takes(component):
            raise RegistrationError(
                f"{component!r} is not a {self.kind}. Use add(...) of the server for other kinds, and register a "
                "function with tool(...), resource(...), prompt(...) or method(...)"
            )
        if component.position:  # it may be served elsewhere, and be disabled there alone
            component = component.renamed(component.key)
        component.home = self._home
        self._insert(component, replace=replace)
        return component

    def takes(self, component: object) -> bool:
        """Return whether an object is a component of this kind."""
        return isinstance(component, Component) and component.kind == self.kind

    def _insert(self, component: C, *, replace: bool) -> None:
        if self._check is not None:
            self._check(component)
        try:
            component.resolve()
        except UnresolvedHint:
            if self._is_resolved:
                raise
            # A class that is defined further down: `resolve` tries again, and complains.
        with self.lock:
            present = self._by_key.get(component.key)
            if present is not None and not replace:
                raise RegistrationError(
                    f"two {component.kind}s are named {component.key!r}: {present.origin} and {component.origin}. "
                    "Rename one, or replace the first with add(..., replace=True), or for all components with "
                    'ServerOptions(on_duplicate="replace")'
                )
            self._spell(component)
            component.position = present.position if present is not None else next(_positions)
            self._by_key[component.key] = component
            component.is_enabled = component.is_enabled and not self.hides(component)
            self._changed("added", component)

    def _spell(self, component: C) -> None:
        """Record the spellings of a component's key.

        Raises:
            RegistrationError: Another component has one of them.
        """
        forms = () if self._spellings is None else self._spellings(component.key)
        for form in forms:
            other = self._keys.get(form, component.key)
            if other != component.key:
                raise RegistrationError(
                    f"the {component.kind}s {other!r} ({self._by_key[other].origin}) and {component.key!r} "
                    f"({component.origin}) are two spellings of the same URI. Rename one of them"
                )
        self._keys.update(dict.fromkeys(forms, component.key))

    def mirror(self, source: Components[C], name: Callable[[C], str]) -> Callable[[], None]:
        """Keep copies of another collection's components, under other names, and follow its changes.

        A copy that was removed or replaced here is not added again.

        Args:
            source: The other collection; its lock is acquired before this one's.
            name: Returns the name or URI of a copy.

        Returns:
            A function that stops following and removes the copies.

        Raises:
            RegistrationError: A name is in use. No copies are kept then.
        """
        twins: dict[str, C] = {}

        def follow(action: str, component: C) -> None:
            with self.lock:
                twin = twins.get(component.key)
                is_here = twin is not None and self._by_key.get(twin.key) is twin
                if action == "added":
                    twin = twins[component.key] = component.renamed(name(component))
                    if twin.home is None:
                        twin.home = self._home
                    self._insert(twin, replace=is_here)
                elif twin is not None and action == "removed":
                    self.discard(twin)
                elif is_here:
                    self._switch(
                        name(component), is_enabled=component.is_enabled and not self.hides(component)
                    )

        def end() -> None:
            with source.lock, self.lock:
                unlisten()
                for twin in twins.values():
                    self.discard(twin)
                twins.clear()

        with source.lock, self.lock:  # so that no change falls between the copy and the listening
            unlisten = source.listeners.add(follow)
            try:
                for component in source:
                    follow("added", component)
            except RegistrationError:
                end()
                raise
        return end

    def remove(self, key: str) -> C:
        """Remove a component and return it.

        Args:
            key: Name or URI.

        Raises:
            KeyError: There is no component of this name or URI.
        """
        with self.lock:
            component = self._by_key.pop(key)
            for form in () if self._spellings is None else self._spellings(key):
                self._keys.pop(form, None)
            self._changed("removed", component)
        return component

    def discard(self, component: Component) -> None:
        """Remove a component, unless it has been removed or replaced."""
        with self.lock:
            if self._by_key.get(component.key) is component:
                self.remove(component.key)

    def enable(self, key: str) -> None:
        """Show a component to clients again.

        Args:
            key: Name or URI.

        Raises:
            KeyError: There is no component of this name or URI.
        """
        self._switch(key, is_enabled=True)

    def disable(self, key: str) -> None:
        """Hide a component: it is neither listed nor served until it is enabled again.

        Args:
            key: Name or URI.

        Raises:
            KeyError: There is no component of this name or URI.
        """
        self._switch(key, is_enabled=False)

    def switch_tags(self, tags: frozenset[str], *, is_hidden: bool) -> None:
        """Hide or show all components with one of these tags, present and future.

        Args:
            tags: The tags.
            is_hidden: True hides them. False shows them, except those with another hidden tag.
        """
        with self.lock:
            self._hidden_tags = self._hidden_tags | tags if is_hidden else self._hidden_tags - tags
            for component in self:
                if component.tags & tags:
                    self._switch(component.key, is_enabled=not self.hides(component))

    def resolve(self) -> None:
        """Resolve the type hints that could not be resolved at registration.

        Components that are added later and cannot be resolved are refused.

        Raises:
            RegistrationError: A type hint cannot be resolved. The message has the component.
        """
        for component in self:
            component.resolve()
        self._is_resolved = True

    def get(self, key: str) -> C | None:
        """Return the enabled component of a name or URI, or None."""
        component = self._by_key.get(key)
        return component if component is not None and component.is_enabled else None

    def spelled(self, key: str) -> C | None:
        """Return the enabled component of a name or URI, or of another spelling of the URI, or None."""
        component = self.get(key)
        if component is None and self._spellings is not None and key not in self._by_key:
            component = self.get(self._keys.get(normalized_template(key), ""))
        return component

    def shown(self, key: str, principal: Principal) -> C | None:
        """Return the component of a name or URI if it is enabled and visible to the principal, else None."""
        component = self.spelled(key)
        return component if component is not None and component.is_visible(principal) else None

    def __getitem__(self, key: str) -> C:
        """Return the component of a name or URI, enabled or not. KeyError if there is none."""
        return self._by_key[key]

    def __contains__(self, key: object) -> bool:
        """Return whether there is a component of a name or URI, enabled or not."""
        return key in self._by_key

    def __iter__(self) -> Iterator[C]:
        """Iterate over a snapshot of all components, including disabled ones."""
        with self.lock:
            return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        """Return the number of components, including disabled ones."""
        return len(self._by_key)

    def hides(self, component: Component) -> bool:
        """Return whether a component has a hidden tag."""
        return not self._hidden_tags.isdisjoint(component.tags)

    def _switch(self, key: str, *, is_enabled: bool) -> None:
        with self.lock:
            component = self._by_key[key]
            if component.is_enabled is not is_enabled:
                component.is_enabled = is_enabled
                self._changed("switched", component)

    def _changed(self, action: str, component: C) -> None:
        self._on_change(self.list_name)
        self.listeners.tell(action, component)
