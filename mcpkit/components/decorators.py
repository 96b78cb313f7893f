"""The decorators of servers, such as `@server.tool`, and of modules, such as `@tool`, and their options."""

from __future__ import annotations

import inspect
import types
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from typing_extensions import TypeVar, Unpack

from .._utils.exceptions import RegistrationError
from ..protocol.objects import Annotations, ToolAnnotations
from ..protocol.revisions import CacheHint
from .component import Component, FunctionOptions, is_template

if TYPE_CHECKING:
    from .completion import Completers
    from .resource import WatchFunction
    from .tool import ResultOptions, Task

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
        from .prompt import Prompt

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
        return cast(
            "Decorator", partial(self._take, build=lambda function: CustomMethod(function, name, **values))
        )


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
