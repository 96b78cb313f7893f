"""`FastMCP` of the package `fastmcp`: a server with decorators for tools, resources and prompts."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial, partialmethod
from operator import attrgetter
from typing import TYPE_CHECKING

from ..._utils.exceptions import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    HandlerError,
    MissingCapabilityError,
    ProtocolError,
)
from ...protocol.jsonrpc import Json, is_array
from ...protocol.objects import Incomplete
from .. import types
from ..lowlevel.lowlevel_server import NotificationOptions
from ..lowlevel.lowlevel_session import request_ctx
from ..mcp_fastmcp.mcp_server import FastMCP as McpFastMCP
from ..shared_models_and_settings import Settings as McpSettings
from .fastmcp_components import (
    HTTP_OPTIONS,
    IGNORED_OPTIONS,
    LOOKUP_ALTERNATIVES,
    SERVER_ALTERNATIVES,
    SERVER_OPTIONS,
    Component,
    FastMCPError,
    NotFoundError,
    PromptError,
    Replacement,
    ResourceError,
    ToolError,
    ValidationError,
    check_options,
    check_positional,
    settings,
)
from .fastmcp_context import Context
from .fastmcp_registry import Registry
from .fastmcp_tools import Tool, ToolResult
from .function_calls import current, inlined
from .resources_and_prompts import (
    Prompt,
    PromptResult,
    Resource,
    ResourceResult,
    ResourceTemplate,
    is_outside_path,
)

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ...server import Server as Served

logger = logging.getLogger("fastmcp.server")

_APP_OPTIONS = ("json_response", "stateless_http", "session_idle_timeout")
_HOST_OPTIONS = ("host_origin_protection", "allowed_hosts", "allowed_origins")
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def _runs_http(transport: str) -> Callable[..., Incomplete]:
    """Return a method that serves HTTP at a host and a port."""

    async def run(
        self: FastMCP,
        host: str | None = None,
        port: int | None = None,
        log_level: str | None = None,
        path: str | None = None,
        uvicorn_config: Json | None = None,
    ) -> None:
        await self.run_http_async(None, transport, host, port, log_level, path, uvicorn_config)

    return run


class FastMCP(Replacement, Registry, McpFastMCP[object]):  # type: ignore[misc]  # some methods take what those of fastmcp take
    """A server with the interface of `fastmcp.FastMCP`.

    Args:
        name: Name of the server.
        instructions: Instructions for the model.
        options: As in `fastmcp`. An unsupported option raises an error with the alternative.
    """

    refused = SERVER_ALTERNATIVES

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        *positional: object,
        **options: Incomplete,
    ) -> None:
        check_positional("FastMCP()", positional, "auth=, lifespan=")
        check_options("FastMCP()", options, SERVER_OPTIONS, SERVER_ALTERNATIVES, IGNORED_OPTIONS)
        options = {each: value for each, value in options.items() if value is not None}
        http = {each: options.get(each, getattr(settings, each)) for each in HTTP_OPTIONS}
        McpFastMCP.__init__(
            self,
            name,
            instructions,
            options.get("website_url"),
            options.get("icons"),
            lifespan=self.all_lifespans,
            **http,
        )
        del self._tool_manager, self._resource_manager, self._prompt_manager
        self._mcp_server.version = str(options["version"]) if "version" in options else None
        self._lifespan: Callable[[FastMCP], Incomplete] | None = options.get("lifespan")
        default: str = options.get("on_duplicate", "warn")
        kinds = ("tool", "resource", "prompt")
        Registry.__init__(self, {kind: options.get(f"on_duplicate_{kind}s", default) for kind in kinds})
        self._masks_errors: bool = options.get("mask_error_details", settings.mask_error_details)
        self.strict_input_validation: bool = options.get(
            "strict_input_validation", settings.strict_input_validation
        )
        self.client_log_level: str | None = options.get("client_log_level", settings.client_log_level)
        self._schema_change = inlined if options.get("dereference_schemas", True) else None
        self._experimental: Json | None = options.get("experimental_capabilities")
        self.transport: str | None = None
        self._update_server_info()
        for tool in options.get("tools", ()):
            self.add_tool(tool)

    def _update_server_info(self) -> None:
        low = self._mcp_server
        every = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        low.initialization_options = low.create_initialization_options(every)
        low.initialization_options.capabilities.experimental = self._experimental

    @property
    def instructions(self) -> str | None:
        """Instructions for the model."""
        return self._mcp_server.instructions

    @instructions.setter
    def instructions(self, value: str | None) -> None:
        self._mcp_server.instructions = value
        self._update_server_info()

    served: Served = property(attrgetter("_mcp_server.served"), doc="The mcpkit server behind this one.")  # type: ignore[assignment]  # of this class
    version = property(attrgetter("_mcp_server.version"), doc="Version of the server.")

    @asynccontextmanager
    async def all_lifespans(self, _: object = None) -> AsyncGenerator[Incomplete]:
        """Enter the lifespans of mounted servers, and then that of this server."""
        async with AsyncExitStack() as stack:
            for server, _namespace in self._mounted:
                await stack.enter_async_context(server.all_lifespans())
            yield {} if self._lifespan is None else await stack.enter_async_context(self._lifespan(self))

    def completion(self, handler: Incomplete = None) -> Incomplete:
        """Register the function that completes arguments: `(ref, argument, context)`. It is a decorator."""
        if handler is None:
            return self.completion

        async def complete(*arguments: Incomplete) -> Incomplete:
            values = handler(*arguments)
            values = await values if inspect.isawaitable(values) else values
            if not is_array(values):
                return values
            more: Json = {"total": len(values), "hasMore": True} if len(values) > 100 else {}
            return types.Completion(values=values[:100], **more)

        register: Incomplete = self._mcp_server.completion()
        register(complete)
        self._update_server_info()
        return handler

    # Requests of clients

    def _setup_handlers(self) -> None:
        self._mcp_server.request_handlers = {
            types.ListToolsRequest: self._list_handler("tools", self.list_tools),
            types.ListResourcesRequest: self._list_handler("resources", self.list_resources),
            types.ListResourceTemplatesRequest: self._list_handler(
                "resourceTemplates", self.list_resource_templates
            ),
            types.ListPromptsRequest: self._list_handler("prompts", self.list_prompts),
            types.CallToolRequest: self._handle_call,
            types.ReadResourceRequest: self._handle_read,
            types.GetPromptRequest: self._handle_prompt,
            types.SetLevelRequest: self._handle_level,
        }

    def _list_handler(
        self, member: str, components: Callable[[], Incomplete]
    ) -> Callable[[object], Incomplete]:
        async def handler(_: object) -> Json:
            return {member: [each.listed(self._schema_change) for each in await components()]}

        return handler

    @contextmanager
    def _request_scope(
        self, component: Component, action: str, failure: type[FastMCPError]
    ) -> Generator[None]:
        token = current.set(Context(component.server, request_ctx.get(None)))
        try:
            yield
        except (FastMCPError, HandlerError, MissingCapabilityError):
            raise
        except Exception as error:
            logger.exception("Error %s", action)
            details = "" if self._masks_errors else f": {error}"
            raise failure(_upstream_problem(error) or f"Error {action}{details}") from error
        finally:
            current.reset(token)

    async def call_tool(self, name: str, arguments: Json | None = None, **options: object) -> ToolResult:
        """Call a tool. Raises NotFoundError, ValidationError or ToolError."""
        check_options("call_tool()", options, (), LOOKUP_ALTERNATIVES, IGNORED_OPTIONS)
        tool = self._find(Tool, name)
        with self._request_scope(tool, f"calling tool {name!r}", ToolError):
            return await tool.run(arguments or {}, strict=self.strict_input_validation)

    async def read_resource(  # type: ignore[override]  # as fastmcp has it
        self, uri: Incomplete, **options: object
    ) -> ResourceResult:
        """Read a resource. Raises NotFoundError or ResourceError."""
        check_options("read_resource()", options, (), LOOKUP_ALTERNATIVES, IGNORED_OPTIONS)
        component, read = self._reader(str(uri))
        with self._request_scope(component, f"reading resource {str(uri)!r}", ResourceError):
            result: ResourceResult = await read()
            return result

    def _reader(self, uri: str) -> tuple[Component, Callable[[], Incomplete]]:
        try:
            resource = self._find(Resource, uri)
        except NotFoundError:
            for template in self.all_of(ResourceTemplate).values():
                if (params := template.matches(uri)) is not None:
                    if any(map(is_outside_path, params.values())):
                        break
                    return template, partial(template.read, params)
            raise
        return resource, resource.read

    async def render_prompt(
        self, name: str, arguments: Json | None = None, **options: object
    ) -> PromptResult:
        """Return the messages of a prompt. Raises NotFoundError or PromptError."""
        check_options("render_prompt()", options, (), LOOKUP_ALTERNATIVES, IGNORED_OPTIONS)
        prompt = self._find(Prompt, name)
        with self._request_scope(prompt, f"rendering prompt {name!r}", PromptError):
            return await prompt.render(arguments)

    async def get_prompt(  # pyright: ignore[reportIncompatibleMethodOverride]  # as fastmcp has it
        self, name: str, version: object = None
    ) -> Incomplete:
        """Return a prompt. Raises NotFoundError if there is none with this name."""
        check_options("get_prompt()", {"version": version}, (), LOOKUP_ALTERNATIVES)
        return self._find(Prompt, name)

    async def _handle_call(self, request: Incomplete) -> Json:
        name = request.params.name
        try:
            return (await self.call_tool(name, request.params.arguments)).to_result()
        except NotFoundError:
            text = f"Unknown tool: {name!r}"
        except FastMCPError as error:
            text = str(error)
        return {"content": [{"type": "text", "text": text}], "isError": True}

    async def _handle_read(self, request: Incomplete) -> Json:
        uri = str(request.params.uri)
        try:
            return (await self.read_resource(uri)).to_result(uri)
        except NotFoundError:
            raise ProtocolError(INVALID_PARAMS, f"Resource not found: {uri!r}", {"uri": uri}) from None
        except FastMCPError as error:
            raise _protocol_error(error) from error

    async def _handle_prompt(self, request: Incomplete) -> Json:
        name = request.params.name
        try:
            return (await self.render_prompt(name, request.params.arguments)).to_result()
        except NotFoundError:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name!r}") from None
        except FastMCPError as error:
            raise _protocol_error(error) from error

    async def _handle_level(self, request: Incomplete) -> Json:
        self.sessions.levels[request_ctx.get().session] = request.params.level
        return {}

    # Serving

    def run(  # type: ignore[override]  # as fastmcp has it
        self, transport: str | None = None, show_banner: bool | None = None, **options: Incomplete
    ) -> None:
        """Serve until standard input ends or a signal arrives, over `stdio`, `http` (`streamable-http`) or `sse`."""
        if (transport or settings.transport) == "stdio":
            from ...transports.stdio import run_stdio

            self._check_stdio(options)
            run_stdio(self._mcp_server.served)
        else:
            asyncio.run(self.run_async(transport, **options))

    def _check_stdio(self, options: Json) -> None:
        check_options('run("stdio")', options, ignored=("log_level", "stateless", "host", "port", "path"))
        self.transport = "stdio"

    async def run_async(
        self, transport: str | None = None, show_banner: bool | None = None, **options: Incomplete
    ) -> None:
        """Serve like `run`, in an event loop that is already running."""
        transport = transport or settings.transport
        if transport == "stdio":
            self._check_stdio(options)
            await super().run_stdio_async()
        else:
            await self.run_http_async(transport=transport, **options)

    run_stdio_async: Incomplete = partialmethod(run_async, "stdio")

    async def run_http_async(
        self,
        show_banner: Incomplete = None,
        transport: str = "http",
        host: str | None = None,
        port: int | None = None,
        log_level: str | None = None,
        path: str | None = None,
        uvicorn_config: Json | None = None,
        middleware: Sequence[Incomplete] | None = None,
        **options: Incomplete,
    ) -> None:
        """Serve HTTP at a host and a port; at a loopback address, requests to loopback hosts only."""
        if isinstance(show_banner, str):
            raise TypeError(
                f"run_http_async() takes show_banner first, as in fastmcp 4. Pass transport={show_banner!r} by name"
            )
        import uvicorn

        address = {"host": host, "port": port}
        self.settings = self.settings.model_copy(
            update={name: each for name, each in address.items() if each is not None}
        )
        config: Json = {
            "timeout_graceful_shutdown": 2,
            "log_level": (log_level or self.settings.log_level).lower(),
            **(uvicorn_config or {}),
        }
        sockets = options.pop("sockets", None)
        if (stateless := options.pop("stateless", None)) is not None:
            options.setdefault("stateless_http", stateless)
        options.setdefault("host_origin_protection", self.settings.host in _LOOPBACK)
        app = self.http_app(path, middleware, transport=transport, **options)
        await uvicorn.Server(uvicorn.Config(app, self.settings.host, self.settings.port, **config)).serve(
            sockets
        )

    run_streamable_http_async: Incomplete = _runs_http("http")
    run_sse_async: Incomplete = _runs_http("sse")

    def http_app(
        self,
        path: str | None = None,
        middleware: Sequence[Incomplete] | None = None,
        json_response: bool | None = None,
        stateless_http: bool | None = None,
        transport: str = "http",
        **options: Incomplete,
    ) -> Starlette:
        """Return an ASGI app. It accepts all hosts and origins unless options restrict them.

        If it is mounted in another app, that app must enter its `lifespan`.
        """
        self._session_manager = None  # a new one is created with the current settings
        options = {**options, "json_response": json_response, "stateless_http": stateless_http}
        check_options(
            "http_app()", options, {*_APP_OPTIONS, *_HOST_OPTIONS}, ignored=("event_store", "retry_interval")
        )
        if transport not in ("http", "streamable-http", "sse"):
            raise ValueError(f"Unknown transport: {transport}")
        is_sse = transport == "sse"
        if is_sse and options.get("stateless_http"):
            raise ValueError("SSE transport does not support stateless mode")
        values = {name: options.get(name) for name in _APP_OPTIONS}
        values["sse_path" if is_sse else "streamable_http_path"] = path
        hosts: list[str] = options.get("allowed_hosts") or []
        origins: list[str] = options.get("allowed_origins") or []
        local = McpSettings(host="127.0.0.1").transport_security
        assert local is not None, "the settings of a loopback address allow loopback hosts only"
        security = local.model_copy(
            update={
                "enable_dns_rebinding_protection": bool(
                    hosts or origins or options.get("host_origin_protection")
                ),
                "allowed_hosts": [*local.allowed_hosts, *hosts, *(f"{each}:*" for each in hosts)],
                "allowed_origins": [*local.allowed_origins, *origins],
            }
        )
        known = {name: each for name, each in values.items() if each is not None}
        self.settings = self.settings.model_copy(update={**known, "transport_security": security})
        self.transport = "sse" if is_sse else "streamable-http"
        app: Incomplete = self.sse_app() if is_sse else self.streamable_http_app()
        for each in reversed(middleware or ()):
            app.add_middleware(each.cls, *each.args, **each.kwargs)
        app.lifespan = app.router.lifespan_context
        starlette: Starlette = app
        return starlette


def _upstream_problem(error: Exception) -> str | None:
    """Return a message for the model if an upstream API has a rate limit or does not answer."""
    kinds = {each.__name__ for each in type(error).__mro__ if each.__module__.startswith("httpx")}
    status = getattr(getattr(error, "response", None), "status_code", None)
    if "HTTPStatusError" in kinds and status == 429:
        return "Rate limited by upstream API, please retry later"
    return "Upstream request timed out, please retry" if "TimeoutException" in kinds else None


def _protocol_error(error: FastMCPError) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS if isinstance(error, ValidationError) else INTERNAL_ERROR, str(error))
