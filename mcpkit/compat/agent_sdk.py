"""Tools in the style of agent SDKs: `tool` and `create_sdk_mcp_server` of `claude_agent_sdk` and `qoder_agent_sdk`.

Change the import to this module, and mcpkit serves the tools, in both SDKs and over every transport.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Final, Generic, Literal, TypeVar, Union, get_args, get_origin

from pydantic_core import from_json, to_json
from typing_extensions import NotRequired, ReadOnly, Required, TypedDict

from ..context import Context
from ..engine.base_tool_and_subscription_topic import BaseTool
from ..middleware.base import CallTool, ToolCall
from ..protocol.jsonrpc import Json, is_object
from ..server import Server
from .shared_models_and_settings import jsonschema_check

if sys.version_info >= (3, 11):  # as the SDKs do: a TypedDict of one module is none for the other
    from typing import get_type_hints, is_typeddict
else:
    from typing_extensions import get_type_hints, is_typeddict

if TYPE_CHECKING:
    from _typeshed import Incomplete

__all__ = [
    "McpSdkServerConfig",
    "SdkMcpTool",
    "ToolAnnotations",
    "ToolInvocationContext",
    "create_sdk_mcp_server",
    "tool",
]

Result = Mapping[str, object]
"""Return value of a tool function: `content`, a list of content blocks, and `is_error` after a failure."""

T = TypeVar("T")

_HINTS = {
    "title": "title",
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
    "max_result_size_chars": "maxResultSizeChars",
}
"""Each hint by its name in Python, and on the wire."""

_MAX_SIZE = "maxResultSizeChars"
_MAX_SIZE_META = "anthropic/maxResultSizeChars"

logger = logging.getLogger(__name__)


class ToolAnnotations(dict[str, object]):
    """Hints on the behaviour of a tool. Each can be passed and read in either spelling.

    Args:
        title: Display name.
        readOnlyHint: Whether the tool changes nothing; or `read_only_hint`, and so on.
        destructiveHint: Whether the tool may delete or overwrite data.
        idempotentHint: Whether further calls with the same arguments change nothing more.
        openWorldHint: Whether the tool interacts with external systems.
        maxResultSizeChars: Number of characters of a result that stay in the conversation of Claude Code; it stores
            longer results in files. It is sent as `anthropic/maxResultSizeChars` in `_meta`, not as an annotation.
        more: Other hints, which are not sent to clients.
    """

    def __init__(
        self,
        *,
        title: str | None = None,
        readOnlyHint: bool | None = None,  # noqa: N803 - as the wire has it
        read_only_hint: bool | None = None,
        destructiveHint: bool | None = None,  # noqa: N803
        destructive_hint: bool | None = None,
        idempotentHint: bool | None = None,  # noqa: N803
        idempotent_hint: bool | None = None,
        openWorldHint: bool | None = None,  # noqa: N803
        open_world_hint: bool | None = None,
        maxResultSizeChars: int | None = None,  # noqa: N803
        max_result_size_chars: int | None = None,
        **more: object,
    ) -> None:
        hints = {
            "title": title,
            "readOnlyHint": read_only_hint if readOnlyHint is None else readOnlyHint,
            "destructiveHint": destructive_hint if destructiveHint is None else destructiveHint,
            "idempotentHint": idempotent_hint if idempotentHint is None else idempotentHint,
            "openWorldHint": open_world_hint if openWorldHint is None else openWorldHint,
            _MAX_SIZE: max_result_size_chars if maxResultSizeChars is None else maxResultSizeChars,
            **more,
        }
        super().__init__({name: value for name, value in hints.items() if value is not None})

    def __getattr__(self, name: str) -> object:
        """Return a hint, in either spelling; None if it was not passed."""
        wire = _HINTS.get(name, name)
        if wire in self or wire in _HINTS.values():
            return self.get(wire)
        raise AttributeError(f"annotations have no {name!r}")


@dataclass
class ToolInvocationContext:
    """The second argument of a tool function with two parameters.

    Attributes:
        signal: Event that is set when the call is cancelled, right before the tool function is.
    """

    signal: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class SdkMcpTool(Generic[T]):
    """A tool, as the decorator `tool` returns it.

    Attributes:
        name: Name of the tool.
        description: Description for the model.
        input_schema: Parameters: types by name, a TypedDict, or a JSON Schema.
        handler: The async function of the tool.
        annotations: Hints: `ToolAnnotations`, those of `mcp.types` or of an SDK, or a dict.
    """

    name: str
    description: str
    input_schema: type[T] | Json
    handler: Callable[..., Awaitable[Result]]
    annotations: object = None


class McpSdkServerConfig(TypedDict):
    """A server in the form that the options of an SDK take.

    Attributes:
        type: Always `sdk`.
        name: Name of the server.
        instance: The server, as `Server.as_sdk_server` returns it; `instance.server` is the mcpkit server.
    """

    type: Literal["sdk"]
    name: str
    instance: Incomplete  # the SDKs are typed to have a server of `mcp` here


def tool(
    name: str, description: str, input_schema: type[T] | Json, annotations: object = None
) -> Callable[[Callable[..., Awaitable[Result]]], SdkMcpTool[T]]:
    """Create a tool from `async def function(args)`, or from `function(args, extra)`.

        @tool("greet", "Greet a person.", {"name": Annotated[str, "Name of the person"]})
        async def greet(args):
            return {"content": [{"type": "text", "text": f"Hello, {args['name']}!"}]}

    The function gets the validated arguments as a dict, and a `ToolInvocationContext` in `extra`. It returns a dict
    with `content`, and with `"is_error": True` after a failure. The model also gets the text of an exception. Resource
    links and embedded texts become text, as in the SDKs.

    Args:
        name: Name of the tool: 1 to 128 of `A-Z a-z 0-9 _ - .`.
        description: Description for the model.
        input_schema: Parameters: types by name, all required; a TypedDict; or a JSON Schema. `Annotated[str, "..."]`
            describes a parameter.
        annotations: Hints, such as `ToolAnnotations(readOnlyHint=True)`.

    Returns:
        A decorator that returns a tool for `create_sdk_mcp_server`.
    """

    def decorate(handler: Callable[..., Awaitable[Result]]) -> SdkMcpTool[T]:
        return SdkMcpTool(name, description, input_schema, handler, annotations)

    return decorate


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: Iterable[SdkMcpTool[T]] | None = None
) -> McpSdkServerConfig:
    """Create a server of tools, for `mcp_servers` of `ClaudeAgentOptions` and `QoderAgentOptions`.

    Unknown tools, invalid arguments and exceptions become results with `isError`, which the model gets. The mcpkit
    server behind it can have further components, and can also run alone: `config["instance"].server.run()`.

    Args:
        name: Name of the server.
        version: Version of the server.
        tools: Tools that `tool` created.

    Returns:
        The configuration of a server in this process. Any number of agents may use its `instance`.

    Raises:
        RegistrationError: A tool is invalid, or two have one name; the message contains the fix.
    """
    server = Server(name, version=version)
    for each in tools or ():
        server.catalog.add(_DeclaredTool(each))

    @server.middleware("tools/call")
    async def reject_unknown(request: ToolCall, call_next: CallTool) -> Result:
        if request.name in server.catalog.tools:
            return await call_next(request)
        return _failed(f"Tool '{request.name}' not found")

    return {"type": "sdk", "name": name, "instance": server.as_sdk_server()}


class _DeclaredTool(BaseTool):
    """An `SdkMcpTool` as a tool of mcpkit."""

    def __init__(self, declared: SdkMcpTool[T]) -> None:
        hints = _wire_hints(declared.annotations)
        max_size = hints.pop(_MAX_SIZE, None)
        super().__init__(
            declared.name,
            input_schema=_input_schema(declared.input_schema),
            description=declared.description,
            annotations=from_json(to_json(hints)) if hints else None,
            meta=None if max_size is None else {_MAX_SIZE_META: max_size},
            validate_input=False,
        )
        self._handler = declared.handler
        self._takes_extra = _takes_extra(declared.handler)

    async def execute(self, arguments: Json, ctx: Context) -> Json:
        """Call the function with valid arguments."""
        try:
            problem = self._first_problem(arguments)
            if problem is not None:
                return _failed(f"Input validation error: {problem}")
            if self._takes_extra:
                returned = await _cancelled_by_signal(self._handler, arguments)
            else:
                returned = await self._handler(arguments)
            return _result(self.name, returned)
        except Exception as error:  # noqa: BLE001 - the model gets the text of any exception
            return _failed(str(error))

    @cached_property
    def _first_problem(self) -> Callable[[Json], str | None]:
        """Function that returns the first problem of arguments, or None; jsonschema checks them if it is installed."""
        try:
            return jsonschema_check(self.input_schema)
        except ModuleNotFoundError:
            from ..client.server_schemas_and_typed_results import ServerSchema

            schema = ServerSchema(self.input_schema)
            return lambda arguments: next(map(str, schema.problems(arguments)), None)


def _wire_hints(annotations: object) -> Json:
    """Return the hints by their names in the protocol."""
    if annotations is None:
        return {}
    hints: Json = from_json(to_json(annotations, by_alias=True))
    named = {**{_HINTS[name]: hints[name] for name in hints.keys() & _HINTS.keys()}, **hints}
    return {name: named[name] for name in _HINTS.values() if named.get(name) is not None}


def _takes_extra(handler: Callable[..., object]) -> bool:
    """Return True if a function has a second positional parameter."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters) > 1


async def _cancelled_by_signal(handler: Callable[..., Awaitable[Result]], arguments: Json) -> Result:
    """Call a function in a separate task, so that its signal is set before it is cancelled."""
    extra = ToolInvocationContext()
    running = asyncio.ensure_future(handler(arguments, extra))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        extra.signal.set()
        running.cancel()
        await asyncio.wait((running,))
        raise


def _result(name: str, returned: object) -> Json:
    """Return the tool result for a return value; for an invalid one, a result with an error for the model."""
    if returned is None:
        return _failed(
            f"Tool '{name}' returned None. Tool handlers must return a dict with a \"content\" list."
        )
    if not is_object(returned):
        return _failed(str(returned))
    unknown = sorted(returned.keys() - {"is_error"})
    if unknown and "content" not in returned:
        return _failed(f"Tool '{name}' returned a dict without \"content\". Got keys: {unknown}.")
    blocks = [made for each in returned.get("content", ()) if (made := _block(each)) is not None]
    return {"content": blocks, "isError": bool(returned.get("is_error"))}


def _failed(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _block(block: Json) -> Json | None:
    """Return a content block in the form that hosts show; None if they do not support it."""
    kind = block.get("type")
    if kind == "text":
        return {"type": "text", "text": block["text"]}
    if kind == "image":
        return {"type": "image", "data": block["data"], "mimeType": block["mimeType"]}
    if kind == "resource_link":
        lines = [str(block[member]) for member in ("name", "uri", "description") if block.get(member)]
        return {"type": "text", "text": "\n".join(lines) or "Resource link"}
    if kind == "resource" and "text" in (block.get("resource") or {}):
        return {"type": "text", "text": block["resource"]["text"]}
    logger.warning("Ignored a content block of type %r in a tool result: agent SDKs do not support it", kind)
    return None


# JSON Schemas of parameters, equal to those that the SDKs create

_TYPES: Final = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}
_QUALIFIERS: Final = (NotRequired, Required, ReadOnly)


def _input_schema(declared: object) -> Json:
    """Return the schema of a tool's arguments.

    Args:
        declared: A JSON Schema; types by parameter name, all required; or a TypedDict. Anything else has no parameters.
    """
    if is_object(declared):
        if isinstance(declared.get("type"), str) and "properties" in declared:
            return declared
        properties = {name: _schema_of(hint) for name, hint in declared.items()}
        return {"type": "object", "properties": properties, "required": list(properties)}
    if is_typeddict(declared):
        return _typed_dict_schema(declared)
    return {"type": "object", "properties": {}}


def _typed_dict_schema(declared: object) -> Json:
    hints = get_type_hints(declared, include_extras=True)
    schema: Json = {"type": "object", "properties": {name: _schema_of(hint) for name, hint in hints.items()}}
    if required := sorted(getattr(declared, "__required_keys__", hints)):
        schema["required"] = required
    return schema


def _schema_of(hint: object) -> Json:
    """Return the schema of one type; a type that the SDKs do not know is a string."""
    if is_typeddict(hint):
        return _typed_dict_schema(hint)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in _QUALIFIERS:
        return _schema_of(arguments[0])
    if origin is Annotated:
        described = [each for each in arguments[1:] if isinstance(each, str)]
        return {**_schema_of(arguments[0]), **({"description": described[0]} if described else {})}
    if origin is Union or origin is UnionType:
        members = [_schema_of(member) for member in arguments if member is not NoneType]
        return members[0] if len(members) == 1 else {"anyOf": members}
    if origin is list and arguments:
        return {"type": "array", "items": _schema_of(arguments[0])}
    return {"type": next((name for kind, name in _TYPES.items() if kind is (origin or hint)), "string")}
