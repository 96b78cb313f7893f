"""`FastMCP`: a server whose tools, resources and prompts are functions under decorators."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias

from pydantic_core import to_jsonable_python
from typing_extensions import TypeVar, Unpack

from ...common.current import running_loop
from ...protocol.types import Incomplete, Json
from .. import types
from ..foreign import find_context_parameter
from ..lowlevel.server import Handler, ReadResourceContents, Server
from ..lowlevel.session import ServerSession, request_ctx
from ..types.unbuilt import made
from .context import Context
from .described import check_names, listed
from .exceptions import ResourceError
from .prompts import Prompt, PromptManager
from .resources import FunctionResource, Options, Resource, ResourceManager
from .settings import Settings, configure_logging, get_logger
from .tools import Tool, ToolManager, ToolOptions

if TYPE_CHECKING:
    from pydantic import AnyUrl
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.routing import Route

    from ..auth import AuthSettings, TokenVerifier
    from ..lowlevel.serving import StreamableHTTPSessionManager
    from .http import Apps

Decorator: TypeAlias = Callable[[types.AnyFunction], types.AnyFunction]
LifespanResultT = TypeVar("LifespanResultT", default="Incomplete")
logger = get_logger("mcp.server.fastmcp.server")


def _decorator(name: str, given: object, register: Callable[[types.AnyFunction], object]) -> Decorator:
    """Return a decorator that registers functions; without its parentheses a function is `given` in their place."""
    if callable(given):
        use = f"{name}('uri')" if name == "resource" else f"{name}()"
        raise TypeError(
            f"The @{name} decorator was used incorrectly. Did you forget to call it? Use @{use} instead of @{name}"
        )

    def decorator(fn: types.AnyFunction) -> types.AnyFunction:
        register(fn)
        return fn

    return decorator


def _check_auth(auth: AuthSettings | None, provider: object, verifier: TokenVerifier | None) -> None:
    if auth is None and (provider or verifier):
        raise ValueError("Cannot specify auth_server_provider or token_verifier without auth settings")
    if provider:
        raise NotImplementedError(
            "mcpkit.compat does not support FastMCP(auth_server_provider=). Use an authorization server and pass "
            "token_verifier=, or use Server(auth=) of mcpkit"
        )
    if auth is not None and not verifier:
        raise ValueError("Must specify either auth_server_provider or token_verifier when auth is enabled")


class FastMCP(Generic[LifespanResultT]):
    """A server.

    Args:
        name: What it is called.
        instructions: How a model should use it.
        website_url: Where people find more.
        icons: Pictures of it.
        auth_server_provider: Refused.
        token_verifier: Says what access tokens over HTTP are worth; takes `auth=`.
        event_store: Not used: what clients come back for is kept anyway.
        retry_interval: Not used either.
        tools: Tools that it has from the beginning.
        settings: As `Settings` has them.
    """

    def __init__(
        self,
        name: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: list[types.Icon] | None = None,
        auth_server_provider: object = None,
        token_verifier: TokenVerifier | None = None,
        event_store: object = None,
        retry_interval: int | None = None,
        *,
        tools: list[Tool] | None = None,
        **settings: Incomplete,
    ) -> None:
        check_names("FastMCP.__init__", settings, Settings.model_fields)
        self.settings = made(Settings, **settings)
        enter = self.settings.lifespan
        self._mcp_server: Server = Server(name or "FastMCP", None, instructions, website_url, icons)
        if enter is not None:
            self._mcp_server.lifespan = lambda _: enter(self)
        self._tool_manager = ToolManager(self.settings.warn_on_duplicate_tools, tools=tools)
        self._resource_manager = ResourceManager(self.settings.warn_on_duplicate_resources)
        self._prompt_manager = PromptManager(self.settings.warn_on_duplicate_prompts)
        _check_auth(self.settings.auth, auth_server_provider, token_verifier)
        self._token_verifier = token_verifier
        self._event_store, self._retry_interval = event_store, retry_interval
        self._custom_starlette_routes: list[Route] = []
        self._session_manager: StreamableHTTPSessionManager | None = None
        self.dependencies = self.settings.dependencies
        self._setup_handlers()
        configure_logging(self.settings.log_level)

    name = property(attrgetter("_mcp_server.name"), doc="Name of the server.")
    instructions = property(attrgetter("_mcp_server.instructions"), doc="Instructions for models.")
    website_url = property(attrgetter("_mcp_server.website_url"), doc="URL of the server's website.")
    icons = property(attrgetter("_mcp_server.icons"), doc="Icons of the server.")

    @property
    def session_manager(self) -> StreamableHTTPSessionManager:
        """What serves streamable HTTP, for apps that this one is mounted in."""
        if self._session_manager is None:
            raise RuntimeError(
                "Session manager can only be accessed aftercalling streamable_http_app()."
                "The session manager is created lazilyto avoid unnecessary initialization."
            )
        return self._session_manager

    def _setup_handlers(self) -> None:
        low = self._mcp_server
        low.call_tool(validate_input=False)(self.call_tool)
        lists = "list_tools", "list_resources", "list_resource_templates", "list_prompts"
        for name in (*lists, "read_resource", "get_prompt"):
            getattr(low, name)()(getattr(self, name))

    def get_context(self) -> Context[ServerSession, LifespanResultT, Request]:
        """Return the context of the request that is served; outside of one most of it raises ValueError."""
        served: Incomplete = request_ctx.get(None)
        return Context(request_context=served, fastmcp=self)

    # What clients ask

    async def list_tools(self) -> list[types.Tool]:
        """Return all tools."""
        return listed(types.Tool, self._tool_manager.list_tools())

    async def call_tool(self, name: str, arguments: Json) -> Incomplete:
        """Call a tool, and return its content, or that and its structured content."""
        return await self._tool_manager.call_tool(name, arguments, self.get_context(), convert_result=True)

    async def list_resources(self) -> list[types.Resource]:
        """Return all resources."""
        return listed(types.Resource, self._resource_manager.list_resources())

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """Return all templates of resources."""
        return listed(types.ResourceTemplate, self._resource_manager.list_templates())

    async def read_resource(self, uri: AnyUrl | str) -> Iterable[ReadResourceContents]:
        """Return what a resource holds."""
        resource = await self._resource_manager.get_resource(uri, context=self.get_context())
        try:
            content = await resource.read()
        except Exception as error:
            logger.exception("Error reading resource %s", uri)
            raise ResourceError(str(error)) from error
        return [ReadResourceContents(content=content, mime_type=resource.mime_type, meta=resource.meta)]

    async def list_prompts(self) -> list[types.Prompt]:
        """Return all prompts."""
        return listed(types.Prompt, self._prompt_manager.list_prompts())

    async def get_prompt(self, name: str, arguments: Json | None = None) -> types.GetPromptResult:
        """Return the messages that a prompt comes to."""
        try:
            messages = await self._prompt_manager.render_prompt(name, arguments, self.get_context())
            prompt, said = self._prompt_manager.get_prompt(name), to_jsonable_python(messages)
            return types.GetPromptResult(description=prompt.description if prompt else None, messages=said)
        except Exception as error:
            logger.exception("Error getting prompt %s", name)
            raise ValueError(str(error)) from error

    # What it is made of

    def add_tool(
        self,
        fn: types.AnyFunction,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> None:
        """Add a function as a tool."""
        check_names("FastMCP.add_tool", options, ToolOptions.__annotations__)
        self._tool_manager.add_tool(fn, name, title=title, description=description, **options)

    def remove_tool(self, name: str) -> None:
        """Remove a tool; a ToolError says that there is none of that name."""
        self._tool_manager.remove_tool(name)

    def tool(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Decorator:
        """Make a tool of the function below."""
        check_names("FastMCP.tool", options, ToolOptions.__annotations__)
        return _decorator("tool", name, lambda fn: self.add_tool(fn, name, title, description, **options))

    def completion(self) -> Callable[[Handler], Handler]:
        """Have the function below complete arguments: `(ref, argument, context)`."""
        return self._mcp_server.completion()

    def add_resource(self, resource: Resource) -> None:
        """Add a resource."""
        self._resource_manager.add_resource(resource)

    def resource(self, uri: str, *, name: str | None = None, **options: Unpack[Options]) -> Decorator:
        """Make a resource of the function below; where the URI or the function has parameters, a template."""
        check_names("FastMCP.resource", options, Options.__annotations__)

        def register(fn: types.AnyFunction) -> None:
            parameters = inspect.signature(fn).parameters
            if not parameters and not ("{" in uri and "}" in uri):
                self.add_resource(FunctionResource.from_function(fn, uri, name, **options))
                return
            taken, named = set(parameters) - {find_context_parameter(fn)}, set(re.findall(r"{(\w+)}", uri))
            if named != taken:
                raise ValueError(f"Mismatch between URI parameters {named} and function parameters {taken}")
            self._resource_manager.add_template(fn, uri, name, **options)

        return _decorator("resource", uri, register)

    def add_prompt(self, prompt: Prompt) -> None:
        """Add a prompt."""
        self._prompt_manager.add_prompt(prompt)

    def prompt(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        icons: list[types.Icon] | None = None,
    ) -> Decorator:
        """Make a prompt of the function below."""
        said = name, title, description, icons
        return _decorator("prompt", name, lambda fn: self.add_prompt(Prompt.from_function(fn, *said)))

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Decorator:
        """Serve a path over HTTP by the function below, which takes a Starlette Request; it asks for no token."""
        from starlette.routing import Route

        route = partial(Route, path, methods=methods, name=name, include_in_schema=include_in_schema)
        return _decorator("custom_route", None, lambda fn: self._custom_starlette_routes.append(route(fn)))

    # How it is served

    def run(
        self, transport: Literal["stdio", "sse", "streamable-http"] = "stdio", mount_path: str | None = None
    ) -> None:
        """Serve until the input ends or a signal comes."""
        if transport not in {"stdio", "sse", "streamable-http"}:
            raise ValueError(f"Unknown transport: {transport}")
        name = f"run_{transport.replace('-', '_')}_async"
        if running_loop() is not None:
            problem = "run() starts an event loop, but one is already running in this thread"
            raise RuntimeError(f"{problem}. Use `await mcp.{name}()` instead")
        serve: Incomplete = getattr(self, name)
        if getattr(serve, "__func__", None) is FastMCP.run_stdio_async:
            from ...transports.stdio import run_stdio

            run_stdio(self._mcp_server.served)
        else:
            asyncio.run(serve(mount_path) if transport == "sse" else serve())

    async def run_stdio_async(self) -> None:
        """Serve the host that has started this process."""
        from ...transports.stdio import serve_stdio

        await serve_stdio(self._mcp_server.served)

    async def run_sse_async(self, mount_path: str | None = None) -> None:
        """Serve HTTP with SSE at the host and port of the settings."""
        await self._apps().serve(self.sse_app(mount_path))

    async def run_streamable_http_async(self) -> None:
        """Serve streamable HTTP at the host and port of the settings."""
        await self._apps().serve(self.streamable_http_app())

    def sse_app(self, mount_path: str | None = None) -> Starlette:
        """Return an app that serves HTTP with SSE."""
        if mount_path is not None:
            self.settings.mount_path = mount_path
        return self._apps().sse(self._mcp_server)

    def streamable_http_app(self) -> Starlette:
        """Return an app that serves streamable HTTP as long as its lifespan, or `session_manager.run()`, lasts."""
        from ..lowlevel.serving import StreamableHTTPSessionManager

        settings = self.settings
        if self._session_manager is None:
            how = settings.json_response, settings.stateless_http, settings.transport_security
            limits = settings.session_idle_timeout, settings.max_request_body_size, settings.max_sessions
            self._session_manager = StreamableHTTPSessionManager(
                self._mcp_server, self._event_store, *how, self._retry_interval, *limits
            )
        return self._apps().streamable_http(self._session_manager)

    def _apps(self) -> Apps:
        from .http import Apps

        return Apps(self.settings, self._token_verifier, self._custom_starlette_routes)
