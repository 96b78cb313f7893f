"""Integration with the uvicorn server that runs the app: streams end when it stops, and declined upgrades lose no body.

uvicorn waits for open connections before it sends the lifespan's shutdown event, and sends none to a mounted app. A
signal is one way to stop it; see `shutdown`. A program can set `should_exit`, and `--limit-max-requests` sets nothing.
So the app extends the `shutdown` method of the server that runs in its event loop.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    import uvicorn
    from uvicorn.server import ServerState

    from .service import Service

    _Shutdown = Callable[[list[socket.socket] | None], Awaitable[None]]

_STALLED = 0.5
"""Seconds after which the connection of a client that reads nothing is aborted, once all services have ended."""

_RUN = "mcpkit_run"
"""The attribute of a uvicorn server that holds its run."""

_runs: WeakSet[Run] = WeakSet()


def connect(service: Service) -> None:
    """End a service when the uvicorn servers of its event loop stop.

    If only some of them stop, the service continues for the others, and its streams end so that no server waits for
    one. It does nothing if uvicorn is not loaded.

    Args:
        service: A service of the running event loop.
    """
    if "uvicorn.server" not in sys.modules:
        return
    for server in _running_servers():
        run: Run | None = getattr(server, _RUN, None)
        if run is None:
            run = Run(server)
            decline_upgrades(server.config)
        run.services.add(service)
        if run.has_stopped:
            run.stop(service)


def decline_upgrades(config: uvicorn.Config) -> None:
    """Make uvicorn with httptools read the body of a request with an upgrade that is declined.

    Args:
        config: A loaded configuration. The change applies to connections opened later.
    """
    module = sys.modules.get("uvicorn.protocols.http.httptools_impl")
    if module is not None and config.http_protocol_class is module.HttpToolsProtocol:
        from .httptools_protocol import DecliningProtocol

        config.http_protocol_class = DecliningProtocol


class Run:
    """One uvicorn server, and the services in its event loop.

    Attributes:
        services: The services.
        has_stopped: Whether the server has started to stop.
    """

    def __init__(self, server: uvicorn.Server) -> None:
        self.services: WeakSet[Service] = WeakSet()
        self.has_stopped = False
        _runs.add(self)
        shutdown = partial(self._shutdown, server.shutdown, server.server_state)
        vars(server).update({_RUN: self, "shutdown": shutdown})

    def stop(self, service: Service) -> None:
        """End the service, or only its streams if another server still serves it."""
        if all(run.has_stopped for run in _runs if service in run.services):
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
        aborting = asyncio.get_running_loop().create_task(_abort_unread(services, state))
        try:
            await shutdown(sockets)
        finally:
            aborting.cancel()


async def _abort_unread(services: Iterable[Service], state: ServerState) -> None:
    """Abort connections of clients that do not read, after the end of the services. uvicorn would wait for them."""
    for service in services:
        await service.ended()
    unread: dict[asyncio.Transport, int] = {}
    while True:
        await asyncio.sleep(_STALLED)
        transports = [connection.transport for connection in state.connections]
        sizes = {transport: transport.get_write_buffer_size() for transport in transports}
        for transport, size in sizes.items():
            if size and unread.get(transport) == size:
                transport.abort()
        unread = sizes


def _running_servers() -> set[uvicorn.Server]:
    """Return the uvicorn servers of the running event loop: `self` in the coroutines of its tasks."""
    from uvicorn import Server

    own_file = Server.serve.__code__.co_filename
    servers: set[Server] = set()
    for task in asyncio.all_tasks():
        waiting: Any = task.get_coro()
        while waiting is not None:
            frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
            # Before Python 3.13, `f_locals` of a frame keeps what its variables were: no frame of others is read.
            if frame is not None and frame.f_code.co_filename == own_file:
                server = frame.f_locals.get("self")
                if isinstance(server, Server):
                    servers.add(server)
                    break
            waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return servers
