"""Options of `@tool`, `@resource`, `@prompt` and `@method`, and the groups `Access` and `ResultOptions`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import TypedDict

from .._utils.errors import RegistrationError
from ..identity.principal import Principal
from ..identity.scopes import scope_names
from ..identity.visibility import check_visible
from ..options import Options, check_bool
from ..protocol.eras import CacheHint
from ..protocol.types import Annotations, Icon, ToolAnnotations

if TYPE_CHECKING:
    from .task import Task

CompletionFunction = Callable[..., Iterable[str] | Awaitable[Iterable[str]]]
Completer = CompletionFunction | Sequence[str]
Completers = Mapping[str, Completer]

WatchFunction = Callable[..., AsyncGenerator[Any, None]]
"""Async generator function that yields at each update."""

TextOf = Literal["json", "none"] | Callable[[Any], str]


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Access(Options):
    """Rules for who may see and use a component: `@server.tool(access=Access(visible=is_member))`.

    Attributes:
        scopes: Scopes that a call needs, one name or a list. The component is listed without them; a call that lacks
            one is challenged before the function runs (403, basic/authorization). `scopes=` of the decorator is short
            for it.
        optional_scopes: Scopes that the function may demand while it runs, by `ctx.require_scopes`. The response does
            not begin before it does.
        visible: Function of the request's principal that returns whether the component is listed and can be used;
            None shows it to every client.
        allow_anonymous: Whether a protected server serves the component to requests without an access token.
        requires_capabilities: Client capabilities that a call needs, such as `sampling` (`ctx.client.supports`).

    Raises:
        TypeError: There is no such option, or it has the wrong type.
        RegistrationError: A scope is not a scope of OAuth, or `allow_anonymous` is combined with `scopes`.
    """

    scopes: str | Collection[str] = ()
    optional_scopes: str | Collection[str] = ()
    visible: Callable[[Principal], bool] | None = None
    allow_anonymous: bool = False
    requires_capabilities: str | Sequence[str] = ()

    def __post_init__(self) -> None:
        """Check the values."""
        scope_names("Access(scopes=...)", self.scopes)
        scope_names("Access(optional_scopes=...)", self.optional_scopes)
        check_bool("Access(allow_anonymous=...)", self.allow_anonymous)
        check_visible("Access(visible=...)", self.visible)
        if self.allow_anonymous and self.scopes:
            raise RegistrationError(
                "Access(allow_anonymous=True) serves requests without a token, and scopes= needs one. Remove one of "
                "the two, or use optional_scopes= for what only some calls need"
            )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ResultOptions(Options):
    """Form of a tool's result: `@server.tool(result=ResultOptions(text="none"))`.

    Attributes:
        structured: Whether structured content and an output schema are sent.
        text: The text beside structured content: `json` (the same data), `none`, or a function that returns a text
            for the function's value.

    Raises:
        TypeError: There is no such option, or it has the wrong type.
        ValueError: `text` is another word.
    """

    structured: bool = True
    text: TextOf = "json"

    def __post_init__(self) -> None:
        """Check the values."""
        check_bool("ResultOptions(structured=...)", self.structured)
        if self.text not in ("json", "none") and not callable(self.text):
            raise ValueError(
                f'ResultOptions(text=...) must be "json", "none" or a function, got {self.text!r}'
            )


class ComponentOptions(TypedDict, total=False):
    """Options of every component."""

    title: str | None
    """Display name."""
    description: str | None
    """Description for clients and models; None takes the summary and body of the docstring."""
    icons: Sequence[Icon] | None
    """Icons that a host may show."""
    meta: Mapping[str, Any] | None
    """The `_meta` of the entry in lists."""
    tags: Collection[str]
    """Tags for `server.enable(tags=...)` and `server.disable(tags=...)`; not sent to clients."""
    scopes: str | Collection[str]
    """Scopes that a call needs: short for `access=Access(scopes=...)`."""
    access: Access | None
    """Rules for the clients that may see and use the component."""
    timeout: float | None
    """Time limit of a call in seconds; None for no limit. The default is `Timeouts.call` of the server."""
    max_concurrency: int | None
    """Number of calls that run at a time; None for no limit. Others wait in order of arrival."""


class FunctionOptions(ComponentOptions, total=False):
    """Options of every component that is a function."""

    run_in: Literal["thread", "process", "loop"] | None
    """Place where a function that is not `async` runs: a worker `thread` (default); a worker `process`, which is killed
    when the call is cancelled or times out; or the event `loop`, where it must not block."""


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


GROUPS = {"access": Access, "result": ResultOptions}
"""Groups of options, by option."""


def access_of(what: str, options: ComponentOptions) -> Access | None:
    """Return the access rules among the options of a component; None where there are none.

    Args:
        what: The component, for messages.
        options: Its options.

    Raises:
        TypeError: `access` is no `Access`, or scopes are given twice.
    """
    access, scopes = options.get("access"), options.get("scopes", ())
    if access is not None and not isinstance(access, Access):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
        raise TypeError(f"{what}: access must be Access(...), got {access!r}")
    if access is not None and "scopes" in options:
        raise TypeError(f"{what}: scopes= and access= are both given. Write Access(scopes=...) alone")
    return Access(scopes=scope_names(f"{what}: scopes=", scopes)) if scopes else access
