"""The processes of a server with tasks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

from mcpkit import Server
from tests.helpers.lab_server import make_server
from tests.helpers.redis_server import common_server
from tests.helpers.waiting import until

HELPERS = Path(__file__).parent


class Lab:
    """A server with tasks: replicas in this process, and what else is started.

    Args:
        engine: What it shares: `redis` or `sqlite`.
        folder: Where its files are.

    Attributes:
        processes: What has been started and not ended yet.
    """

    def __init__(self, engine: str, folder: Path) -> None:
        self.shared = str(folder / "lab.db")
        if engine == "redis":
            self.shared = f"{common_server().url}#{sha256(str(folder).encode()).hexdigest()[:16]}:"
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.processes: list[asyncio.subprocess.Process] = []

    def replica(self, **options: Any) -> Server:
        """A server in this process that runs no tasks."""
        return make_server(self.shared, self.ledger, tasks="workers", **options)

    async def start(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        """Start Python with some arguments."""
        paths = str(HELPERS.parent.parent)
        lab = {"LAB_SHARED": self.shared, "LAB_LEDGER": str(self.ledger), "PYTHONPATH": paths}
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            env=os.environ | lab | environment,
            cwd=self.folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self.processes.append(process)
        return process

    async def worker(self, *options: str, **environment: str) -> asyncio.subprocess.Process:
        """Start a worker, and wait until it is ready."""
        process = await self.start(
            "-m", "mcpkit", "worker", "tests.helpers.lab_server:server", *options, **environment
        )
        await self.heard(process, b"is ready")
        return process

    async def heard(self, process: asyncio.subprocess.Process, what: bytes) -> bytes:
        """Wait until a process says something on standard error, and return the line."""
        assert process.stderr is not None
        said = b""
        async for line in process.stderr:
            said += line
            if what in line:
                return line
        raise AssertionError(f"it has ended: {said.decode()}")

    def lines(self) -> list[str]:
        return self.ledger.read_text().splitlines()

    async def noted(self, what: str) -> None:
        """Wait until a line that ends so is in the ledger."""
        await until(lambda: any(line.endswith(what) for line in self.lines()))

    async def ended(self, process: asyncio.subprocess.Process) -> tuple[int, str]:
        """Wait until a process has ended; return its status and the rest of what it has said on standard error."""
        _, said = await asyncio.wait_for(process.communicate(), 60)
        self.processes.remove(process)
        assert process.returncode is not None
        return process.returncode, said.decode()

    async def end(self, process: asyncio.subprocess.Process, number: int = signal.SIGTERM) -> tuple[int, str]:
        """Send a signal to a process, and wait for its end."""
        process.send_signal(number)
        return await self.ended(process)

    async def close(self) -> None:
        """Kill what has not ended."""
        for process in tuple(self.processes):
            process.kill()
            await self.ended(process)
