"""Tools in the style of agent SDKs: `tool` and `create_sdk_mcp_server` of `claude_agent_sdk` and `qoder_agent_sdk`.

With the import changed to this module, what they make is served by mcpkit, in both SDKs, and over every transport.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Generic, Literal, TypeVar

from pydantic_core import from_json, to_json
from typing_extensions import TypedDict

from ..components.context import Context
from ..engine.base_tool import BaseTool
from ..middleware.base import CallTool, ToolCall
from ..protocol.jsonrpc import is_object
from ..protocol.types import Json
from ..server import Server
from .agent_sdk_schemas import input_schema

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
"""What a tool returns: `content`, a list of content blocks, and `is_error` where it has failed."""

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
    """Hints on what a tool does, each of which may be given and read in either spelling.

    Args:
        title: What people see.
        readOnlyHint: Whether it changes nothing; or `read_only_hint`, and so on.
        destructiveHint: Whether it may destroy something.
        idempotentHint: Whether calling it again changes nothing more.
        openWorldHint: Whether it deals with things outside.
        maxResultSizeChars: Up to how many characters of a result stay in the conversation of Claude Code, which keeps
            longer ones in files. It is no annotation on the wire, but `anthropic/maxResultSizeChars` in `_meta`.
        more: Others, of which clients are not told.
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
        given = {
            "title": title,
            "readOnlyHint": read_only_hint if readOnlyHint is None else readOnlyHint,
            "destructiveHint": destructive_hint if destructiveHint is None else destructiveHint,
            "idempotentHint": idempotent_hint if idempotentHint is None else idempotentHint,
            "openWorldHint": open_world_hint if openWorldHint is None else openWorldHint,
            _MAX_SIZE: max_result_size_chars if maxResultSizeChars is None else maxResultSizeChars,
            **more,
        }
        super().__init__({name: value for name, value in given.items() if value is not None})

    def __getattr__(self, name: str) -> object:
        """Return a hint, in either spelling; None where it was not given."""
        wire = _HINTS.get(name, name)
        if wire in self or wire in _HINTS.values():
            return self.get(wire)
        raise AttributeError(f"annotations have no {name!r}")


@dataclass
class ToolInvocationContext:
    """What a tool with two parameters gets as the second.

    Attributes:
        signal: Is set when the call is cancelled, right before the tool is.
    """

    signal: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass
class SdkMcpTool(Generic[T]):
    """A tool; `tool` makes one of a function.

    Attributes:
        name: Its name.
        description: What it is for, as the model reads it.
        input_schema: What it takes: types by name, a TypedDict, or a JSON Schema.
        handler: What does it.
        annotations: Hints on what it does: `ToolAnnotations`, those of `mcp.types` or of an SDK, or a dict.
    """

    name: str
    description: str
    input_schema: type[T] | Json
    handler: Callable[..., Awaitable[Result]]
    annotations: object = None


class McpSdkServerConfig(TypedDict):
    """A server as the options of an SDK take it.

    Attributes:
        type: Always `sdk`.
        name: The server's name.
        instance: The server, as `Server.as_sdk_server` returns it; `instance.server` is the mcpkit server itself.
    """

    type: Literal["sdk"]
    name: str
    instance: Incomplete  # the SDKs are typed to have a server of `mcp` here


def tool(
    name: str, description: str, input_schema: type[T] | Json, annotations: object = None
) -> Callable[[Callable[..., Awaitable[Result]]], SdkMcpTool[T]]:
    """Make a tool of `async def function(args)`, or of `function(args, extra)`.

        @tool("greet", "Say hello.", {"name": Annotated[str, "Who is greeted"]})
        async def greet(args):
            return {"content": [{"type": "text", "text": f"Hello, {args['name']}!"}]}

    The function gets the arguments as a dict, once they have been held against the schema, and in `extra` a
    `ToolInvocationContext`. It returns a dict with `content`, and with `"is_error": True` where it has failed; the text
    of an exception reaches the model as well. Resource links and embedded texts become text, as the SDKs have it.

    Args:
        name: The tool's name: 1 to 128 of `A-Z a-z 0-9 _ - .`.
        description: What it is for, as the model reads it.
        input_schema: What it takes: types by name, all of which are needed; a TypedDict; or a JSON Schema.
            `Annotated[str, "..."]` describes a parameter.
        annotations: Hints on what it does, such as `ToolAnnotations(readOnlyHint=True)`.

    Returns:
        The decorator, which returns a tool for `create_sdk_mcp_server`.
    """

    def decorate(handler: Callable[..., Awaitable[Result]]) -> SdkMcpTool[T]:
        return SdkMcpTool(name, description, input_schema, handler, annotations)

    return decorate


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: Iterable[SdkMcpTool[T]] | None = None
) -> McpSdkServerConfig:
    """Make a server of tools, as `mcp_servers` of `ClaudeAgentOptions` and `QoderAgentOptions` takes it.

    An unknown tool, invalid arguments and exceptions are results with `isError`, which the model can read. The mcpkit
    server behind it takes whatever else mcpkit has, and runs by itself: `config["instance"].server.run()`.

    Args:
        name: The server's name.
        version: Its version.
        tools: What `tool` has made.

    Returns:
        What says of the server that it is in this process; `instance` may be used by any number of agents.

    Raises:
        RegistrationError: A tool cannot be served, or two have one name; the message says what to change.
    """
    server = Server(name, version=version)
    for each in tools or ():
        server.catalog.add(_DeclaredTool(each))

    @server.middleware("tools/call")
    async def say_unknown(request: ToolCall, call_next: CallTool) -> Result:
        if request.name in server.catalog.tools:
            return await call_next(request)
        return _failed(f"Tool '{request.name}' not found")

    return {"type": "sdk", "name": name, "instance": server.as_sdk_server()}


class _DeclaredTool(BaseTool):
    """A tool of this style, as a tool of mcpkit."""

    def __init__(self, declared: SdkMcpTool[T]) -> None:
        hints = _wire_hints(declared.annotations)
        max_size = hints.pop(_MAX_SIZE, None)
        super().__init__(
            declared.name,
            input_schema=input_schema(declared.input_schema),
            description=declared.description,
            annotations=from_json(to_json(hints)) if hints else None,
            meta=None if max_size is None else {_MAX_SIZE_META: max_size},
            validates=False,
        )
        self._handler = declared.handler
        self._takes_extra = _takes_extra(declared.handler)

    async def execute(self, arguments: Json, ctx: Context) -> Json:
        """Call the function, where it takes the arguments."""
        try:
            problem = self._first_problem(arguments)
            if problem is not None:
                return _failed(f"Input validation error: {problem}")
            if self._takes_extra:
                returned = await _cancelled_by_signal(self._handler, arguments)
            else:
                returned = await self._handler(arguments)
            return _result(self.name, returned)
        except Exception as error:  # noqa: BLE001 - the model reads of whatever went wrong
            return _failed(str(error))

    @cached_property
    def _first_problem(self) -> Callable[[Json], str | None]:
        """Says what is wrong with arguments, if something is: in the words of jsonschema, which the SDKs bring."""
        try:
            library = import_module("jsonschema")
        except ModuleNotFoundError:
            return self._first_of_ours()
        validator = library.validators.validator_for(self.input_schema)(self.input_schema)

        def first_problem(arguments: Json) -> str | None:
            error = library.exceptions.best_match(validator.iter_errors(arguments))
            return None if error is None else str(error.message)

        return first_problem

    def _first_of_ours(self) -> Callable[[Json], str | None]:
        from ..client.tools.schemas import ServerSchema

        schema = ServerSchema(self.input_schema)
        return lambda arguments: next(map(str, schema.problems(arguments)), None)


def _wire_hints(annotations: object) -> Json:
    """Return the hints of annotations, by their names on the wire."""
    if annotations is None:
        return {}
    given: Json = from_json(to_json(annotations, by_alias=True))
    named = {**{_HINTS[name]: given[name] for name in given.keys() & _HINTS.keys()}, **given}
    return {name: named[name] for name in _HINTS.values() if named.get(name) is not None}


def _takes_extra(handler: Callable[..., object]) -> bool:
    """Say whether a function has a second parameter by position."""
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return False
    return sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters) > 1


async def _cancelled_by_signal(handler: Callable[..., Awaitable[Result]], arguments: Json) -> Result:
    """Call a function in a task of its own, so that its signal is set before it is cancelled."""
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
    """Return what a tool has returned as its result; what is no such thing is an error that the model can read."""
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
    """Return a content block as hosts show it; None for one that they do not."""
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
