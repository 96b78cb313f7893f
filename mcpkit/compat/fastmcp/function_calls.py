"""Functions of authors: dependencies, the schemas of arguments and results, and calls with JSON."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from contextvars import ContextVar
from functools import partial
from types import SimpleNamespace, UnionType
from typing import TYPE_CHECKING, Annotated, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, PydanticSchemaGenerationError, TypeAdapter, create_model
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema, to_json

from ...protocol.jsonrpc import Json, is_object, without
from ...protocol.objects import Incomplete
from ...requests.request_record import call_of
from ...schema import docstrings
from ...schema.json_schema import nodes, replaced
from ..lowlevel.lowlevel_session import http_request
from ..shared_models_and_settings import BLOCKS, get_access_token, is_context, is_kind
from .fastmcp_components import FastMCPError

if TYPE_CHECKING:
    from starlette.requests import Request

# Dependencies: parameters of type `Context` or with `Depends`, and functions for the current request

_NOT_FORWARDED = """
host content-length content-type connection transfer-encoding upgrade te keep-alive expect accept authorization cookie
proxy-authenticate proxy-authorization proxy-connection mcp-session-id
"""
"""Headers of a request to the server that a request to another server should not have."""

current: ContextVar[Incomplete] = ContextVar("fastmcp_context")
"""The context of the current request."""


class Dependency:
    """The default of a parameter that gets the return value of a function, or the object of a context manager."""

    def __init__(self, function: Callable[..., Incomplete]) -> None:
        self.function = function

    async def open(self, stack: AsyncExitStack, opened: dict[object, object]) -> Incomplete:
        """Return the value of the dependency, computed once for each request. The stack closes context managers."""
        if self.function not in opened:
            arguments = {
                name: await each.default.open(stack, opened)
                for name, each in inspect.signature(self.function).parameters.items()
                if isinstance(each.default, Dependency)
            }
            value: Incomplete = self.function(**arguments)
            if inspect.isawaitable(value):
                value = await value
            if hasattr(value, "__aenter__"):
                value = await stack.enter_async_context(value)
            elif hasattr(value, "__enter__"):
                value = stack.enter_context(value)
            opened[self.function] = value
        return opened[self.function]


def Depends(dependency: Callable[..., Incomplete], *, use_cache: bool = True) -> Incomplete:  # noqa: N802 - as fastmcp has it
    """Declare a parameter that gets the return value of a function, or the object of a context manager."""
    return Dependency(dependency)


def get_context() -> Incomplete:
    """Return the context of the current request.

    Raises:
        RuntimeError: No request is being served.
    """
    if (context := current.get(None)) is None:
        raise RuntimeError("No active context found.")
    return context


def get_server() -> Incomplete:
    """Return the server of the current request."""
    return get_context().fastmcp


def get_http_request() -> Request:
    """Return the current HTTP request.

    Raises:
        RuntimeError: There is none.
    """
    request: Incomplete = http_request.get()
    if request is None:
        raise RuntimeError("No active HTTP request found.")
    return request  # type: ignore[no-any-return]  # the transport sets a Request


def get_http_headers(include_all: bool = False, include: set[str] | None = None) -> dict[str, str]:
    """Return the headers of the current HTTP request that may be forwarded; an empty dict without a request."""
    request: Incomplete = http_request.get()
    excluded: set[str] = (
        set() if include_all else {*_NOT_FORWARDED.split()} - {each.lower() for each in include or ()}
    )
    headers = {} if request is None else dict(request.headers)
    return {name: each for name, each in headers.items() if name not in excluded}


CurrentContext: Callable[[], Incomplete] = partial(Dependency, get_context)
CurrentFastMCP: Callable[[], Incomplete] = partial(Dependency, get_server)
CurrentRequest: Callable[[], Incomplete] = partial(Dependency, get_http_request)
CurrentHeaders: Callable[[], Incomplete] = partial(Dependency, get_http_headers)
CurrentAccessToken: Callable[[], Incomplete] = partial(Dependency, get_access_token)


# Docstrings: the text before the first section, and descriptions of parameters

_SECTION = re.compile(r"(\w[\w\s-]*):(?:\s+\S.*)?\s*")
_PARAMETER_SECTIONS = ("args", "arguments", "params", "parameters")
_UNDERLINED = re.compile(r"^.+\n-+ *$|^:(?:param|type|returns?|rtype|raises?)\b", re.MULTILINE)


def read_docstring(text: str | None) -> tuple[str | None, dict[str, str]]:
    """Return the description in a cleaned docstring, and the description of each parameter."""
    if not text:
        return None, {}
    lines, at, has_sections = text.splitlines(), 0, False
    outside: list[str] = []  # lines outside of sections; a section is a NUL
    parameters: dict[str, str] = {}
    is_fenced = False
    while at < len(lines):
        line, end = lines[at], at + 1
        is_fenced ^= line.lstrip().startswith("```")
        title = None if is_fenced else _SECTION.fullmatch(line)
        if title and lines[end : end + 1] and _is_indented(lines[end]) and not (at and lines[at - 1].strip()):
            while end < len(lines) and (_is_indented(lines[end]) or not lines[end].strip()):
                end += 1
            if title[1].lower() in _PARAMETER_SECTIONS:
                found = dict(_parameters_in(lines[at + 1 : end]))
                parameters.update(found)
                has_sections |= bool(found)
            else:
                has_sections = True
            outside.append("\0")
        else:
            outside.append(line)
        at = end
    if has_sections:
        before = "\n".join(outside).split("\0")
        return next((each.strip("\n") for each in before if each.strip()), None), parameters
    header = _UNDERLINED.search(text)
    if header is None:
        return text, {}
    return text[: header.start()].strip() or None, docstrings.read(text).arguments


def _is_indented(line: str) -> bool:
    return line.startswith(" ") and bool(line.strip())


def _parameters_in(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield name and description of each parameter in a section; deeper lines continue the previous one."""
    indent = len(lines[0]) - len(lines[0].lstrip())
    starts = [at for at, line in enumerate(lines) if line[: indent + 1].strip() and not line[:indent].strip()]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        name, colon, rest = lines[start][indent:].partition(":")
        if colon:
            more = [
                line[2 * indent :] if not line[: 2 * indent].strip() else line.strip()
                for line in lines[start + 1 : end]
            ]
            name = name.split("(", 1)[0].strip() if name.endswith(")") else name
            yield name, "\n".join([rest.lstrip(), *more]).rstrip("\n")


# JSON Schemas: without titles, and with inlined definitions

_ANY = "typing.Any"
WRAPS_RESULT = "x-fastmcp-wrap-result"
_NOT_DATA = (*BLOCKS, "Image", "Audio", "File", "ToolResult", "CallToolResult")
_DEFINITIONS = "#/$defs/"
_SCHEMA_KEYWORDS = {"type", "properties", "$ref", "items", "allOf", "oneOf", "anyOf", "required"}
_TEXT_KEYWORDS = {"title", "description", "deprecated", "readOnly", "writeOnly"}


def untitled(schema: Incomplete) -> Incomplete:
    """Return a schema without the titles that pydantic derives from names."""
    if not is_object(schema):
        return schema
    is_title = isinstance(schema.get("title"), str) and (
        not _SCHEMA_KEYWORDS.isdisjoint(schema) or schema.keys() <= _TEXT_KEYWORDS
    )
    return replaced(without(schema, "title") if is_title else schema, lambda _, inner: untitled(inner))


def rooted(schema: Json) -> Json:
    """Return a schema with a type at its root instead of a reference."""
    name = schema.get("$ref", "").removeprefix(_DEFINITIONS)
    if "type" in schema or name not in schema.get("$defs", {}):
        return schema
    return {**schema["$defs"][name], **{key: value for key, value in schema.items() if key != "$ref"}}


def inlined(schema: Json) -> Json:
    """Return a schema without references, unless a definition contains itself."""
    defined = schema.get("$defs", {})
    if not defined or any(
        each.get("$ref") == _DEFINITIONS + name for name in defined for each in nodes(defined[name], schema)
    ):
        return schema

    def expand(value: Incomplete) -> Incomplete:
        if not is_object(value):
            return value
        rest = replaced(without(value, "$ref", "$defs"), lambda _, inner: expand(inner))
        if isinstance(reference := value.get("$ref"), str):
            return {**expand(defined[reference.removeprefix(_DEFINITIONS)]), **rest}
        return _tagged(rest, kind) if is_object(kind := rest.get("discriminator")) else rest

    found: Json = expand(schema)
    return found


def _tagged(union: Json, discriminator: Json) -> Json:
    """Return a union with members that require the tag, without the `discriminator` of OpenAPI."""
    union = {name: each for name, each in union.items() if name != "discriminator"}
    for key in {"anyOf", "oneOf"} & union.keys():
        tagged = {discriminator["propertyName"]: None}
        union[key] = [
            {**each, "required": [*dict.fromkeys(each.get("required", ())) | tagged]} for each in union[key]
        ]
    return union


class _SerializationNames(GenerateJsonSchema):
    """Schema generator that names the members of each model as in its serialization."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        before, self.by_alias = self.by_alias, bool(schema["cls"].model_config.get("serialize_by_alias"))
        try:
            return super().model_schema(schema)
        finally:
            self.by_alias = before


def result_schema(annotation: Incomplete) -> Json | None:
    """Return the output schema for a return annotation; None if it is not data, or has no information."""
    if _is_uninformative(annotation) or _is_not_data(annotation):
        return None
    try:
        schema = _serialized(annotation)
        if not _is_object(schema, schema):
            model: type[BaseModel] = create_model("Wrapped", result=(annotation, ...))
            schema = {**_serialized(model), WRAPS_RESULT: True}
    except PydanticSchemaGenerationError:
        return None
    found: Json = untitled(rooted(schema))
    return found or None


def _serialized(of: Incomplete) -> Json:
    return TypeAdapter(of).json_schema(
        mode="serialization", by_alias=False, schema_generator=_SerializationNames
    )


def _is_object(schema: Json, root: Json) -> bool:
    name = str(schema.get("$ref")).removeprefix(_DEFINITIONS)
    if name in root.get("$defs", {}) and _is_object(root["$defs"][name], root):
        return True
    return schema.get("type") == "object" or "properties" in schema


def _members(annotation: object) -> tuple[object, ...]:
    if get_origin(annotation) is Annotated:
        return _members(get_args(annotation)[0])
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def is_open(annotation: object) -> bool:
    """Return True if an annotation accepts any value."""
    return annotation is None or annotation is ... or repr(annotation) == _ANY


def _is_uninformative(annotation: Incomplete) -> bool:
    of: Incomplete
    of, *others = _members(annotation)
    if is_open(annotation) or (of in (list, tuple, Sequence) and not others):
        return True
    origin: Incomplete = get_origin(of)
    if others or origin not in (list, tuple, Sequence):
        return False
    return [*map(repr, get_args(of))] == ([_ANY, repr(...)] if origin is tuple else [_ANY])


def _is_not_data(annotation: object) -> bool:
    def contains(each: object) -> bool:
        """Return True if a type, or an argument of it, has no form as data."""
        return (isinstance(each, type) and is_kind(each, *_NOT_DATA)) or any(map(contains, get_args(each)))

    return bytes in _members(annotation) or contains(annotation)


# Functions

_title_of = GenerateJsonSchema().get_title_from_name


class Function:
    """A function that is called with JSON arguments.

    Args:
        function: A function, a method, a partial, or a callable object.
        kind: Kind of component, for messages.
        allows_any: Whether it may have `**` parameters.

    Raises:
        ValueError: It has parameters that cannot be passed by name.
    """

    def __init__(self, function: Incomplete, kind: str, *, allows_any: bool = False) -> None:
        target: Incomplete = function
        while _is_partial(target):
            target = target.func
        own_name: str | None = getattr(function, "__name__", None)
        self.name: str = own_name or str(getattr(target, "__name__", type(target).__name__))
        is_partial = _is_partial(function)
        described = function if is_partial and "__doc__" in vars(function) else target
        if type(function).__name__ == "staticmethod":
            function = function.__func__
        is_routine: bool = inspect.isroutine(function)
        if not is_routine and not is_partial:
            function = target = function.__call__
        self.function = function
        signature = inspect.signature(function)
        _check_parameters(signature, kind, allows_any)
        try:
            hints = _hints(target)
        except Exception:  # noqa: BLE001 - missing names: pydantic raises an error that names them
            hints = getattr(target, "__annotations__", {})
        self.result = signature.return_annotation
        if isinstance(self.result, str):
            self.result = hints.get("return", self.result)
        self.injected = {
            name: each.default
            if isinstance(each.default, Dependency)
            else Dependency(get_context if each.default is not None else lambda: current.get(None))
            for name, each in signature.parameters.items()
            if isinstance(each.default, Dependency) or is_context(hints.get(name))
        }
        self.parameters = [each for name, each in signature.parameters.items() if name not in self.injected]
        self.hints = {
            each.name: _with_description(hints.get(each.name, each.annotation)) for each in self.parameters
        }
        self.is_async = inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target)
        returns_arguments: Incomplete = self._returns_arguments()
        self._adapter: TypeAdapter[Json] = TypeAdapter(returns_arguments)
        self.documented = inspect.getdoc(described)
        self.description, _ = read_docstring(self.documented)
        inner = read_docstring(inspect.getdoc(target))
        self.description = self.description or inner[0]
        self._descriptions = inner[1]

    def _returns_arguments(self) -> Callable[..., Json]:
        """Return a function with the same parameters that returns its arguments."""

        def function(**arguments: Incomplete) -> Json:
            return arguments

        function.__signature__ = inspect.Signature(self.parameters)  # type: ignore[attr-defined]  # as `inspect` reads it
        function.__annotations__ = {
            name: each for name, each in self.hints.items() if each is not inspect.Parameter.empty
        }
        function.__name__ = function.__qualname__ = self.name
        return function

    def schema(self) -> Json:
        """Return the schema of the arguments, with descriptions from the docstring."""
        raw = self._adapter.json_schema()
        schema: Json = untitled(rooted(raw))
        for name, each in schema.get("properties", {}).items():
            title = raw["properties"][name].get("title")
            if title is not None and title != _title_of(name):
                each["title"] = title
            if "description" not in each and name in self._descriptions:
                each["description"] = self._descriptions[name]
        return schema

    def validated(self, arguments: Json, *, strict: Literal[True] | None = None) -> Json:
        """Return the arguments, converted to the types of the parameters. Raises pydantic's ValidationError."""
        if strict:
            return self._adapter.validate_json(to_json(arguments), strict=True)
        return self._adapter.validate_python(arguments)

    async def call(self, arguments: Json, *, in_thread: bool = True) -> Incomplete:
        """Call the function with validated arguments; in a thread if it is not `async`."""
        if not self.injected:
            return await self._call(arguments, in_thread)
        opened: dict[object, object] = {}
        async with AsyncExitStack() as stack:
            for name, each in self.injected.items():
                try:
                    arguments = {**arguments, name: await each.open(stack, opened)}
                except FastMCPError:
                    raise
                except Exception as error:
                    raise RuntimeError(f"Failed to resolve dependency {name!r} for {self.name}") from error
            return await self._call(arguments, in_thread)

    async def _call(self, arguments: Json, in_thread: bool) -> Incomplete:
        context = current.get(None)
        native = None if context is None else context.native
        if self.is_async or not in_thread or native is None:
            found = self._call_now(arguments)
        else:
            call = call_of(native)
            found = await call.runtime.threads.run(self._call_now, {"arguments": arguments}, call)
        if inspect.isawaitable(found):
            found = await found
        return [each async for each in found] if inspect.isasyncgen(found) else found

    def _call_now(self, arguments: Json) -> Incomplete:
        found: Incomplete = self.function(**arguments)
        is_many: bool = inspect.isgenerator(found)
        return list(found) if is_many else found


def _hints(function: Incomplete) -> Json:
    """Return type hints as written: in Python 3.10, a default of None would make them optional."""
    home = getattr(inspect.unwrap(function), "__globals__", {})
    written = SimpleNamespace(__annotations__=function.__annotations__, __globals__=home)
    return get_type_hints(written, include_extras=True)


def _is_partial(of: object) -> bool:
    return isinstance(of, partial)


def _check_parameters(signature: inspect.Signature, kind: str, allows_any: bool) -> None:
    for each in signature.parameters.values():
        if each.kind is each.POSITIONAL_ONLY:
            raise ValueError(
                f"Functions with positional-only parameters are not supported as {kind}. Remove the `/`"
            )
        if each.kind is each.VAR_POSITIONAL:
            raise ValueError(f"Functions with *args are not supported as {kind}")
        if each.kind is each.VAR_KEYWORD and not allows_any:
            raise ValueError(f"Functions with **kwargs are not supported as {kind}")


def _with_description(hint: object) -> Incomplete:
    """Return a type with a single text as metadata as one with this description."""
    of = get_args(hint)
    if get_origin(hint) is Annotated and len(of) == 2 and isinstance(of[1], str):
        return Annotated[of[0], Field(description=of[1])]
    return hint
