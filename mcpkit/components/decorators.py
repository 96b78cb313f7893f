"""The decorators and their options: `@server.tool`, and `@tool` free of any server, have one signature."""

# pyright: reportPrivateUsage=false
# What runs in the place of the methods stands outside of their class, as they are there to be read.

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from typing_extensions import TypeVar

from ..calls.limits import INHERITED
from ..common.errors import RegistrationError
from ..common.signatures import runs
from ..protocol.eras import Cache
from ..protocol.types import Annotations, Icon, ToolAnnotations
from ..state.principal import Principal
from .checks import is_template
from .component import Component

if TYPE_CHECKING:
    from .completion import Completers
    from .task import Task
    from .tools import TextOf
    from .watch import WatchFunction

G = TypeVar("G", bound=Callable[..., Any])


class Decorator(Protocol):
    """Takes a function, and returns it unchanged."""

    def __call__(self, function: G, /) -> G:
        """Take it."""
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
        raise RegistrationError('a resource needs its URI: write @resource("scheme://path")')
    return partial(self._take, build=partial(_make_resource, uri=uri, options=options))


def _make_resource(function: Callable[..., Any], uri: str, options: Mapping[str, Any]) -> Component:
    from .resources import Resource, ResourceTemplate

    only = {"size"} if is_template(uri) else {"complete", "entries", "unsafe"}
    wrong = sorted(only & options.keys())
    if wrong:
        what = "a resource template has no" if is_template(uri) else "only a resource template has"
        raise RegistrationError(f"resource {uri!r}: {what} {wrong[0]}=")
    return (ResourceTemplate if is_template(uri) else Resource)(function, uri, **options)


def _method(self: Decorators, name: str, /, **options: Any) -> Callable[[F], F]:
    from .custom_methods import Method, check_method_name

    check_method_name(name)
    options = self._of_method(name, options)
    return partial(self._take, build=lambda function: Method(function, name, **options))


class Decorators(ABC):
    """What registers a function, or marks it for a later `include`, with all options that there are."""

    @abstractmethod
    def _take(self, function: Any, build: Build) -> Any:
        """Take a function from which `build` makes a component, and return it unchanged."""

    def _of_method(self, name: str, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a method as they are to hold here."""
        return options

    @runs(_with_or_without_options(_tool))
    def tool(
        self,
        function: F = NOT_YET,  # type: ignore[assignment]  # of a decorator that waits, F is its own type
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        annotations: ToolAnnotations | None = None,
        input_schema: Any = None,
        output_schema: Any = None,
        extra: Literal["forbid", "ignore"] = "forbid",
        structured: bool = True,
        content: TextOf = "json",
        task: Task | bool | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        tags: Collection[str] = (),
        requires: str | Sequence[str] = (),
        visible: Callable[[Principal], bool] | None = None,
        scopes: str | Collection[str] = (),
        may_need: str | Collection[str] = (),
        anonymous: bool = False,
        timeout: float | None = INHERITED,
        concurrency: int | None = None,
        thread: bool = True,
        process: bool = False,
        single_use: bool = False,
        replace: bool = False,
    ) -> F:
        """Make a function a tool, which a model may call: `@server.tool`, `@server.tool(...)` (server/tools).

        Free of any server, `@tool` marks a function or method; `server.include(...)` of its module, of an instance of
        its class or of the function itself registers it.

        Args:
            function: The function; any callable but a method that has not been bound.
            name: 1 to 128 of `A-Z a-z 0-9 _ - .`; the function's name when None.
            title: A name for people.
            description: What it is for; the docstring's summary and body when None.
            annotations: Hints on its behaviour, such as `{"readOnlyHint": True}`.
            input_schema: A JSON Schema, a TypedDict or a mapping of names to types, in place of the signature; the
                function then takes all arguments as one dict.
            output_schema: A JSON Schema, or a type, in place of the return annotation: what is returned is held
                against it.
            extra: What becomes of arguments that the tool does not have: `forbid` refuses them and names the right
                one, `ignore` drops them.
            structured: False sends no structured content and no output schema.
            content: The text beside structured content: `json` (the same data), `none`, or a function that makes it
                from the returned value.
            task: How its calls may outlive their connections, such as `Task(timeout=600)`; True for what `Task()` says.
            icons: Pictures that a host may show.
            meta: The `_meta` of its listed form.
            tags: Free words, by which `enable` and `disable` find it; never sent.
            requires: Capabilities that a client must have declared to use it, such as `sampling`; see
                `Client.supports`.
            visible: Says who may see and use it, from the request's principal and scopes; everybody when None.
            scopes: What whoever uses it must have been granted, one scope or a list. It is listed all the same; who
                lacks one is challenged before it runs.
            may_need: What it may ask for in its midst, by `ctx.require`; until then its answer does not begin.
            anonymous: True serves it to whoever does not say who they are, where the server is protected.
            timeout: The seconds that a call may take, None for any number; the server's when left out.
            concurrency: How many of its calls run at a time, None for any number; others wait in order of arrival.
            thread: For a function that is not `async`: False calls it in the event loop, so it must be quick.
            process: True calls it in a worker process, which is killed when the call is cancelled or out of time.
            single_use: True takes each `requestState` that stateless clients carry to the next round once. It
                needs `Server(shared=...)` where several processes serve: a state of another one is refused
                otherwise.
            replace: True takes the place of what has the same name where it is registered.

        Returns:
            The function, unchanged; without one, a decorator.

        Raises:
            RegistrationError: The definition cannot be served; the message says what to change.
        """
        raise NotImplementedError

    @runs(_resource)
    def resource(
        self,
        uri: str,
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        cache: Cache | None = None,
        complete: Completers | None = None,
        entries: Callable[..., Iterable[Mapping[str, Any]]] | None = None,
        unsafe: Collection[str] | bool = (),
        watch: WatchFunction | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        tags: Collection[str] = (),
        requires: str | Sequence[str] = (),
        visible: Callable[[Principal], bool] | None = None,
        scopes: str | Collection[str] = (),
        may_need: str | Collection[str] = (),
        anonymous: bool = False,
        timeout: float | None = INHERITED,
        concurrency: int | None = None,
        thread: bool = True,
        process: bool = False,
        single_use: bool = False,
        replace: bool = False,
    ) -> Decorator:
        """Make a function a resource, or a template when the URI has `{expressions}` (server/resources).

        It is called for each read, with the values of the expressions, and returns a string, bytes, `File`, a model,
        dict or list (JSON), or several of the content classes. Free of any server, `@resource(uri)` marks it for a
        later `include`, as `@tool` does.

        Args:
            uri: The URI, or an RFC 6570 template.
            name: Its name; the function's when None.
            title: A name for people.
            description: What it is for; the docstring's summary and body when None.
            mime_type: Its media type; found out from what is returned when None. Of a template, the one that all
                have.
            size: The size in bytes of a resource, when known.
            annotations: Hints on its use.
            cache: How long and by whom what is read may be kept; the server's default when None.
            complete: Completions of a template's variables by name: a list of strings, or `fn(value, arguments)`.
            entries: Lists the resources of a template that exist now, as the members of a `Resource` of the
                specification (`uri` and `name` at least); called in a worker thread for each `resources/list`, with
                who asks where it takes a `Principal`.
            unsafe: Variables whose values may hold `..`, encoded slashes, absolute paths and the like, which no
                value may by default; True for all.
            watch: An async generator function that runs while somebody is subscribed, and yields at each update;
                for each subscriber, where it takes a `Principal`; see `ResourceTemplate`.
            icons: Pictures that a host may show.
            meta: The `_meta` of its listed form.
            tags: Free words, by which `enable` and `disable` find it; never sent.
            requires: Capabilities that a client must have declared to use it, such as `sampling`; see
                `Client.supports`.
            visible: Says who may see and use it, from the request's principal and scopes; everybody when None.
            scopes: What whoever uses it must have been granted, one scope or a list. It is listed all the same; who
                lacks one is challenged before it runs.
            may_need: What it may ask for in its midst, by `ctx.require`; until then its answer does not begin.
            anonymous: True serves it to whoever does not say who they are, where the server is protected.
            timeout: The seconds that a call may take, None for any number; the server's when left out.
            concurrency: How many of its calls run at a time, None for any number; others wait in order of arrival.
            thread: For a function that is not `async`: False calls it in the event loop, so it must be quick.
            process: True calls it in a worker process, which is killed when the call is cancelled or out of time.
            single_use: True takes each `requestState` that stateless clients carry to the next round once. It
                needs `Server(shared=...)` where several processes serve: a state of another one is refused
                otherwise.
            replace: True takes the place of what has the same URI where it is registered.

        Returns:
            A decorator that returns the function unchanged.

        Raises:
            RegistrationError: The URI is no URI or was forgotten (`@resource` bare), or the definition cannot be
                served; the message says what to change.
        """
        raise NotImplementedError

    @runs(_with_or_without_options(_prompt))
    def prompt(
        self,
        function: F = NOT_YET,  # type: ignore[assignment]  # of a decorator that waits, F is its own type
        /,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        complete: Completers | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        tags: Collection[str] = (),
        requires: str | Sequence[str] = (),
        visible: Callable[[Principal], bool] | None = None,
        scopes: str | Collection[str] = (),
        may_need: str | Collection[str] = (),
        anonymous: bool = False,
        timeout: float | None = INHERITED,
        concurrency: int | None = None,
        thread: bool = True,
        process: bool = False,
        single_use: bool = False,
        replace: bool = False,
    ) -> F:
        """Make a function a prompt, which a user picks: `@server.prompt`, `@server.prompt(...)` (server/prompts).

        It returns a string, messages (`user(...)`, `assistant(...)`), or content of any kind. Free of any server,
        `@prompt` marks it for a later `include`, as `@tool` does.

        Args:
            function: The function; any callable but a method that has not been bound.
            name: Its name; the function's when None.
            title: A name for people.
            description: What it is for; the docstring's summary and body when None.
            complete: Completions by argument name: a list of strings, or `fn(value, arguments)`.
            icons: Pictures that a host may show.
            meta: The `_meta` of its listed form.
            tags: Free words, by which `enable` and `disable` find it; never sent.
            requires: Capabilities that a client must have declared to use it, such as `sampling`; see
                `Client.supports`.
            visible: Says who may see and use it, from the request's principal and scopes; everybody when None.
            scopes: What whoever uses it must have been granted, one scope or a list. It is listed all the same; who
                lacks one is challenged before it runs.
            may_need: What it may ask for in its midst, by `ctx.require`; until then its answer does not begin.
            anonymous: True serves it to whoever does not say who they are, where the server is protected.
            timeout: The seconds that a call may take, None for any number; the server's when left out.
            concurrency: How many of its calls run at a time, None for any number; others wait in order of arrival.
            thread: For a function that is not `async`: False calls it in the event loop, so it must be quick.
            process: True calls it in a worker process, which is killed when the call is cancelled or out of time.
            single_use: True takes each `requestState` that stateless clients carry to the next round once. It
                needs `Server(shared=...)` where several processes serve: a state of another one is refused
                otherwise.
            replace: True takes the place of what has the same name where it is registered.

        Returns:
            The function, unchanged; without one, a decorator.

        Raises:
            RegistrationError: The definition cannot be served; the message says what to change.
        """
        raise NotImplementedError

    @runs(_method)
    def method(
        self,
        name: str,
        /,
        *,
        title: str | None = None,
        description: str | None = None,
        revisions: Collection[str] | None = None,
        named_by: str | None = None,
        cache: Cache | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        tags: Collection[str] = (),
        requires: str | Sequence[str] = (),
        visible: Callable[[Principal], bool] | None = None,
        scopes: str | Collection[str] = (),
        may_need: str | Collection[str] = (),
        anonymous: bool = False,
        timeout: float | None = INHERITED,
        concurrency: int | None = None,
        thread: bool = True,
        process: bool = False,
        replace: bool = False,
    ) -> Decorator:
        """Serve a method that the core protocol does not have: `@server.method("thing/do")`.

        What belongs to an extension is registered with it: `@extension.method("thing/do")`. Clients that have not
        declared the extension are refused then (-32021, in the handshake era -32602), whatever else `requires=` names,
        and its revisions are by default those that know extensions.

        Args:
            name: The method: 1 to 128 visible ASCII characters.
            title: A name for people.
            description: What it is for; the docstring's summary and body when None.
            revisions: The revisions that have it; all when None.
            named_by: The parameter, a text, that clients repeat in the header `Mcp-Name` over HTTP, as they repeat the
                name of a tool, so that it can be routed by; one that differs is refused (-32020).
            cache: How long and by whom the result may be kept (utilities/caching); not said when None.
            icons: Pictures that a host may show.
            meta: The `_meta` of its listed form.
            tags: Free words, by which `enable` and `disable` find it; never sent.
            requires: Capabilities that a client must have declared to use it, such as `sampling`; see
                `Client.supports`.
            visible: Says who may see and use it, from the request's principal and scopes; everybody when None.
            scopes: What whoever uses it must have been granted, one scope or a list. It is listed all the same; who
                lacks one is challenged before it runs.
            may_need: What it may ask for in its midst, by `ctx.require`; until then its answer does not begin.
            anonymous: True serves it to whoever does not say who they are, where the server is protected.
            timeout: The seconds that a call may take, None for any number; the server's when left out.
            concurrency: How many of its calls run at a time, None for any number; others wait in order of arrival.
            thread: For a function that is not `async`: False calls it in the event loop, so it must be quick.
            process: True calls it in a worker process, which is killed when the call is cancelled or out of time.
            replace: True takes the place of what has the same name where it is registered.

        Returns:
            A decorator that returns the function unchanged.

        Raises:
            RegistrationError: The definition cannot be served; the message says what to change.
        """
        raise NotImplementedError
