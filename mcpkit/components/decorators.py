"""The decorators of servers, such as `@server.tool`, and of modules, such as `@tool`."""

# pyright: reportPrivateUsage=false
# What runs in the place of the methods stands outside of their class, as they are there to be read.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from typing_extensions import TypeVar, Unpack

from .._utils.errors import RegistrationError
from .._utils.signatures import runs
from .checks import is_template
from .component import Component

if TYPE_CHECKING:
    from .options import MethodOptions, PromptOptions, ResourceOptions, ToolOptions

G = TypeVar("G", bound=Callable[..., Any])


class Decorator(Protocol):
    """Registers a function and returns it unchanged."""

    def __call__(self, function: G, /) -> G:
        """Register the function."""
        ...


F = TypeVar("F", bound=Callable[..., Any], default=Decorator)
"""The type of what is registered; where nothing is given yet, that of the decorator that waits for it."""

NOT_YET = cast("Decorator", None)
"""Stands for the function where a decorator is called with options alone."""

Build = Callable[[Callable[..., Any]], Component]


def _with_or_without_options(find: Callable[[], type[Component]]) -> Callable[..., Any]:
    def register(self: Decorators, function: Any = None, /, **options: Any) -> Any:
        build = partial(find(), **options)
        return partial(self._take, build=build) if function is None else self._take(function, build)

    return register


# What no server has is not imported: each kind of component brings much that is its own.


def _tool() -> type[Component]:
    from .tools import Tool

    return Tool


def _prompt() -> type[Component]:
    from .prompts import Prompt

    return Prompt


def _resource(self: Decorators, uri: str, /, **options: Any) -> Callable[[F], F]:
    if not isinstance(uri, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # a function: @resource alone
        raise RegistrationError('a resource needs a URI. Write @resource("scheme://path")')
    return partial(self._take, build=partial(_make_resource, uri=uri, options=options))


def _make_resource(function: Callable[..., Any], uri: str, options: Mapping[str, Any]) -> Component:
    from .resources import Resource, ResourceTemplate

    only = {"size"} if is_template(uri) else {"complete", "list_entries", "allow_unsafe"}
    wrong = sorted(only & options.keys())
    if wrong:
        kind = "a resource without a template" if is_template(uri) else "a resource template"
        raise RegistrationError(f"resource {uri!r}: only {kind} has {wrong[0]}=. Remove it")
    return (ResourceTemplate if is_template(uri) else Resource)(function, uri, **options)


def _method(self: Decorators, name: str, /, **options: Any) -> Callable[[F], F]:
    from .custom_methods import CustomMethod, check_method_name

    check_method_name(name)
    options = self._of_method(name, options)
    return partial(self._take, build=lambda function: CustomMethod(function, name, **options))


class Decorators(ABC):
    """Decorators that register a function, or mark it for a later `include`."""

    @abstractmethod
    def _take(self, function: Any, build: Build) -> Any:
        """Register or mark a function from which `build` makes a component, and return it unchanged."""

    def _of_method(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a method with the defaults of this registry."""
        return options

    @runs(_with_or_without_options(_tool))
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
        raise NotImplementedError

    @runs(_resource)
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
        raise NotImplementedError

    @runs(_with_or_without_options(_prompt))
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
        raise NotImplementedError

    @runs(_method)
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
        raise NotImplementedError
