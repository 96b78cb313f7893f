"""Child processes that are killed, paused and started again on the same port."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from mcpkit import Context, Server, Task, TaskOptions, Timeouts
from mcpkit.client.client_messages import OutgoingMessage
from mcpkit.client.stdio.stdio_transport import StdioTransport
from mcpkit.storage import Sqlite
from tests.helpers.serving import ROOT, app_of, environment
from tests.helpers.waiting import until

DEFAULT_TIMEOUT = 60.0
"""Seconds until a wait fails."""


def free_port() -> int:
    """Return a free port of this machine."""
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
        """True if it has ended without `stop` or `kill`."""
        return self.process is not None and self.process.poll() is not None

    def start(self) -> None:
        """Start it; `up` waits until it works."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(**self.settings),
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


CHILD_TIMEOUT = 30.0

ECHO = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": message["params"]}), flush=True)
"""
"""A server that answers with the params, and ends with its input."""


def script(code: str) -> list[str]:
    """The command of a script."""
    return [sys.executable, "-c", code]


class Received:
    """A receiver that keeps what comes."""

    def __init__(self) -> None:
        self.messages: list[Any] = []
        self.error: Exception | None = None
        self.pending: set[Any] = set()
        self._changed = asyncio.Event()

    def receive(self, line: bytes, request_id: object = None) -> None:
        self.messages.append(json.loads(line))
        self._changed.set()

    def is_pending(self, id_: Any) -> bool:
        return id_ in self.pending

    def fail(self, id_: Any, error: Exception) -> None:
        self.messages.append((id_, error))
        self._changed.set()

    def connection_lost(self, error: Exception) -> None:
        assert self.error is None, "it is lost only once"
        self.error = error
        self._changed.set()

    async def next(self) -> Any:
        """Wait for the next message."""
        await self._until(lambda: self.messages or self.error)
        assert self.messages, self.error
        return self.messages.pop(0)

    async def end(self) -> Exception:
        """Wait until it is lost, and return the reason."""
        await self._until(lambda: self.error)
        assert self.error is not None
        return self.error

    async def _until(self, condition: Any) -> None:
        while not condition():
            self._changed.clear()
            await asyncio.wait_for(self._changed.wait(), CHILD_TIMEOUT)


def request(id_: int, **params: Any) -> OutgoingMessage:
    """A request."""
    message = {"jsonrpc": "2.0", "id": id_, "method": "echo", "params": params}
    outgoing = OutgoingMessage()
    outgoing.line = json.dumps(message).encode()
    outgoing.id = id_
    return outgoing


async def send(transport: StdioTransport, id_: int, **params: Any) -> None:
    """Send a request, and wait where more may not be sent."""
    sending = transport.send(request(id_, **params))
    if sending is not None:
        await sending


async def ask(transport: StdioTransport, received: Received, id_: int, **params: Any) -> Any:
    """Send a request to a server that answers in order, and return its result."""
    await send(transport, id_, **params)
    answer = await received.next()
    assert answer["id"] == id_
    return answer["result"]


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def descriptors() -> set[str]:
    """The open descriptors of this process, and what they are."""
    found = set()
    for name in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{name} {os.readlink(f'/proc/self/fd/{name}')}")
        except OSError:  # the listing's own
            continue
    return found


def open_resources() -> set[str]:
    """What this process holds: descriptors, child processes and threads.

    What other tests have left to the garbage collector may go at any time: what is left over is what has come, and
    `open_resources() <= before` where nothing is.
    """
    threads = {f"thread {thread.name}" for thread in threading.enumerate()}
    return descriptors() | {f"child {pid}" for pid in children()} | threads


def children() -> set[int]:
    """The children of this process, those that were not buried among them."""
    found = set()
    for task in os.listdir("/proc/self/task"):
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            found |= {int(pid) for pid in Path(f"/proc/self/task/{task}/children").read_text().split()}
    return found


# A server with tasks for worker and server processes that tests start, and its log of runs


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
            "-m", "mcpkit", "worker", "tests.helpers.processes:server", *options, **environment
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
