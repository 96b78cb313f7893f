"""Resources and resource templates."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from urllib.parse import parse_qs, quote, unquote

from pydantic import AnyUrl, TypeAdapter
from pydantic_core import to_json
from typing_extensions import Self

from ...protocol.jsonrpc import Json, is_array
from ...protocol.objects import Incomplete
from ..mcp_fastmcp import resource_kinds as kinds
from ..mcp_fastmcp import resources as plain
from ..types import Url
from .components import COMMON, Change, Component
from .functions import Function
from .refusing import Refuses

_MORE = frozenset({"mime_type", "annotations"})
_NAMES = re.compile(r"{([\w-]+)\*?}")
_QUERY = re.compile(r"{\?([^}]+)}")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_URL: TypeAdapter[AnyUrl] = TypeAdapter(Url)


class ResourceContent(Refuses):
    """A part of the content of a resource: text or bytes; other values become JSON."""

    def __init__(self, content: Incomplete, mime_type: str | None = None, meta: Json | None = None) -> None:
        usual = "text/plain" if isinstance(content, str) else "application/octet-stream"
        if not isinstance(content, str | bytes):
            content, usual = to_json(content, fallback=str).decode(), "application/json"
        self.content: str | bytes = content
        self.mime_type, self.meta = mime_type or usual, meta

    def said(self, uri: str) -> Json:
        """Return the part in the form of `resources/read`."""
        data = (
            {"text": self.content}
            if isinstance(self.content, str)
            else {"blob": b64encode(self.content).decode()}
        )
        return {"uri": uri, **data, "mimeType": self.mime_type, **({"_meta": self.meta} if self.meta else {})}


class ResourceResult(Refuses):
    """The content of a resource, which is also a sequence of its parts."""

    def __init__(self, contents: str | bytes | list[ResourceContent], meta: Json | None = None) -> None:
        parts: Incomplete = contents if isinstance(contents, list) else [ResourceContent(contents)]
        for at, each in enumerate(parts):
            if not isinstance(each, ResourceContent):
                raise TypeError(
                    f"contents[{at}] must be ResourceContent, got {type(each).__name__}. "
                    f"Use ResourceContent({each!r}) to wrap the value."
                )
        self.contents: list[ResourceContent] = parts
        self.meta = meta

    def __iter__(self) -> Iterator[ResourceContent]:
        return iter(self.contents)

    def __getitem__(self, at: int) -> ResourceContent:
        return self.contents[at]

    def answer(self, uri: str) -> Json:
        """Return the result of `resources/read`."""
        return {"contents": [each.said(uri) for each in self], **({"_meta": self.meta} if self.meta else {})}


class _Readable(Component):
    """Base class of resources and templates."""

    more = _MORE
    mime_type: str

    def result_of(self, value: Incomplete) -> ResourceResult:
        """Return the result for a return value of the function."""
        if isinstance(value, ResourceResult):
            return value
        if is_array(value) and value and isinstance(value[0], ResourceContent):
            return ResourceResult(
                [
                    ResourceContent(each.content, each.mime_type, {**(self.meta or {}), **(each.meta or {})})
                    for each in value
                ]
            )
        if value is None or isinstance(value, dict | list | tuple | int | float | bool):
            value = json.dumps(value)
        elif not isinstance(value, str | bytes):
            raise TypeError(
                f"contents must be str, bytes, or list[ResourceContent], got {type(value).__name__}"
            )
        return ResourceResult([ResourceContent(value, self.mime_type, self.meta)])


def _mime_type(uri: str, given: str | None) -> str:
    return given or ("text/html;profile=mcp-app" if uri.lower().startswith("ui://") else "text/plain")


class Resource(_Readable):
    """A resource with a function, or one of the resources of `mcp.server.fastmcp`."""

    kind = "resource"

    def __init__(
        self, uri: str, source: Callable[..., Incomplete] | plain.Resource, **said: Incomplete
    ) -> None:
        self.uri = str(_URL.validate_python(str(uri)))
        self.source = source
        if isinstance(source, plain.Resource):
            self.function = None
            said = {
                **{
                    each: getattr(source, each)
                    for each in (*COMMON & type(source).model_fields.keys(), *_MORE)
                },
                **said,
            }
            super().__init__(self.uri, None, said)
        else:
            self.function = Function(source, "resources", may_take_any=True)
            if self.function.parameters:
                raise ValueError("URI template must contain at least one parameter")
            super().__init__(self.function.name, self.function.documented, said)
        self.mime_type: str = _mime_type(self.uri, said.get("mime_type"))

    @property
    def key(self) -> str:
        """The URI."""
        return self.uri

    def listed(self, change: Change | None = None) -> Json:
        """Return the list entry."""
        return super().said(uri=self.uri, mimeType=self.mime_type)

    def within(self, namespace: str) -> Self:
        """Return a copy with a namespace in the URI."""
        found = copy(self)
        found.uri = self.uri.replace("://", f"://{namespace}/", 1)
        return found

    async def read(self) -> ResourceResult:
        """Return the content."""
        if isinstance(self.source, plain.Resource):
            return self.result_of(await self.source.read())
        assert self.function is not None
        found = await self.function.call({})
        return self.result_of(await found.read() if isinstance(found, plain.Resource) else found)


class ResourceTemplate(_Readable):
    """Resources with parameters in their URIs, which a function takes."""

    kind = "resource"

    def __init__(self, uri_template: str, fn: Callable[..., Incomplete], **said: Incomplete) -> None:
        self.uri_template = uri_template
        self.function: Function = Function(fn, "resource templates", may_take_any=True)
        super().__init__(self.function.name, self.function.documented, said)
        self.mime_type: str = _mime_type(uri_template, said.get("mime_type"))
        self.parameters = self.function.schema()
        self._queried = [name for block in _QUERY.findall(uri_template) for name in block.split(",")]
        in_path = {_parameter(name) for name in _NAMES.findall(uri_template)}
        _check(self.function, in_path, {_parameter(name) for name in self._queried})

    @property
    def key(self) -> str:
        """The URI template."""
        return self.uri_template

    def listed(self, change: Change | None = None) -> Json:
        """Return the list entry."""
        return super().said(uriTemplate=self.uri_template, mimeType=self.mime_type)

    def within(self, namespace: str) -> Self:
        """Return a copy with a namespace in the URI template."""
        found = copy(self)
        found.uri_template = self.uri_template.replace("://", f"://{namespace}/", 1)
        vars(found).pop("_pattern", None)
        return found

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = re.split(r"({[^}]+})", _QUERY.sub("", self.uri_template))
        return re.compile("".join(_pattern_of(each) for each in parts))

    def matches(self, uri: str) -> Json | None:
        """Return the parameters in a URI; None if it does not match."""
        path, _, query = (uri if "#" in self.uri_template else uri.partition("#")[0]).partition("?")
        found = self._pattern.fullmatch(path)
        if found is None:
            return None
        params: Json = {name: unquote(each) for name, each in found.groupdict().items()}
        given = parse_qs(query, keep_blank_values=True)
        for name in self._queried:
            if values := given.get(name.rstrip("*")):
                is_list = name.endswith("*")
                params.setdefault(
                    _parameter(name), values if is_list else self._one(_parameter(name), values[0])
                )
        return params

    def _one(self, name: str, value: str) -> Incomplete:
        hint = str(self.function.hints.get(name))
        return value.split(",") if hint.startswith(("list", "typing.List")) else value

    def _read(self, name: str, value: Incomplete) -> Incomplete:
        hint = self.function.hints.get(name)
        if hint is bool and str(value).lower() not in _FLAGS:
            raise ValueError(f"Invalid boolean value for {name}: {value!r}")
        return _FLAGS[str(value).lower()] if hint is bool else hint(value) if hint in (int, float) else value

    async def read(self, arguments: Json) -> ResourceResult:
        """Return the content of the resource with these parameters."""
        given = {name: self._read(name, each) for name, each in arguments.items()}
        return self.result_of(await self.function.call(self.function.validated(given)))


def _parameter(name: str) -> str:
    return name.strip().rstrip("*").replace("-", "_")


def _pattern_of(part: str) -> str:
    if not part.startswith("{"):
        return "".join(
            re.escape(each)
            if quote(each, safe=":/?#[]@!$&'()*+,;=~%") == each
            else f"(?:{re.escape(each)}|(?i:{re.escape(quote(each))}))"
            for each in part
        )
    return f"(?P<{_parameter(part[1:-1])}>{'.+' if part.endswith('*}') else '[^/]+'})"


def _check(function: Function, in_path: set[str], in_query: set[str]) -> None:
    known = {each.name: each for each in function.parameters}
    required = {
        name
        for name, each in known.items()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    if not in_path | in_query:
        raise ValueError("URI template must contain at least one parameter")
    if wrong := in_query - (known.keys() - required):
        raise ValueError(f"Query parameters {wrong} must be optional function parameters with default values")
    if not required <= in_path:
        raise ValueError(
            f"Required function arguments {required} must be a subset of the URI path parameters {in_path}"
        )
    takes_any = any(each.kind is each.VAR_KEYWORD for each in known.values())
    if not takes_any and not in_path | in_query <= known.keys():
        raise ValueError(
            f"URI parameters {in_path | in_query} must be a subset of the function arguments: {set(known)}"
        )


def made(uri: str, function: Callable[..., Incomplete], said: Json) -> Resource | ResourceTemplate:
    """Create a resource from a function, or a template if the URI has parameters."""
    return (
        ResourceTemplate(uri, function, **said)
        if "{" in uri and "}" in uri
        else Resource(uri, function, **said)
    )


def leads_out(value: object) -> bool:
    """Return True if a parameter is a path outside of its starting folder, or contains a NUL."""
    values = value if is_array(value) else [value]
    return any(isinstance(each, str) and _leads_out(each) for each in values)


def _leads_out(value: str) -> bool:
    depth = 0
    for part in value.replace("\\", "/").split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return "\0" in value or bool(re.match(r"[/\\]|[A-Za-z]:", value))


TextResource, BinaryResource, FileResource = kinds.TextResource, kinds.BinaryResource, kinds.FileResource
