"""`FastMCP` of the package `fastmcp`: a server with decorators for tools, resources and prompts."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial, partialmethod
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
from ..lowlevel.client_session import request_ctx
from ..lowlevel.lowlevel_server import NotificationOptions
from ..mcp_fastmcp.server import FastMCP as PlainFastMCP
from ..mcp_fastmcp.settings import get_logger
from .components import Component, check
from .context import Context
from .dependencies import current
from .exceptions import FastMCPError, NotFoundError, PromptError, ResourceError, ToolError, ValidationError
from .options import ASKED, HTTP, OWN, REFUSED, UNUSED, settings
from .prompts import Prompt, PromptResult
from .refusing import Refuses, check_positional
from .registry import Registry
from .resources import Resource, ResourceResult, ResourceTemplate, leads_out
from .schemas import inlined
from .tools import Tool, ToolResult

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from ...server import Server as Served

logger = get_logger("fastmcp.server")


class FastMCP(Refuses, Registry, PlainFastMCP[object]):  # type: ignore[misc]  # some methods take what those of fastmcp take
    """A server with the interface of `fastmcp.FastMCP`.

    Args:
        name: Name of the server.
        instructions: Instructions for the model.
        options: As in `fastmcp`. An unsupported option raises an error with the alternative.
    """

    refused = REFUSED

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        *positional: object,
        **options: Incomplete,
    ) -> None:
        check_positional("FastMCP()", positional, "auth=, lifespan=")
        check("FastMCP()", options, OWN, REFUSED, UNUSED)
        given = {each: value for each, value in options.items() if value is not None}
        http = {each: given.get(each, getattr(settings, each)) for each in HTTP}
        PlainFastMCP.__init__(
            self,
            name,
            instructions,
            given.get("website_url"),
            given.get("icons"),
            lifespan=self.all_lifespans,
            **http,
        )
        del self._tool_manager, self._resource_manager, self._prompt_manager
        self._mcp_server.version = str(given["version"]) if "version" in given else None
        self._lifespan: Callable[[FastMCP], Incomplete] | None = given.get("lifespan")
        usual = given.get("on_duplicate", "warn")
        kinds = ("tool", "resource", "prompt")
        Registry.__init__(self, {kind: given.get(f"on_duplicate_{kind}s", usual) for kind in kinds})
        self._masks: bool = given.get("mask_error_details", settings.mask_error_details)
        self.strict_input_validation: bool = given.get(
            "strict_input_validation", settings.strict_input_validation
        )
        self.client_log_level: str | None = given.get("client_log_level", settings.client_log_level)
        self._change = inlined if given.get("dereference_schemas", True) else None
        self._experimental: Json | None = given.get("experimental_capabilities")
        self.transport: str | None = None
        self._introduce()
        for tool in given.get("tools", ()):
            self.add_tool(tool)

    def _introduce(self) -> None:
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
        self._introduce()

    @property
    def served(self) -> Served:
        """The mcpkit server behind this one."""
        return self._mcp_server.served

    @property
    def version(self) -> str | None:
        """Version of the server."""
        return self._mcp_server.version

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

        async def complete(*asked: Incomplete) -> Incomplete:
            found = handler(*asked)
            found = await found if inspect.isawaitable(found) else found
            if not is_array(found):
                return found
            more: Json = {"total": len(found), "hasMore": True} if len(found) > 100 else {}
            return types.Completion(values=found[:100], **more)

        register: Incomplete = self._mcp_server.completion()
        register(complete)
        self._introduce()
        return handler

    # What clients ask

    def _setup_handlers(self) -> None:
        self._mcp_server.request_handlers = {
            types.ListToolsRequest: self._listing("tools", self.list_tools),
            types.ListResourcesRequest: self._listing("resources", self.list_resources),
            types.ListResourceTemplatesRequest: self._listing(
                "resourceTemplates", self.list_resource_templates
            ),
            types.ListPromptsRequest: self._listing("prompts", self.list_prompts),
            types.CallToolRequest: self._answer_call,
            types.ReadResourceRequest: self._answer_read,
            types.GetPromptRequest: self._answer_prompt,
            types.SetLevelRequest: self._answer_level,
        }

    def _listing(self, member: str, found: Callable[[], Incomplete]) -> Callable[[object], Incomplete]:
        async def answer(_: object) -> Json:
            return {member: [each.listed(self._change) for each in await found()]}

        return answer

    @contextmanager
    def _serving(self, component: Component, what: str, failure: type[FastMCPError]) -> Generator[None]:
        token = current.set(Context(component.server, request_ctx.get(None)))
        try:
            yield
        except (FastMCPError, HandlerError, MissingCapabilityError):
            raise
        except Exception as error:
            logger.exception("Error %s", what)
            details = "" if self._masks else f": {error}"
            raise failure(_actionable(error) or f"Error {what}{details}") from error
        finally:
            current.reset(token)

    async def call_tool(self, name: str, arguments: Json | None = None, **options: object) -> ToolResult:
        """Call a tool. Raises NotFoundError, ValidationError or ToolError."""
        check("call_tool()", options, (), ASKED, UNUSED)
        tool = self._find(Tool, name)
        with self._serving(tool, f"calling tool {name!r}", ToolError):
            return await tool.run(arguments or {}, strict=self.strict_input_validation)

    async def read_resource(  # type: ignore[override]  # as fastmcp has it
        self, uri: Incomplete, **options: object
    ) -> ResourceResult:
        """Read a resource. Raises NotFoundError or ResourceError."""
        check("read_resource()", options, (), ASKED, UNUSED)
        component, read = self._reader(str(uri))
        with self._serving(component, f"reading resource {str(uri)!r}", ResourceError):
            found: ResourceResult = await read()
            return found

    def _reader(self, uri: str) -> tuple[Component, Callable[[], Incomplete]]:
        try:
            resource = self._find(Resource, uri)
        except NotFoundError:
            for template in self.all_of(ResourceTemplate).values():
                if (params := template.matches(uri)) is not None:
                    if any(map(leads_out, params.values())):
                        break
                    return template, partial(template.read, params)
            raise
        return resource, resource.read

    async def render_prompt(
        self, name: str, arguments: Json | None = None, **options: object
    ) -> PromptResult:
        """Return the messages of a prompt. Raises NotFoundError or PromptError."""
        check("render_prompt()", options, (), ASKED, UNUSED)
        prompt = self._find(Prompt, name)
        with self._serving(prompt, f"rendering prompt {name!r}", PromptError):
            return await prompt.render(arguments)

    async def get_prompt(  # pyright: ignore[reportIncompatibleMethodOverride]  # as fastmcp has it
        self, name: str, version: object = None
    ) -> Incomplete:
        """Return a prompt. Raises NotFoundError if there is none with this name."""
        check("get_prompt()", {"version": version}, (), ASKED)
        return self._find(Prompt, name)

    async def _answer_call(self, request: Incomplete) -> Json:
        name = request.params.name
        try:
            return (await self.call_tool(name, request.params.arguments)).answer()
        except NotFoundError:
            text = f"Unknown tool: {name!r}"
        except FastMCPError as error:
            text = str(error)
        return {"content": [{"type": "text", "text": text}], "isError": True}

    async def _answer_read(self, request: Incomplete) -> Json:
        uri = str(request.params.uri)
        try:
            return (await self.read_resource(uri)).answer(uri)
        except NotFoundError:
            raise ProtocolError(INVALID_PARAMS, f"Resource not found: {uri!r}", {"uri": uri}) from None
        except FastMCPError as error:
            raise _refused(error) from error

    async def _answer_prompt(self, request: Incomplete) -> Json:
        name = request.params.name
        try:
            return (await self.render_prompt(name, request.params.arguments)).answer()
        except NotFoundError:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name!r}") from None
        except FastMCPError as error:
            raise _refused(error) from error

    async def _answer_level(self, request: Incomplete) -> Json:
        self.sessions.levels[request_ctx.get().session] = request.params.level
        return {}

    # How it is served

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
        check('run("stdio")', options, (), {}, ("log_level", "stateless", "host", "port", "path"))
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
        """Serve HTTP at a host and a port."""
        from .http import serve

        if isinstance(show_banner, str):
            raise TypeError(
                f"run_http_async() takes show_banner first, as in fastmcp 4. Pass transport={show_banner!r} by name"
            )
        own = {"log_level": log_level, "uvicorn_config": uvicorn_config, "middleware": middleware}
        await serve(self, transport, host, port, path, {**options, **own})

    async def run_streamable_http_async(
        self,
        host: str | None = None,
        port: int | None = None,
        log_level: str | None = None,
        path: str | None = None,
        uvicorn_config: Json | None = None,
    ) -> None:
        """Serve streamable HTTP at a host and a port."""
        await self.run_http_async(None, "http", host, port, log_level, path, uvicorn_config)

    async def run_sse_async(  # pyright: ignore[reportIncompatibleMethodOverride]  # as fastmcp 2 has it
        self,
        host: str | None = None,
        port: int | None = None,
        log_level: str | None = None,
        path: str | None = None,
        uvicorn_config: Json | None = None,
    ) -> None:
        """Serve HTTP+SSE at a host and a port."""
        await self.run_http_async(None, "sse", host, port, log_level, path, uvicorn_config)

    def http_app(
        self,
        path: str | None = None,
        middleware: Sequence[Incomplete] | None = None,
        json_response: bool | None = None,
        stateless_http: bool | None = None,
        transport: str = "http",
        **options: Incomplete,
    ) -> Starlette:
        """Return an ASGI app. If it is mounted in another app, that app must enter its `lifespan`."""
        from .http import app

        self._session_manager = None  # made anew, by the settings as they are now
        own = {"json_response": json_response, "stateless_http": stateless_http}
        return app(self, path, middleware or (), transport, {**options, **own})


def _actionable(error: Exception) -> str | None:
    """Return a message for the model if an upstream API has a rate limit or does not answer."""
    kinds = {each.__name__ for each in type(error).__mro__ if each.__module__.startswith("httpx")}
    status = getattr(getattr(error, "response", None), "status_code", None)
    if "HTTPStatusError" in kinds and status == 429:
        return "Rate limited by upstream API, please retry later"
    return "Upstream request timed out, please retry" if "TimeoutException" in kinds else None


def _refused(error: FastMCPError) -> ProtocolError:
    return ProtocolError(INVALID_PARAMS if isinstance(error, ValidationError) else INTERNAL_ERROR, str(error))
