"""Runs the app with uvicorn: `server.run("http")`."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import uvicorn

from ..._utils.concurrency import refuse_loop
from ...execution.safe_stdout import SafeOutput
from ...protocol.jsonrpc import Json
from .options import unknown
from .uvicorn_options import UvicornOptions
from .uvicorn_server import decline_upgrades

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from .options import Settings

logger = logging.getLogger(
    "uvicorn.error"
)  # where uvicorn says that it listens, in the form that its user has chosen

_CHILD = "MCPKIT_RELOAD_PARENT"
"""Environment variable with the id of the process that reloads this one."""

_REACHED = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Loopback addresses for servers that listen on all addresses."""


def bound(host: str, port: int, options: Mapping[str, object]) -> tuple[socket.socket | None, str | None]:
    """Return the local URL of a server, and its socket if the port is chosen by the system.

    Args:
        host: The address to listen on.
        port: The port; 0 takes a free one.
        options: Options for `uvicorn.Config`.

    Returns:
        The socket, if one was needed to determine the port; and the URL without a path, or None if other machines may
        reach the server or it is encrypted.
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
    if os.environ.get(_CHILD) == str(os.getppid()):
        return False
    from uvicorn.supervisors import ChangeReload

    config = uvicorn.Config("", reload=True, **watched)
    watcher = ChangeReload(
        config, target=lambda _: None, sockets=[]
    )  # it watches; the program is started here
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, watcher.signal_handler)
    command, environment = [sys.executable, *sys.orig_argv[1:]], {**os.environ, _CHILD: str(os.getpid())}
    program = subprocess.Popen(command, env=environment)
    try:
        for changed in watcher:
            if changed:
                logger.warning("%s edited; the program is started again", ", ".join(map(str, changed)))
                _stop(program)
                program = subprocess.Popen(command, env=environment)
    finally:
        _stop(program)
    return True


def _stop(program: subprocess.Popen[bytes]) -> None:
    program.terminate()
    program.wait()


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
    with (
        SafeOutput(),
        suppress(KeyboardInterrupt),
    ):  # uvicorn raises it once more when it has ended because of it
        sockets = None if listening is None else [listening]
        server.run(sockets)


def defaults(settings: Settings) -> Json:
    """Return the uvicorn options for every app.

    Args:
        settings: Options of the app.
    """
    config: Json = {"timeout_graceful_shutdown": settings.timeouts.shutdown}
    if find_spec("uvloop") is None:
        config["http"] = "h11"  # httptools does not tell of a client that goes while a second request waits
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
