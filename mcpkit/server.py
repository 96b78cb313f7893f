"""The server: what it says about itself, how a request finds its method, and how long it lives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from typing_extensions import Unpack

from .broker import Broker
from .component import Component, optional
from .components import Components
from .context import Context
from .declarations import check_icons
from .errors import METHOD_NOT_FOUND, ProtocolError, RegistrationError
from .execution import Threads
from .lifespan import Lifespan, LifespanFunction
from .listing import Listing
from .methods import HANDLERS, Outcome
from .protocol.eras import Cache
from .protocol.revisions import CACHEABLE, METHODS, narrow
from .protocol.types import Icon
from .registry import Registry

if TYPE_CHECKING:
    from .keys import Keys
    from .transports.http.app import HttpApp
    from .transports.http.options import HttpOptions

F = TypeVar("F", bound=Callable[..., Any])

Watcher = Callable[[str, str | None], None]
"""Called from any thread with `tools`, `prompts` or `resources` and None, or with `resource` and a URI."""

_CAPABILITIES: Final[dict[str, dict[str, bool]]] = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "prompts": {"listChanged": True},
    "completions": {},
    "logging": {},
}
"""What can be declared, and how."""

_DEFAULT_CACHE: Final = {method: Cache() for method in CACHEABLE} | {"resources/read": Cache(0, "private")}


class OwnRoute(NamedTuple):
    """A route of the author's own in the HTTP app; see `Server.route`."""

    path: str
    function: Callable[..., Any]
    methods: Collection[str] | None
    name: str | None


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
        secret: What signs session ids: at least 16 characters or bytes; of several, the first signs and
            all are accepted. None takes the environment variable `MCPKIT_SECRET`, or else a
            secret that lasts as long as the process and the workers that it starts.
        broker: What several processes that serve the same share; None keeps everything in this one.

    Attributes:
        routes: The routes of the author's own.

    Raises:
        ValueError: One of the arguments is out of range; the message names it.
        RegistrationError: An icon has not the specification's form.
    """

    _has_state = True

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
        secret: str | bytes | Sequence[str | bytes] | None = None,
        broker: Broker | None = None,
    ) -> None:
        super().__init__()
        _check("offers", set(offers) - _CAPABILITIES.keys(), _CAPABILITIES)
        _check("cache", set(cache or ()) - CACHEABLE, sorted(CACHEABLE))
        _check_text("name", name)
        _check_text("version", version)
        check_icons("Server", icons)
        if lifespan is not None and not callable(lifespan):  # pyright: ignore[reportUnnecessaryComparison]  # untyped authors
            raise ValueError(
                "lifespan must be a function of the server that returns an async context manager, "
                f"such as one under @asynccontextmanager; got {lifespan!r}"
            )
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
        self.broker = broker
        self.routes: list[OwnRoute] = []
        self._secret = secret
        if secret is not None:
            _ = self.keys  # which complains where it is given
        self._running_count = 0
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
        self._serving: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()
        self._included_late: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Server]] = WeakKeyDictionary()
        self._watchers: list[Watcher] = []
        self._listing = Listing(self)
        self.listen(self._announce)
        self.listen_updates(self._announce_update)

    # What the server says about itself

    def _info(self, revision: str) -> dict[str, Any]:
        """Return its `Implementation` with the members that `revision` knows."""
        info = self._infos.get(revision)
        if info is None:
            info = self._infos[revision] = narrow("Implementation", self._implementation, revision)
        return info

    def _declares(self, capability: str) -> bool:
        """Say whether it declares a capability: because of `offers`, or of what has been registered."""
        if capability in self._declared:
            return True
        is_offered = False
        if capability == "completions":
            completable = (self.prompts, self.resource_templates)
            is_offered = any(item.completers for part in completable for item in part)
        elif capability == "logging":
            is_offered = any(item.takes_context for part in self.parts for item in part)
        if is_offered:
            self._declared.add(capability)
        return is_offered

    def _capabilities(self, revision: str) -> dict[str, Any]:
        """Return its `ServerCapabilities` with the members that `revision` knows."""
        declared = {name: how for name, how in _CAPABILITIES.items() if self._declares(name)}
        return narrow("ServerCapabilities", declared, revision)

    def _finish(
        self, ctx: Context[Any], result: dict[str, Any], cache: Cache | None = None
    ) -> dict[str, Any]:
        """Give a result what the era wants of every result; `cache` goes before what the method has."""
        envelope = ctx._envelope
        return envelope.finish(result, self._info(envelope.revision), cache or self._cache.get(ctx.method))

    # The way of one request

    def _dispatch(self, ctx: Context[Any]) -> Outcome | Coroutine[Any, Any, Outcome]:
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
        if capability is not None and not self._declares(capability):
            raise ProtocolError(
                METHOD_NOT_FOUND,
                f"Method not found: {ctx.method} (this server does not declare {capability})",
            )
        return HANDLERS[ctx.method](ctx)

    # Changes

    def _watch(self, watcher: Watcher) -> Callable[[], None]:
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

    def _announce_update(self, uri: str) -> None:
        for watcher in tuple(self._watchers):
            watcher("resource", uri)

    # Life

    def run(
        self,
        transport: Literal["stdio", "http", "sse"] = "stdio",
        *,
        max_line: int = 64 * 1024 * 1024,
        host: str = "127.0.0.1",
        port: int = 8000,
        uvicorn: Mapping[str, Any] | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:
        """Serve until the input ends or a signal comes.

        Args:
            transport: `stdio` for a host that has started this process (`python -m server`,
                basic/transports/stdio); `http` or `sse` for clients that connect to a port, with
                uvicorn. Both serve the same app; `sse` does not do without the transport of 2024-11-05.
            max_line: With stdio, the longest message that is taken, in bytes; a longer one is
                answered with an error.
            host: With http and sse, the address to listen on.
            port: With http and sse, the port; 0 takes a free one.
            uvicorn: With http and sse, more options for `uvicorn.Config`.
            options: With stdio, `grace` alone: the seconds that running calls get to finish when
                the input ends or a signal comes, 5 by default. With http and sse, what `asgi` takes.

        Raises:
            ValueError: The transport is not known, or has no such option.
            RuntimeError: With stdio, an event loop is running in this thread already; the message
                says what to do.
            SystemExit: With stdio, a signal ended it; the code is 128 plus the signal's number.
            BaseException: Whatever entering or leaving the lifespan raised.
        """
        if transport == "stdio":
            from .transports.stdio import GRACE, run_stdio

            grace = options.pop("grace", GRACE)
            if options or uvicorn is not None or grace is None:
                wrong = next(iter(options), "uvicorn" if uvicorn is not None else "grace=None")
                raise ValueError(
                    f'run("stdio") has no {wrong}; it takes grace (seconds) and max_line (bytes)'
                )
            run_stdio(self, grace=grace, max_line=max_line)
            return
        if transport not in {"http", "sse"}:
            raise ValueError(f"transport must be 'stdio', 'http' or 'sse', got {transport!r}")
        if transport == "sse":
            options["sse"] = True
        app = self.asgi(**options)
        from .transports.http.run import run_app

        run_app(app, host, port, uvicorn or {})

    def asgi(self, **options: Unpack[HttpOptions]) -> HttpApp:
        """Return the server as an ASGI app: `app = server.asgi()`, then `uvicorn server:app`.

        It serves every client of every revision at `/mcp`, and those of 2024-11-05 at `/sse` and
        `/messages` as well (basic/transports/streamable-http; basic/transports of the older
        revisions). It can be mounted anywhere in another app, with nothing to wire.

        Args:
            options: See `HttpOptions`.

        Raises:
            ValueError: An option has not the form that it must have; the message says what to write.
        """
        from .transports.http.app import HttpApp
        from .transports.http.options import Settings

        return HttpApp(self, Settings(**options))

    def route(
        self, path: str, *, methods: Collection[str] | None = None, name: str | None = None
    ) -> Callable[[F], F]:
        """Serve a path of the HTTP app with a function of one's own: `@server.route("/hello")`.

        Args:
            path: A path as Starlette has it, such as `/files/{name}`.
            methods: HTTP methods; GET when None.
            name: A name for `request.url_for`; the function's when None.

        Returns:
            A decorator that returns the function unchanged. It takes a Starlette `Request` and returns a `Response`.

        Raises:
            RegistrationError: The path does not begin with a slash, or `methods` is no list.
        """
        if isinstance(methods, str):
            raise RegistrationError(f"methods is a list such as [{methods!r}], got {methods!r}")
        if not path.startswith("/"):
            raise RegistrationError(f"a route begins with a slash, such as '/health', got {path!r}")

        def register(function: F) -> F:
            self.routes.append(OwnRoute(path, function, methods, name))
            return function

        return register

    @cached_property
    def keys(self) -> Keys:
        """Return what signs for this server."""
        from .keys import Keys

        return Keys(self._secret, self.name)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep the lifespans entered while a transport serves; nests, and costs nothing without one.

        It does not wait for them: what needs none is answered meanwhile. `await ready()` waits.

        Raises:
            RegistrationError: Type hints of a component cannot be resolved.
            BaseException: Whatever leaving a lifespan raised.
        """
        self.resolve()
        loop = asyncio.get_running_loop()
        self._serving[loop] = self._serving.get(loop, 0) + 1
        async with AsyncExitStack() as stack:
            if self.broker is not None:
                from .fan_out import Publisher

                stack.callback(Publisher(self, self.broker).close)
            for server in self._family():
                server._begin(loop)
                stack.push_async_callback(server._end, loop)
            try:
                yield
            finally:
                self._serving[loop] -= 1
                if self._serving[loop] == 0:
                    for server in self._included_late.pop(loop, ()):
                        stack.push_async_callback(server._end, loop)

    async def ready(self) -> None:
        """Wait until the lifespans of this server and of those it includes have been entered.

        Raises:
            BaseException: Whatever entering one of them raised.
        """
        loop = asyncio.get_running_loop()
        for server in self._family():
            if loop in server._lifespans:
                await server._lifespans[loop].ready()

    @property
    def _has_lifespans(self) -> bool:
        """Whether a handler may find something in `ctx.state`."""
        return self._lifespan is not None or bool(self.included)

    async def _enter(self, ctx: Context[Any], component: Component) -> None:
        """Fill `ctx.state` for a handler: from the lifespan of the server that the component comes from."""
        owner = component.registry if isinstance(component.registry, Server) else self
        if owner._lifespan is None:
            return
        loop = asyncio.get_running_loop()
        if loop not in owner._lifespans:  # it was included while this server ran
            owner._begin(loop)
            self._included_late.setdefault(loop, []).append(owner)
        ctx._state = await owner._lifespans[loop].ready()

    def _family(self) -> list[Server]:
        """Return this server and, once each, all that it includes, innermost first."""
        found: dict[Server, None] = {}
        for included in self.included:
            if isinstance(included, Server):
                found.update(dict.fromkeys(included._family()))
        found[self] = None
        return list(found)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._lifespan is None:
            return
        if loop not in self._lifespans:
            self._lifespans[loop] = Lifespan(partial(self._lifespan, self))
        self._lifespans[loop].users += 1

    async def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._lifespan is None:
            return
        lifespan = self._lifespans[loop]
        lifespan.users -= 1
        if lifespan.users == 0:
            del self._lifespans[loop]
            await lifespan.stop()


def _check_text(argument: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{argument} must be a string that is not empty, got {value!r}")


def _check(argument: str, unknown: Collection[str], known: Collection[str]) -> None:
    if unknown:
        raise ValueError(f"{argument}: unknown {min(unknown)!r}; there are {', '.join(known)}")
