"""The catalog of a server: components by kind, in order of registration, and notifications of their changes."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from .._utils.errors import RegistrationError
from .._utils.listeners import Listeners
from .._utils.uris import spellings, template_spellings
from ..execution.lifespan import Lifespans
from ..identity.change import Change, ListName
from ..identity.principal import Principal
from .collection import Components
from .component import Component

if TYPE_CHECKING:
    from .custom_methods import CustomMethod
    from .prompts import Prompt
    from .resources import Resource, ResourceTemplate
    from .tools import AnyTool

Listener = Callable[["Components[Any]", str, Component], None]
"""Called with the part that changed, what happened (`added`, `removed`, `switched`) and to which."""


class Catalog:
    """Tools, resources, resource templates, prompts and methods, which may change while they are served.

    All methods may be called at any time and from any thread. Every client that listens is notified of each change.

    Args:
        lifespans: The lifespan that provides the state of the handlers; None for that of the server that serves them.
        check: Raises a RegistrationError for a component that cannot be served here; None for no check.

    Attributes:
        replaces_duplicates: Whether a component replaces another of the same name or URI.
        tools: The tools by name.
        resources: The resources by URI.
        resource_templates: The resource templates by template.
        prompts: The prompts by name.
        methods: The methods outside the core protocol by name.
        changes: Number of changes so far.
        lifespans: The lifespan of the handlers, or None.
        lock: Lock that each change holds.
        listeners: Functions that get each change of which clients may be notified, in the thread that makes it.
    """

    replaces_duplicates = False

    def __init__(
        self, lifespans: Lifespans | None = None, check: Callable[[Component], None] | None = None
    ) -> None:
        self.changes = 0
        self.lifespans = lifespans
        self.lock = threading.RLock()
        self.listeners: Listeners[[Change]] = Listeners()

        def part(
            kind: str, list_name: ListName | None, spellings: Callable[[str], tuple[str, ...]] | None = None
        ) -> Components[Any]:
            return Components(
                kind,
                list_name,
                lock=self.lock,
                home=lifespans,
                on_change=self._changed,
                check=check,
                spellings=spellings,
            )

        self.tools: Components[AnyTool] = part("tool", "tools")
        self.resources: Components[Resource] = part("resource", "resources", spellings)
        self.resource_templates: Components[ResourceTemplate] = part(
            "resource template", "resources", template_spellings
        )
        self.prompts: Components[Prompt] = part("prompt", "prompts")
        self.methods: Components[CustomMethod] = part("method", None)

    @property
    def parts(self) -> tuple[Components[Any], ...]:
        """The collections of all kinds of components."""
        return (self.tools, self.resources, self.resource_templates, self.prompts, self.methods)

    def add(self, component: Component, *, replace: bool = False) -> None:
        """Add a ready-made `Tool`, `BaseTool`, `Resource`, `ResourceTemplate`, `Prompt` or `CustomMethod`.

        Args:
            component: The component.
            replace: Whether it replaces another with the same name or URI.

        Raises:
            RegistrationError: The name or URI is taken, or the component cannot be served.
        """
        self.part_of(component).add(component, replace=replace or self.replaces_duplicates)

    def switch(self, tags: Collection[str], *, is_hidden: bool) -> None:
        """Hide or show all components with one of these tags, see `CatalogOwner.disable`."""
        if isinstance(tags, str):
            raise TypeError(f"tags must be a set of words, got one string. Write tags={{{tags!r}}}")
        with self.lock:
            for part in self.parts:
                part.switch_tags(frozenset(tags), is_hidden=is_hidden)

    def resolve(self) -> None:
        """Resolve the type hints that could not be resolved when their function was registered.

        From then on, a function with unresolvable type hints is refused when it is added.

        Raises:
            RegistrationError: A type hint still cannot be resolved; the message names it.
        """
        for part in self.parts:
            part.resolve()

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call a function at each change, in the thread that makes the change and before the change is complete.

        Args:
            listener: Gets the collection that changed, `added`, `removed` or `switched`, and the component.

        Returns:
            A function that removes the listener.
        """
        ends = ExitStack()
        for part in self.parts:
            ends.callback(part.listeners.add(partial(listener, part)))
        return ends.close

    def part_of(self, component: Any) -> Components[Any]:
        """Return the collection to which a component belongs.

        Raises:
            RegistrationError: It is not a component.
        """
        for part in self.parts:
            if part.takes(component):
                return part
        raise RegistrationError(
            f"{component!r} is not a Tool, BaseTool, Resource, ResourceTemplate, Prompt or Method. "
            "Register a function with tool(...), resource(...), prompt(...) or method(...)"
        )

    def _changed(self, list_name: ListName | None) -> None:
        self.changes += 1
        if list_name is not None:
            self.listeners.tell(Change(list_name))


class CatalogOwner(ABC):
    """Base class of registries, extensions and servers: it has a catalog, and notifies clients of changes."""

    @property
    @abstractmethod
    def catalog(self) -> Catalog:
        """The components: `catalog.tools`, `catalog.resources`, `catalog.resource_templates`, `catalog.prompts`."""

    def disable(self, *, tags: Collection[str]) -> None:
        """Hide all components that have one of these tags: those registered now, and those registered later.

        Clients are notified of the lists that change. `catalog.tools.disable(name)` and the like hide one component.

        Args:
            tags: The tags, as in `@server.tool(tags={...})`.

        Raises:
            TypeError: `tags` is one string.
        """
        self.catalog.switch(tags, is_hidden=True)

    def enable(self, *, tags: Collection[str]) -> None:
        """Show the components that have one of these tags again, unless another of their tags is still disabled.

        Args:
            tags: The tags.

        Raises:
            TypeError: `tags` is one string.
        """
        self.catalog.switch(tags, is_hidden=False)

    def notify_resource_updated(
        self, uri: str, *, to: Principal | Callable[[Principal], bool] | None = None
    ) -> None:
        """Notify the subscribers of a resource that its data have changed: `notify_resource_updated("notes://1")`.

        It does not block, and may be called from any thread. Updates of one URI that come faster than a client reads
        them are sent once.

        Args:
            uri: The URI as it is registered here. If this registry is included under a prefix, clients get the URI with
                the prefix.
            to: The subscribed users to notify: a Principal, compared by its id, or a predicate, which must be quick and
                may be called in any thread. None notifies all. With `storage=` it applies to the clients of all
                processes.

        Raises:
            TypeError: `to` is neither a Principal nor callable.
            ValueError: `to` is a Principal without an id.
        """
        from ..identity.audience import Audience

        self.catalog.listeners.tell(Change("resource", uri, None if to is None else Audience.of(to)))


class ServerBase(CatalogOwner):
    """The server as handlers get it in `ctx.server`.

    Attributes:
        name: The server's name.
    """

    name: str
