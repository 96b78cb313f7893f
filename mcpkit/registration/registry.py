"""The registry: ordered components by name, and everybody who must hear of a change."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from ..component import Component
from ..errors import RegistrationError
from ..own_methods import Method
from ..prompts import Prompt
from ..resources import Resource, ResourceTemplate
from ..tools import Tool
from ..updates.audience import Audience
from .components import Components
from .decorators import Build, Decorators
from .included import Included
from .marking import check_is_function, marked

if TYPE_CHECKING:
    from ..access.principal import Principal
    from ..extension import Extension

UpdateListener = Callable[[str], None]
"""Called with the URI of a resource whose data have changed."""

Listener = Callable[["Components[Any]", str, Component], None]
"""Called with the part that changed, what happened (`added`, `removed`, `switched`) and to which."""


class Registry(Decorators):
    """Tools, resources, resource templates and prompts, to be collected by a server.

    Everything may be called at any time and from any thread; each change is announced to every
    client that listens.

    Attributes:
        tools: The tools by name.
        resources: The resources by URI.
        resource_templates: The resource templates by template.
        prompts: The prompts by name.
        methods: The methods outside the core protocol by name.
        extensions: The extensions by identifier, those of what is included, too.
        included: The registries whose components are followed.
        changes: How many changes there have been.
    """

    _has_state: ClassVar[bool] = False
    """Whether what is registered here finds the state of a lifespan of its own, as a server's does."""

    def __init__(self) -> None:
        self.changes = 0
        self.included: list[Registry] = []
        self._lock = threading.RLock()
        self._is_resolved = False
        self._hidden_tags: frozenset[str] = frozenset()
        self._listeners: list[Listener] = []
        self._update_listeners: list[Callable[[str, Audience | None], None]] = []
        self.tools: Components[Tool] = Components(self, "tools")
        self.resources: Components[Resource] = Components(self, "resources")
        self.resource_templates: Components[ResourceTemplate] = Components(self, "resources")
        self.prompts: Components[Prompt] = Components(self, "prompts")
        self.methods: Components[Method] = Components(self, None)
        self.extensions: dict[str, Extension] = {}
        self._includers: list[Registry] = []

    @property
    def parts(self) -> tuple[Components[Any], ...]:
        """All kinds."""
        return (self.tools, self.resources, self.resource_templates, self.prompts, self.methods)

    def extension(self, identifier: str, settings: Mapping[str, Any] | None = None) -> Extension:
        """Declare an extension of the protocol (basic/versioning, "Extension Negotiation").

        One that is there already is attached by `include(extension)`.

        Args:
            identifier: A name under a domain of one's own, the other way round: `com.example/receipts`.
            settings: What clients are told about it: a JSON object, whose form is the extension's business.

        Returns:
            The extension, where its methods, tools, resources and middleware are registered.

        Raises:
            RegistrationError: The identifier breaks the rule or is taken, or JSON cannot carry the settings.
        """
        from ..extension import Extension

        if isinstance(identifier, Extension):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise RegistrationError(f"{identifier!r} is there already: attach it with include(...)")
        extension = Extension(identifier, settings)
        if identifier in self.extensions:
            raise RegistrationError(
                f"there is an extension {identifier!r} already: extensions[{identifier!r}]"
            )
        self.include(extension)
        return extension

    def _take(self, function: Any, build: Build) -> Any:
        is_static = isinstance(function, staticmethod)
        target: Any = function.__func__ if is_static else function
        check_is_function(target)
        self.add(build(target))
        return function

    def add(self, component: Component, *, replace: bool = False) -> None:
        """Add a ready-made `Tool`, `Resource`, `ResourceTemplate`, `Prompt` or `Method`.

        Args:
            component: What to add.
            replace: Whether it takes the place of another with the same name or URI.

        Raises:
            RegistrationError: There is one already, or it cannot be served.
        """
        self._part_of(component).add(component, replace=replace or component.replaces)

    def include(self, source: Any, *, prefix: str = "") -> Included:
        """Collect components from elsewhere.

        Args:
            source: A module, an object or a function with marks (`@tool`, `@resource`, `@prompt`);
                a `Registry`, `Extension` or `Server`, whose later changes are followed; or what
                `resource_dir(...)` returned.
            prefix: Put before names with an underscore (`weather` makes `weather_get_forecast`),
                and into URIs as the first part after the scheme (`data://weather/stations`). Methods
                keep their names.

        Returns:
            What takes all of it back: `remove()`, or the end of a `with` block.

        Raises:
            RegistrationError: Nothing is marked there, a name is taken, or an extension is there with
                other settings. Then nothing is included.
        """
        if isinstance(source, Registry):
            return self._follow(source, prefix)
        is_component = isinstance(source, Component)
        found = [source] if is_component else [mark.build(mark.function) for mark in marked(source)]
        if not found:
            raise RegistrationError(
                f"nothing to include in {source!r}: mark functions with @tool, @resource or @prompt"
            )
        if prefix:
            found = [component.renamed(_prefixed(component, prefix)) for component in found]
        for component in found:  # now, as it may take long, and lists wait for the lock
            with suppress(RegistrationError):  # which `add` raises
                component.resolve()
        brought: list[Component] = []
        with self._lock:
            try:
                for component in found:
                    self.add(component)
                    brought.append(self._part_of(component)[component.key])
            except RegistrationError:
                self._remove(brought)
                raise
        return Included(source, partial(self._remove, brought))

    def _remove(self, components: list[Component]) -> None:
        """Remove what is still there of some components; there is nothing left of them then."""
        with self._lock:
            for component in components:
                part = self._part_of(component)
                if component.key in part and part[component.key] is component:
                    part.remove(component.key)
            components.clear()

    def disable(self, *, tags: Collection[str]) -> None:
        """Hide all that has one of these tags, of any kind: what is there, and what is added later.

        Clients are told of the lists that change. One component is hidden by `tools.disable(name)` and its like.

        Args:
            tags: The tags, as they stand in `@server.tool(tags={...})`.

        Raises:
            TypeError: It is one text.
        """
        self._switch(self._hidden_tags | _tags(tags), _tags(tags))

    def enable(self, *, tags: Collection[str]) -> None:
        """Show what has one of these tags again, but for what has another tag that is still disabled.

        Args:
            tags: The tags.

        Raises:
            TypeError: It is one text.
        """
        self._switch(self._hidden_tags - _tags(tags), _tags(tags))

    def _switch(self, hidden: frozenset[str], tags: frozenset[str]) -> None:
        with self._lock:
            self._hidden_tags = hidden
            for part in self.parts:
                for component in part:
                    if component.tags & tags:
                        (part.disable if self._hides(component) else part.enable)(component.key)

    def _hides(self, component: Component) -> bool:
        return not self._hidden_tags.isdisjoint(component.tags)

    def resolve(self) -> None:
        """Read the type hints that could not be resolved when their function was registered.

        From then on a function whose hints cannot be resolved is refused when it is added.

        Raises:
            RegistrationError: One of them still cannot; the message names it.
        """
        for part in self.parts:
            for component in part:
                component.resolve()
        self._is_resolved = True

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` at each change, in the thread that makes it and while it is being made.

        Returns:
            A function that ends it.
        """
        with self._lock:
            self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def resource_updated(
        self, uri: str, *, to: Principal | Callable[[Principal], bool] | None = None
    ) -> None:
        """Tell the clients that subscribed to it that a resource's data have changed.

        Updates of one URI that come faster than a client takes them are told once.

        Args:
            uri: The URI as it is registered here; where this registry is included under a prefix,
                clients hear of the URI with the prefix.
            to: Who is told, of those who may see it: a Principal, known by its id, or a function that says so of
                each, quickly and in any thread; everybody when None. With a broker it holds for the clients of all
                processes.

        Raises:
            TypeError: `to` is something else.
            ValueError: `to` is a Principal without an id.
        """
        self._update(uri, None if to is None else Audience.of(to))

    def _update(self, uri: str, audience: Audience | None) -> None:
        for listener in tuple(self._update_listeners):
            listener(uri, audience)

    def listen_updates(self, listener: UpdateListener) -> Callable[[], None]:
        """Call `listener` at each `resource_updated`, in the thread that says so.

        Returns:
            A function that ends it.
        """
        return self._listen_updates(lambda uri, audience: listener(uri))

    def _listen_updates(self, listener: Callable[[str, Audience | None], None]) -> Callable[[], None]:
        with self._lock:
            self._update_listeners.append(listener)
        return partial(self._update_listeners.remove, listener)

    def _part_of(self, component: Any) -> Components[Any]:
        kinds: tuple[type[Component], ...] = (Tool, Resource, ResourceTemplate, Prompt, Method)
        for part, kind in zip(self.parts, kinds, strict=True):
            if isinstance(component, kind):
                return part
        raise RegistrationError(
            f"{component!r} is no Tool, Resource, ResourceTemplate, Prompt or Method; "
            "functions are registered by tool(...), resource(...), prompt(...) and method(...)"
        )

    def _publish(self, part: Components[Any], action: str, component: Component) -> None:
        self.changes += 1
        for listener in tuple(self._listeners):
            listener(part, action, component)

    def _follow(self, source: Registry, prefix: str) -> Included:
        if source is self or source._includes(self):
            raise RegistrationError("a registry cannot include itself, not even by way of another")
        twins: dict[tuple[str, str], Component] = {}

        follow = partial(self._mirror, twins, prefix)
        ends: list[Callable[[], object]] = []

        def take_back() -> None:
            with source._lock, self._lock:
                for end in ends:
                    end()
                is_over = not ends
                ends.clear()
                self._remove(list(twins.values()))
                if not is_over:
                    for extension in source.extensions.values():
                        self._detach(extension)

        with source._lock, self._lock:  # so that no change falls between the copy and the listening
            try:
                self.included.append(source)
                source._includers.append(self)
                ends += [partial(self.included.remove, source), partial(source._includers.remove, self)]
                for extension in source.extensions.values():
                    self._attach(extension)
                for part in source.parts:
                    for component in part:
                        follow(part, "added", component)
            except RegistrationError:
                take_back()
                raise
            ends.append(source.listen(follow))
            ends.append(
                source._listen_updates(
                    lambda uri, audience: self._update(_prefixed_uri(uri, prefix), audience)
                )
            )
        return Included(source, take_back)

    def _mirror(
        self,
        twins: dict[tuple[str, str], Component],
        prefix: str,
        part: Components[Any],
        action: str,
        component: Component,
    ) -> None:
        """Do here what has been done to a component of what is included.

        Args:
            twins: The copies here, by kind and name there.
            prefix: See `include`.
            part: The part that changed there.
            action: What happened; see `Listener`.
            component: To which.
        """
        source_key = (component.kind, component.key)
        mine = self._part_of(component)
        key = _prefixed(component, prefix)
        with self._lock:
            # What has been removed or replaced here since is no longer the source's to change.
            twin = twins.get(source_key)
            is_mine = twin is not None and key in mine and mine[key] is twin
            if action == "added":
                twin = component.renamed(key)
                if component.registry is None or not component.registry._has_state:
                    twin.registry = self
                mine._insert(twin, replace=is_mine)
                twins[source_key] = twin
            elif is_mine and action == "removed":
                mine.remove(key)
            elif is_mine:
                is_shown = component.is_enabled and not self._hides(component)
                (mine.enable if is_shown else mine.disable)(key)

    def _attach(self, extension: Extension) -> None:
        """Take over an extension of what is included, whose components are followed besides."""
        with self._lock:
            present = self.extensions.setdefault(extension.identifier, extension)
            if present.settings != extension.settings:
                raise RegistrationError(
                    f"there are two extensions {extension.identifier!r}, with the settings {present.settings!r} "
                    f"and {extension.settings!r}: make one of them, and include it where it is needed"
                )
            for includer in tuple(self._includers):
                includer._attach(extension)

    def _detach(self, extension: Extension) -> bool:
        """Let go of an extension, unless something else that is included has it; say whether it has gone."""
        with self._lock:
            identifier = extension.identifier
            others = [each.extensions[identifier] for each in self.included if identifier in each.extensions]
            if extension in others:
                return False
            if self.extensions.get(identifier) is extension:
                del self.extensions[identifier]
                if others:
                    self.extensions[identifier] = others[0]
            for includer in tuple(self._includers):
                includer._detach(extension)
            return True

    def _includes(self, other: Registry) -> bool:
        return any(part is other or part._includes(other) for part in self.included)


def _tags(tags: Collection[str]) -> frozenset[str]:
    if isinstance(tags, str):
        raise TypeError(f"tags is a set of words, not one string; write tags={{{tags!r}}}")
    return frozenset(tags)


def _prefixed(component: Component, prefix: str) -> str:
    if isinstance(component, Resource | ResourceTemplate):
        return _prefixed_uri(component.key, prefix)
    if isinstance(component, Method):
        return component.key
    return f"{prefix}_{component.key}" if prefix else component.key


def _prefixed_uri(uri: str, prefix: str) -> str:
    if not prefix:
        return uri
    scheme, separator, rest = uri.partition("://")
    return f"{scheme}{separator}{prefix}/{rest}" if separator else uri.replace(":", f":{prefix}/", 1)
