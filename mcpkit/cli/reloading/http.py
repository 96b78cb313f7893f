"""`mcpkit run --reload` at a port: this process keeps the socket, one after the other serves it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Final

from ..._utils.python_safe_path import protect_children
from ...options import Timeouts
from ..exit_status import CommandError
from ..serving.http import Address, app_of
from ..serving.script import given
from ..targets.served import found
from .broken import Broken
from .conversation import DECLARED
from .stdio import environment, project_of
from .supervisor import DRAIN, say
from .watching import Project

_END: Final = 3.0
"""Seconds after the grace period until the process is killed."""


def run_reloading_at(target: str, arguments: Sequence[str], address: Address) -> int:
    """Serve at a port, by a process that is replaced when the code is edited.

    Requests that come meanwhile wait in the socket.

    Args:
        target: What the command line calls the server.
        arguments: What is for the file itself.
        address: Where.

    Returns:
        The status to end with: 128 and the number of the signal.

    Raises:
        CommandError: The target is no file and no module, or watchfiles is not installed.
        FileNotFoundError: There is no such file.
        OSError: Nobody can listen there.
    """
    roots = project_of(target)
    os.environ.update(environment())
    protect_children()
    with _listening(address) as listening:
        port: int = listening.getsockname()[1]
        say(f"serving {target}, watching Python files in {', '.join(map(str, roots))}")
        options = (target, arguments, listening, Address(address.host, port))
        return asyncio.run(_supervise(options, roots))


def _listening(address: Address) -> socket.socket:
    [(family, kind, protocol, _, place), *_] = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)
    listening = socket.socket(family, kind, protocol)
    try:
        if sys.platform != "win32":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
        listening.listen(2048)
    except BaseException:
        listening.close()
        raise
    return listening


async def _supervise(options: tuple[str, Sequence[str], socket.socket, Address], roots: list[Path]) -> int:
    loop = asyncio.get_running_loop()
    ended_by: asyncio.Future[int] = loop.create_future()

    def end(number: int) -> None:
        if not ended_by.done():
            ended_by.set_result(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        with suppress(NotImplementedError):  # on Windows, where SIGINT raises KeyboardInterrupt
            loop.add_signal_handler(number, end, number)
    async with aclosing(Project(roots).edits()) as edits:
        await anext(edits)  # from here on edits are seen
        serving = _Serving(*options)
        edit = asyncio.ensure_future(anext(edits))
        try:
            while not ended_by.done():
                await asyncio.wait((edit, serving.gone, ended_by), return_when=asyncio.FIRST_COMPLETED)
                if ended_by.done():
                    break
                if edit.done():
                    say(f"changed: {', '.join(Path(path).name for path in edit.result())}")
                    edit = asyncio.ensure_future(anext(edits))
                    begun = time.monotonic()
                    await serving.stop()
                    serving.start()
                    say(f"restarted after {time.monotonic() - begun:.1f} s")
                else:
                    say(f"the process exited with status {serving.status}; waiting for the next edit")
                    serving.start(f"the process exited with status {serving.status}")
        finally:
            edit.cancel()
            await asyncio.gather(edit, return_exceptions=True)
            await serving.stop()
    return 128 + ended_by.result()


class _Serving:
    """The process that serves now.

    Attributes:
        gone: Done when it has ended.
    """

    def __init__(
        self, target: str, arguments: Sequence[str], listening: socket.socket, address: Address
    ) -> None:
        self._options = (target, tuple(arguments), listening, address)
        self.start()

    def start(self, problem: str | None = None) -> None:
        """Start another one; with a problem, one that says no more than that."""
        self._process = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(*self._options, problem), name="mcpkit-server"
        )
        self._process.start()
        self.gone = asyncio.get_running_loop().run_in_executor(None, self._process.join)

    @property
    def status(self) -> int | None:
        """The status with which it has ended; None while it lives."""
        return self._process.exitcode

    async def stop(self) -> None:
        """End it, and return when it has ended."""
        self._process.terminate()
        await asyncio.wait((self.gone,), timeout=DRAIN + _END)
        if not self.gone.done():
            self._process.kill()
            await self.gone


def _serve(
    target: str, arguments: Sequence[str], listening: socket.socket, address: Address, problem: str | None
) -> None:
    """Serve a socket, in a process of its own, until a signal comes."""
    from ...transports.http.app_options import Settings
    from ...transports.http.run import run_app

    settings = Settings(timeouts=Timeouts(shutdown=DRAIN))
    try:
        if problem is not None:
            raise CommandError(problem)
        with given(target, arguments):
            server = found(target).server
        for name in DECLARED:
            server.engine.declared.add(name)
        app = app_of(server, address, shutdown=DRAIN)
        run_app(app, app.settings, *address, {"workers": 1}, listening)
    except CommandError as error:
        if problem is None:
            say(str(error))
        run_app(Broken(str(error)), settings, *address, {"workers": 1, "lifespan": "off"}, listening)
