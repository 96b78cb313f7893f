"""Methods that serve a server: `run`, `asgi` and `as_sdk_server`; and `run_worker`, which runs its tasks.

The transports are imported when they are used, so that `import mcpkit` is fast.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Unpack

from .._utils.concurrency import call_in_loop
from .._utils.option_checks import check_count, check_seconds, runs
from ..identity.principals_and_scopes import ANYONE, Principal, checked_principal
from ..options import HttpOptions

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..engine.engine import Engine, Served
    from .http.asgi import HttpApp
    from .http.run import UvicornOptions
    from .in_process import SdkServer
    from .watchdog import Watchdog

logger = logging.getLogger(__name__)


def _asgi(self: Serving, **options: Any) -> HttpApp:
    from .http.app_options import Settings
    from .http.asgi import HttpApp

    runtime = self.engine.runtime
    return HttpApp(self.engine, Settings(runtime.limits, runtime.timeouts, **options))


def _run(self: Serving, transport: str = "stdio", **options: Any) -> None:
    if transport == "stdio":
        from .stdio import run_stdio

        run_stdio(self, principal=_host(options))
        return
    if transport not in {"http", "streamable-http", "sse"}:
        raise ValueError(f"transport must be 'stdio', 'http' or 'sse', got {transport!r}")
    from .http.app_options import ASGI_OPTIONS
    from .http.run import check_uvicorn, local_url, reload_program, run_app

    app_options = {name: options.pop(name) for name in ASGI_OPTIONS if name in options}
    host, port = options.pop("host", "127.0.0.1"), options.pop("port", 8000)
    check_uvicorn(options)
    if options.pop("reload", False):
        watched = {name: options.pop(name) for name in [*options] if name.startswith("reload_")}
        if reload_program(watched):
            return
    if transport == "sse":
        from dataclasses import replace

        app_options["http"] = replace(app_options.get("http", HttpOptions()), sse=True)
    listening = None
    if self.engine.auth is not None and app_options.get("public_url") is None:
        listening, url = local_url(host, port, options)
        app_options["public_url"] = None if url is None else url + app_options.get("path", "/mcp")
    app = self.asgi(**app_options)
    run_app(app, app.settings, host, port, options, listening)


def _host(options: dict[str, Any]) -> Principal:
    """Return the user of the host among the options of `run("stdio")`.

    Raises:
        TypeError: An option is not `http`, or its `principal` is not a Principal.
    """
    for name in options:
        if name != "http":
            raise TypeError(
                f'run("stdio") has no option {name!r}, as it serves one host over standard input and output. To '
                f'serve clients at a port, write run("http", {name}=...)'
            )
    principal = options.get("http", HttpOptions()).principal
    if principal is not None and not isinstance(principal, Principal):
        raise TypeError(
            "over stdio there is one user: pass a Principal as HttpOptions(principal=...), not a function"
        )
    return ANYONE if principal is None else principal


class Serving:
    """Base class of servers with the methods that serve them.

    Attributes:
        engine: Serves the requests.
    """

    engine: Engine

    @runs(_run)
    def run(
        self,
        transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        path: str = "/mcp",
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        stateless: bool = False,
        http: HttpOptions = HttpOptions(),  # noqa: B008 - frozen
        **uvicorn: Unpack[UvicornOptions],
    ) -> None:
        """Serve until standard input ends or a signal arrives: `server.run("http", port=8080)`.

        Args:
            transport: `stdio` for a host that starts this process (`python server.py`, basic/transports/stdio); `http`,
                or `streamable-http`, for clients that connect to a port, with uvicorn; `sse` is `http` with
                `HttpOptions(sse=True)`.
            host: Address to listen on. This and all further options are for http and sse.
            port: Port to listen on; 0 takes a free one.
            path: See `asgi`, as for the next five.
            public_url: See `asgi`. On a protected server that listens on a loopback address, this address is the
                default.
            allowed_hosts: See `asgi`.
            allowed_origins: See `asgi`.
            stateless: See `asgi`.
            http: See `asgi`. Over stdio, its `principal` is the user of the host.
            uvicorn: More options of `uvicorn.Config`, such as `log_level="warning"` or `ssl_certfile=...`.
                `reload=True` restarts the program when one of its Python files is edited.

        Raises:
            TypeError: The transport does not have such an option, or an option has the wrong type.
            ValueError: The transport is unknown, or an option is invalid.
            RegistrationError: With stdio, type hints of a component cannot be resolved.
            RuntimeError: An event loop is already running in this thread.
            SystemExit: With stdio, a signal ended the server; the code is 128 plus the signal's number.
            BaseException: Any exception that the lifespan raises.
        """
        raise NotImplementedError

    @runs(_asgi)
    def asgi(
        self,
        *,
        path: str = "/mcp",
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        stateless: bool = False,
        http: HttpOptions = HttpOptions(),  # noqa: B008 - frozen
    ) -> HttpApp:
        """Return the server as an ASGI app: `app = server.asgi()`, then `uvicorn server:app`.

        It serves clients of every protocol version at `/mcp`, and those of 2024-11-05 at `/sse` and `/messages` too
        (basic/transports/streamable-http; basic/transports of the older versions). It can be mounted in another app
        without further wiring. The HTTP modules are imported at its first event.

        Args:
            path: Path of the MCP endpoint.
            public_url: URL by which clients reach the endpoint, such as `https://example.com/mcp`. Its host and origin
                are allowed.
            allowed_hosts: Values of the header `Host` that are accepted: `example.com`, `example.com:8080`,
                `example.com:*`, or `*` for any.
            allowed_origins: Values of the header `Origin` that are accepted, such as `https://example.com`, or `*` for
                any.
            stateless: Whether clients of versions with `initialize` are served without sessions.
            http: Options that few deployments change, see `HttpOptions`.

        Returns:
            The ASGI app.

        Raises:
            TypeError: There is no such option, or it has the wrong type; the message names it.
            ValueError: An option is invalid; the message gives the expected form.
            RegistrationError: A route added by `server.route` has a path of the protocol or of a probe.
        """
        raise NotImplementedError

    def as_sdk_server(self, *, principal: Principal | None = None) -> SdkServer[Self]:
        """Return the server for an agent SDK, which serves it in its own process, without a port.

        `claude-agent-sdk` and `qoder-agent-sdk` take it as `instance`:

            weather = {"type": "sdk", "name": "weather", "instance": server.as_sdk_server()}
            options = ClaudeAgentOptions(mcp_servers={"weather": weather})  # or QoderAgentOptions

        Any number of agents can use it, at the same time or one after the other, in any event loop of asyncio. Each
        agent of `claude-agent-sdk` has its own session (`run`). Agents of `qoder-agent-sdk` open no session: they call
        the functions in `request_handlers`, for tools only. Their lifespan stays entered until the event loop ends, or
        until `await instance.aclose()` is called in it.

        Neither SDK delivers notifications of a server, so logs, progress and changes are dropped. Neither delivers
        requests of a server: a tool that sends one (elicitation, sampling, roots) fails at once, with an error that
        names the reason.

        It needs the package `mcp` from 1.23 on, a dependency of every such SDK. It is imported when an agent connects.

        Args:
            principal: The user of the agent; None for an anonymous one without scopes.

        Returns:
            An object with the attributes of `mcp.server.Server` that the SDKs use.

        Raises:
            TypeError: `principal` is not a Principal.
        """
        from .in_process import SdkServer

        return SdkServer(self, ANYONE if principal is None else checked_principal(principal))


# Worker processes: `mcpkit worker server:server` serves no clients, and runs the tasks of a server

_TASKS_SHARE = 0.8  # part of the grace period in which tasks may end; the rest is for leaving the lifespan


class NoWorkError(Exception):
    """The server has no tasks that a worker can run."""


def check_worker_options(slots: int | None, grace: float) -> None:
    """Check the options of a worker.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.
    """
    check_count("slots", slots, none="the number that the server sets")
    check_seconds("grace", grace, may_be_zero=True)


def run_worker(server: Served, *, slots: int | None = None, grace: float = 10.0) -> None:
    """Run the tasks of a server until a signal is received.

    SIGINT and SIGTERM end the worker: it accepts no more tasks, and running tasks finish or are handed back to other
    workers. A second signal ends the process at once. Other workers run its tasks when their leases expire.

    Args:
        server: The server.
        slots: Number of concurrent tasks; None takes the number of the server.
        grace: Seconds from a signal to the end of the process.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of range.
        NoWorkError: The server has no tasks, or does not share them with other processes.
        BaseException: The exception of the lifespan of the server.
    """
    from ..tasks.task_creation_and_methods import TaskService
    from .watchdog import Watchdog

    check_worker_options(slots, grace)
    engine, runtime = server.engine, server.engine.runtime
    if not runtime.storage.is_persistent:
        raise NoWorkError(
            f"{runtime.name} keeps its tasks in the memory of its own process, so a worker cannot reach them. Use an "
            f'engine that processes share, such as Server("{runtime.name}", storage=Sqlite("tasks.db"))'
        )
    tasks = engine.methods.tasks
    assert isinstance(tasks, TaskService), "the task service must be a TaskService"
    tasks.work_here(slots)
    with Watchdog(grace, ends_on_second_sigterm=True) as watchdog:
        asyncio.run(_work(engine, tasks.slots, grace * _TASKS_SHARE, watchdog))


async def _work(engine: Engine, slots: int, grace: float, watchdog: Watchdog) -> None:
    loop, stop_event, name = asyncio.get_running_loop(), asyncio.Event(), engine.runtime.name

    watchdog.watch(None, on_signal=partial(call_in_loop, loop, stop_event.set))
    async with engine.running():
        entering, waiting = loop.create_task(engine.ready()), loop.create_task(stop_event.wait())
        try:
            await asyncio.wait((entering, waiting), return_when=asyncio.FIRST_COMPLETED)
            if entering.done():
                entering.result()
                if not engine.declared.has("tasks"):
                    raise NoWorkError(
                        f"{name} has no tool that can run as a task. Write @server.tool(task=True)"
                    )
                logger.info("a worker of %s is ready: %d slots, %r", name, slots, engine.runtime.storage)
                await waiting
        finally:
            entering.cancel()
            waiting.cancel()
            engine.drain(grace)
    logger.info("the worker of %s has stopped", name)
