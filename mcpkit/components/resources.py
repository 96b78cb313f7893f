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

from ..calls.call import Call
from ..common.errors import INVALID_PARAMS, ArgumentsError, ProtocolError, RegistrationError
from ..content.values import to_contents
from ..protocol.eras import CacheHint
from ..protocol.types import Annotations, Json
from ..state.principal import Principal
from .checks import check_media_type, check_members, check_size, check_text
from .completion import Completable
from .component import Listed, optional
from .function import FunctionComponent, function_name
from .options import Completers, FunctionOptions, WatchFunction
from .watch import watched

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_NEVER_IN_URIS = r'[\x00-\x20"<>\\^`{|}\x7f]'


class Resource(FunctionComponent, Listed):
    """A resource at a fixed URI.

    Args:
        function: Called without arguments for each read; returns a string, bytes, `File`, a
            model, dict or list (JSON), or several of the content classes.
        uri: Its URI.
        name: Its name; the function's when None.
        mime_type: Its media type; when None, that of the function's return type in lists, and of what is returned in
            results.
        size: Its size in bytes, when known.
        annotations: Hints on its use.
        cache: How long and by whom what is read may be kept; the server's default when None.
        options: `title`, `description` and what else every component has, as the decorator takes it.

    Raises:
        RegistrationError: The definition cannot be served; the message says what to change.
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
        """The URI by which it is read."""
        return self.key

    def renamed(self, key: str) -> Self:
        """Return a copy at another URI."""
        _check_uri(key)
        return super().renamed(key)

    def build(self) -> None:
        """Read the signature: it must not ask for arguments."""
        _check_filled(self, ())
        self.listed_mime_type = self.mime_type or _mime_type_of(self.signature.returns)

    def describe(self, revision: str) -> Json:
        """Return the `Resource` of the specification."""
        return _described(self, uri=self.key, size=self.size)

    async def read(self, call: Call) -> Json:
        """Run the function and return a `ReadResourceResult` of the newest revision."""
        return {"contents": await self.run({}, call, self.contents)}

    def contents(self, value: Any) -> list[Json]:
        """Return what its function returned as its contents, of the newest revision."""
        return to_contents(value, self.key, self.mime_type)


class ResourceTemplate(Completable):
    """Resources at the URIs of an RFC 6570 template.

    Args:
        function: Called with the values of the template's variables, parsed to its parameters'
            types; returns what a `Resource`'s function returns.
        uri_template: The template.
        name: Its name; the function's when None.
        mime_type: The media type that all of them have; when None, that of the function's return type in lists, and of
            what is returned in results.
        annotations: Hints on their use.
        cache: How long and by whom what is read may be kept; the server's default when None.
        complete: Completions by variable name: a list of strings, or `fn(value, arguments)`.
        list_entries: Lists the resources that exist now, as the members of a `Resource` of the
            specification (`uri` and `name` at least); called in a worker thread for each
            `resources/list`. With a parameter for a `Principal`, it is told who asks, and the
            list is private to them.
        allow_unsafe: Variables whose values may hold `..`, encoded slashes, absolute paths and the
            like, which no value may by default; True for all.
        watch: An async generator function that runs while somebody is subscribed: it starts for
            the first subscriber and is closed after the last; when it raises it is started again,
            after 1 s, then 2 s, up to 60 s. With parameters, named like variables, it runs for
            each URI that somebody subscribes to, with the values of that URI, and yields, anything,
            each time its data have changed. Without, it runs once and yields the URI that was
            updated, as it is written here; one that ends with a slash stands for all that are
            subscribed to below; and None stands for a change of `list_entries`, for whose sake it also
            runs while somebody listens for changes of the list of resources. With a parameter
            annotated `Principal`, it runs for each who is subscribed, and they alone are told.
        options: `title`, `description` and what else every component has, as the decorator takes it.

    Raises:
        RegistrationError: The definition cannot be served; the message says what to change.
    """

    kind = "resource template"
    wire = "ResourceTemplate"

    entries_inherit = True
    """Whether entries have the media type and the description of the template, unless they have their own."""
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
        """The template as it was written."""
        return self.key

    def build(self) -> None:
        """Build the arguments from the type hints; they must be the template's variables."""
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
        """Return the `ResourceTemplate` of the specification."""
        return _described(self, uriTemplate=self.key)

    def renamed(self, key: str) -> Self:
        """Return a copy with another template, of the same variables."""
        twin = super().renamed(key)
        twin.template = type(self.template)(key, unsafe=self._unsafe)
        return twin

    def listed_entries(self, principal: Principal) -> Iterator[Json]:
        """Return the resources that exist now for who asks, by their URIs here; nothing without `list_entries=`.

        Raises:
            Exception: Whatever the function raises.
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
        """Return the URI here of what has another one where the template was written, without a prefix."""
        same = 0
        for ours, theirs in zip(reversed(self.key), reversed(self.written), strict=False):
            if ours != theirs:
                break
            same += 1
        here, there = self.key[: len(self.key) - same], self.written[: len(self.written) - same]
        return here + uri[len(there) :] if uri.startswith(there) else uri

    async def read(self, uri: str, values: Mapping[str, str | list[str]], call: Call) -> Json:
        """Parse the values, run the function and return a `ReadResourceResult` of the newest revision.

        Args:
            uri: The URI that was asked for.
            values: What `template.match(uri)` found.
            call: The request.

        Raises:
            ProtocolError: -32602, when a value does not fit its parameter's type.
            Exception: Whatever the function raises.
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
    """Return whether an item of a list is data, and no content, which would have a media type of its own."""
    if get_origin(item) in (Union, UnionType):
        return all(map(_is_data, get_args(item)))
    found = _mime_type_of(item)
    return item in (..., int, float, bool, type(None)) or (
        found is not None and found != "application/octet-stream"
    )


def _check_filled(component: Resource | ResourceTemplate, names: Collection[str]) -> None:
    """Refuse a function that asks for what no expression in its URI, of these names, says."""
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
