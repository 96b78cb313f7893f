"""The components of one kind by name, in order of registration."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Generic, TypeVar

from ..calls.lifespan import Lifespans
from ..common.errors import RegistrationError, UnresolvedHint
from ..common.listeners import Listeners
from ..common.uris import normalized_template
from ..state.change import ListName
from ..state.principal import Principal
from .component import Component

C = TypeVar("C", bound=Component)

_positions = itertools.count(1)
"""One count for all: a cursor names a position, so a position is never given twice."""


class Components(Generic[C]):
    """The components of one kind, in order of registration. All of it may be used from any thread.

    Args:
        kind: What each of them says it is, such as `resource template`.
        list_name: The list of the protocol that they are announced under; None where none holds them.
        lock: Held while anything changes.
        home: What `Component.home` is for what is registered here.
        on_change: Called with the name of the list at each change, while it is being made.
        check: Raises a RegistrationError for what cannot be served here; None for nothing.
        spellings: Returns the normalized spellings of a URI or URI template; None for what has no other spelling.

    Attributes:
        listeners: They hear what happened (`added`, `removed`, `switched`) to which component, after `on_change`.
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
        """Add a component, or a copy of it where it is registered already.

        Args:
            component: What to add.
            replace: Whether it may take the place of another with the same name or URI.

        Returns:
            What is here now.

        Raises:
            RegistrationError: There is one already, and the message names both places; or it is of another kind.
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
        """Say whether something is a component of this kind."""
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
        """Remember the spellings of a component's key.

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
        """Hold copies of what another one holds, now and later, under names of their own.

        What has been removed or replaced here since is left alone.

        Args:
            source: The other one; its lock is taken before this one's.
            name: Returns the name or URI of a copy.

        Returns:
            A function that ends it, and removes the copies.

        Raises:
            RegistrationError: A name is taken. Then there are no copies.
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

        Raises:
            KeyError: There is none of this name or URI.
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

    def switch_tags(self, tags: frozenset[str], *, is_hidden: bool) -> None:
        """Hide all that has one of these tags, now and later, or show it again but for what another tag hides."""
        with self.lock:
            self._hidden_tags = self._hidden_tags | tags if is_hidden else self._hidden_tags - tags
            for component in self:
                if component.tags & tags:
                    self._switch(component.key, is_enabled=not self.hides(component))

    def resolve(self) -> None:
        """Read the type hints that could not be resolved when their function was registered.

        From then on a component whose hints cannot be resolved is refused.

        Raises:
            RegistrationError: One of them still cannot; the message names it.
        """
        for component in self:
            component.resolve()
        self._is_resolved = True

    def get(self, key: str) -> C | None:
        """Return the component of this name or URI when it is there and enabled, else None."""
        component = self._by_key.get(key)
        return component if component is not None and component.is_enabled else None

    def spelled(self, key: str) -> C | None:
        """Return what `get` does, or else the component whose URI is another spelling of a given one."""
        component = self.get(key)
        if component is None and self._spellings is not None and key not in self._by_key:
            component = self.get(self._keys.get(normalized_template(key), ""))
        return component

    def shown(self, key: str, principal: Principal) -> C | None:
        """Return a component that is there for who asks; None where there is none that is enabled and visible."""
        component = self.spelled(key)
        return component if component is not None and component.is_visible(principal) else None

    def __getitem__(self, key: str) -> C:
        """Return the component of this name or URI, enabled or not; KeyError when there is none."""
        return self._by_key[key]

    def __contains__(self, key: object) -> bool:
        """Say whether there is a component of this name or URI, enabled or not."""
        return key in self._by_key

    def __iter__(self) -> Iterator[C]:
        """Iterate over a snapshot of all components, those that are disabled too."""
        with self.lock:
            return iter(list(self._by_key.values()))

    def __len__(self) -> int:
        """Count all components, those that are disabled too."""
        return len(self._by_key)

    def hides(self, component: Component) -> bool:
        """Say whether a component has a tag that is hidden."""
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
