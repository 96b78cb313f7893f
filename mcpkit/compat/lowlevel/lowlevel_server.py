"""The low-level server of `mcp` 1.x, with handlers by request class."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeAlias, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic_core import to_json
from typing_extensions import TypeVar

from ... import server as native
from ..._utils.exceptions import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    HandlerError,
    MissingCapabilityError,
    ProtocolError,
)
from ..._utils.package import __version__, missing_package
from ...components.component import optional
from ...middleware.base import CallNext, Request, Result, ToolCallResult
from ...options import ServerOptions, Timeouts
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ...protocol.revisions import CACHEABLE, RESUMABLE, SERVER_CAPABILITIES, SERVER_INFO, CacheHint, Handshake
from ...requests.request_record import call_of
from .. import types
from ..shared_models_and_settings import is_kind, jsonschema_check, log_difference, to_json_object, to_own
from .lowlevel_session import NoTasks, RequestContext, http_request, request_ctx, session_of

LifespanResultT = TypeVar("LifespanResultT", default=object)
RequestT = TypeVar("RequestT", default=object)
Handler: TypeAlias = Callable[..., Awaitable["Incomplete"]]
Decorator: TypeAlias = Callable[[Handler], Handler]
AnyServer: TypeAlias = "Server[Incomplete, Incomplete]"
Method: TypeAlias = Callable[["AnyServer"], Decorator]

_REQUESTS = {
    **{each: f"List{each.capitalize()}Request" for each in ("prompts", "resources", "tools")},
    "logging": "SetLevelRequest",
    "completions": "CompleteRequest",
}
"""Requests by the capability of servers that handle them."""

logger = logging.getLogger("mcpkit.compat")


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
    capabilities: Any  # ServerCapabilities, which is created at its first use
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
class HandlerResult:
    """The return value of handlers, like `types.ServerResult` but without its models."""

    root: Incomplete


@asynccontextmanager
async def lifespan(_: AnyServer) -> AsyncGenerator[Json]:
    """Do nothing, for servers without a lifespan."""
    yield {}


# Decorators


def _registers(name: str, handler_of: Callable[[AnyServer, Handler], Handler]) -> Method:
    """Return a decorator method. The result of `handler_of` for the function handles requests or notifications."""

    def method(server: AnyServer) -> Decorator:
        def decorator(function: Handler) -> Handler:
            server.register(name, handler_of(server, function))
            return function

        return decorator

    return method


def _handles(name: str, *members: str, result: Callable[..., object] | None = None) -> Method:
    """Return a decorator method for functions that take members of the params of a request or notification.

    Args:
        name: Name of the class of the request or notification.
        members: The members.
        result: Returns the result for the return value of the function and the params.
    """

    def handler_of(_: AnyServer, function: Handler) -> Handler:
        async def handler(request: Incomplete) -> object:
            value = await function(*(getattr(request.params, member) for member in members))
            return HandlerResult(value if result is None else result(value, request.params))

        return handler

    return _registers(name, handler_of)


def _lists(kind: str, member: str) -> Method:
    """Return a decorator method for functions that return a list or a result, and may take the request."""
    return _registers(
        f"List{kind}Request", lambda server, function: ListHandler(server, function, kind, member)
    )


class ListHandler:
    """Handler of list requests.

    Args:
        server: The server.
        function: Returns the list or a result; takes the request if it has a parameter for it.
        kind: Kind of the listed components.
        member: Member of the result with the list.

    Attributes:
        with_request: Calls the function with a request; None if it takes none.
    """

    def __init__(self, server: AnyServer, function: Handler, kind: str, member: str) -> None:
        self._server, self._function, self._kind, self._member = server, function, kind, member
        self.with_request = _with_request(function, f"List{kind}Request")

    async def __call__(self, request: object) -> HandlerResult:
        """Return the result."""
        value = await (self.with_request(request) if self.with_request else self._function())
        result_class = f"List{self._kind}Result"
        is_result = is_kind(value.__class__, result_class)
        if not is_result:
            value = getattr(types, result_class)(**{self._member: [to_own(each) for each in value]})
        if self._kind == "Tools":
            self._server.cache_tools(value.tools, adds=is_result)
        return HandlerResult(value)


def _with_request(function: Handler, name: str) -> Callable[[object], Awaitable[Incomplete]] | None:
    """Return a function that calls another with a request; None if that has no parameter for it."""
    try:
        parameters = inspect.signature(function).parameters
        hints = get_type_hints(function) if parameters else {}
    except (ValueError, TypeError, NameError):
        return None
    for each in parameters.values():
        if each.default is each.empty and getattr(hints.get(each.name), "__name__", None) == name:
            if each.kind is each.POSITIONAL_ONLY:
                return function
            parameter = each.name
            return lambda request: function(**{parameter: request})
    return None


def _read_result(value: Incomplete, params: Incomplete) -> object:
    """Return the result of `resources/read` for a return value."""
    contents: list[Json] = []
    for part in [ReadResourceContents(value)] if isinstance(value, (str, bytes)) else value:
        if isinstance(part.content, str):
            content, mime_type = {"text": part.content}, "text/plain"
        else:
            content = {"blob": base64.b64encode(part.content).decode()}
            mime_type = "application/octet-stream"
        contents.append(
            {"uri": params.uri, "mimeType": part.mime_type or mime_type, "_meta": part.meta, **content}
        )
    return types.ReadResourceResult(contents=contents)


def _empty_result(_: object, params: object) -> object:
    return types.EmptyResult()


def _complete_result(value: object, params: object) -> object:
    return types.CompleteResult(completion=value or types.Completion(values=[]))


# The server


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
    get_prompt = _handles("GetPromptRequest", "name", "arguments")
    read_resource = _handles("ReadResourceRequest", "uri", result=_read_result)
    completion = _handles("CompleteRequest", "ref", "argument", "context", result=_complete_result)
    set_logging_level = _handles("SetLevelRequest", "level", result=_empty_result)
    subscribe_resource = _handles("SubscribeRequest", "uri", result=_empty_result)
    unsubscribe_resource = _handles("UnsubscribeRequest", "uri", result=_empty_result)
    experimental = NoTasks()
    progress_notification = _handles("ProgressNotification", "progressToken", "progress", "total", "message")

    name: str
    version: str | None = None
    instructions: str | None = None
    website_url: str | None = None
    icons: list[types.Icon] | None = None
    lifespan: Callable[[AnyServer], AbstractAsyncContextManager[object]] = lifespan
    initialization_options: InitializationOptions | None = field(default=None, init=False)
    _handlers: dict[str, Handler] = field(default_factory=dict[str, "Handler"], init=False)
    _tool_cache: dict[str, Incomplete] = field(default_factory=dict[str, "Incomplete"], init=False)
    _schemas: dict[int, ToolSchema] = field(default_factory=dict[int, "ToolSchema"], init=False)

    # Handlers: by name, until an author reads them by class, as the creation of each class takes time

    @cached_property
    def request_handlers(self) -> dict[type, Handler]:
        """Handlers of requests by class, which may be changed. The classes are created at the first access."""
        return self._handlers_by_class("Request")

    @cached_property
    def notification_handlers(self) -> dict[type, Handler]:
        """Handlers of notifications by class, which may be changed."""
        return self._handlers_by_class("Notification")

    def _handlers_by_class(self, suffix: str) -> dict[type, Handler]:
        return {getattr(types, name): it for name, it in self._handlers.items() if name.endswith(suffix)}

    def _by_class(self, name: str) -> dict[type, Handler] | None:
        return vars(self).get("request_handlers" if name.endswith("Request") else "notification_handlers")

    def register(self, name: str, handler: Handler) -> None:
        """Set the handler of the requests or notifications with this class name."""
        if (by_class := self._by_class(name)) is None:
            self._handlers[name] = handler
        else:
            by_class[getattr(types, name)] = handler

    def handler(self, name: str) -> tuple[Incomplete, Handler] | None:
        """Return the class with this name, of any package, and its handler; None if there is none.

        The class is None if it was not created yet.
        """
        if (by_class := self._by_class(name)) is not None:
            return next((each for each in by_class.items() if each[0].__name__ == name), None)
        return (None, self._handlers[name]) if name in self._handlers else None

    # Information about the server

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, Json] | None = None,
    ) -> InitializationOptions:
        """Return the information for the result of `initialize`."""
        return InitializationOptions(
            server_name=self.name,
            server_version=self.version or __version__,
            capabilities=self.get_capabilities(
                notification_options or NotificationOptions(), experimental_capabilities or {}
            ),
            instructions=self.instructions,
            website_url=self.website_url,
            icons=self.icons,
        )

    def get_capabilities(
        self, notification_options: NotificationOptions, experimental_capabilities: dict[str, Json]
    ) -> Incomplete:
        """Return the capabilities that have handlers."""
        capabilities: Json = {"experimental": experimental_capabilities}
        for name, request in _REQUESTS.items():
            if self.handler(request):
                members = optional(listChanged=getattr(notification_options, f"{name}_changed", None))
                if name == "resources":
                    members["subscribe"] = False
                capabilities[name] = getattr(types, f"{name.capitalize()}Capability")(**members)
        return types.ServerCapabilities(**capabilities)

    # Serving

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
        handlers = HandlerMiddleware(self)
        served.middleware(handlers)
        served.engine.notification_listeners.add(handlers.on_notification)
        return served

    @property
    def request_context(self) -> RequestContext[Incomplete, Incomplete, Incomplete]:
        """The context of the current request. Raises LookupError outside of a request."""
        return request_ctx.get()

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
            text = "mcpkit sends errors as responses and starts sessions"
            log_difference("run", f"run(raise_exceptions=, stateless=) has no effect: {text}")
        self.initialization_options = initialization_options
        if (serve := getattr(read_stream, "serve", None)) is not None:
            await serve(self.served)
            return
        from ...transports.in_process import serve_messages

        await serve_messages(self.served, read_stream, write_stream)

    # Tools

    def call_tool(self, *, validate_input: bool = True) -> Decorator:
        """Return a decorator for the function that calls tools; arguments and results are validated."""

        def handler_of(_: AnyServer, function: Handler) -> Handler:
            async def handler(request: Incomplete) -> object:
                name: str = request.params.name
                arguments: Json = request.params.arguments or {}
                try:
                    return await self._call_tool(function, name, arguments, validate_input)
                except MissingCapabilityError:
                    raise
                except Exception as error:
                    if is_kind(type(error), "UrlElicitationRequiredError"):
                        raise
                    return self._make_error_result(str(error))

            return handler

        return _registers("CallToolRequest", handler_of)(self)

    async def _call_tool(self, function: Handler, name: str, arguments: Json, validate_input: bool) -> object:
        tool = await self._get_cached_tool_definition(name)
        if validate_input and tool and (problem := self._problem(arguments, tool.inputSchema)):
            return self._make_error_result(f"Input validation error: {problem}")
        value: Incomplete = await function(name, arguments)
        kind: type[object] = value.__class__
        structured: Incomplete = None
        if is_kind(kind, "CallToolResult", "CreateTaskResult"):
            return HandlerResult(value)
        if issubclass(kind, tuple) and len(value) == 2:
            value, structured = value
        elif issubclass(kind, dict):
            value, structured = [types.TextContent(type="text", text=json.dumps(value, indent=2))], value
        elif not issubclass(kind, Iterable):
            return self._make_error_result(f"Unexpected return type from tool: {kind.__name__}")
        if tool and tool.outputSchema is not None:
            problem = "outputSchema defined but no structured output returned"
            if structured is None or (problem := self._problem(structured, tool.outputSchema)):
                return self._make_error_result(f"Output validation error: {problem}")
        content: list[Incomplete] = [to_own(each) for each in value]
        return HandlerResult(
            types.CallToolResult(content=content, structuredContent=structured, isError=False)
        )

    def _make_error_result(self, error_message: str) -> object:
        text = types.TextContent(type="text", text=error_message)
        return HandlerResult(types.CallToolResult(content=[text], isError=True))

    async def _get_cached_tool_definition(self, tool_name: str) -> Incomplete:
        found = None if tool_name in self._tool_cache else self.handler("ListToolsRequest")
        if found is not None:
            await found[1](None)
        return self._tool_cache.get(tool_name)

    def cache_tools(self, tools: Iterable[Incomplete], *, adds: bool) -> None:
        """Cache listed tools for later calls: in addition to those of earlier pages, or instead of them."""
        if not adds:
            self._tool_cache.clear()
            self._schemas.clear()
        self._tool_cache.update((tool.name, tool) for tool in tools)

    def _problem(self, value: object, schema: Json) -> str | None:
        known = self._schemas.get(id(schema))
        if known is None:
            known = self._schemas[id(schema)] = ToolSchema(schema)
        return known.problem(value)


class ToolSchema:
    """A JSON Schema that is compiled once. `jsonschema` is only imported for the message about an invalid value."""

    def __init__(self, schema: Json) -> None:
        from ...client.server_schemas_and_typed_results import ServerSchema, UnusableSchemaError

        self.schema = schema
        self._check: Callable[[object], str | None] | None = None
        try:
            self._quick: ServerSchema | None = ServerSchema(schema)
        except UnusableSchemaError:
            self._quick = None  # `jsonschema` decides

    def problem(self, value: object) -> str | None:
        """Return the first problem of a value; None if it is valid."""
        if self._quick is not None and self._quick.is_whole and not self._quick.problems(value):
            return None
        if self._check is None:
            try:
                self._check = jsonschema_check(self.schema)
            except ImportError:
                raise RuntimeError(missing_package("this schema", "jsonschema", "compat")) from None
        return self._check(value)


# Requests of the mcpkit server


class HandlerMiddleware:
    """Calls the handlers of a low-level server; the engine serves requests without a handler."""

    def __init__(self, server: AnyServer) -> None:
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, request: Request, call_next: CallNext) -> Mapping[str, object]:
        """Serve one request, in either era."""
        method, ctx = request.method, request.ctx
        name = types.METHODS.get(method)
        if name is None or method == "initialize":
            result = await call_next(request)
            if method in {"initialize", "server/discover"}:
                self._set_server_info(request, result)
            return result
        found = self._server.handler(name)
        if found is None:
            raise ProtocolError(METHOD_NOT_FOUND, "Method not found")
        kind, handler = found
        message: Incomplete = None
        takes_request = getattr(handler, "with_request", True)
        if request.params or takes_request:
            try:
                message = _parse(kind, name, optional(method=method, params=request.params or None))
            except ValidationError:
                raise ProtocolError(INVALID_PARAMS, "Invalid request parameters", "") from None
        http = http_request.get()
        can_resume = http is not None and ctx.protocol_version in RESUMABLE
        context: RequestContext[object] = RequestContext(
            ctx.request_id,
            message.params.meta if request.params else None,
            session_of(ctx),
            {} if ctx.state is None else ctx.state,
            request=http,
            close_sse_stream=ctx.http.close_stream if can_resume else None,
            native=ctx,
        )
        token = request_ctx.set(context)
        try:
            value = await handler(message)
            value = getattr(value, "root", value)
            if call_of(ctx).era == "stateless":  # the engine adds members of that era
                return to_json_object(value)
            body = to_json(value, by_alias=True, exclude_none=True, inf_nan_mode="null")
            return (ToolCallResult if method == "tools/call" else Result)(body)
        except (HandlerError, ProtocolError):
            raise
        except Exception as error:
            data: Incomplete = getattr(error, "error", None)
            if hasattr(data, "code") and hasattr(data, "message"):  # McpError
                raise ProtocolError(data.code, data.message, data.data) from error
            raise ProtocolError(0, str(error)) from error
        finally:
            request_ctx.reset(token)

    def _set_server_info(self, request: Request, result: Result) -> None:
        """Set the information of the low-level server in the result of `initialize` or `server/discover`."""
        options = self._server.initialization_options or self._server.create_initialization_options()
        values = to_json_object(options)
        info = {"name": values["server_name"], "version": values["server_version"]}
        info |= optional(websiteUrl=values.get("website_url"), icons=values.get("icons"))
        result["capabilities"] = values["capabilities"]
        if "instructions" in values:
            result["instructions"] = values["instructions"]
        envelope = call_of(request.ctx).envelope
        if isinstance(envelope, Handshake):
            result["serverInfo"] = info
            envelope.lists = frozenset()  # the server sends notifications of changes itself
        else:
            result["_meta"] = {SERVER_INFO: info}

    def on_notification(self, method: str, params: object) -> None:
        """Pass a notification of a client to its handler, if there is one."""
        name = types.METHODS.get(method)
        found = None if name is None else self._server.handler(name)
        if name is not None and found is not None:
            kind, handler = found
            message = optional(method=method, params=params)

            async def handle() -> None:
                try:
                    await handler(_parse(kind, name, message))
                except Exception:
                    logger.exception("The handler of a notification raised")

            task = asyncio.get_running_loop().create_task(handle())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


def _parse(kind: type[BaseModel] | None, name: str, message: Json) -> Incomplete:
    """Return a message as an instance of its class, or of the class of mcpkit with this name."""
    return (kind or getattr(types, name)).model_validate(message)
