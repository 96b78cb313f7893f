"""A server at a port, by one process or several."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from ..._utils.python_safe_path import protect_children
from ..exit_status import CommandError
from ..targets.served import found

if TYPE_CHECKING:
    from ...server import Server
    from ...transports.http.asgi import HttpApp

_VARIABLE: Final = "MCPKIT_RUN"
"""The environment variable by which workers know what they serve."""

Transport = Literal["http", "sse"]


class Address(NamedTuple):
    """Where a server is served.

    Attributes:
        host: The address to listen on.
        port: The port; 0 takes a free one.
    """

    host: str
    port: int


def serve(server: Server, target: str, transport: Transport, address: Address, workers: int | None) -> None:
    """Serve a server at a port until a signal comes.

    Args:
        server: The server.
        target: What the command line calls it, from which each worker imports its own.
        transport: As `Server.run` has it.
        address: Where.
        workers: How many processes serve; None for what WEB_CONCURRENCY says, or one.

    Raises:
        CommandError: WEB_CONCURRENCY is no number, or there would be several processes at any port.
        Exception: Whatever `Server.run` raises.
    """
    count = _concurrency() if workers is None else workers
    if count == 1:
        server.run(transport, host=address.host, port=address.port, workers=1)
        return
    if address.port == 0:
        raise CommandError("several workers need a fixed port. Add --port, for example --port 8000")
    import uvicorn

    from ...transports.http.app_options import Settings
    from ...transports.http.run import defaults

    os.environ[_VARIABLE] = json.dumps({"target": target, "host": address.host, "port": address.port})
    protect_children()
    uvicorn.run(
        f"{__name__}:application",
        factory=True,
        host=address.host,
        port=address.port,
        workers=count,
        **defaults(Settings()),
    )


def application() -> HttpApp:
    """Return the app of a worker, which finds in its environment what it serves and where."""
    run: Mapping[str, object] = json.loads(os.environ[_VARIABLE])
    target, host, port = str(run["target"]), str(run["host"]), int(str(run["port"]))
    return app_of(found(target).server, Address(host, port))


def app_of(server: Server, address: Address, shutdown: float | None = None) -> HttpApp:
    """Return the app of a server, with what its clients have to know where it is protected.

    Args:
        server: The server.
        address: Where it is served, with its real port.
        shutdown: Seconds that running calls get at the end; None for those of the server.
    """
    from ...transports.http.app_options import Settings
    from ...transports.http.asgi import HttpApp
    from ...transports.http.run import local_url

    public_url = None
    if server.engine.auth is not None:
        _, url = local_url(address.host, address.port, {})
        public_url = None if url is None else f"{url}/mcp"
    runtime = server.engine.runtime
    timeouts = runtime.timeouts if shutdown is None else replace(runtime.timeouts, shutdown=shutdown)
    return HttpApp(server.engine, Settings(runtime.limits, timeouts, public_url=public_url))


def _concurrency() -> int:
    """Return how many workers the environment asks for, as uvicorn reads it."""
    wanted = os.environ.get("WEB_CONCURRENCY", "1")
    try:
        count = int(wanted)
    except ValueError:
        count = 0
    if count < 1:
        raise CommandError(f"WEB_CONCURRENCY must be a positive integer, such as 4, got {wanted!r}")
    return count
