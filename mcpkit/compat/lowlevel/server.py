"""The low-level server of `mcp` 1.x, with handlers by request class."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Generic, TypeAlias, get_type_hints

from pydantic import BaseModel
from typing_extensions import TypeVar

from ... import server as native
from ..._utils.exceptions import MissingCapabilityError
from ..._utils.package import __version__
from ...components.component import optional
from ...options import ServerOptions, Timeouts
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ...protocol.revisions import CACHEABLE, SERVER_CAPABILITIES, CacheHint
from .. import types
from ..foreign import is_kind, own
from ..shared import differs
from ..types.unbuilt import made
from .bridge import Bridge
from .session import NoTasks, RequestContext, request_ctx

LifespanResultT = TypeVar("LifespanResultT", default=object)
RequestT = TypeVar("RequestT", default=object)
Handler: TypeAlias = Callable[..., Awaitable["Incomplete"]]
Decorator: TypeAlias = Callable[[Handler], Handler]
AnyServer: TypeAlias = "Server[Incomplete, Incomplete]"
Method: TypeAlias = Callable[["AnyServer"], Decorator]

_OFFERS = {each: f"List{each.capitalize()}Request" for each in ("prompts", "resources", "tools")} | {
    "logging": "SetLevelRequest",
    "completions": "CompleteRequest",
}
"""Capabilities, and the requests of servers that declare them."""


@dataclass(eq=False, repr=False)
class NotificationOptions:
    """The lists of which the server declares `listChanged`."""

    prompts_changed: bool = False
    resources_changed: bool = False
    tools_changed: bool = False


class InitializationOptions(BaseModel, defer_build=True):
    """Information about the server in the result of `initialize`."""

    server_name: str
    server_version: str
    capabilities: Any  # ServerCapabilities, which are made when somebody asks for them
    instructions: str | None = None
    website_url: str | None = None
    icons: list[types.Icon] | None = None


@dataclass
class ReadResourceContents:
    """A part of the content of a resource."""

    content: str | bytes
    mime_type: str | None = None
    meta: Json | None = None


@dataclass
class Answer:
    """The return value of handlers, like `types.ServerResult` but without its models."""

    root: Incomplete


@asynccontextmanager
async def lifespan(_: AnyServer) -> AsyncGenerator[Json]:
    """Do nothing, for servers without a lifespan."""
    yield {}


def _registers(name: str, serves: Callable[[AnyServer, Handler], Handler]) -> Method:
    """Return a decorator method. The result of `serves` for the function handles requests or notifications."""

    def method(server: AnyServer) -> Decorator:
        def decorator(function: Handler) -> Handler:
            server.register(name, serves(server, function))
            return function

        return decorator

    return method


def _answers(kind: str, *members: str, finish: Callable[..., object] | None = None) -> Method:
    """Return a decorator method for functions that take members of the params of a request or notification."""

    def serves(_: AnyServer, function: Handler) -> Handler:
        async def handler(asked: Incomplete) -> object:
            answer = await function(*(getattr(asked.params, member) for member in members))
            return Answer(answer if finish is None else finish(answer, asked.params))

        return handler

    return _registers(kind, serves)


def _lists(of: str, member: str) -> Method:
    """Return a decorator method for functions that return a list or a result, and may take the request."""
    return _registers(f"List{of}Request", lambda server, function: Listing(server, function, of, member))


class Listing:
    """Handler of list requests.

    Args:
        server: The server.
        function: Returns the list or a result; takes the request if it has a parameter for it.
        of: Kind of the listed components.
        member: Member of the result with the list.

    Attributes:
        with_request: Calls the function with a request; None if it takes none.
    """

    def __init__(self, server: AnyServer, function: Handler, of: str, member: str) -> None:
        self._server, self._function, self._of, self._member = server, function, of, member
        self.with_request = _with_request(function, f"List{of}Request")

    async def __call__(self, request: object) -> Answer:
        """Return the result."""
        answer = await (self.with_request(request) if self.with_request else self._function())
        result = f"List{self._of}Result"
        if not (is_result := is_kind(answer.__class__, result)):
            answer = made(getattr(types, result), **{self._member: [own(each) for each in answer]})
        if self._of == "Tools":
            self._server.keep(answer.tools, adds=is_result)
        return Answer(answer)


def _with_request(function: Handler, name: str) -> Callable[[object], Awaitable[Incomplete]] | None:
    """Return a function that calls another with a request; None if that has no parameter for it."""
    try:
        hints = get_type_hints(function) if (parameters := inspect.signature(function).parameters) else {}
    except (ValueError, TypeError, NameError):
        return None
    required = (each for each in parameters.values() if each.default is each.empty)
    asking = [each for each in required if getattr(hints.get(each.name), "__name__", None) == name]
    if not asking or asking[0].kind is inspect.Parameter.POSITIONAL_ONLY:
        return function if asking else None
    return lambda request: function(**{asking[0].name: request})


def _contents(answer: Incomplete, asked: Incomplete) -> object:
    """Return the result of `resources/read` for a return value."""
    contents: list[Json] = []
    for part in [ReadResourceContents(answer)] if isinstance(answer, (str, bytes)) else answer:
        if isinstance(part.content, str):
            held, usual = {"text": part.content}, "text/plain"
        else:
            held, usual = {"blob": base64.b64encode(part.content).decode()}, "application/octet-stream"
        contents.append({"uri": asked.uri, "mimeType": part.mime_type or usual, "_meta": part.meta, **held})
    return types.ReadResourceResult(contents=contents)


def _empty(_: object, asked: object) -> object:
    return types.EmptyResult()


def _completed(answer: object, asked: object) -> object:
    return types.CompleteResult(completion=answer or types.Completion(values=[]))


@dataclass(eq=False, repr=False)
class Server(Generic[LifespanResultT, RequestT]):
    """A low-level server. Its handlers are in `request_handlers` and `notification_handlers`, which may be changed.

        server = Server("weather")

        @server.list_tools()
        async def list_tools() -> list[types.Tool]:
            ...

    `served` is the mcpkit server behind it.
    """

    list_prompts = _lists("Prompts", "prompts")
    list_resources = _lists("Resources", "resources")
    list_resource_templates = _lists("ResourceTemplates", "resourceTemplates")
    list_tools = _lists("Tools", "tools")
    get_prompt = _answers("GetPromptRequest", "name", "arguments")
    read_resource = _answers("ReadResourceRequest", "uri", finish=_contents)
    completion = _answers("CompleteRequest", "ref", "argument", "context", finish=_completed)
    set_logging_level = _answers("SetLevelRequest", "level", finish=_empty)
    subscribe_resource = _answers("SubscribeRequest", "uri", finish=_empty)
    unsubscribe_resource = _answers("UnsubscribeRequest", "uri", finish=_empty)
    experimental = NoTasks()
    progress_notification = _answers("ProgressNotification", "progressToken", "progress", "total", "message")

    name: str
    version: str | None = None
    instructions: str | None = None
    website_url: str | None = None
    icons: list[types.Icon] | None = None
    lifespan: Callable[[AnyServer], AbstractAsyncContextManager[object]] = lifespan
    _handlers: dict[str, Handler] = field(default_factory=dict[str, "Handler"], init=False)
    initialization_options: InitializationOptions | None = field(default=None, init=False)
    _tool_cache: dict[str, Incomplete] = field(default_factory=dict[str, "Incomplete"], init=False)
    _schemas: dict[int, Incomplete] = field(default_factory=dict[int, "Incomplete"], init=False)

    @cached_property
    def request_handlers(self) -> dict[type, Handler]:
        """Handlers of requests by class, which may be changed. The classes are created at the first access."""
        return self._known_by_class("Request")

    @cached_property
    def notification_handlers(self) -> dict[type, Handler]:
        """Handlers of notifications by class, which may be changed."""
        return self._known_by_class("Notification")

    def _known_by_class(self, ending: str) -> dict[type, Handler]:
        return {getattr(types, name): it for name, it in self._handlers.items() if name.endswith(ending)}

    def register(self, name: str, handler: Handler) -> None:
        """Set the handler of the requests or notifications with this class name."""
        if (by_class := self._by_class(name)) is None:
            self._handlers[name] = handler
        else:
            by_class[getattr(types, name)] = handler

    def handler(self, name: str) -> tuple[Incomplete, Handler] | None:
        """Return the class with this name, of any package, and its handler; None if there is none."""
        if (by_class := self._by_class(name)) is not None:
            return next((each for each in by_class.items() if each[0].__name__ == name), None)
        return (None, self._handlers[name]) if name in self._handlers else None

    def _by_class(self, name: str) -> dict[type, Handler] | None:
        return vars(self).get("request_handlers" if name.endswith("Request") else "notification_handlers")

    @cached_property
    def served(self) -> native.Server:
        """The mcpkit server behind this one, which all transports serve."""
        served = native.Server(
            self.name or "mcp",
            version=self.version or __version__,
            lifespan=None if self.lifespan is lifespan else lambda _: self.lifespan(self),
            timeouts=Timeouts(startup=None),
            options=ServerOptions(
                capabilities=SERVER_CAPABILITIES, cache=dict.fromkeys(CACHEABLE, CacheHint(scope="private"))
            ),
        )
        bridge = Bridge(self)
        served.middleware(bridge)
        served.engine.notification_listeners.add(bridge.hear)
        return served

    @property
    def request_context(self) -> RequestContext[Incomplete, Incomplete, Incomplete]:
        """The context of the current request. Raises LookupError outside of a request."""
        return request_ctx.get()

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, Json] | None = None,
    ) -> InitializationOptions:
        """Return the information for the result of `initialize`."""
        changing = notification_options or NotificationOptions()
        capabilities = self.get_capabilities(changing, experimental_capabilities or {})
        said: Json = {"instructions": self.instructions, "website_url": self.website_url, "icons": self.icons}
        named: Json = {"server_name": self.name, "server_version": self.version or __version__}
        return made(InitializationOptions, capabilities=capabilities, **named, **said)

    def get_capabilities(
        self, notification_options: NotificationOptions, experimental_capabilities: dict[str, Json]
    ) -> Incomplete:
        """Return the capabilities that have handlers."""
        there: Json = {"experimental": experimental_capabilities}
        for each, request in _OFFERS.items():
            if self.handler(request):
                said = optional(listChanged=getattr(notification_options, f"{each}_changed", None))
                said |= {"subscribe": False} if each == "resources" else {}
                there[each] = made(getattr(types, f"{each.capitalize()}Capability"), **said)
        return made(types.ServerCapabilities, **there)

    async def run(
        self,
        read_stream: Incomplete,
        write_stream: Incomplete,
        initialization_options: InitializationOptions,
        raise_exceptions: bool = False,
        stateless: bool = False,
    ) -> None:
        """Serve one client until it disconnects, over the streams of `stdio_server` and the like, or object streams."""
        if raise_exceptions or stateless:
            instead = "mcpkit sends errors as responses and starts sessions"
            differs("run", f"run(raise_exceptions=, stateless=) has no effect: {instead}")
        self.initialization_options = initialization_options
        if (serve := getattr(read_stream, "serve", None)) is not None:
            await serve(self.served)
            return
        from ...transports.in_process import serve_messages

        await serve_messages(self.served, read_stream, write_stream)

    # Tools

    def call_tool(self, *, validate_input: bool = True) -> Decorator:
        """Return a decorator for the function that calls tools; arguments and results are validated."""
        return _registers("CallToolRequest", lambda _, fn: partial(self._answer, fn, validate_input))(self)

    async def _answer(self, function: Handler, validates: bool, request: Incomplete) -> object:
        try:
            return await self._call(function, request.params.name, request.params.arguments or {}, validates)
        except MissingCapabilityError:
            raise
        except Exception as error:
            if is_kind(type(error), "UrlElicitationRequiredError"):
                raise
            return self._make_error_result(str(error))

    async def _call(self, function: Handler, name: str, arguments: Json, validates: bool) -> object:
        tool = await self._get_cached_tool_definition(name)
        if validates and tool and (problem := self._problem(arguments, tool.inputSchema)):
            return self._make_error_result(f"Input validation error: {problem}")
        answer: Incomplete = await function(name, arguments)
        kind: type[object] = answer.__class__
        structured: Incomplete = None
        if is_kind(kind, "CallToolResult", "CreateTaskResult"):
            return Answer(answer)
        if issubclass(kind, tuple) and len(answer) == 2:
            answer, structured = answer
        elif issubclass(kind, dict):
            answer, structured = [types.TextContent(type="text", text=json.dumps(answer, indent=2))], answer
        elif not issubclass(kind, Iterable):
            return self._make_error_result(f"Unexpected return type from tool: {kind.__name__}")
        if tool and tool.outputSchema is not None:
            problem = "outputSchema defined but no structured output returned"
            if structured is None or (problem := self._problem(structured, tool.outputSchema)):
                return self._make_error_result(f"Output validation error: {problem}")
        content: list[Incomplete] = [own(each) for each in answer]
        return Answer(types.CallToolResult(content=content, structuredContent=structured, isError=False))

    def _make_error_result(self, error_message: str) -> object:
        text = types.TextContent(type="text", text=error_message)
        return Answer(types.CallToolResult(content=[text], isError=True))

    async def _get_cached_tool_definition(self, tool_name: str) -> Incomplete:
        found = None if tool_name in self._tool_cache else self.handler("ListToolsRequest")
        if found is not None:
            await found[1](None)
        return self._tool_cache.get(tool_name)

    def keep(self, tools: Iterable[Incomplete], *, adds: bool) -> None:
        """Cache listed tools for later calls: in addition to those of earlier pages, or instead of them."""
        if not adds:
            self._tool_cache.clear()
            self._schemas.clear()
        self._tool_cache.update((tool.name, tool) for tool in tools)

    def _problem(self, value: object, schema: Json) -> str | None:
        if (known := self._schemas.get(id(schema))) is None:
            from .schemas import ToolSchema

            known = self._schemas[id(schema)] = ToolSchema(schema)
        return known.problem(value)
