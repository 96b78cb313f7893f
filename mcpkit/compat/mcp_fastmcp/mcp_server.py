"""`FastMCP` of `mcp` 1.x, a server with decorators, and its `Context` with elicitation."""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial, partialmethod
from operator import attrgetter
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import core_schema, to_jsonable_python
from typing_extensions import TypeVar, Unpack

from ..._utils.concurrency import running_loop
from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from .. import types
from ..lowlevel.lowlevel_server import Handler, ReadResourceContents, Server
from ..lowlevel.lowlevel_session import RequestContext, ServerSession, request_ctx
from ..shared_models_and_settings import Settings, TokenVerifier, configure_logging, find_context_parameter
from .function_metadata import ResourceError
from .mcp_components import (
    FunctionResource,
    Prompt,
    PromptManager,
    Resource,
    ResourceManager,
    ResourceOptions,
    Tool,
    ToolManager,
    ToolOptions,
    check_names,
    listed,
)

if TYPE_CHECKING:
    from pydantic import AnyUrl
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.routing import Route

    from ..lowlevel.transports import StreamableHTTPSessionManager
    from .mcp_http_apps import HttpApps

SessionT = TypeVar("SessionT", bound="ServerSession", default="Incomplete")
LifespanT = TypeVar("LifespanT", default="Incomplete")
RequestT = TypeVar("RequestT", default="Incomplete")
ElicitSchemaModelT = TypeVar("ElicitSchemaModelT", bound=BaseModel)

# Elicitation

_PRIMITIVE_TYPES = (str, int, float, bool)


class AcceptedElicitation(BaseModel, Generic[ElicitSchemaModelT], defer_build=True):
    """The user accepted the request."""

    action: Literal["accept"] = "accept"
    data: ElicitSchemaModelT


class DeclinedElicitation(BaseModel, defer_build=True):
    """The user declined the request."""

    action: Literal["decline"] = "decline"


class CancelledElicitation(BaseModel, defer_build=True):
    """The user dismissed the request."""

    action: Literal["cancel"] = "cancel"


class AcceptedUrlElicitation(BaseModel, defer_build=True):
    """The user agreed to visit the page."""

    action: Literal["accept"] = "accept"


ElicitationResult = Union[AcceptedElicitation[ElicitSchemaModelT], DeclinedElicitation, CancelledElicitation]  # noqa: UP007
UrlElicitationResult = Union[AcceptedUrlElicitation, DeclinedElicitation, CancelledElicitation]  # noqa: UP007


def _is_primitive(annotation: object) -> bool:
    """Return True for the type of a field of a form."""
    is_union = get_origin(annotation) in {Union, UnionType}
    for each in get_args(annotation) if is_union else [annotation]:
        origin = get_origin(each)
        is_sequence = isinstance(origin, type) and issubclass(origin, Sequence)
        if each not in {None, NoneType, *_PRIMITIVE_TYPES} and not (is_sequence and get_args(each) == (str,)):
            return False
    return True


async def elicit_with_validation(
    session: ServerSession, message: str, schema: type[ElicitSchemaModelT], related_request_id: object = None
) -> ElicitationResult[ElicitSchemaModelT]:
    """Request that the user fills in the fields of a model."""
    for name, field in schema.model_fields.items():
        if not _is_primitive(field.annotation):
            raise TypeError(
                f"Elicitation schema field '{name}' must be a primitive type {_PRIMITIVE_TYPES}, a sequence of strings "
                "(list[str], etc.), or Optional of these types. Nested models and complex types are not allowed."
            )
    result = await session.elicit_form(message, schema.model_json_schema(), related_request_id)
    if result.action == "accept" and result.content is not None:
        return AcceptedElicitation(data=schema.model_validate(result.content))
    return _refused_elicitation(result.action)


async def elicit_url(
    session: ServerSession, message: str, url: str, elicitation_id: str, related_request_id: object = None
) -> UrlElicitationResult:
    """Request that the user visits a page."""
    result = await session.elicit_url(message, url, elicitation_id, related_request_id)
    return AcceptedUrlElicitation() if result.action == "accept" else _refused_elicitation(result.action)


def _refused_elicitation(action: str) -> DeclinedElicitation | CancelledElicitation:
    if action not in {"decline", "cancel"}:
        raise ValueError(f"Unexpected elicitation action: {action}")
    return DeclinedElicitation() if action == "decline" else CancelledElicitation()


# Context


class Context(Generic[SessionT, LifespanT, RequestT]):
    """The current request; passed to a parameter with this annotation."""

    __slots__ = ("_fastmcp", "_request_context")

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: object) -> core_schema.CoreSchema:
        return core_schema.is_instance_schema(cls)

    def __init__(
        self,
        *,
        request_context: RequestContext[SessionT, LifespanT, RequestT] | None = None,
        fastmcp: Incomplete = None,
    ) -> None:
        self._request_context, self._fastmcp = request_context, fastmcp

    @property
    def fastmcp(self) -> Incomplete:
        """The server."""
        if self._fastmcp is None:
            raise ValueError("Context is not available outside of a request")
        return self._fastmcp

    @property
    def request_context(self) -> RequestContext[SessionT, LifespanT, RequestT]:
        """The request context of the low-level server."""
        if self._request_context is None:
            raise ValueError("Context is not available outside of a request")
        return self._request_context

    async def report_progress(
        self, progress: float, total: float | None = None, message: str | None = None
    ) -> None:
        """Send a progress notification if the client requested progress."""
        if (token := getattr(self.request_context.meta, "progressToken", None)) is not None:
            await self.session.send_progress_notification(token, progress, total, message, self.request_id)

    async def read_resource(self, uri: str | AnyUrl) -> Iterable[ReadResourceContents]:
        """Read a resource of the same server."""
        assert self._fastmcp is not None, "Context is not available outside of a request"
        read: Iterable[ReadResourceContents] = await self._fastmcp.read_resource(uri)
        return read

    async def elicit(
        self, message: str, schema: type[ElicitSchemaModelT]
    ) -> ElicitationResult[ElicitSchemaModelT]:
        """Request that the user fills in the fields of a model with primitive fields."""
        return await elicit_with_validation(self.session, message, schema, self.request_id)

    async def elicit_url(self, message: str, url: str, elicitation_id: str) -> UrlElicitationResult:
        """Request that the user visits a page."""
        return await elicit_url(self.session, message, url, elicitation_id, self.request_id)

    async def log(self, level: types.LoggingLevel, message: str, *, logger_name: str | None = None) -> None:
        """Send a log message to the client."""
        await self.session.send_log_message(level, message, logger_name, self.request_id)

    debug = partialmethod(log, "debug")
    info = partialmethod(log, "info")
    warning = partialmethod(log, "warning")
    error = partialmethod(log, "error")

    @property
    def client_id(self) -> str | None:
        """The `client_id` in the request's `_meta`."""
        return getattr(self.request_context.meta, "client_id", None)

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return str(self.request_context.request_id)

    @property
    def session(self) -> SessionT:
        """The session object of the client."""
        return self.request_context.session

    async def close_sse_stream(self) -> None:
        """Close the event stream of this request, so that a client that can resume reconnects."""
        if self._request_context is not None and (close := self._request_context.close_sse_stream):
            await close()

    async def close_standalone_sse_stream(self) -> None:
        """Do nothing: the stream for messages outside of requests stays open until the client closes it."""


Decorator: TypeAlias = Callable[[types.AnyFunction], types.AnyFunction]
LifespanResultT = TypeVar("LifespanResultT", default="Incomplete")
logger = logging.getLogger("mcp.server.fastmcp.server")


def _decorator(name: str, argument: object, register: Callable[[types.AnyFunction], object]) -> Decorator:
    """Return a decorator that registers functions. `argument` is a function if the author forgot the parentheses."""
    if callable(argument):
        use = f"{name}('uri')" if name == "resource" else f"{name}()"
        raise TypeError(
            f"The @{name} decorator was used incorrectly. Did you forget to call it? Use @{use} instead of @{name}"
        )

    def decorator(fn: types.AnyFunction) -> types.AnyFunction:
        register(fn)
        return fn

    return decorator


# Server


class FastMCP(Generic[LifespanResultT]):
    """A server with the interface of `FastMCP` of `mcp` 1.x.

        mcp = FastMCP("weather")

        @mcp.tool()
        def get_forecast(city: str) -> str:
            ...

        mcp.run()

    Args:
        name: Name of the server.
        instructions: Instructions for the model.
        website_url: Page about the server.
        icons: Icons of the server.
        auth_server_provider: Not supported; raises NotImplementedError.
        token_verifier: Verifier of access tokens over HTTP; needs `auth=`.
        event_store: Ignored: mcpkit stores events itself.
        retry_interval: Ignored.
        tools: Tools that the server has from the start.
        settings: See `Settings`.
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
        self.settings = Settings(**settings)
        lifespan = self.settings.lifespan
        self._mcp_server: Server = Server(name or "FastMCP", None, instructions, website_url, icons)
        if lifespan is not None:
            self._mcp_server.lifespan = lambda _: lifespan(self)
        self._tool_manager = ToolManager(self.settings.warn_on_duplicate_tools, tools=tools)
        self._resource_manager = ResourceManager(self.settings.warn_on_duplicate_resources)
        self._prompt_manager = PromptManager(self.settings.warn_on_duplicate_prompts)
        auth = self.settings.auth
        if auth is None and (auth_server_provider or token_verifier):
            raise ValueError("Cannot specify auth_server_provider or token_verifier without auth settings")
        if auth_server_provider:
            raise NotImplementedError(
                "mcpkit.compat does not support FastMCP(auth_server_provider=). Use an authorization server and pass "
                "token_verifier=, or use Server(auth=) of mcpkit"
            )
        if auth is not None and not token_verifier:
            raise ValueError(
                "Must specify either auth_server_provider or token_verifier when auth is enabled"
            )
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
        """The manager of streamable HTTP sessions, for an app in which this one is mounted."""
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
        """Return the context of the current request. Outside of one, most of its attributes raise ValueError."""
        context: Incomplete = request_ctx.get(None)
        return Context(request_context=context, fastmcp=self)

    # Requests of clients

    async def list_tools(self) -> list[types.Tool]:
        """Return all tools."""
        return listed(types.Tool, self._tool_manager.list_tools())

    async def call_tool(self, name: str, arguments: Json) -> Incomplete:
        """Call a tool, and return its content, or a pair of content and structured content."""
        return await self._tool_manager.call_tool(name, arguments, self.get_context(), convert_result=True)

    async def list_resources(self) -> list[types.Resource]:
        """Return all resources."""
        return listed(types.Resource, self._resource_manager.list_resources())

    async def list_resource_templates(self) -> list[types.ResourceTemplate]:
        """Return all resource templates."""
        return listed(types.ResourceTemplate, self._resource_manager.list_templates())

    async def read_resource(self, uri: AnyUrl | str) -> Iterable[ReadResourceContents]:
        """Return the content of a resource."""
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
        """Return the messages of a prompt."""
        try:
            messages = await self._prompt_manager.render_prompt(name, arguments, self.get_context())
            prompt = self._prompt_manager.get_prompt(name)
            return types.GetPromptResult(
                description=prompt.description if prompt else None, messages=to_jsonable_python(messages)
            )
        except Exception as error:
            logger.exception("Error getting prompt %s", name)
            raise ValueError(str(error)) from error

    # Components

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
        """Remove a tool. Raises ToolError if there is none with this name."""
        self._tool_manager.remove_tool(name)

    def tool(
        self,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        **options: Unpack[ToolOptions],
    ) -> Decorator:
        """Return a decorator that registers a function as a tool."""
        check_names("FastMCP.tool", options, ToolOptions.__annotations__)
        return _decorator("tool", name, lambda fn: self.add_tool(fn, name, title, description, **options))

    def completion(self) -> Callable[[Handler], Handler]:
        """Return a decorator for the function that completes arguments: `(ref, argument, context)`."""
        return self._mcp_server.completion()

    def add_resource(self, resource: Resource) -> None:
        """Add a resource."""
        self._resource_manager.add_resource(resource)

    def resource(self, uri: str, *, name: str | None = None, **options: Unpack[ResourceOptions]) -> Decorator:
        """Return a decorator that registers a function as a resource, or as a template if the URI has parameters."""
        check_names("FastMCP.resource", options, ResourceOptions.__annotations__)

        def register(fn: types.AnyFunction) -> None:
            parameters = inspect.signature(fn).parameters
            if not parameters and not ("{" in uri and "}" in uri):
                self.add_resource(FunctionResource.from_function(fn, uri, name, **options))
                return
            names = set(parameters) - {find_context_parameter(fn)}
            in_uri = set(re.findall(r"{(\w+)}", uri))
            if in_uri != names:
                raise ValueError(f"Mismatch between URI parameters {in_uri} and function parameters {names}")
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
        """Return a decorator that registers a function as a prompt."""
        return _decorator(
            "prompt",
            name,
            lambda fn: self.add_prompt(Prompt.from_function(fn, name, title, description, icons)),
        )

    def custom_route(
        self, path: str, methods: list[str], name: str | None = None, include_in_schema: bool = True
    ) -> Decorator:
        """Return a decorator that adds an HTTP route without authentication; the function takes a Starlette Request."""
        from starlette.routing import Route

        route = partial(Route, path, methods=methods, name=name, include_in_schema=include_in_schema)
        return _decorator("custom_route", None, lambda fn: self._custom_starlette_routes.append(route(fn)))

    # Serving

    def run(
        self, transport: Literal["stdio", "sse", "streamable-http"] = "stdio", mount_path: str | None = None
    ) -> None:
        """Serve until standard input ends or a signal arrives."""
        if transport not in {"stdio", "sse", "streamable-http"}:
            raise ValueError(f"Unknown transport: {transport}")
        name = f"run_{transport.replace('-', '_')}_async"
        if running_loop() is not None:
            raise RuntimeError(
                "run() starts an event loop, but one is already running in this thread. "
                f"Use `await mcp.{name}()` instead"
            )
        serve: Incomplete = getattr(self, name)
        if getattr(serve, "__func__", None) is FastMCP.run_stdio_async:
            from ...transports.stdio import run_stdio

            run_stdio(self._mcp_server.served)
        else:
            asyncio.run(serve(mount_path) if transport == "sse" else serve())

    async def run_stdio_async(self) -> None:
        """Serve over standard input and output."""
        from ...transports.stdio import serve_stdio

        await serve_stdio(self._mcp_server.served)

    async def run_sse_async(self, mount_path: str | None = None) -> None:
        """Serve HTTP+SSE at the host and port of the settings."""
        await self._apps().serve(self.sse_app(mount_path))

    async def run_streamable_http_async(self) -> None:
        """Serve streamable HTTP at the host and port of the settings."""
        await self._apps().serve(self.streamable_http_app())

    def sse_app(self, mount_path: str | None = None) -> Starlette:
        """Return an ASGI app that serves HTTP+SSE."""
        if mount_path is not None:
            self.settings.mount_path = mount_path
        return self._apps().sse(self._mcp_server)

    def streamable_http_app(self) -> Starlette:
        """Return an ASGI app that serves streamable HTTP during its lifespan, or during `session_manager.run()`."""
        from ..lowlevel.transports import StreamableHTTPSessionManager

        settings = self.settings
        if self._session_manager is None:
            self._session_manager = StreamableHTTPSessionManager(
                self._mcp_server,
                self._event_store,
                settings.json_response,
                settings.stateless_http,
                settings.transport_security,
                self._retry_interval,
                settings.session_idle_timeout,
                settings.max_request_body_size,
                settings.max_sessions,
            )
        return self._apps().streamable_http(self._session_manager)

    def _apps(self) -> HttpApps:
        from .mcp_http_apps import HttpApps

        return HttpApps(self.settings, self._token_verifier, self._custom_starlette_routes)
