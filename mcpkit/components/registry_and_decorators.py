"""The catalog of a server with its components by kind, and the decorators that register them."""

from __future__ import annotations

import inspect
import itertools
import threading
import types
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Protocol, cast

from typing_extensions import TypeVar, Unpack

from .._utils.concurrency import Listeners
from .._utils.exceptions import RegistrationError, UnresolvedHint
from ..content.uri_normalization import normalized_template, spellings, template_spellings
from ..execution.lifespan import Lifespans
from ..identity.principals_and_scopes import Change, ListName, Principal
from ..protocol.objects import Annotations, ToolAnnotations
from ..protocol.revisions import CacheHint
from .component import Component, FunctionOptions, is_template

if TYPE_CHECKING:
    from .custom_methods import CustomMethod
    from .prompts_and_completion import Completers, Prompt
    from .resource import Resource, ResourceTemplate, WatchFunction
    from .tool import AnyTool, ResultOptions, Task


# Components by kind


C = TypeVar("C", bound=Component)
T = TypeVar("T")

# One count for all catalogs: a cursor contains a position, so a position is never used twice.
_positions = itertools.count(1)


class Components(Generic[C]):
    """The components of one kind, in order of registration. Thread-safe.

    Args:
        catalog: The catalog; its lock is held during changes.
        name: Name of the attribute of the catalog, such as `resource_templates`.
        kind: `kind` of the components, such as `resource template`.
        list_name: List of the protocol that clients are notified about; None for kinds without a list.
        spellings: Returns the normalized spellings of a URI or URI template; None for kinds with one spelling.

    Attributes:
        by_key: The components by name or URI, enabled or not; a live view.
    """

    def __init__(
        self,
        catalog: Catalog,
        name: str,
        kind: str,
        list_name: ListName | None,
        spellings: Callable[[str], tuple[str, ...]] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.list_name: ListName | None = list_name
        self._catalog = catalog
        self._by_key: dict[str, C] = {}
        self.by_key: Mapping[str, C] = MappingProxyType(self._by_key)
        self._all: tuple[C, ...] | None = ()
        self._spellings = spellings
        self._keys: dict[str, str] = {}  # by normalized spelling
        self._is_resolved = False

    def add(self, component: C, *, replace: bool = False) -> C:
        """Add a component, or a copy of it if it is registered elsewhere.

        Args:
            component: The component.
            replace: Whether it may replace a component with the same name or URI.

        Returns:
            The component that was added.

        Raises:
            RegistrationError: The name or URI is in use here or in a server that includes this one, and the message has
                both places; or the kind is different.
        """
        if not self.takes(component):
            raise RegistrationError(
                f"{component!r} is not a {self.kind}. Use add(...) of the server for other kinds, and register a "
                "function with tool(...), resource(...), prompt(...) or method(...)"
            )
        if component.position:  # it may be served elsewhere, and be disabled there alone
            component = component.renamed(component.key)
        component.home = self._catalog.lifespans
        self.prepare(component)
        with self._catalog.lock:
            is_new = component.key not in self
            self.insert(component, replace=replace)
            try:
                self._changed(component if is_new else None)
            except RegistrationError:  # a catalog that includes this one cannot serve it
                if is_new:
                    self.delete(component)
                    self._changed()
                raise
        return component

    def takes(self, component: object) -> bool:
        """Return whether an object is a component of this kind."""
        return isinstance(component, Component) and component.kind == self.kind

    def prepare(self, component: C) -> None:
        """Check a component and build its schemas, which may take long, so that the lock need not be held.

        Raises:
            RegistrationError: The component cannot be served here.
        """
        if self._catalog.check is not None:
            self._catalog.check(component)
        try:
            component.resolve()
        except UnresolvedHint:
            if self._is_resolved:
                raise
            # A class that is defined further down: `resolve` tries again, and raises then.

    def insert(self, component: C, *, replace: bool) -> None:
        """Add a prepared component that belongs to this catalog alone, without a notification.

        Args:
            component: The component. It keeps the place in the order of one that it replaces.
            replace: Whether it may replace a component with the same name or URI.

        Raises:
            RegistrationError: The name or URI is in use.
        """
        with self._catalog.lock:
            present = self._by_key.get(component.key)
            if present is not None and not replace:
                raise RegistrationError(
                    f"two {component.kind}s are named {component.key!r}: {present.origin} and {component.origin}. "
                    "Rename one, or replace the first with add(..., replace=True), or for all components with "
                    'ServerOptions(on_duplicate="replace")'
                )
            forms = () if self._spellings is None else self._spellings(component.key)
            for form in forms:
                other = self._keys.get(form, component.key)
                if other != component.key:
                    raise RegistrationError(
                        f"the {component.kind}s {other!r} ({self._by_key[other].origin}) and {component.key!r} "
                        f"({component.origin}) are two spellings of the same URI. Rename one of them"
                    )
            self._keys.update(dict.fromkeys(forms, component.key))
            component.position = present.position if present is not None else next(_positions)
            component.is_enabled = component.is_enabled and not self.hides(component)
            self._by_key[component.key] = component
            self._all = None

    def remove(self, key: str) -> C:
        """Remove a component and return it.

        Args:
            key: Name or URI.

        Raises:
            KeyError: There is no component of this name or URI.
        """
        with self._catalog.lock:
            component = self._by_key[key]
            self.delete(component)
            self._changed()
        return component

    def discard(self, component: Component) -> None:
        """Remove a component, unless it has been removed or replaced."""
        with self._catalog.lock:
            if self.holds(component):
                self.remove(component.key)

    def delete(self, component: Component) -> None:
        """Remove a component without a notification, unless it has been removed or replaced."""
        with self._catalog.lock:
            if self.holds(component):
                del self._by_key[component.key]
                for form in () if self._spellings is None else self._spellings(component.key):
                    self._keys.pop(form, None)
                self._all = None

    def holds(self, component: Component) -> bool:
        """Return whether a component has neither been removed nor replaced."""
        return self._by_key.get(component.key) is component

    def enable(self, key: str) -> None:
        """Show a component to clients again.

        Args:
            key: Name or URI.

        Raises:
            KeyError: There is no component of this name or URI.
        """
        self.switch(key, is_enabled=True)

    def disable(self, key: str) -> None:
        """Hide a component: it is neither listed nor served until it is enabled again.

        Args:
            key: Name or URI.

        Raises:
            KeyError: There is no component of this name or URI.
        """
        self.switch(key, is_enabled=False)

    def switch(self, key: str, *, is_enabled: bool) -> None:
        """Enable or disable a component.

        Raises:
            KeyError: There is no component of this name or URI.
        """
        with self._catalog.lock:
            component = self._by_key[key]
            if component.is_enabled is not is_enabled:
                component.is_enabled = is_enabled
                self._changed(component)

    def hides(self, component: Component) -> bool:
        """Return whether a component has a tag that is disabled."""
        return not self._catalog.hidden_tags.isdisjoint(component.tags)

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

    def snapshot(self) -> tuple[C, ...]:
        """Return all components, including disabled ones; the same tuple until one is added or removed."""
        found = self._all
        if found is None:
            with self._catalog.lock:
                found = self._all = tuple(self._by_key.values())
        return found

    def __getitem__(self, key: str) -> C:
        """Return the component of a name or URI, enabled or not. KeyError if there is none."""
        return self._by_key[key]

    def __contains__(self, key: object) -> bool:
        """Return whether there is a component of a name or URI, enabled or not."""
        return key in self._by_key

    def __iter__(self) -> Iterator[C]:
        """Iterate over a snapshot of all components, including disabled ones."""
        return iter(self.snapshot())

    def __len__(self) -> int:
        """Return the number of components, including disabled ones."""
        return len(self._by_key)

    def _changed(self, component: C | None = None) -> None:
        self._catalog.part_changed(self, component)


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
        hidden_tags: Tags that are disabled.
        listeners: Functions that get each change of which clients may be notified, in the thread that makes it.
        followers: Catalogs that include this one: functions that get the name of the collection that changed, and the
            component that was added, enabled or disabled (None for another change). They are called before
            `listeners`, with the lock held.
    """

    replaces_duplicates = False

    def __init__(
        self, lifespans: Lifespans | None = None, check: Callable[[Component], None] | None = None
    ) -> None:
        self.changes = 0
        self._derived: dict[Hashable, tuple[int, Any]] = {}
        self.lifespans = lifespans
        self.check = check
        self.lock = threading.RLock()
        self.hidden_tags: frozenset[str] = frozenset()
        self.listeners: Listeners[[Change]] = Listeners()
        self.followers: Listeners[[str, Component | None]] = Listeners()
        self.tools: Components[AnyTool] = Components(self, "tools", "tool", "tools")
        self.resources: Components[Resource] = Components(
            self, "resources", "resource", "resources", spellings
        )
        self.resource_templates: Components[ResourceTemplate] = Components(
            self, "resource_templates", "resource template", "resources", template_spellings
        )
        self.prompts: Components[Prompt] = Components(self, "prompts", "prompt", "prompts")
        self.methods: Components[CustomMethod] = Components(self, "methods", "method", None)

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
        changed = frozenset(tags)
        with self.lock:
            self.hidden_tags = self.hidden_tags | changed if is_hidden else self.hidden_tags - changed
            for part in self.parts:
                for component in part:
                    if component.tags & changed:
                        part.switch(component.key, is_enabled=not part.hides(component))

    def resolve(self) -> None:
        """Resolve the type hints that could not be resolved when their function was registered.

        From then on, a function with unresolvable type hints is refused when it is added.

        Raises:
            RegistrationError: A type hint still cannot be resolved; the message names it.
        """
        for part in self.parts:
            part.resolve()

    def derived(self, name: Hashable, compute: Callable[[], T]) -> T:
        """Return a value that is computed from the components, once for each state of the catalog.

        Args:
            name: Name of the value.
            compute: Computes it.
        """
        changes = self.changes  # first: what changes meanwhile is computed again
        found = self._derived.get(name)
        if found is None or found[0] != changes:
            found = self._derived[name] = changes, compute()
        value: T = found[1]
        return value

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

    def part_changed(self, part: Components[Any], component: Component | None = None) -> None:
        """Update the catalogs that include this one, and notify the clients.

        Args:
            part: The collection that changed.
            component: The component that was added, enabled or disabled; None for another change.
        """
        with self.lock:
            self.changes += 1
            try:
                self.followers.notify(part.name, component)
            finally:
                if part.list_name is not None:
                    self.listeners.notify(Change(part.list_name))


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
        from ..identity.principals_and_scopes import Audience

        self.catalog.listeners.notify(Change("resource", uri, None if to is None else Audience.of(to)))


class ServerBase(CatalogOwner):
    """The server as handlers get it in `ctx.server`.

    Attributes:
        name: The server's name.
    """

    name: str


# Decorators


G = TypeVar("G", bound=Callable[..., Any])


# Options


class ToolOptions(FunctionOptions, total=False):
    """Options of `@tool`."""

    name: str | None
    """Name of the tool, 1 to 128 of `A-Z a-z 0-9 _ - .`; None takes the name of the function."""
    annotations: ToolAnnotations | None
    """Hints on the behaviour of the tool, such as `{"readOnlyHint": True}`."""
    input_schema: Any
    """Schema of the arguments instead of the signature: a JSON Schema, a TypedDict or a mapping of names to types. The
    function then takes all arguments as one dict."""
    output_schema: Any
    """Schema of the result instead of the return annotation: a JSON Schema or a type. Results are validated."""
    task: Task | bool | None
    """Options for calls that run as tasks, such as `Task(timeout=600)`; True for `Task()`."""
    result: ResultOptions
    """Form of the tool's results."""


class ResourceOptions(FunctionOptions, total=False):
    """Options of `@resource`."""

    name: str | None
    """Name of the component; None takes the name of the function."""
    mime_type: str | None
    """Media type; None takes that of the returned value. For a template, the media type of all its resources."""
    size: int | None
    """Size in bytes, when known. Not for templates."""
    annotations: Annotations | None
    """Hints on the use of the resource."""
    cache: CacheHint | None
    """Time for which clients may reuse the contents; None takes the default of the server."""
    complete: Completers | None
    """Completions of a template's variables, by name: a list of strings, or `fn(value, arguments)`."""
    list_entries: Callable[..., Iterable[Mapping[str, Any]]] | None
    """Function that lists the resources of a template that exist now, each as the members of a `Resource` of the
    specification (`uri` and `name` at least). It runs in a worker thread for each `resources/list`; a parameter
    annotated `Principal` gets the user of the request."""
    watch: WatchFunction | None
    """Async generator function that runs while a client is subscribed, and yields at each update; see
    `ResourceTemplate`."""
    allow_unsafe: Collection[str] | bool
    """Variables of a template that may contain `..`, encoded slashes, absolute paths and the like; True for
    all. By default such values are refused."""


class PromptOptions(FunctionOptions, total=False):
    """Options of `@prompt`."""

    name: str | None
    """Name of the component; None takes the name of the function."""
    complete: Completers | None
    """Completions by argument name: a list of strings, or `fn(value, arguments)`."""


class MethodOptions(FunctionOptions, total=False):
    """Options of `@method`."""

    protocol_versions: Collection[str] | None
    """Protocol versions that have the method; None for all."""
    name_param: str | None
    """Parameter that clients repeat in the header `Mcp-Name` over HTTP. A different value is refused (-32020)."""
    cache: CacheHint | None
    """Time for which clients may reuse the result (utilities/caching); None sends none."""


# Decorators


class Decorator(Protocol):
    """Registers a function and returns it unchanged."""

    def __call__(self, function: G, /) -> G:
        """Register the function."""
        ...


# The type of what is registered; where nothing is given yet, that of the decorator that waits for it.
F = TypeVar("F", bound=Callable[..., Any], default=Decorator)

# Stands for the function where a decorator is called with options alone.
NOT_YET = cast("Decorator", None)

# Makes a component from a function.
Build = Callable[[Callable[..., Any]], Component]


class Decorators(ABC):
    """Decorators that register a function, or mark it for a later `include`."""

    # The methods import their kind of component when it is registered: most servers have few kinds.

    @abstractmethod
    def _take(self, function: Any, build: Build) -> Any:
        """Register or mark a function from which `build` makes a component, and return it unchanged."""

    def _of_method(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a method with the defaults of this registry."""
        return options

    def _register(self, function: Any, build: Build) -> Any:
        return partial(self._take, build=build) if function is None else self._take(function, build)

    def tool(
        self,
        function: F = NOT_YET,  # type: ignore[assignment]  # of a decorator that waits, F is its own type
        /,
        **options: Unpack[ToolOptions],
    ) -> F:
        """Register a function as a tool, which models call: `@server.tool`, `@server.tool(...)` (server/tools).

        The module-level `@tool` marks a function or method. `server.include(...)` of its module, of the function, or
        of an instance of its class registers it.

        Args:
            function: Any callable but an unbound method.
            options: See `ToolOptions`.

        Returns:
            The function, unchanged; without a function, a decorator.

        Raises:
            RegistrationError: The definition cannot be served. The message contains the remedy.
            TypeError: There is no such option.
        """
        from .tool import Tool

        return cast("F", self._register(function, partial(Tool, **options)))

    def resource(self, uri: str, /, **options: Unpack[ResourceOptions]) -> Decorator:
        """Register a function as a resource, or as a template when the URI has `{expressions}` (server/resources).

        The function is called for each read, with the values of the expressions. It returns a string, bytes, `File`, a
        model, dict or list (JSON), or several of the content classes. The module-level `@resource(uri)` marks it for a
        later `include`, as `@tool` does.

        Args:
            uri: URI, or RFC 6570 template.
            options: See `ResourceOptions`.

        Returns:
            A decorator that returns the function unchanged.

        Raises:
            RegistrationError: The URI is invalid or missing (`@resource` without parentheses), or the definition
                cannot be served. The message contains the remedy.
            TypeError: There is no such option.
        """
        if not isinstance(uri, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a function: @resource alone
            raise RegistrationError('a resource needs a URI. Write @resource("scheme://path")')

        def build(function: Callable[..., Any]) -> Component:
            from .resource import Resource, ResourceTemplate

            values: dict[str, Any] = {**options}
            only = {"size"} if is_template(uri) else {"complete", "list_entries", "allow_unsafe"}
            if wrong := sorted(only & values.keys()):
                kind = "a resource without a template" if is_template(uri) else "a resource template"
                raise RegistrationError(f"resource {uri!r}: only {kind} has {wrong[0]}=. Remove it")
            return (ResourceTemplate if is_template(uri) else Resource)(function, uri, **values)

        return cast("Decorator", partial(self._take, build=build))

    def prompt(
        self,
        function: F = NOT_YET,  # type: ignore[assignment]  # of a decorator that waits, F is its own type
        /,
        **options: Unpack[PromptOptions],
    ) -> F:
        """Register a function as a prompt, which users select: `@server.prompt` (server/prompts).

        The function returns a string, messages (`user(...)`, `assistant(...)`), or content of any kind. The
        module-level `@prompt` marks it for a later `include`, as `@tool` does.

        Args:
            function: Any callable but an unbound method.
            options: See `PromptOptions`.

        Returns:
            The function, unchanged; without a function, a decorator.

        Raises:
            RegistrationError: The definition cannot be served. The message contains the remedy.
            TypeError: There is no such option.
        """
        from .prompts_and_completion import Prompt

        return cast("F", self._register(function, partial(Prompt, **options)))

    def method(self, name: str, /, **options: Unpack[MethodOptions]) -> Decorator:
        """Register a function for a request method outside the core protocol: `@server.method("thing/do")`.

        `@extension.method("thing/do")` registers a method of an extension. Clients that have not declared the
        extension are then refused (-32021; in protocol versions with `initialize`, -32602). Its protocol versions are
        by default those that have extensions.

        Args:
            name: Method name, 1 to 128 visible ASCII characters.
            options: See `MethodOptions`.

        Returns:
            A decorator that returns the function unchanged.

        Raises:
            RegistrationError: The definition cannot be served. The message contains the remedy.
            TypeError: There is no such option.
        """
        from .custom_methods import CustomMethod, check_method_name

        check_method_name(name)
        values = self._of_method(name, {**options})
        build = partial(CustomMethod, name=name, **values)
        return cast("Decorator", partial(self._take, build=build))


def check_is_function(target: Any) -> None:
    """Check that a decorator received a function, and not a name as in `@server.tool("forecast")`.

    Raises:
        RegistrationError: It is not a function. The message contains the remedy.
    """
    if isinstance(target, str):
        raise RegistrationError(f"{target!r} is not a function. Write name={target!r} if it is the name")
    if isinstance(target, type):
        raise RegistrationError(
            f"{target.__qualname__} is a class. Decorate its methods with @tool, @resource or @prompt from mcpkit, "
            "then include(...) an instance"
        )
    if isinstance(target, classmethod | property):
        raise RegistrationError(
            f"{target!r} cannot be called without an instance. Decorate methods with @tool, @resource or @prompt from "
            "mcpkit, then include(...) an instance of their class"
        )
    if not callable(target):
        raise RegistrationError(f"{target!r} is not a function. Register a function or a callable object")


# Functions that are marked for a later `include`

_WRAPPERS = (staticmethod, classmethod, types.MethodType)

# Marked functions and the builders of their components, by object id, as marked objects need not be hashable. No
# attribute of other objects in a module is read.
_marks: dict[int, tuple[weakref.ref[Any], list[Build]]] = {}


class _Marks(Decorators):
    """The module-level decorators, which mark functions."""

    def _take(self, function: Any, build: Build) -> Any:
        target: Any = function.__func__ if type(function) in _WRAPPERS else function
        check_is_function(target)
        key = id(target)
        if key not in _marks:
            _marks[key] = weakref.ref(target, lambda _: _marks.pop(key)), []
        _marks[key][1].append(build)
        return function


_module_level = _Marks()
tool = _module_level.tool
"""Marks a function or method as a tool; the options are those of `Server.tool`."""
resource = _module_level.resource
"""Marks a function or method as a resource or template; the options are those of `Server.resource`."""
prompt = _module_level.prompt
"""Marks a function or method as a prompt; the options are those of `Server.prompt`."""


def marked(source: Any) -> Iterator[Component]:
    """Make the components of the marked functions of a module, an object with its class, or a function.

    Args:
        source: A module, an instance, a class (for its static and class methods), or a function.

    Returns:
        The components in order of definition, those of base classes first. A method that a subclass overrides counts
        only when the override is marked. Methods are bound to the instance.

    Raises:
        RegistrationError: `source` is a class with a marked instance method.
    """
    if isinstance(source, types.ModuleType) or _builds_of(source):
        values = list(vars(source).values()) if isinstance(source, types.ModuleType) else [source]
        for function in {id(value): value for value in values if _builds_of(value)}.values():
            yield from (build(function) for build in _builds_of(function))
        return
    cls = source if isinstance(source, type) else type(source)
    for name in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        static = inspect.getattr_static(cls, name)
        if not (builds := _builds_of(static)):
            continue
        if isinstance(source, type) and not isinstance(static, staticmethod | classmethod):
            raise RegistrationError(
                f"{source.__qualname__}.{name} is a method. Include an instance of {source.__qualname__}, not the class"
            )
        function = getattr(source, name)
        yield from (build(function) for build in builds)


def _builds_of(value: Any) -> Sequence[Build]:
    """Return the builders of a marked function, also of a static, class or bound method."""
    mark = _marks.get(id(value.__func__ if type(value) in _WRAPPERS else value))
    return () if mark is None else mark[1]
