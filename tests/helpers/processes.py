"""Child processes that are killed, paused and started again on the same port."""

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

from tests.helpers.serving import ROOT

DEFAULT_TIMEOUT = 60.0
"""Seconds until a wait fails."""


def free_port() -> int:
    """Return a port of this machine that nobody listens at now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Process:
    """A process that can be started again after it was killed.

    Args:
        name: The name of the process and of its log file.
        command: The command line.
        folder: The folder of the log file.
        settings: Additional environment variables.
        port: The port on which it listens, or None.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        settings: Mapping[str, object],
        *,
        port: int | None = None,
    ) -> None:
        self.name = name
        self.command = command
        self.settings = dict(settings)
        self.port = port
        self.log = folder / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def pid(self) -> int:
        """Its process id."""
        assert self.process is not None
        return self.process.pid

    @property
    def has_ended(self) -> bool:
        """Whether it has ended without `stop` or `kill`."""
        return self.process is not None and self.process.poll() is not None

    def start(self) -> None:
        """Start it; `up` waits until it works."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        settings = {name: str(value) for name, value in self.settings.items()}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=inherited | {"PYTHONPATH": str(ROOT)} | settings,
                start_new_session=True,
            )

    async def up(self) -> None:
        """Wait until it listens."""
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while self.port is not None:
            assert self.process is not None
            assert self.process.poll() is None, f"{self.name} has ended: {self.read_log()}"
            assert time.monotonic() < deadline, f"{self.name} does not listen: {self.read_log()}"
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return

    def read_log(self) -> str:
        """Return the log of all its runs."""
        return self.log.read_text(errors="replace")

    def kill(self) -> None:
        """Kill it and its children."""
        if self.process is not None:
            with suppress(ProcessLookupError):  # it has ended by itself
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def pause(self) -> None:
        """Stop it until `resume`."""
        os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continue it."""
        os.killpg(self.pid, signal.SIGCONT)

    async def stop(self) -> None:
        """Send SIGTERM and wait for the end."""
        assert self.process is not None
        self.process.terminate()
        deadline = time.monotonic() + DEFAULT_TIMEOUT
        while self.process.poll() is None:
            assert time.monotonic() < deadline, f"{self.name} does not end: {self.read_log()}"
            await asyncio.sleep(0.02)
        self.process = None
