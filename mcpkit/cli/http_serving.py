"""Servers over HTTP in one process or several, for `mcpkit run`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from .._utils.python_safe_path import protect_children
from .exit_status import CommandError
from .server_loader import load_server

if TYPE_CHECKING:
    from ..server import Server
    from ..transports.http.asgi import HttpApp

_VARIABLE: Final = "MCPKIT_RUN"
"""Environment variable with the server and the address of worker processes."""


class Address(NamedTuple):
    """Address of an HTTP server.

    Attributes:
        host: The address to listen on.
        port: The port; 0 for a free one.
    """

    host: str
    port: int


def serve_http(
    server: Server, target: str, transport: Literal["http", "sse"], address: Address, workers: int | None
) -> None:
    """Serve a server over HTTP until a signal.

    Args:
        server: The server.
        target: Its TARGET on the command line, from which each worker imports it.
        transport: The transport, as in `Server.run`.
        address: The address.
        workers: The number of processes; None for WEB_CONCURRENCY, or one.

    Raises:
        CommandError: WEB_CONCURRENCY is not a positive integer, or several processes have no fixed port.
        Exception: Whatever `Server.run` raises.
    """
    if workers is None:
        setting = os.environ.get("WEB_CONCURRENCY", "1")  # as uvicorn reads it
        try:
            workers = int(setting)
        except ValueError:
            workers = 0
        if workers < 1:
            raise CommandError(f"WEB_CONCURRENCY must be a positive integer, such as 4, got {setting!r}")
    if workers == 1:
        server.run(transport, host=address.host, port=address.port, workers=1)
        return
    if address.port == 0:
        raise CommandError("several workers need a fixed port. Add --port, for example --port 8000")
    import uvicorn

    from ..transports.http.app_options import Settings
    from ..transports.http.run import defaults

    os.environ[_VARIABLE] = json.dumps({"target": target, "host": address.host, "port": address.port})
    protect_children()
    uvicorn.run(
        f"{__name__}:create_worker_app",
        factory=True,
        host=address.host,
        port=address.port,
        workers=workers,
        **defaults(Settings()),
    )


def create_worker_app() -> HttpApp:
    """Return the app of a worker process, from its environment."""
    run: Mapping[str, object] = json.loads(os.environ[_VARIABLE])
    address = Address(str(run["host"]), int(str(run["port"])))
    return create_app(load_server(str(run["target"])).server, address)


def create_app(server: Server, address: Address, shutdown: float | None = None) -> HttpApp:
    """Return the app of a server, with the URL that clients need if it is protected.

    Args:
        server: The server.
        address: The address, with the real port.
        shutdown: Seconds that running requests get at the end; None for the setting of the server.
    """
    from ..transports.http.app_options import Settings
    from ..transports.http.asgi import HttpApp
    from ..transports.http.run import local_url

    public_url = None
    if server.engine.auth is not None:
        _, url = local_url(address.host, address.port, {})
        public_url = None if url is None else f"{url}/mcp"
    runtime = server.engine.runtime
    timeouts = runtime.timeouts if shutdown is None else replace(runtime.timeouts, shutdown=shutdown)
    return HttpApp(server.engine, Settings(runtime.limits, timeouts, public_url=public_url))
