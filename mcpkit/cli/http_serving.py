"""Servers over HTTP for `mcpkit run`: in one process, in several, or with `--reload`.

Modules of `--reload` are imported for this option alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from .._utils.exceptions import ProtocolError
from .._utils.python_safe_path import protect_children
from ..options import Timeouts
from ..protocol.jsonrpc import decode, is_id, is_object
from .exit_status import CommandError
from .server_loader import load_server, program_arguments

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess
    from pathlib import Path

    from starlette.types import ASGIApp, Receive, Scope, Send

    from ..server import Server
    from ..transports.http.asgi import HttpApp


_VARIABLE: Final = "MCPKIT_RUN"
"""Environment variable with the server and the address of worker processes."""


Address = tuple[str, int]
"""Host and port of a server; port 0 for a free one."""


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
        server.run(transport, host=address[0], port=address[1], workers=1)
        return
    if address[1] == 0:
        raise CommandError("several workers need a fixed port. Add --port, for example --port 8000")
    import uvicorn

    from ..transports.http.app_options import Settings
    from ..transports.http.run import defaults

    os.environ[_VARIABLE] = json.dumps([target, *address])
    protect_children()
    uvicorn.run(
        f"{__name__}:create_worker_app",
        factory=True,
        host=address[0],
        port=address[1],
        workers=workers,
        **defaults(Settings()),
    )


def create_worker_app() -> HttpApp:
    """Return the app of a worker process, from its environment."""
    target, host, port = json.loads(os.environ[_VARIABLE])
    return create_app(load_server(target).server, (host, port))


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
        _, url = local_url(*address, {})
        public_url = None if url is None else f"{url}/mcp"
    runtime = server.engine.runtime
    timeouts = runtime.timeouts if shutdown is None else replace(runtime.timeouts, shutdown=shutdown)
    return HttpApp(server.engine, Settings(runtime.limits, timeouts, public_url=public_url))


# Restart after edits: the socket stays open, and the server process is replaced

_KILL_DELAY: Final = 3.0
"""Seconds after the grace period until the process is killed."""


def run_reload_over_http(target: str, arguments: Sequence[str], address: Address) -> int:
    """Serve at an address, and restart the server process when its code is edited.

    Connections that arrive during a restart wait in the backlog of the socket.

    Args:
        target: The server on the command line.
        arguments: Arguments of the server's own script.
        address: The address to listen on.

    Returns:
        The exit status: 128 plus the signal number.

    Raises:
        CommandError: The target is neither a file nor a module, or watchfiles is not installed.
        FileNotFoundError: The file does not exist.
        OSError: The address cannot be listened on.
    """
    from .reload.file_watcher import watch_roots
    from .reload.supervisor import child_environment, print_status

    roots = watch_roots(target)
    os.environ.update(child_environment())
    protect_children()
    [(family, *_), *_] = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    with socket.create_server(address, family=family, backlog=2048) as listener:
        port: int = listener.getsockname()[1]
        print_status(f"serving {target}, watching Python files in {', '.join(map(str, roots))}")
        serving = (target, tuple(arguments), listener, (address[0], port))
        return asyncio.run(_supervise(serving, roots))


async def _supervise(serving: tuple[str, tuple[str, ...], socket.socket, Address], roots: list[Path]) -> int:
    """Run one process after the other until a signal, each until the next edit, and return the exit status."""
    from multiprocessing import get_context

    from .reload.file_watcher import edited_files
    from .reload.supervisor import DRAIN, handle_signals, print_edits, print_status

    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def start(problem: str | None = None) -> tuple[SpawnProcess, asyncio.Future[None]]:
        """Start a process, and return it and the future of its exit; with a problem it only reports that."""
        process = get_context("spawn").Process(target=_serve, args=(*serving, problem), name="mcpkit-server")
        process.start()
        return process, loop.run_in_executor(None, process.join)

    async def stop() -> None:
        process.terminate()
        await asyncio.wait((exited,), timeout=DRAIN + _KILL_DELAY)
        if not exited.done():
            process.kill()
            await exited

    def set_stopped(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    handle_signals(set_stopped)
    async with aclosing(edited_files(roots)) as edits:
        await anext(edits)  # from here on edits are noticed
        process, exited = start()
        edit = asyncio.ensure_future(anext(edits))
        try:
            while not stopped.done():
                await asyncio.wait((edit, exited, stopped), return_when=asyncio.FIRST_COMPLETED)
                if stopped.done():
                    break
                if edit.done():
                    print_edits(edit.result())
                    edit = asyncio.ensure_future(anext(edits))
                    started_at = time.monotonic()
                    await stop()
                    process, exited = start()
                    print_status(f"restarted after {time.monotonic() - started_at:.1f} s")
                else:
                    problem = f"the process exited with status {process.exitcode}"
                    print_status(f"{problem}; waiting for the next edit")
                    process, exited = start(problem)
        finally:
            edit.cancel()
            await asyncio.gather(edit, return_exceptions=True)
            await stop()
    return 128 + stopped.result()


def _serve(
    target: str, arguments: Sequence[str], listener: socket.socket, address: Address, problem: str | None
) -> None:
    """Serve a socket until a signal stops this process."""
    from ..transports.http.app_options import Settings
    from ..transports.http.run import run_app
    from .reload.session_state import DECLARED
    from .reload.supervisor import DRAIN, print_status

    try:
        if problem is not None:
            raise CommandError(problem)
        with program_arguments(target, arguments):
            server = load_server(target).server
        for name in DECLARED:
            server.engine.declared.add(name)
        app = create_app(server, address, shutdown=DRAIN)
        run_app(app, app.settings, *address, {"workers": 1}, listener)
    except CommandError as error:
        if problem is None:
            print_status(str(error))
        settings = Settings(timeouts=Timeouts(shutdown=DRAIN))
        run_app(_failure_app(str(error)), settings, *address, {"workers": 1, "lifespan": "off"}, listener)


def _failure_app(error: str) -> ASGIApp:
    """Return an app that responds to each request with the error in the code; a model reads it as a tool result."""
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response

    from .reload.session_state import failure_response

    problem = f"The server cannot start: {error}\nFix the code. The server restarts after the next edit."

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        response = Response(problem, 503, {"Retry-After": "1"}, "text/plain")
        if request.method == "POST":
            try:
                message: object = decode(await request.body())
            except ProtocolError:
                message = None
            if is_object(message) and is_id(message.get("id")) and isinstance(message.get("method"), str):
                response = JSONResponse(failure_response(message, problem))
            elif is_object(message):  # a notification or a response
                response = Response(status_code=202)
        await response(scope, receive, send)

    return app
