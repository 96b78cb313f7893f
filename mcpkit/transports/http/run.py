"""Runs the app with uvicorn: `server.run("http")`."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from ...common.loops import refuse_loop
from ...common.safe_output import SafeOutput
from ...protocol.types import Json
from .uvicorn_server import decline_upgrades

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from .options import Settings

logger = logging.getLogger(
    "uvicorn.error"
)  # where uvicorn says that it listens, in the form that its user has chosen

_REACHED = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where on this machine a server is reached that listens at all addresses."""


def bound(host: str, port: int, options: Mapping[str, object]) -> tuple[socket.socket | None, str | None]:
    """Return where clients reach a server on this machine, and what listens there already where its port is any.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        options: Options for `uvicorn.Config`.

    Returns:
        The socket, if one was needed to know the port; and the URL without a path, or None where others than this
        machine's own processes may reach it, or it is encrypted, so that nobody here can tell.
    """
    if host not in {"127.0.0.1", "::1", "localhost"} or any(
        options.get(name) for name in ("uds", "fd", "ssl_certfile", "ssl_keyfile")
    ):
        return None, None
    listening = None
    if port == 0:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.bind(address)
        port = listening.getsockname()[1]
    return listening, f"http://{f'[{host}]' if ':' in host else host}:{port}"


def run_app(
    app: ASGIApp,
    settings: Settings,
    host: str,
    port: int,
    options: Mapping[str, object],
    listening: socket.socket | None = None,
) -> None:
    """Serve until a signal comes.

    Args:
        app: The app.
        settings: Its options.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        options: More options for `uvicorn.Config`; they go before what is set here.
        listening: What is bound to address and port already, if anything is.

    Raises:
        RuntimeError: An event loop is running in this thread.
        ValueError: One of them is for several processes.
    """
    refuse_loop(
        "run() starts an event loop",
        "call run() from code that is not async, or write `await "
        "uvicorn.Server(uvicorn.Config(server.asgi())).serve()` instead",
    )
    workers = options.get("workers") or 1
    if workers != 1 or options.get("reload"):
        flag = "--reload" if options.get("reload") else f"--workers {workers}"
        raise ValueError(
            'run("http") serves in a single process without reloading. Write `app = server.asgi()` in a '
            f"module, and run `uvicorn module:app {flag}`"
        )
    config: Json = {**defaults(settings), "workers": 1, "host": host, "port": port, **options}
    server = _Server(uvicorn.Config(app, **config), settings)
    if (wanted := os.environ.get("WEB_CONCURRENCY", "1")) != "1" and "workers" not in options:
        logger.warning(
            'WEB_CONCURRENCY=%s is ignored: run("http") serves in a single process. For several processes '
            "write `app = server.asgi()` in a module, and run `uvicorn module:app`",
            wanted,
        )
    with (
        SafeOutput(),
        suppress(KeyboardInterrupt),
    ):  # uvicorn raises it once more when it has ended because of it
        sockets = None if listening is None else [listening]
        server.run(sockets)


def defaults(settings: Settings) -> Json:
    """Return what uvicorn is told for every app.

    Args:
        settings: The options of the app.
    """
    config: Json = {"timeout_graceful_shutdown": settings.grace}
    if find_spec("uvloop") is None:
        config["http"] = "h11"  # httptools does not tell of a client that goes while a second request waits
    return config


class _Server(uvicorn.Server):
    """Says where the endpoint is, as soon as it listens."""

    def __init__(self, config: uvicorn.Config, settings: Settings) -> None:
        super().__init__(config)
        self._settings = settings

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        decline_upgrades(self.config)
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                logger.info("MCP endpoint: %s", self._where(listening.getsockname()))
        if (public := self._settings.public_url) is not None:
            logger.info("Public URL: %s", public)

    def _where(self, address: Any) -> str:
        path = self._settings.path
        if not isinstance(address, tuple):  # a Unix socket
            return f"{path}, on the Unix socket {address}"
        host, port = cast("tuple[str, int]", address)[:2]
        host = _REACHED.get(host, host)
        scheme = "https" if self.config.is_ssl else "http"
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}"
