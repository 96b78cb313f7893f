"""Processes that are killed, stopped and started again, each at the same place."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.helpers.serving import HELPERS, ROOT

PATIENCE = 60.0
"""Seconds until it is given up that something comes true; nothing is judged by how long it takes before."""

_AHEAD = HELPERS / "cluster" / "ahead"
"""What Python imports at its start, and moves its clock: libfaketime would stall whatever waits for a time."""


def free_port() -> int:
    """Return a port of this machine that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Process:
    """A process that is started again after it was killed.

    Args:
        name: What it is called; its standard error is in a file of this name.
        command: Starts it.
        folder: Where that file is.
        settings: What is in its environment besides.
        ahead: Seconds by which its clock is ahead of ours.
        port: Where it listens; None for one that does not.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        settings: Mapping[str, object],
        *,
        ahead: float = 0,
        port: int | None = None,
    ) -> None:
        self.name = name
        self.command = command
        self.settings = dict(settings)
        self.ahead = ahead
        self.port = port
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def pid(self) -> int:
        """Its number, as long as it runs."""
        assert self.process is not None
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended though nobody told it to."""
        return self.process is not None and self.process.poll() is not None

    def start(self) -> None:
        """Start it; `up` waits until it works."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        settings = {name: str(value) for name, value in self.settings.items()}
        paths = [ROOT]
        if self.ahead:
            paths.insert(0, _AHEAD)
            settings["CLOCK_AHEAD"] = str(self.ahead)
        settings["PYTHONPATH"] = os.pathsep.join(map(str, paths))
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=inherited | settings,
                start_new_session=True,
            )

    async def up(self) -> None:
        """Wait until it listens."""
        deadline = time.monotonic() + PATIENCE
        while self.port is not None:
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} has ended: {self.notes()}"
            assert time.monotonic() < deadline, f"{self.name} does not listen: {self.notes()}"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return

    def notes(self) -> str:
        """Return what it has written on standard error, in all its lives."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill it, and all that it has started."""
        if self.process is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """Stop it where it stands, until `resume`."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.killpg(self.pid, signal.SIGCONT)

    async def stop(self) -> None:
        """Tell it to end, and wait until it has."""
        assert self.process is not None
        self.process.terminate()
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"{self.name} does not end: {self.notes()}"
            await asyncio.sleep(0.02)
        self.process = None
