"""A server with tasks for worker and server processes that tests start, and its log of runs."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcpkit import Context, Server, Task, TaskOptions, Timeouts
from mcpkit.storage import Sqlite
from tests.helpers.serving import ROOT, app_of
from tests.helpers.waiting import until

SECRET = "a secret of sixteen and more"

SAFE = Task(rerun="safe")

LEASE = 10_000.0
"""Seconds that no test waits for."""


def make_server(path: Path, log: Path, **options: Any) -> Server:
    """Create the server, which writes a line to the log for each run that begins or ends."""

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[str]:
        record("enters")
        yield "entered"
        record("leaves")

    def record(what: str) -> None:
        with log.open("a") as file:
            file.write(f"{os.getpid()} {what}\n")

    server = Server("lab", secret_key=SECRET, storage=Sqlite(path), lifespan=lifespan, **options)
    running = 0

    @server.tool(task=SAFE)
    async def count(seconds: float = 0) -> dict[str, int]:
        nonlocal running
        running += 1
        most = running
        await asyncio.sleep(seconds)
        running -= 1
        return {"process": os.getpid(), "most": most}

    @server.tool(task=SAFE)
    async def wait(label: str, ctx: Context) -> str:
        record(f"{label} begins {ctx.task.attempt}")
        if ctx.task.attempt == 1:
            await asyncio.Event().wait()
        return f"{label} in attempt {ctx.task.attempt} by {os.getpid()} {ctx.state}"

    @server.tool(task=SAFE)
    async def stubborn(label: str, ctx: Context) -> str:
        record(f"{label} begins {ctx.task.attempt}")
        while ctx.task.attempt == 1:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                record(f"{label} goes on")
        return f"{label} in attempt {ctx.task.attempt}"

    @server.tool(task=SAFE)
    def sleep(label: str, ctx: Context) -> str:
        record(f"{label} begins {ctx.task.attempt}")
        if ctx.task.attempt == 1:
            time.sleep(600)
        return f"{label} in attempt {ctx.task.attempt}"

    @server.tool(task=Task(rerun="safe", timeout=1))
    async def hang(label: str, ctx: Context) -> None:
        record(f"{label} begins {ctx.task.attempt}")
        time.sleep(600)

    @server.tool(task=Task(rerun="never"))
    async def once(label: str, seconds: float) -> str:
        record(f"{label} begins")
        await asyncio.sleep(seconds)
        return f"{label} is done"

    return server


class TaskProcesses:
    """A server with tasks and its log: replicas in this process that run no tasks, and child processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "log"
        self.log.touch()
        self.processes: list[asyncio.subprocess.Process] = []

    def replica(self, **options: Any) -> Server:
        """A server in this process that runs no tasks."""
        return make_server(self.folder / "lab.db", self.log, tasks="workers", **options)

    async def start(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        """Start Python with some arguments."""
        lab = {"LAB_FOLDER": str(self.folder), "PYTHONPATH": str(ROOT)}
        pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, env=os.environ | lab | environment, cwd=self.folder, **pipes
        )
        self.processes.append(process)
        return process

    async def worker(self, *options: str, **environment: str) -> asyncio.subprocess.Process:
        """Start a worker, and wait until it is ready."""
        process = await self.start(
            "-m", "mcpkit", "worker", "tests.helpers.task_processes:server", *options, **environment
        )
        await self.wait_for_output(process, b"is ready")
        return process

    async def wait_for_output(self, process: asyncio.subprocess.Process, what: bytes) -> bytes:
        """Wait for a text on a process's standard error, and return the line."""
        assert process.stderr is not None
        output = b""
        async for line in process.stderr:
            output += line
            if what in line:
                return line
        raise AssertionError(f"it has wait_for_exit: {output.decode()}")

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    async def wait_for_line(self, what: str) -> None:
        """Wait until a line that ends so is in the log."""
        await until(lambda: any(line.endswith(what) for line in self.lines()))

    async def wait_for_exit(self, process: asyncio.subprocess.Process) -> tuple[int, str]:
        """Wait for the end of a process; return its status and the rest of its standard error."""
        _, output = await asyncio.wait_for(process.communicate(), 60)
        self.processes.remove(process)
        assert process.returncode is not None
        return process.returncode, output.decode()

    async def stop(
        self, process: asyncio.subprocess.Process, number: int = signal.SIGTERM
    ) -> tuple[int, str]:
        """Send a signal to a process, and wait for its end."""
        process.send_signal(number)
        return await self.wait_for_exit(process)

    async def close(self) -> None:
        """Kill what has not wait_for_exit."""
        for process in tuple(self.processes):
            process.kill()
            await self.wait_for_exit(process)


if "LAB_FOLDER" in os.environ:
    folder = Path(os.environ["LAB_FOLDER"])
    by: Any = os.environ.get("LAB_TASKS", "workers")
    options = TaskOptions(by=by, lease=float(os.environ.get("LAB_LEASE", LEASE)))
    server = make_server(folder / "lab.db", folder / "log", tasks=options)
    app = app_of(server, timeouts=Timeouts(shutdown=4))
