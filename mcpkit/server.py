"""The server: what it says about itself, the method table, and what an exception becomes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final
from weakref import WeakKeyDictionary

from .completion import complete
from .component import Component, optional
from .context import Context
from .errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ArgumentsError,
    HandlerError,
    ProtocolError,
    ResourceNotFoundError,
)
from .execution import FATAL, Threads
from .lifespan import Lifespan, LifespanFunction
from .listing import MEMBER, Listing
from .protocol import content, jsonrpc
from .protocol.eras import Cache, Handshake, check_log_level
from .protocol.revisions import CACHEABLE, LATEST, METHODS, STATELESS, narrow
from .protocol.types import Icon
from .registry import Components, Registry
from .resources import Resource, ResourceTemplate
from .tools import Tool, error_result

logger = logging.getLogger("mcpkit")

Outcome = dict[str, Any] | bytes
"""A result object, or its JSON already rendered."""

Watcher = Callable[[str, str | None], None]
"""Called from any thread with `tools`, `prompts` or `resources` and None, or with `resource` and a URI."""

CAPABILITIES: Final = ("tools", "resources", "prompts", "completions", "logging")

_DEFAULT_CACHE: Final = {method: Cache() for method in CACHEABLE} | {"resources/read": Cache(0, "private")}


class Server(Registry):
    """An MCP server: a registry of what it offers, and how requests are answered.

    Args:
        name: What it calls itself.
        version: Its version.
        title: A name for people.
        description: What it is.
        instructions: How a model should use it.
        icons: Pictures that a host may show.
        website_url: Where people find more.
        lifespan: An async context manager function of the server, entered once for each event
            loop; handlers find what it yields in `ctx.state`.
        offers: Capabilities to declare before anything is registered for them: `tools`,
            `resources`, `prompts`, `completions`, `logging`. What is registered is declared anyway.
        page_size: Entries in one page of a list; None puts all in one.
        cache: How long and by whom results may be kept, by method, for example
            `{"tools/list": Cache(ttl=300)}`. Lists are public, what is read is private, and both
            are stale at once by default.
        threads: The greatest number of worker threads for functions that are not `async`.
        max_running: The greatest number of requests that run at a time; more are refused.

    Raises:
        ValueError: One of the arguments is out of range; the message names it.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0.0.0",
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        icons: Sequence[Icon] | None = None,
        website_url: str | None = None,
        lifespan: LifespanFunction | None = None,
        offers: Collection[str] = (),
        page_size: int | None = None,
        cache: Mapping[str, Cache] | None = None,
        threads: int = 40,
        max_running: int = 1024,
    ) -> None:
        super().__init__()
        _check("offers", set(offers) - set(CAPABILITIES), CAPABILITIES)
        _check("cache", set(cache or ()) - CACHEABLE, sorted(CACHEABLE))
        if page_size is not None and page_size < 1:
            raise ValueError(f"page_size must be at least 1, or None for one page, got {page_size!r}")
        if max_running < 1:
            raise ValueError(f"max_running must be at least 1, got {max_running!r}")
        self.name = name
        self.version = version
        self.instructions = instructions
        self.page_size = page_size
        self.threads = Threads(threads)
        self.max_running = max_running
        self.running_count = 0
        self._declared = set(offers)
        self._cache = {**_DEFAULT_CACHE, **(cache or {})}
        self._implementation = optional(
            name=name,
            title=title,
            version=version,
            description=description,
            icons=list(icons) if icons else None,
            websiteUrl=website_url,
        )
        self._infos: dict[str, dict[str, Any]] = {}
        self._lifespan = lifespan
        self._lifespans: WeakKeyDictionary[asyncio.AbstractEventLoop, Lifespan] = WeakKeyDictionary()
        self._watchers: list[Watcher] = []
        self._listing = Listing(self)
        self._methods: dict[str, Callable[[Context[Any]], Outcome | Coroutine[Any, Any, Outcome]]] = {
            "ping": _empty,
            "logging/setLevel": _set_level,
            "server/discover": self._discover,
            "tools/call": self._call_tool,
            "resources/read": self._read_resource,
            "resources/subscribe": _subscribe,
            "resources/unsubscribe": _unsubscribe,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            **dict.fromkeys(MEMBER, self._listing.answer),
            # `initialize` and `subscriptions/listen` belong to whoever holds the session and the streams.
        }
        self.listen(self._announce)

    # What the server says about itself

    def info(self, revision: str) -> dict[str, Any]:
        """Return its `Implementation` with the members that `revision` knows."""
        info = self._infos.get(revision)
        if info is None:
            info = self._infos[revision] = narrow("Implementation", self._implementation, revision)
        return info

    def declares(self, capability: str) -> bool:
        """Say whether it declares a capability: because of `offers`, or of what has been registered."""
        if capability in self._declared:
            return True
        if capability == "completions":
            return any(item.completers for part in (self.prompts, self.resource_templates) for item in part)
        return capability == "logging" and any(item.takes_context for part in self.parts for item in part)

    def capabilities(self, revision: str) -> dict[str, Any]:
        """Return its `ServerCapabilities` with the members that `revision` knows."""
        settings: dict[str, dict[str, Any]] = {
            "tools": {"listChanged": True},
            "resources": {"subscribe": True, "listChanged": True},
            "prompts": {"listChanged": True},
            "completions": {},
            "logging": {},
        }
        declared = {name: settings[name] for name in CAPABILITIES if self.declares(name)}
        return narrow("ServerCapabilities", declared, revision)

    def finish(self, ctx: Context[Any], result: dict[str, Any], cache: Cache | None = None) -> dict[str, Any]:
        """Give a result what the era wants of every result."""
        envelope = ctx._envelope  # noqa: SLF001 - the Context is this package's view of it
        kept = cache or self._cache.get(ctx.method) or _DEFAULT_CACHE["resources/read"]
        return envelope.finish(ctx.method, result, self.info(envelope.revision), kept)

    # The way of one request

    def dispatch(self, ctx: Context[Any]) -> Outcome | Coroutine[Any, Any, Outcome]:
        """Look the method up and begin to answer.

        Args:
            ctx: The request.

        Returns:
            The result, or an awaitable of it when the author's code has to run.

        Raises:
            ProtocolError: -32601 for a method that the revision does not have or whose capability
                is not declared, or whatever the method refuses at once.
        """
        revisions, capability = METHODS.get(ctx.method, ((), None))
        if ctx.revision not in revisions:
            raise ProtocolError(METHOD_NOT_FOUND, f"Method not found: {ctx.method[:100]}")
        if capability is not None and not self.declares(capability):
            raise ProtocolError(
                METHOD_NOT_FOUND,
                f"Method not found: {ctx.method} (this server does not declare {capability})",
            )
        return self._methods[ctx.method](ctx)

    def error_response(self, ctx: Context[Any], error: BaseException) -> bytes:
        """Return the error response that an exception becomes; what is nobody's text is logged under a ref."""
        try:
            return jsonrpc.error(ctx.request_id, self._problem(ctx, error))
        except ValueError as unencodable:  # the author's `data` has no JSON form
            return jsonrpc.error(
                ctx.request_id, ProtocolError(INTERNAL_ERROR, self._internal(ctx, unencodable))
            )

    def _problem(self, ctx: Context[Any], error: BaseException) -> ProtocolError:
        if isinstance(error, ProtocolError):
            return ProtocolError(error.code, _readable(error.message), error.data)
        if isinstance(error, ResourceNotFoundError):
            return _not_found(ctx, error.uri)
        if isinstance(error, ArgumentsError):
            return ProtocolError(INVALID_PARAMS, _readable(str(error)))
        if isinstance(error, HandlerError):
            return ProtocolError(INTERNAL_ERROR, _readable(str(error)))
        return ProtocolError(INTERNAL_ERROR, self._internal(ctx, error))

    def _internal(self, ctx: Context[Any], error: BaseException) -> str:
        import secrets

        ref = secrets.token_hex(4)
        what = ctx.params.get("name") or ctx.params.get("uri") or ""
        logger.error("%s %s failed (ref %s)", ctx.method, what, ref, exc_info=error)
        return f"Internal error (ref {ref})"

    def initialize(self, ctx: Context[Any]) -> dict[str, Any]:
        """Return the `InitializeResult` of a session that has just been opened (basic/lifecycle)."""
        return optional(
            protocolVersion=ctx.revision,
            capabilities=self.capabilities(ctx.revision),
            serverInfo=self.info(ctx.revision),
            instructions=self.instructions,
        )

    def _discover(self, ctx: Context[Any]) -> Outcome:
        result = optional(
            supportedVersions=list(STATELESS),
            capabilities=self.capabilities(ctx.revision),
            instructions=self.instructions,
        )
        return self.finish(ctx, result)

    async def _call_tool(self, ctx: Context[Any]) -> Outcome:
        name = _text(ctx.params, "name")
        arguments = _object(ctx.params, "arguments")
        tool = self.tools.get(name)
        if tool is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown tool: {name[:200]}")
        if self._has_lifespans:
            await self._enter(ctx, tool)
        try:
            return self._tool_result(ctx, tool, await tool.call(arguments, ctx))
        except ProtocolError:
            raise
        except HandlerError as error:
            return self._tool_result(ctx, tool, error_result(_readable(str(error))))
        except BaseException as error:
            if ctx.is_ended or isinstance(error, FATAL):
                raise
            return self._tool_result(ctx, tool, error_result(self._internal(ctx, error)))

    def _tool_result(self, ctx: Context[Any], tool: Tool, result: dict[str, Any]) -> bytes:
        if ctx.revision != LATEST:
            result = content.tool_result(result, ctx.revision, wrapped=tool.is_wrapped)
        return jsonrpc.encode(self.finish(ctx, result))

    async def _read_resource(self, ctx: Context[Any]) -> Outcome:
        uri = _text(ctx.params, "uri")
        resource: Resource | ResourceTemplate | None = self.resources.get(uri)
        values: dict[str, str | list[str]] = {}
        if resource is None:
            resource, values = self._match(ctx, uri)
        if self._has_lifespans:
            await self._enter(ctx, resource)
        if isinstance(resource, Resource):
            result = await resource.read(uri, ctx)
        else:
            result = await resource.read(uri, values, ctx)
        contents = [narrow("ResourceContents", item, ctx.revision) for item in result["contents"]]
        return self.finish(ctx, {**result, "contents": contents}, resource.cache)

    def _match(self, ctx: Context[Any], uri: str) -> tuple[ResourceTemplate, dict[str, str | list[str]]]:
        for template in self.resource_templates:
            if template.is_enabled and (values := template.template.match(uri)) is not None:
                return template, values
        raise _not_found(ctx, uri)

    async def _get_prompt(self, ctx: Context[Any]) -> Outcome:
        name = _text(ctx.params, "name")
        arguments = _texts(ctx.params, "arguments")
        prompt = self.prompts.get(name)
        if prompt is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown prompt: {name[:200]}")
        if self._has_lifespans:
            await self._enter(ctx, prompt)
        result = await prompt.get(arguments, ctx)
        for message in result["messages"]:
            message["content"] = content.block(message["content"], ctx.revision)
        return self.finish(ctx, result)

    async def _complete(self, ctx: Context[Any]) -> Outcome:
        reference = _object(ctx.params, "ref")
        argument = _object(ctx.params, "argument")
        name, value = _text(argument, "name", "argument."), _text(argument, "value", "argument.")
        filled = _texts(_object(ctx.params, "context"), "arguments", "context.")
        component = self._referred(reference)
        if name not in {parameter.name for parameter in component.signature.parameters}:
            raise ProtocolError(INVALID_PARAMS, f"{component.key} has no argument {name[:200]}")
        completer = component.completers.get(name)
        if completer is None:
            return self.finish(ctx, {"completion": {"values": [], "total": 0, "hasMore": False}})
        if self._has_lifespans:
            await self._enter(ctx, component)
        return self.finish(ctx, {"completion": await complete(completer, value, filled, ctx)})

    def _referred(self, reference: dict[str, Any]) -> Any:
        kind = reference.get("type")
        found: Component | None
        if kind == "ref/prompt":
            key = _text(reference, "name", "ref.")
            found = self.prompts.get(key)
        elif kind == "ref/resource":
            key = _text(reference, "uri", "ref.")
            found = self.resource_templates.get(key)
        else:
            raise ProtocolError(INVALID_PARAMS, "ref.type: expected ref/prompt or ref/resource")
        if found is None:
            raise ProtocolError(INVALID_PARAMS, f"Unknown {kind[4:]}: {key[:200]}")
        return found

    # Changes

    def resource_updated(self, uri: str) -> None:
        """Tell every client that subscribed to it that a resource has changed.

        May be called from any thread; updates of one URI that come faster than a client takes
        them are told once.

        Args:
            uri: The URI as clients read it.
        """
        for watcher in tuple(self._watchers):
            watcher("resource", uri)

    def watch(self, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` at each change that clients may want to hear of.

        Returns:
            A function that ends it.
        """
        self._watchers.append(watcher)
        return partial(self._watchers.remove, watcher)

    def _announce(self, part: Components[Any], action: str, component: Component) -> None:
        self._declared.add(part.list_name)
        for watcher in tuple(self._watchers):
            watcher(part.list_name, None)

    # Life

    @property
    def _has_lifespans(self) -> bool:
        return self._lifespan is not None or bool(self.included)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Keep the lifespan entered while a transport serves; nests, and costs nothing without one.

        It does not wait for the lifespan: what needs none is answered meanwhile. `await ready()` waits.

        Raises:
            RegistrationError: Type hints of a component cannot be resolved.
            BaseException: Whatever leaving the lifespan raised.
        """
        self.resolve()
        loop = asyncio.get_running_loop()
        family = [server for server in self._family() if server._lifespan is not None]  # noqa: SLF001
        for server in family:
            server._start(loop)  # noqa: SLF001
        try:
            yield
        finally:
            for server in reversed(family):
                await server._stop(loop)  # noqa: SLF001

    async def ready(self) -> None:
        """Wait until the lifespans of this server and of those it includes have been entered.

        Raises:
            BaseException: Whatever entering one of them raised.
        """
        loop = asyncio.get_running_loop()
        for server in self._family():
            lifespan = server._lifespans.get(loop)  # noqa: SLF001
            if lifespan is not None:
                await lifespan.ready()

    def _family(self) -> list[Server]:
        """Return this server and, once each, all that it includes, innermost first."""
        found: dict[Server, None] = {}
        for included in self.included:
            if isinstance(included, Server):
                found.update(dict.fromkeys(included._family()))  # noqa: SLF001
        found[self] = None
        return list(found)

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        lifespan = self._lifespans.get(loop)
        if lifespan is None:
            assert self._lifespan is not None
            lifespan = self._lifespans[loop] = Lifespan(partial(self._lifespan, self))
        lifespan.users += 1

    async def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        lifespan = self._lifespans[loop]
        lifespan.users -= 1
        if lifespan.users == 0:
            del self._lifespans[loop]
            await lifespan.stop()

    def run(self, *, grace: float = 5.0) -> None:
        """Serve over stdin and stdout until the input ends; `python -m server` (basic/transports/stdio).

        Args:
            grace: Seconds that running calls get to finish when the input ends or a signal comes.

        Raises:
            RuntimeError: An event loop is running in this thread already; the message says what to do.
            SystemExit: A signal ended it; the code is 128 plus the signal's number.
        """
        from .transports.stdio import run_stdio

        run_stdio(self, grace=grace)

    async def _enter(self, ctx: Context[Any], component: Component) -> None:
        owner = component.registry if isinstance(component.registry, Server) else self
        lifespan = owner._lifespans.get(asyncio.get_running_loop())  # noqa: SLF001
        if lifespan is not None:
            ctx._state = await lifespan.ready()  # noqa: SLF001


# Methods that need nothing but the session. Their results are empty objects (basic/utilities/ping).


def _empty(ctx: Context[Any]) -> Outcome:
    return {}


def _set_level(ctx: Context[Any]) -> Outcome:
    ctx._envelope.log_level = check_log_level(ctx.params.get("level"))  # noqa: SLF001
    return {}


def _subscribe(ctx: Context[Any]) -> Outcome:
    _session(ctx).subscriptions.add(_text(ctx.params, "uri"))
    return {}


def _unsubscribe(ctx: Context[Any]) -> Outcome:
    _session(ctx).subscriptions.discard(_text(ctx.params, "uri"))
    return {}


def _session(ctx: Context[Any]) -> Handshake:
    session = ctx._envelope  # noqa: SLF001
    assert isinstance(session, Handshake), "the method table has this method in the handshake era only"
    return session


# Params


def _text(params: dict[str, Any], name: str, where: str = "") -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise ProtocolError(INVALID_PARAMS, f"{where}{name}: expected a string")
    return value


def _object(params: dict[str, Any], name: str) -> dict[str, Any]:
    value = params.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ProtocolError(INVALID_PARAMS, f"{name}: expected an object")
    return value


def _texts(params: dict[str, Any], name: str, where: str = "") -> dict[str, str]:
    values = _object(params, name)
    for key, value in values.items():
        if not isinstance(value, str):
            raise ProtocolError(INVALID_PARAMS, f"{where}{name}.{key[:100]}: expected a string")
    return values


def _not_found(ctx: Context[Any], uri: str) -> ProtocolError:
    code = ctx._envelope.not_found_code  # noqa: SLF001
    uri = _readable(uri)
    return ProtocolError(code, f"Resource not found: {uri[:200]}", {"uri": uri})


def _readable(text: str) -> str:
    """Return a text that UTF-8 can carry: half of a surrogate pair becomes `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _check(argument: str, unknown: Collection[str], known: Collection[str]) -> None:
    if unknown:
        raise ValueError(f"{argument}: unknown {min(unknown)!r}; there are {', '.join(known)}")
