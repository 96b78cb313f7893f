"""uvicorn: its options, `server.run("http")`, and the shutdown of the app with the uvicorn servers of an event loop.

uvicorn waits for open connections before it sends the shutdown event of the lifespan, and sends none to a mounted app.
A signal is one way to stop it; see `service`. A program can set `should_exit`, and `--limit-max-requests` sets nothing.
So the app extends the `shutdown` method of the server that runs in its event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Any, Literal, cast
from weakref import WeakSet

import uvicorn
from typing_extensions import TypedDict

from ..._utils.concurrency import refuse_loop
from ...execution.safe_stdout import SafeOutput
from ...protocol.jsonrpc import Json
from .app_options import unknown

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn.server import ServerState

    from .app_options import Settings
    from .service import Service

# uvicorn logs its address there, in the form that its user has chosen.
logger = logging.getLogger("uvicorn.error")

_RELOADER = "MCPKIT_RELOAD_PARENT"  # environment variable with the id of the process that reloads this one

# Loopback addresses for servers that listen on all addresses.
_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}

# Options


class UvicornOptions(TypedDict, total=False):
    """Keyword options of `server.run("http", ...)` that are passed to `uvicorn.Config`.

    See uvicorn's documentation, "Settings". With `reload=True`, the program is restarted with the same arguments when
    one of its Python files changes.
    """

    uds: str | None
    fd: int | None
    loop: str
    ws: str
    env_file: str | os.PathLike[str] | None
    log_config: dict[str, Any] | str | os.PathLike[str] | IO[Any] | None
    log_level: str | int | None
    access_log: bool
    use_colors: bool | None
    reload: bool
    reload_dirs: list[str] | str | None
    reload_delay: float
    reload_includes: list[str] | str | None
    reload_excludes: list[str] | str | None
    workers: int | None
    proxy_headers: bool
    server_header: bool
    date_header: bool
    forwarded_allow_ips: list[str] | str | None
    root_path: str
    limit_concurrency: int | None
    limit_max_requests: int | None
    limit_max_requests_jitter: int
    backlog: int
    timeout_keep_alive: int
    timeout_notify: int
    timeout_graceful_shutdown: int | None
    callback_notify: Callable[..., Awaitable[None]] | None
    ssl_keyfile: str | os.PathLike[str] | None
    ssl_certfile: str | os.PathLike[str] | None
    ssl_keyfile_password: str | None
    ssl_version: int
    ssl_cert_reqs: int
    ssl_ca_certs: str | os.PathLike[str] | None
    ssl_ciphers: str | None
    ssl_context_factory: Callable[..., ssl.SSLContext] | None
    headers: list[tuple[str, str]] | None
    lifespan: Literal["auto", "on", "off"]
    h11_max_incomplete_event_size: int | None


# Running


def local_url(host: str, port: int, options: Mapping[str, object]) -> tuple[socket.socket | None, str | None]:
    """Return the local URL of a server, and its socket if the port is chosen by the system.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        options: Options for `uvicorn.Config`.

    Returns:
        The socket, if one was needed to determine the port; and the URL without a path, or None if other machines may
        reach the server or it is encrypted.
    """
    is_other = any(options.get(name) for name in ("uds", "fd", "ssl_certfile", "ssl_keyfile"))
    if is_other or host not in {"127.0.0.1", "::1", "localhost"}:
        return None, None
    listening = None
    if port == 0:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.bind(address)
        port = listening.getsockname()[1]
    return listening, f"http://{f'[{host}]' if ':' in host else host}:{port}"


def check_uvicorn(options: Mapping[str, object]) -> None:
    """Check the names of options for uvicorn.

    Raises:
        TypeError: Neither `server.run` nor uvicorn has such an option.
        ValueError: An option requires several processes.
    """
    for name in options:
        if name not in UvicornOptions.__annotations__:
            raise TypeError(unknown(name, "server.run()", ["host", "port", *UvicornOptions.__annotations__]))
    if (workers := options.get("workers") or 1) != 1:
        raise ValueError(
            f'run("http") serves in this process alone, got workers={workers!r}. Write `app = server.asgi()` in a '
            f"module, and start `uvicorn module:app --workers {workers}`"
        )


def reload_program(watched: Mapping[str, Any]) -> bool:
    """Run this program in child processes, and restart it each time one of its files changes.

    Args:
        watched: The `reload_` options of uvicorn, which select the watched files.

    Returns:
        False in a child process, which must serve; True in the parent process, after it was stopped.
    """
    if os.environ.get(_RELOADER) == str(os.getppid()):
        return False
    from uvicorn.supervisors import ChangeReload

    config = uvicorn.Config("", reload=True, **watched)
    watcher = ChangeReload(config, target=lambda _: None, sockets=[])  # the program is started here
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, watcher.signal_handler)
    command, environment = [sys.executable, *sys.orig_argv[1:]], {**os.environ, _RELOADER: str(os.getpid())}
    program = subprocess.Popen(command, env=environment)
    try:
        for changed in watcher:
            if changed:
                logger.warning("%s edited; the program is started again", ", ".join(map(str, changed)))
                program.terminate()
                program.wait()
                program = subprocess.Popen(command, env=environment)
    finally:
        program.terminate()
        program.wait()
    return True


def run_app(
    app: ASGIApp,
    settings: Settings,
    host: str,
    port: int,
    options: Mapping[str, object],
    listening: socket.socket | None = None,
) -> None:
    """Serve until a signal is received.

    Args:
        app: The app.
        settings: Options of the app.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        options: More options for `uvicorn.Config`, which override the defaults.
        listening: A socket that is already bound; None to bind one.

    Raises:
        RuntimeError: An event loop is running in this thread.
    """
    refuse_loop(
        "run() starts an event loop",
        "call run() from code that is not async, or write `await "
        "uvicorn.Server(uvicorn.Config(server.asgi())).serve()` instead",
    )
    config: Json = {**defaults(settings), "workers": 1, "host": host, "port": port, **options}
    server = _Server(uvicorn.Config(app, **config), settings)
    if (wanted := os.environ.get("WEB_CONCURRENCY", "1")) != "1" and "workers" not in options:
        logger.warning(
            'WEB_CONCURRENCY=%s is ignored: run("http") serves in a single process. For several processes '
            "write `app = server.asgi()` in a module, and run `uvicorn module:app`",
            wanted,
        )
    with SafeOutput(), suppress(KeyboardInterrupt):  # uvicorn raises it again at its end
        server.run(None if listening is None else [listening])


def defaults(settings: Settings) -> Json:
    """Return the uvicorn options for every app.

    Args:
        settings: Options of the app.
    """
    config: Json = {"timeout_graceful_shutdown": settings.timeouts.shutdown}
    if find_spec("uvloop") is None:
        config["http"] = "h11"  # httptools does not report a disconnect while a second request waits
    return config


class _Server(uvicorn.Server):
    """uvicorn server that logs the URL of the endpoint when it listens."""

    def __init__(self, config: uvicorn.Config, settings: Settings) -> None:
        super().__init__(config)
        self._settings = settings

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        decline_upgrades(self.config)
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                logger.info("MCP endpoint: %s", self._endpoint(listening.getsockname()))
        if (public := self._settings.public_url) is not None:
            logger.info("Public URL: %s", public)

    def _endpoint(self, address: Any) -> str:
        path = self._settings.path
        if not isinstance(address, tuple):  # a Unix socket
            return f"{path}, on the Unix socket {address}"
        host, port = cast("tuple[str, int]", address)[:2]
        host = _LOOPBACK.get(host, host)
        scheme = "https" if self.config.is_ssl else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}"


# Shutdown

_Shutdown = Callable[["list[socket.socket] | None"], Awaitable[None]]

# Seconds after which the connection of a client that reads nothing is aborted, once all services have ended.
_STALL_TIME = 0.5

_ATTRIBUTE = "mcpkit_server"  # the attribute of a uvicorn server that holds its `_ServedServer`

_served_servers: WeakSet[_ServedServer] = WeakSet()


def end_with_uvicorn(service: Service) -> None:
    """End a service when the uvicorn servers of its event loop stop.

    If only some of them stop, the service continues for the others, and its streams end so that no server waits for
    one.

    Args:
        service: A service of the running event loop.
    """
    for server in _running_servers():
        served: _ServedServer | None = getattr(server, _ATTRIBUTE, None)
        if served is None:
            served = _ServedServer(server)
            decline_upgrades(server.config)
        served.services.add(service)
        if served.has_stopped:
            served.stop(service)


def decline_upgrades(config: uvicorn.Config) -> None:
    """Make uvicorn with httptools read the body of a request with an upgrade that is declined.

    Args:
        config: A loaded configuration. The change applies to connections opened later.
    """
    module = sys.modules.get("uvicorn.protocols.http.httptools_impl")
    if module is not None and config.http_protocol_class is module.HttpToolsProtocol:
        from .httptools_protocol import DecliningProtocol

        config.http_protocol_class = DecliningProtocol


class _ServedServer:
    """One uvicorn server, and the services in its event loop.

    Attributes:
        services: The services.
        has_stopped: Whether the server has started to stop.
    """

    def __init__(self, server: uvicorn.Server) -> None:
        self.services: WeakSet[Service] = WeakSet()
        self.has_stopped = False
        _served_servers.add(self)
        shutdown = partial(self._shutdown, server.shutdown, server.server_state)
        vars(server).update({_ATTRIBUTE: self, "shutdown": shutdown})

    def stop(self, service: Service) -> None:
        """End the service, or only its streams if another server still serves it."""
        if all(each.has_stopped for each in _served_servers if service in each.services):
            service.close()
        else:
            service.end_streams()
            for pipe in tuple(service.pipes.values()):
                service.loop_state.start_task(pipe.aclose())

    async def _shutdown(
        self, shutdown: _Shutdown, state: ServerState, sockets: list[socket.socket] | None = None
    ) -> None:
        self.has_stopped = True
        services = list(self.services)
        for service in services:
            self.stop(service)
        aborting = asyncio.get_running_loop().create_task(_abort_stalled(services, state))
        try:
            await shutdown(sockets)
        finally:
            aborting.cancel()


async def _abort_stalled(services: Iterable[Service], state: ServerState) -> None:
    """Abort connections of clients that do not read, after the end of the services. uvicorn would wait for them."""
    for service in services:
        await service.ended()
    unread: dict[asyncio.Transport, int] = {}
    while True:
        await asyncio.sleep(_STALL_TIME)
        transports = [connection.transport for connection in state.connections]
        sizes = {transport: transport.get_write_buffer_size() for transport in transports}
        for transport, size in sizes.items():
            if size and unread.get(transport) == size:
                transport.abort()
        unread = sizes


def _running_servers() -> set[uvicorn.Server]:
    """Return the uvicorn servers of the running event loop: `self` in the coroutines of its tasks."""
    uvicorn_file = uvicorn.Server.serve.__code__.co_filename
    servers: set[uvicorn.Server] = set()
    for task in asyncio.all_tasks():
        coroutine: Any = task.get_coro()
        while coroutine is not None:
            frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
            # Before Python 3.13, `f_locals` of a frame keeps the values of its variables, so no other frame is read.
            if frame is not None and frame.f_code.co_filename == uvicorn_file:
                server = frame.f_locals.get("self")
                if isinstance(server, uvicorn.Server):
                    servers.add(server)
                    break
            coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return servers
