"""Resources and resource templates: data that a host reads by URI (server/resources)."""

from __future__ import annotations

import inspect
import re
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)  # fmt: skip
from dataclasses import is_dataclass
from functools import partial
from itertools import takewhile
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

from typing_extensions import Self, Unpack, is_typeddict

from .._utils.exceptions import INVALID_PARAMS, ArgumentsError, ProtocolError, RegistrationError
from ..content.results_to_blocks import to_contents
from ..identity.principals_and_scopes import Principal
from ..protocol.jsonrpc import Json
from ..protocol.objects import Annotations
from ..protocol.revisions import CacheHint
from ..requests.request_record import Call
from .component import (
    FunctionComponent,
    FunctionOptions,
    Listed,
    check_members,
    check_text,
    function_name,
    optional,
)
from .dependencies import parameters_of, takes_principal
from .prompts_and_completion import Completable, Completers

# Async generator function that yields at each update.
WatchFunction = Callable[..., AsyncGenerator[Any, None]]


class AnyResource(FunctionComponent, Listed):
    """Base class of resources and resource templates, with the options that both have."""

    describes_arguments = False

    def __init__(
        self,
        function: Callable[..., Any],
        key: str,
        variables: Sequence[str],
        name: str | None,
        mime_type: Any,
        annotations: Annotations | None,
        cache: CacheHint | None,
        watch: WatchFunction | None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        super().__init__(function, key, **options)
        what = f"{self.kind} {key!r}"
        if mime_type is not None and (not isinstance(mime_type, str) or "/" not in mime_type):
            raise RegistrationError(
                f"{what}: mime_type must be a media type such as text/plain, got {mime_type!r}"
            )
        if annotations is not None:
            check_members(f"{what}: annotations", annotations, Annotations)
        self.name = name if name is not None else function_name(function)
        check_text(f"{what}: name", self.name)
        self.mime_type: str | None = mime_type
        self.listed_mime_type = self.mime_type
        self.annotations = annotations
        self.cache = cache
        self.watch = watch
        self.watched = watched(what, watch, variables)

    def _check_parameters(self, variables: Sequence[str]) -> None:
        """Raise for a required parameter without a variable in the URI."""
        for each in self.signature.parameters:
            if each.is_required and each.name not in variables:
                remedy = f"Write {{{each.name}}} at its place in the URI, or give the parameter a default"
                remedy = each.context_hint or remedy
                raise RegistrationError(
                    f"{self.kind} {self.key!r} has no variable for the parameter {each.name!r}. {remedy}"
                )
        self.listed_mime_type = self.mime_type or _mime_type_of(self.signature.returns)

    def _described(self, **own: Any) -> Json:
        first = {**own, "name": self.name}
        return self._entry(first, mimeType=self.listed_mime_type, annotations=self.annotations)


class Resource(AnyResource):
    """A resource at a fixed URI, made from a function.

    Args:
        function: Called without arguments for each read. Returns a string, bytes, `File`, a model, dict or list
            (JSON), or several of the content classes.
        uri: URI of the resource.
        name: Name of the resource; None takes the name of the function.
        mime_type: Media type. None takes that of the return type in lists, and that of the returned value in results.
        size: Size in bytes, when known.
        annotations: Hints on its use.
        cache: How long clients may reuse the contents; None takes the server's default.
        watch: Async generator function that runs while a client is subscribed, and yields at each update; see
            `ResourceTemplate`.
        options: See `FunctionOptions`.

    Attributes:
        listed_mime_type: Media type in lists.
        watched: Parameters of `watch`.

    Raises:
        RegistrationError: The definition cannot be served. The message contains the remedy.
        TypeError: There is no such option.
    """

    kind = "resource"
    wire = "Resource"

    def __init__(
        self,
        function: Callable[..., Any],
        uri: str,
        *,
        name: str | None = None,
        mime_type: str | None = None,
        size: int | None = None,
        annotations: Annotations | None = None,
        cache: CacheHint | None = None,
        watch: WatchFunction | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        _check_uri(uri)
        super().__init__(function, uri, (), name, mime_type, annotations, cache, watch, **options)
        if size is not None and (type(size) is not int or size < 0):
            raise RegistrationError(
                f"resource {uri!r}: size must be a number of bytes of at least 0, got {size!r}"
            )
        self.size = size

    @property
    def uri(self) -> str:
        """URI of the resource."""
        return self.key

    def renamed(self, key: str) -> Self:
        """Return a copy at another URI.

        Args:
            key: URI of the copy.

        Raises:
            RegistrationError: The URI is invalid.
        """
        _check_uri(key)
        return super().renamed(key)

    def build(self) -> None:
        """Read the signature, which must not have required parameters."""
        self._check_parameters(())

    def describe(self, revision: str) -> Json:
        """Return the `Resource` object of the specification, with fields of every protocol version."""
        return self._described(uri=self.key, size=self.size)

    async def read(self, call: Call) -> Json:
        """Run the function and return a `ReadResourceResult` of the newest protocol version.

        Args:
            call: The request.
        """
        return {"contents": await self.run({}, call, self.contents)}

    def contents(self, value: Any) -> list[Json]:
        """Convert a returned value to the contents of the resource, in the newest protocol version.

        Args:
            value: Value that the function returned.
        """
        return to_contents(value, self.key, self.mime_type)


class ResourceTemplate(AnyResource, Completable):
    """Resources at the URIs of an RFC 6570 template, made from one function.

    Args:
        function: Called with the values of the template's variables, parsed to the types of its parameters. Returns
            what the function of a `Resource` returns.
        uri_template: RFC 6570 template.
        name: Name of the template; None takes the name of the function.
        mime_type: Media type of all its resources. None takes that of the return type in lists, and that of the
            returned value in results.
        annotations: Hints on their use.
        cache: How long clients may reuse the contents; None takes the server's default.
        complete: Completions by variable name: a list of strings, or `fn(value, arguments)`.
        list_entries: Function that returns the resources that exist now, each as the members of a `Resource` of the
            specification (`uri` and `name` at least). It runs in a worker thread for each `resources/list`. A
            parameter annotated `Principal` receives the principal of the request, and the list is then private.
        allow_unsafe: Variables that may contain `..`, encoded slashes, absolute paths and the like; True for all.
            By default such values are refused.
        watch: Async generator function that runs from the first subscription to the last. When it raises, it is
            started again after 1 s, then 2 s, up to 60 s.
            With parameters named like variables, it runs once for each subscribed URI with the values of that URI,
            and yields (any value) when the resource was updated.
            Without, it runs once and yields the URI that was updated, without an include prefix. A URI that ends
            with a slash stands for all subscribed URIs below it. None stands for a change of `list_entries`; the
            function then also runs while a client listens for changes of the list of resources.
            With a parameter annotated `Principal`, it runs for each subscribed principal, and only that principal's
            clients are notified.
        options: See `FunctionOptions`.

    Attributes:
        template: The parsed template.
        listed_mime_type: Media type in lists.
        watched: Parameters of `watch`.
        entries_inherit: Whether entries of `list_entries` take media type and description of the template, unless they
            have their own.
        entries_parameter: Parameter of `list_entries` that receives the principal, or None.
        written: Template as it was registered first, without the prefix of an `include`.

    Raises:
        RegistrationError: The definition cannot be served. The message contains the remedy.
        TypeError: There is no such option.
    """

    kind = "resource template"
    wire = "ResourceTemplate"
    entries_inherit = True

    def __init__(
        self,
        function: Callable[..., Any],
        uri_template: str,
        *,
        name: str | None = None,
        mime_type: str | None = None,
        annotations: Annotations | None = None,
        cache: CacheHint | None = None,
        complete: Completers | None = None,
        list_entries: Callable[..., Iterable[Mapping[str, Any]]] | None = None,
        allow_unsafe: Collection[str] | bool = (),
        watch: WatchFunction | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        from ..content.uri_templates import UriTemplate  # which servers without templates do not need

        check_text(f"resource template {uri_template!r}: URI", uri_template)
        self.template = UriTemplate(uri_template, unsafe=allow_unsafe)
        self._unsafe = allow_unsafe
        super().__init__(
            function, uri_template, self.template.names, name, mime_type, annotations, cache, watch, **options
        )
        self._complete = complete
        self.list_entries = list_entries
        self.entries_parameter: str | None = None
        if list_entries is not None:
            what = f"resource template {uri_template!r}"
            self.entries_parameter = _principal_of_entries(what, list_entries)
        self.written = uri_template

    @property
    def uri_template(self) -> str:
        """URI template that clients use."""
        return self.key

    def build(self) -> None:
        """Build the arguments from the type hints; the parameters must be the template's variables."""
        parameters = [parameter.name for parameter in self.signature.parameters]
        for variable in self.template.names:
            if variable not in parameters:
                raise RegistrationError(
                    f"resource template {self.key!r}: the function has no parameter {variable!r} for {{{variable}}}"
                )
        self._check_parameters(self.template.names)
        super().build()

    def describe(self, revision: str) -> Json:
        """Return the `ResourceTemplate` object of the specification, with fields of every protocol version."""
        return self._described(uriTemplate=self.key)

    def renamed(self, key: str) -> Self:
        """Return a copy with another template of the same variables.

        Args:
            key: Template of the copy.
        """
        twin = super().renamed(key)
        twin.template = type(self.template)(key, unsafe=self._unsafe)
        return twin

    def listed_entries(self, principal: Principal) -> Iterator[Json]:
        """Return the resources that exist now, for `resources/list`; none without `list_entries=`.

        Args:
            principal: Principal of the request.

        Raises:
            Exception: Raised by `list_entries`.
        """
        if self.list_entries is None:
            return
        arguments = {} if self.entries_parameter is None else {self.entries_parameter: principal}
        inherited: Json = {}
        if self.entries_inherit:  # not the title, which hosts show in place of the name
            inherited = optional(mimeType=self.listed_mime_type, description=self.description)
        for entry in self.list_entries(**arguments):
            yield {**inherited, **entry, "uri": self.included_uri(entry["uri"])}

    def included_uri(self, uri: str) -> str:
        """Return a URI of the registered template with the prefix of this copy.

        Args:
            uri: URI without an include prefix.
        """
        ends = zip(reversed(self.key), reversed(self.written), strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], ends))
        here, there = self.key[: len(self.key) - same], self.written[: len(self.written) - same]
        return here + uri[len(there) :] if uri.startswith(there) else uri

    async def read(self, uri: str, values: Mapping[str, str | list[str]], call: Call) -> Json:
        """Parse the values, run the function and return a `ReadResourceResult` of the newest protocol version.

        Args:
            uri: Requested URI.
            values: Result of `template.match(uri)`.
            call: The request.

        Raises:
            ProtocolError: -32602, a value does not match the type of its parameter.
            Exception: Raised by the function.
        """
        try:
            kwargs = self.arguments.validate_strings(values)
        except ArgumentsError as error:
            raise ProtocolError(INVALID_PARAMS, str(error), {"uri": uri}) from None
        make = partial(to_contents, uri=uri, mime_type=self.mime_type)
        return {"contents": await self.run(kwargs, call, make)}


def _check_uri(uri: str) -> None:
    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
        raise RegistrationError(
            f"invalid resource URI {uri!r}: it must begin with a scheme, such as data://{uri}"
        )
    if found := re.search(r'[\x00-\x20"<>\\^`{|}\x7f]', uri):
        raise RegistrationError(f"invalid resource URI {uri!r}: {found[0]!r} must be percent-encoded")


# Media types in lists, from return types


def _mime_type_of(returns: Any) -> str | None:
    """Return the media type of all that a function with this return type returns; None where there may be several."""
    from ..content import media_types
    from ..content.iterators_and_third_party_values import renderer

    while (origin := get_origin(returns)) in (Annotated, Awaitable, Coroutine) and get_args(returns):
        returns = get_args(returns)[0 if origin is Annotated else -1]
    kind: Any = origin or returns
    # An author may have registered a renderer of a class, and its content has media types of its own.
    if not _is_a(kind, object) or getattr(kind, "__mcp_content__", False) or renderer(kind) is not None:
        return None
    if _is_a(kind, str):
        return media_types.PLAIN_TEXT
    if _is_a(kind, bytes, bytearray):
        return media_types.BINARY
    is_model = (
        (_is_a(kind, tuple) and hasattr(kind, "_fields"))
        or is_typeddict(kind)
        or is_dataclass(kind)
        or hasattr(kind, "__pydantic_core_schema__")
    )
    if _is_a(kind, Sequence) and not is_model:
        items = get_args(returns)  # a `list` without brackets may hold content
        return media_types.JSON if items and all(map(_is_data, items)) else None
    return media_types.JSON if is_model or _is_a(kind, Mapping, Set) else None


def _is_a(kind: Any, *classes: Any) -> bool:
    """Return whether an annotation is a class, and a subclass of one of these."""
    return isinstance(kind, type) and issubclass(kind, classes)


def _is_data(item: Any) -> bool:
    """Return whether list items of a type are data, and not content with a media type of its own."""
    if get_origin(item) in (Union, UnionType):
        return all(map(_is_data, get_args(item)))
    if item in (..., int, float, bool, type(None)):
        return True
    return _mime_type_of(item) not in {None, "application/octet-stream"}


# Parameters of `watch=` and `list_entries=`


class Watched(NamedTuple):
    """Parameters of a `watch=` function.

    Attributes:
        variables: Variables of the URI template that it takes. Without any, it watches all URIs at once.
        principal: Parameter that receives the subscribed principal; it then runs once for each. None runs it for all.
    """

    variables: tuple[str, ...] = ()
    principal: str | None = None


def watched(what: str, watch: WatchFunction | None, variables: Collection[str]) -> Watched:
    """Return the parameters of a `watch=` function.

    Args:
        what: Component, for messages.
        watch: The function, or None.
        variables: Names of the template's variables; empty for a fixed URI.

    Raises:
        RegistrationError: It is not an async generator function, or has a parameter without a value.
    """
    if watch is None:
        return Watched()
    if not inspect.isasyncgenfunction(watch):
        raise RegistrationError(
            f"{what}: watch= needs an async generator function: `async def` with a `yield` at each update"
        )
    parameters = parameters_of(watch)
    principal = next((p.name for p in parameters if takes_principal(p, variables)), None)
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return Watched(tuple(name for name in variables if name != principal), principal)
    named = [p.name for p in parameters if p.kind in {p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY}]
    taken = tuple(name for name in named if name in variables and name != principal)
    for parameter in parameters:
        if _is_required(parameter) and parameter.name not in taken and parameter.name != principal:
            known = f"; its variables are {', '.join(variables)}" if variables else ""
            raise RegistrationError(
                f"{what}: no value for the parameter {parameter.name!r} of watch={known}. Remove it, or annotate it "
                "as `Principal` for the subscribed user"
            )
    return Watched(taken, principal)


def _principal_of_entries(what: str, entries: Any) -> str | None:
    """Return the parameter of `list_entries=` that receives the principal, or None.

    Raises:
        RegistrationError: It is not a function, or `async`, or has another required parameter.
    """
    if not callable(entries) or inspect.iscoroutinefunction(entries):
        raise RegistrationError(
            f"{what}: list_entries= must be a function that is not async, as it is called in a worker thread; "
            f"got {entries!r}"
        )
    parameters = parameters_of(entries)
    principal = next((p.name for p in parameters if takes_principal(p)), None)
    required = list(filter(_is_required, parameters))
    if principal is None and len(required) == 1:
        only = required[0]
        if only.annotation is only.empty and only.kind is not only.POSITIONAL_ONLY:
            return only.name
    for parameter in required:
        if parameter.name != principal:
            raise RegistrationError(
                f"{what}: no value for the parameter {parameter.name!r} of list_entries=. "
                "It takes no parameter, or the principal: `def entries(user: Principal)`"
            )
    return principal


def _is_required(parameter: inspect.Parameter) -> bool:
    is_variadic = parameter.kind in {parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD}
    return parameter.default is parameter.empty and not is_variadic
