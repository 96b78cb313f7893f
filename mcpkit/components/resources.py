"""Resources and resource templates: data that a host reads by URI (server/resources)."""

from __future__ import annotations

import re
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import is_dataclass
from functools import partial
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from typing_extensions import Self, Unpack, is_typeddict

from .._utils.errors import INVALID_PARAMS, ArgumentsError, ProtocolError, RegistrationError
from ..content.values import to_contents
from ..identity.principal import Principal
from ..protocol.eras import CacheHint
from ..protocol.types import Annotations, Json
from ..requests.call import Call
from .checks import check_media_type, check_members, check_size, check_text
from .completion import Completable
from .component import Listed, optional
from .function import FunctionComponent, function_name
from .options import Completers, FunctionOptions, WatchFunction
from .watch import watched

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_NEVER_IN_URIS = r'[\x00-\x20"<>\\^`{|}\x7f]'


class Resource(FunctionComponent, Listed):
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
    describes_arguments = False

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
        _check_form(f"resource {uri!r}", mime_type, annotations)
        check_size(f"resource {uri!r}", size)
        self.watched = watched(f"resource {uri!r}", watch, ())
        super().__init__(function, uri, **options)
        self.name = name if name is not None else function_name(function)
        check_text(f"{self.kind} {self.key!r}: name", self.name)
        self.mime_type = self.listed_mime_type = mime_type
        self.size = size
        self.annotations = annotations
        self.cache = cache
        self.watch = watch

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
        _check_filled(self, ())
        self.listed_mime_type = self.mime_type or _mime_type_of(self.signature.returns)

    def describe(self, revision: str) -> Json:
        """Return the `Resource` object of the specification, with fields of every protocol version."""
        return _described(self, uri=self.key, size=self.size)

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


class ResourceTemplate(Completable):
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
    """True if entries without a media type or a description take those of the template."""
    describes_arguments = False

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
        from ..content.uri_template import UriTemplate  # which servers without templates do not need

        check_text(f"resource template {uri_template!r}: URI", uri_template)
        self.template = UriTemplate(uri_template, unsafe=allow_unsafe)
        self._unsafe = allow_unsafe
        _check_form(f"resource template {uri_template!r}", mime_type, annotations)
        super().__init__(function, uri_template, complete, **options)
        self.name = name if name is not None else function_name(function)
        check_text(f"{self.kind} {self.key!r}: name", self.name)
        self.mime_type = self.listed_mime_type = mime_type
        self.annotations = annotations
        self.cache = cache
        self.list_entries = list_entries
        self.watch = watch
        self.watched = watched(f"resource template {uri_template!r}", watch, self.template.names)
        self.entries_parameter: str | None = None
        if list_entries is not None:
            from .injection.principal import entries_parameter

            self.entries_parameter = entries_parameter(f"resource template {uri_template!r}", list_entries)
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
        _check_filled(self, self.template.names)
        self.listed_mime_type = self.mime_type or _mime_type_of(self.signature.returns)
        super().build()

    def describe(self, revision: str) -> Json:
        """Return the `ResourceTemplate` object of the specification, with fields of every protocol version."""
        return _described(self, uriTemplate=self.key)

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
        who = {} if self.entries_parameter is None else {self.entries_parameter: principal}
        # Not the title, which hosts show in place of the name.
        own = (
            optional(mimeType=self.listed_mime_type, description=self.description)
            if self.entries_inherit
            else {}
        )
        for entry in self.list_entries(**who):
            yield {**own, **entry, "uri": self.included_uri(entry["uri"])}

    def included_uri(self, uri: str) -> str:
        """Return a URI of the registered template with the prefix of this copy.

        Args:
            uri: URI without an include prefix.
        """
        same = 0
        for ours, theirs in zip(reversed(self.key), reversed(self.written), strict=False):
            if ours != theirs:
                break
            same += 1
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


def _described(component: Resource | ResourceTemplate, **own: Any) -> Json:
    return optional(
        **own,
        name=component.name,
        title=component.title,
        description=component.description,
        mimeType=component.listed_mime_type,
        annotations=component.annotations,
        icons=component.icons,
        _meta=component.meta,
    )


def _mime_type_of(returns: Any) -> str | None:
    """Return the media type of all that a function with this return type returns; None where there may be several."""
    from ..content import media_types
    from ..content.renderers import maker

    while (origin := get_origin(returns)) in (Annotated, Awaitable, Coroutine) and (
        inner := get_args(returns)
    ):
        returns = inner[0 if origin is Annotated else -1]
    kind: Any = origin or returns
    # An author may have registered a renderer of a class, and its content has media types of its own.
    if not _is_a(kind, object) or getattr(kind, "__mcp_content__", False) or maker(kind) is not None:
        return None
    if _is_a(kind, str, bytes, bytearray):
        return media_types.PLAIN_TEXT if _is_a(kind, str) else media_types.BINARY
    if _is_a(kind, Sequence) and not _is_model(kind):
        items = get_args(returns)  # a `list` without brackets may hold content
        return media_types.JSON if items and all(map(_is_data, items)) else None
    return media_types.JSON if _is_a(kind, Mapping, Set) or _is_model(kind) else None


def _is_a(kind: Any, *classes: Any) -> bool:
    """Return whether an annotation is a class, and a subclass of one of these."""
    return isinstance(kind, type) and issubclass(kind, classes)


def _is_model(kind: Any) -> bool:
    return (
        (_is_a(kind, tuple) and hasattr(kind, "_fields"))
        or is_typeddict(kind)
        or is_dataclass(kind)
        or hasattr(kind, "__pydantic_core_schema__")
    )


def _is_data(item: Any) -> bool:
    """Return whether list items of a type are data, and not content with a media type of its own."""
    if get_origin(item) in (Union, UnionType):
        return all(map(_is_data, get_args(item)))
    found = _mime_type_of(item)
    return item in (..., int, float, bool, type(None)) or (
        found is not None and found != "application/octet-stream"
    )


def _check_filled(component: Resource | ResourceTemplate, names: Collection[str]) -> None:
    """Raise for a required parameter without a variable in the URI."""
    for each in component.signature.parameters:
        if each.is_required and each.name not in names:
            cure = each.context_hint or (
                f"Write {{{each.name}}} at its place in the URI, or give the parameter a default"
            )
            raise RegistrationError(
                f"{component.kind} {component.key!r} has no variable for the parameter {each.name!r}. {cure}"
            )


def _check_uri(uri: str) -> None:
    if not re.match(_SCHEME, uri):
        raise RegistrationError(
            f"invalid resource URI {uri!r}: it must begin with a scheme, such as data://{uri}"
        )
    if found := re.search(_NEVER_IN_URIS, uri):
        raise RegistrationError(f"invalid resource URI {uri!r}: {found[0]!r} must be percent-encoded")


def _check_form(what: str, mime_type: str | None, annotations: Annotations | None) -> None:
    check_media_type(what, mime_type)
    if annotations is not None:
        check_members(f"{what}: annotations", annotations, Annotations)
