"""Tools of a server: as Python callables, and the definitions that a client keeps for calls."""

from __future__ import annotations

import asyncio
import keyword
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final

from .._utils.exceptions import ArgumentsError, ProtocolError, RegistrationError, ToolError, TransportError
from ..protocol.jsonrpc import Json, encode, is_array, is_object
from ..protocol.objects import KEYWORD, MirroredParameter
from .call_results import CallResult, InvalidResultError
from .client_messages import NO_HEADERS

if TYPE_CHECKING:
    from .server_schemas_and_typed_results import ServerSchema

logger = logging.getLogger(__name__)

_TYPES: Final[dict[object, Any]] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": None,
}

_MOST_BRANCHES: Final = 10
"""The most types in a union hint; a larger union is shown as `Any`."""

_MOST_UNKNOWN: Final = 1_000
"""The most names remembered as unknown to the server."""


class RemoteTool:
    """A tool of a server as a callable. `Client.tools` returns them.

        forecast = (await client.tools())["forecast"]
        day = await forecast(city="Oslo")

    Its signature and docstring, which editors and notebooks show, are made from the server's definition of the tool.

    Args:
        call: Calls a tool by name with its arguments, such as `Client.call_tool`.
        definition: The tool, as the server lists it.

    Attributes:
        name: The name of the tool.
        title: The name for display; `name` if the server sends no title.
        description: The description for models; empty if the server sends none.
        schema: The JSON Schema of its arguments (`inputSchema`).
        output_schema: The JSON Schema of its structured content, or None.
        annotations: Hints about its behaviour, such as `readOnlyHint`. Do not trust those of an untrusted server.
        definition: The tool, as the server lists it.
    """

    def __init__(
        self, call: Callable[[str, Json], Awaitable[CallResult]], definition: Mapping[str, object]
    ) -> None:
        annotations = definition.get("annotations")
        self.annotations: Json = annotations if is_object(annotations) else {}
        self.name = str(definition.get("name"))
        self.title = str(definition.get("title") or self.annotations.get("title") or self.name)
        self.description = str(definition.get("description") or "")
        schema, output = definition.get("inputSchema"), definition.get("outputSchema")
        self.schema: Json = schema if is_object(schema) else {"type": "object"}
        self.output_schema: Json | None = output if is_object(output) else None
        self.definition = definition
        self._call = call
        lines = [f"    {name}: {_described(inner)}" for name, inner in _properties(self.schema).items()]
        self.__doc__ = "\n".join([self.description or self.title, *(["", "Args:", *lines] if lines else [])])
        self.__signature__ = _signature(self.schema)

    async def __call__(self, /, **arguments: Any) -> Any:
        """Call the tool and return its value.

        Args:
            arguments: The arguments, JSON values by name.

        Returns:
            The structured content; otherwise the text; otherwise the content blocks, if some are not text. A result
            that the server has wrapped in `{"result": ...}` is unwrapped. Use `Client.call_tool` for the whole result.

        Raises:
            ToolError: The tool failed.
            InvalidResultError: The result does not fit `output_schema`.
            ProtocolError: The server responded with an error.
            TimeoutError: A time limit has passed. The client has cancelled the request.
            OutcomeUnknownError: The server may or may not have run the tool.
            ConnectionError: The server cannot be reached, or the connection was lost before the response.
        """
        result = await self._call(self.name, arguments)
        if result.is_error:
            raise ToolError(result.error_text)
        return self._value(result)

    def _value(self, result: CallResult) -> Any:
        if "structuredContent" in result.raw and (
            result.structured_content is not None or self.output_schema or result.is_structured_only
        ):
            structured = result.structured_content
            if is_object(structured) and structured.keys() == {"result"} and self._wraps():
                return structured["result"]
            return structured
        if all(block.get("type") == "text" for block in result.content):
            return result.text if result.content else None
        return result.content

    def _wraps(self) -> bool:
        """Return whether the tool's values are not objects, so that the server wraps them."""
        schema = self.output_schema or {}
        properties: object = schema.get("properties")
        return (
            is_object(properties) and list(properties) == ["result"] and schema.get("required") == ["result"]
        )

    def __repr__(self) -> str:
        """Return a representation with the signature."""
        return f"<tool {self.name}{self.__signature__}>"


class _Omitted:
    """Placeholder for the default of an optional argument."""

    def __repr__(self) -> str:
        return "..."


_OMITTED: Final = _Omitted()


def _properties(schema: Json) -> Json:
    found: object = schema.get("properties")
    return found if is_object(found) else {}


def _signature(schema: Json) -> Signature:
    """Return the signature of a tool. The default `...` stands for optional arguments without a default."""
    properties = _properties(schema)
    required: object = schema.get("required")
    needed = required if is_array(required) else []
    named: list[Parameter] = []
    for name, inner in properties.items():
        if not name.isidentifier() or keyword.iskeyword(name):
            continue
        default: Any = _OMITTED
        if name in needed:
            default = Parameter.empty
        elif is_object(inner) and "default" in inner:
            default = inner["default"]
        named.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=_hint(inner)))
    if len(named) < len(properties) or schema.get("additionalProperties") is not False:
        rest = "arguments"
        while rest in properties:
            rest += "_"
        named.append(Parameter(rest, Parameter.VAR_KEYWORD))
    return Signature(named)


def _described(schema: object) -> str:
    text = schema.get("description") or schema.get("title") if is_object(schema) else None
    return " ".join(str(text or "").split()) or str(getattr(_hint(schema), "__name__", _hint(schema)))


def _hint(schema: object) -> Any:
    """Return the type hint of an argument; `Any` if there is no simple Python type."""
    if not is_object(schema):
        return Any
    kinds: object = schema.get("type")
    branches: object = schema.get("anyOf") or schema.get("oneOf") or kinds
    if is_array(branches):
        each_hint = (_hint(each if is_object(each) else {"type": each}) for each in branches[:_MOST_BRANCHES])
        hints = list(dict.fromkeys(each_hint))
        if Any in hints or not hints or len(branches) > _MOST_BRANCHES:
            return Any
        first, *others = hints
        for hint in others:
            first = first | hint
        return first
    return _TYPES.get(kinds, Any) if isinstance(kinds, str) else Any


# Arguments repeated in headers, since 2026-07-28
# (basic/transports/streamable-http, "Custom Headers from Tool Parameters")

_KEYWORD: Final = KEYWORD.encode()
_LARGEST: Final = 2**53 - 1
"""Larger integers are not exact in JavaScript, so the specification leaves them out of headers."""


def header_parameters(tool: Json) -> tuple[MirroredParameter, ...] | RegistrationError:
    """Return the arguments of a tool that are repeated in headers, or the error of an invalid tool.

    Args:
        tool: The tool, as the server lists it.
    """
    schema: object = tool.get("inputSchema")
    if not is_object(schema) or _KEYWORD not in encode(schema):
        return ()
    from ..schema.argument_validation_and_repair import mirrored  # imports all of `schema/`

    try:
        return mirrored(f"tool {tool.get('name')!r:.100}", schema)
    except RegistrationError as error:
        return error


def argument_headers(parameters: Sequence[MirroredParameter], arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that repeat the arguments of a call, without those that are null or absent.

    Args:
        parameters: The arguments that the tool requires in headers.
        arguments: The arguments.

    Raises:
        ValueError: An integer is too large for a header.
    """
    headers: dict[str, str] = {}
    for each in parameters:
        header = each.header.decode()
        value: Any = dict(arguments)
        for key in each.path:
            value = value.get(key) if is_object(value) else None
        if isinstance(value, bool):
            headers[header] = "true" if value else "false"
        elif isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
            if abs(value) > _LARGEST:
                raise ValueError(
                    f"the argument {'.'.join(each.path)} is also sent in a header, which only allows "
                    f"integers from -(2**53 - 1) to 2**53 - 1, got {value}"
                )
            headers[header] = str(int(value))
        elif isinstance(value, str):
            headers[header] = value
    return headers


# Definitions for calls


class _ToolDefinition:
    """The definition of one tool.

    Args:
        definition: The tool, as the server lists it.
        mirrored: The arguments that are repeated in headers.

    Attributes:
        mirrored: The arguments that are repeated in headers.
    """

    def __init__(self, definition: Json, mirrored: tuple[MirroredParameter, ...] = ()) -> None:
        self.mirrored = mirrored
        self._definition = definition

    @property
    def is_harmless(self) -> bool:
        """Whether the tool's annotations allow sending a call twice."""
        hints = self._definition.get("annotations")
        return is_object(hints) and True in (hints.get("readOnlyHint"), hints.get("idempotentHint"))

    @cached_property
    def output_schema(self) -> ServerSchema | ValueError | None:
        """The schema of its results; the error if it is invalid; None without `outputSchema`."""
        if self._definition.get("outputSchema") is None:
            return None
        from .server_schemas_and_typed_results import output_schema_of  # imports all of `schema/`

        return output_schema_of(self._definition)


_UNKNOWN: Final = _ToolDefinition({})


class ListedTools:
    """The tools that a server listed last. An unknown tool is looked up once.

    Args:
        list_tools: Lists the tools, and passes them to `store`; a cached list only with `use_cache`.
    """

    def __init__(self, list_tools: Callable[..., Awaitable[list[Any]]]) -> None:
        self._list_tools = list_tools
        self._tools: dict[str, _ToolDefinition] = {}
        self._unlisted: set[str] = set()
        self._warned: set[str] = set()
        self._listing = asyncio.Lock()

    def store(self, tools: list[Any], *, by_http: bool) -> list[Any]:
        """Store the listed tools, and return them without invalid ones.

        Args:
            tools: All tools.
            by_http: Whether arguments are repeated in headers. Tools with invalid rules for that are then left out.
        """
        if not by_http:
            self._tools = {str(tool.get("name")): _ToolDefinition(tool) for tool in tools}
            return tools
        valid: list[Json] = []
        listed: dict[str, _ToolDefinition] = {}
        for tool in tools:
            name, mirrored = str(tool.get("name")), header_parameters(tool)
            if isinstance(mirrored, RegistrationError):
                self._warn(name, f"the client leaves it out of the list: {mirrored}")
            else:
                valid.append(tool)
                listed[name] = _ToolDefinition(tool, mirrored)
        self._tools = listed
        return valid

    def on_notification(self, method: str, params: Json | None) -> None:
        """Drop all tools when the server notifies that they have changed."""
        if method == "notifications/tools/list_changed":
            self.clear()

    def clear(self) -> None:
        """Drop all tools, as another server may respond now."""
        self._tools = {}
        self._unlisted.clear()
        self._listing = asyncio.Lock()

    def is_harmless(self, name: str) -> bool:
        """Return whether the listed annotations of a tool allow sending a call twice."""
        return name in self._tools and self._tools[name].is_harmless

    async def headers(
        self, name: str, arguments: Mapping[str, Any], *, fresh: bool = False
    ) -> Mapping[str, str]:
        """Return the headers that repeat the arguments of a call.

        Args:
            name: The name of the tool.
            arguments: The arguments.
            fresh: Whether to list the tools again.

        Raises:
            ValueError: An integer is too large for a header.
            ConnectionError: The tools cannot be listed.
            TimeoutError: Listing the tools takes too long.
        """
        try:
            repeated = (await self._find(name, fresh=fresh)).mirrored
        except TransportError as error:
            error.may_have_begun = False  # the server has not begun with the call
            raise
        if not repeated:
            return NO_HEADERS
        return argument_headers(repeated, arguments)

    def may_have_output_schema(self, name: str, result: CallResult) -> bool:
        """Return whether a tool may have an `outputSchema` for a result."""
        return result.type == "complete" and (name in self._tools or "structuredContent" in result.raw)

    async def check(self, name: str, result: CallResult) -> None:
        """Validate a result against the `outputSchema` of its tool.

        Raises:
            InvalidResultError: The result does not fit; the message names the place.
        """
        tool = self._tools.get(name)
        if tool is None:
            tool = await self._find_after_call(name)
        if not self._problems(name, tool, result):
            return
        # The tool may have changed without a notification.
        found = self._problems(name, await self._find_after_call(name, fresh=True), result)
        if found:
            lines = f"the result of {name} does not match its outputSchema:\n{found}"
            raise InvalidResultError(lines, result)

    def _problems(self, name: str, tool: _ToolDefinition, result: CallResult) -> str:
        schema = tool.output_schema
        if schema is None:
            return ""
        if isinstance(schema, ValueError):
            self._warn(name, f"its results are not checked, as its outputSchema is invalid: {schema}")
            return ""
        from .server_schemas_and_typed_results import result_problems

        problems = result_problems(schema, result.raw)
        return str(ArgumentsError(problems)) if problems else ""

    async def _find_after_call(self, name: str, *, fresh: bool = False) -> _ToolDefinition:
        """Look up a tool after its call. Errors are logged, so that the result is not lost."""
        try:
            return await self._find(name, fresh=fresh)
        except (ProtocolError, OSError) as error:
            logger.debug("tools/list failed, so a result of %s was not checked: %s", name, error)
            return _UNKNOWN

    async def _find(self, name: str, *, fresh: bool = False) -> _ToolDefinition:
        def is_known() -> bool:
            return not fresh and (name in self._tools or name in self._unlisted)

        if not is_known():
            async with self._listing:
                if not is_known():  # unless another task has listed them meanwhile
                    try:
                        await self._list_tools(use_cache=not fresh)
                    except ProtocolError as error:
                        logger.debug("tools/list failed: %s", error)
                    if name not in self._tools and len(self._unlisted) < _MOST_UNKNOWN:
                        self._unlisted.add(name)
        return self._tools.get(name, _UNKNOWN)

    def _warn(self, name: str, why: str) -> None:
        """Log once that a tool is invalid."""
        if name not in self._warned and len(self._warned) < _MOST_UNKNOWN:
            self._warned.add(name)
            logger.warning("the server's tool %s does not follow the specification: %s", name[:100], why)
