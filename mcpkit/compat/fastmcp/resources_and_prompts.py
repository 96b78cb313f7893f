"""Resources, resource templates and prompts of fastmcp."""

from __future__ import annotations

import inspect
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterator
from copy import copy
from functools import cached_property
from urllib.parse import parse_qs, quote, unquote

from pydantic import AnyUrl, BaseModel, PydanticSchemaGenerationError, TypeAdapter
from pydantic import ValidationError as PydanticValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import to_json
from typing_extensions import Self

from ...protocol.jsonrpc import Json, is_array
from ...protocol.objects import Incomplete
from ..mcp_fastmcp import mcp_components
from ..shared_models_and_settings import is_kind, to_json_object
from ..types import Url
from .fastmcp_components import (
    COMMON_OPTIONS,
    Component,
    FastMCPError,
    PromptError,
    Replacement,
    SchemaChange,
)
from .function_calls import Function

# Resources

_RESOURCE_OPTIONS = frozenset({"mime_type", "annotations"})
_NAMES = re.compile(r"{([\w-]+)\*?}")
_QUERY = re.compile(r"{\?([^}]+)}")
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_URL: TypeAdapter[AnyUrl] = TypeAdapter(Url)


class ResourceContent(Replacement):
    """A part of the content of a resource: text or bytes; other values become JSON."""

    def __init__(self, content: Incomplete, mime_type: str | None = None, meta: Json | None = None) -> None:
        default = "text/plain" if isinstance(content, str) else "application/octet-stream"
        if not isinstance(content, str | bytes):
            content, default = to_json(content, fallback=str).decode(), "application/json"
        self.content: str | bytes = content
        self.mime_type, self.meta = mime_type or default, meta

    def to_json(self, uri: str) -> Json:
        """Return the part in the form of `resources/read`."""
        data: Json = {"text": self.content}
        if isinstance(self.content, bytes):
            data = {"blob": b64encode(self.content).decode()}
        return {"uri": uri, **data, "mimeType": self.mime_type, **({"_meta": self.meta} if self.meta else {})}


class ResourceResult(Replacement):
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

    def to_result(self, uri: str) -> Json:
        """Return the result of `resources/read`."""
        return {
            "contents": [each.to_json(uri) for each in self],
            **({"_meta": self.meta} if self.meta else {}),
        }


class _Readable(Component):
    """Base class of resources and templates."""

    more = _RESOURCE_OPTIONS
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


def _mime_type(uri: str, mime_type: str | None) -> str:
    return mime_type or ("text/html;profile=mcp-app" if uri.lower().startswith("ui://") else "text/plain")


class Resource(_Readable):
    """A resource with a function, or one of the resources of `mcp.server.fastmcp`."""

    kind = "resource"

    def __init__(
        self, uri: str, source: Callable[..., Incomplete] | mcp_components.Resource, **options: Incomplete
    ) -> None:
        self.uri = str(_URL.validate_python(str(uri)))
        self.source = source
        if isinstance(source, mcp_components.Resource):
            self.function = None
            names = (*COMMON_OPTIONS & type(source).model_fields.keys(), *_RESOURCE_OPTIONS)
            options = {**{each: getattr(source, each) for each in names}, **options}
            super().__init__(self.uri, None, options)
        else:
            self.function = Function(source, "resources", allows_any=True)
            if self.function.parameters:
                raise ValueError("URI template must contain at least one parameter")
            super().__init__(self.function.name, self.function.documented, options)
        self.mime_type: str = _mime_type(self.uri, options.get("mime_type"))

    @property
    def key(self) -> str:
        """The URI."""
        return self.uri

    def listed(self, change: SchemaChange | None = None) -> Json:
        """Return the list entry."""
        return super().entry(uri=self.uri, mimeType=self.mime_type)

    def within(self, namespace: str) -> Self:
        """Return a copy with a namespace in the URI."""
        copied = copy(self)
        copied.uri = self.uri.replace("://", f"://{namespace}/", 1)
        return copied

    async def read(self) -> ResourceResult:
        """Return the content."""
        if isinstance(self.source, mcp_components.Resource):
            return self.result_of(await self.source.read())
        assert self.function is not None
        value = await self.function.call({})
        return self.result_of(await value.read() if isinstance(value, mcp_components.Resource) else value)


class ResourceTemplate(_Readable):
    """Resources with parameters in their URIs, which a function takes."""

    kind = "resource"

    def __init__(self, uri_template: str, fn: Callable[..., Incomplete], **options: Incomplete) -> None:
        self.uri_template = uri_template
        self.function: Function = Function(fn, "resource templates", allows_any=True)
        super().__init__(self.function.name, self.function.documented, options)
        self.mime_type: str = _mime_type(uri_template, options.get("mime_type"))
        self.parameters = self.function.schema()
        self._queried = [name for block in _QUERY.findall(uri_template) for name in block.split(",")]
        in_path = {_parameter(name) for name in _NAMES.findall(uri_template)}
        _check_parameters(self.function, in_path, {_parameter(name) for name in self._queried})

    @property
    def key(self) -> str:
        """The URI template."""
        return self.uri_template

    def listed(self, change: SchemaChange | None = None) -> Json:
        """Return the list entry."""
        return super().entry(uriTemplate=self.uri_template, mimeType=self.mime_type)

    def within(self, namespace: str) -> Self:
        """Return a copy with a namespace in the URI template."""
        copied = copy(self)
        copied.uri_template = self.uri_template.replace("://", f"://{namespace}/", 1)
        vars(copied).pop("_pattern", None)
        return copied

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
        query_values = parse_qs(query, keep_blank_values=True)
        for name in self._queried:
            if values := query_values.get(name.rstrip("*")):
                hint = str(self.function.hints.get(_parameter(name)))
                is_list = hint.startswith(("list", "typing.List"))
                value: object = values[0].split(",") if is_list else values[0]
                params.setdefault(_parameter(name), values if name.endswith("*") else value)
        return params

    def _convert(self, name: str, value: Incomplete) -> Incomplete:
        hint = self.function.hints.get(name)
        if hint is bool and str(value).lower() not in _FLAGS:
            raise ValueError(f"Invalid boolean value for {name}: {value!r}")
        return _FLAGS[str(value).lower()] if hint is bool else hint(value) if hint in (int, float) else value

    async def read(self, arguments: Json) -> ResourceResult:
        """Return the content of the resource with these parameters."""
        converted = {name: self._convert(name, each) for name, each in arguments.items()}
        return self.result_of(await self.function.call(self.function.validated(converted)))


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


def _check_parameters(function: Function, in_path: set[str], in_query: set[str]) -> None:
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


def is_outside_path(value: object) -> bool:
    """Return True if a parameter is a path outside of its starting folder, or contains a NUL."""
    for each in value if is_array(value) else [value]:
        if isinstance(each, str):
            depth = 0
            for part in each.replace("\\", "/").split("/"):
                depth += -1 if part == ".." else part not in ("", ".")
                if depth < 0:
                    return True
            if "\0" in each or re.match(r"[/\\]|[A-Za-z]:", each):
                return True
    return False


# Prompts


class Message(Replacement):
    """A message of a prompt: a text, a content block, or any other value as JSON."""

    def __init__(self, content: Incomplete, role: str = "user") -> None:
        self.role = role
        if not isinstance(content, BaseModel) or not hasattr(content, "type"):
            text = content if isinstance(content, str) else to_json(content, fallback=str).decode()
            self.content: Json = {"type": "text", "text": text}
        else:
            self.content = to_json_object(content)

    def to_json(self) -> Json:
        """Return the message in the form of `prompts/get`."""
        return {"role": self.role, "content": self.content}


class PromptResult(Replacement):
    """All messages of a prompt."""

    def __init__(
        self, messages: str | list[Incomplete], description: str | None = None, meta: Json | None = None
    ) -> None:
        values: list[Incomplete] = [messages] if isinstance(messages, str) else messages
        self.messages = [_message(at, each) for at, each in enumerate(values)]
        self.description, self.meta = description, meta

    def to_result(self) -> Json:
        """Return the result of `prompts/get`."""
        result: Json = {"messages": [each.to_json() for each in self.messages]}
        if self.description is not None:
            result["description"] = self.description
        return {**result, "_meta": self.meta} if self.meta else result


def _message(at: int, value: Incomplete) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        return Message(value)
    if isinstance(value, BaseModel) and is_kind(type(value), "PromptMessage", "Message"):
        return Message(value.content, value.role)  # type: ignore[attr-defined]  # of any package
    raise TypeError(
        f"messages[{at}] must be Message or str, got {type(value).__name__}. Use Message({value!r}) to wrap the value."
    )


class Prompt(Component):
    """A function that returns messages for a model."""

    kind = "prompt"

    def __init__(self, fn: Callable[..., Incomplete], **options: Incomplete) -> None:
        self.fn = fn
        self.function = Function(fn, "prompts")
        super().__init__(self.function.name, self.function.description, options)
        schema = self.function.schema()
        required = schema.get("required", [])
        self.arguments = [
            {
                "name": name,
                "description": self._description(name, each.get("description")),
                "required": name in required,
            }
            for name, each in schema.get("properties", {}).items()
        ]

    @classmethod
    def from_function(cls, fn: Callable[..., Incomplete], **options: Incomplete) -> Self:
        """Create a prompt from a function."""
        return cls(fn, **options)

    def _description(self, name: str, description: str | None) -> str | None:
        """Return the description of an argument; for one that is not a string, with its JSON Schema."""
        hint = self.function.hints[name]
        if hint in (str, inspect.Parameter.empty):
            return description
        try:
            schema = json.dumps(TypeAdapter(hint).json_schema(), separators=(",", ":"))
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
            return description
        note = (
            f"Provide a value matching the following JSON schema: {schema}. Encode non-string values as JSON."
        )
        return f"{description}\n\n{note}" if description else note

    def listed(self, change: SchemaChange | None = None) -> Json:
        """Return the list entry."""
        arguments = [
            {name: value for name, value in each.items() if value is not None} for each in self.arguments
        ]
        return super().entry(arguments=arguments)

    async def render(self, arguments: Json | None = None) -> PromptResult:
        """Return the messages. Raises PromptError if that fails; ValueError if an argument is missing."""
        arguments = arguments or {}
        if missing := {each["name"] for each in self.arguments if each["required"]} - arguments.keys():
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            values = {
                name: self._convert(name, arguments[name])
                for name in self.function.hints
                if name in arguments
            }
            found: Incomplete = await self.function.call(self.function.validated(values))
            if isinstance(found, PromptResult):
                return found
            if not isinstance(found, str | list | tuple):
                kind = type(found).__name__
                raise TypeError(f"Prompt must return str, list[Message], or PromptResult, got {kind}")
            messages: list[Incomplete] = [found] if isinstance(found, str) else [*found]
            return PromptResult(messages, self.description, self.meta)
        except FastMCPError:
            raise
        except Exception as error:
            raise PromptError(f"Error rendering prompt {self.name!r}: {error}") from error

    def _convert(self, name: str, value: Incomplete) -> Incomplete:
        """Return an argument with the type of its parameter: parsed JSON, unless the text itself is valid."""
        hint = self.function.hints[name]
        if hint is inspect.Parameter.empty or hint is str or not isinstance(value, str):
            return value
        adapter: TypeAdapter[Incomplete] = TypeAdapter(hint)
        try:
            try:
                found = adapter.validate_python(value)
            except PydanticValidationError:
                return adapter.validate_json(value)
            if isinstance(found, str):
                return found
            try:
                return adapter.validate_json(value)
            except PydanticValidationError:
                return found
        except PydanticValidationError as error:
            raise PromptError(
                f"Could not convert argument '{name}' with value '{value}' to expected type {hint}. Error: {error}"
            ) from error
