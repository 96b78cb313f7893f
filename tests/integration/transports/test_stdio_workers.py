"""Worker processes of a server that a host starts with `python -m`: they end with it, however it has_ended."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.process_client import DEFAULT_TIMEOUT, Host, call, environment
from tests.helpers.raw_client import text_of

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="waits for processes that are not its children"),
    pytest.mark.long,
]

MODULE = """
import os
import time
from dataclasses import dataclass

from mcpkit import Limits, Server, ToolError

print("imported")
server = Server("worked", limits=Limits(worker_processes=1))


@dataclass
class Sum:
    total: int
    process: int


class OwnError(ToolError):
    pass


@server.tool(run_in="process")
def add(a: int, b: int) -> Sum:
    print("adding")
    return Sum(a + b, os.getpid())


@server.tool(run_in="process")
def refuse() -> None:
    raise OwnError("of my own")


@server.tool(run_in="process")
def spin() -> None:
    print("spinning")
    while True:
        pass


@server.tool
async def freeze() -> None:
    print("freezing", flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    server.run()
"""


class ModuleHost(Host):
    """Starts a module with `python -m`, or as a file."""

    def __init__(self, folder: Path, *command: str, **settings: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment(**settings),
            bufsize=0,
            start_new_session=True,
        )
        self.notes = b""
        self._received = bytearray()

    def start_worker(self) -> ProcessDescriptor:
        """Have the worker answer, and return its worker."""
        return ProcessDescriptor(self.ask(call(1, "add", a=1, b=2))["result"]["structuredContent"]["process"])


class ProcessDescriptor:
    """The worker of a process that is no child of this one."""

    def __init__(self, process: int) -> None:
        self._descriptor = os.pidfd_open(process)

    def has_ended(self) -> bool:
        """Tell whether it has_ended, in time."""
        result = bool(select.select([self._descriptor], [], [], DEFAULT_TIMEOUT)[0])
        os.close(self._descriptor)
        return result


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the module in it."""
    (tmp_path / "worked.py").write_text(MODULE)
    return tmp_path


def structured(answer: dict[str, Any]) -> Any:
    return answer["result"]["structuredContent"]


@pytest.mark.parametrize("command", [("-m", "worked"), ("worked.py",)], ids=" ".join)
def test_worker_finds_functions_of_the_main_module(command: tuple[str, ...], folder: Path) -> None:
    with ModuleHost(folder, *command) as host:
        first, second = (structured(host.ask(call(n, "add", a=n, b=2))) for n in (1, 2))
        assert (first["total"], second["total"]) == (3, 4)
        assert first["process"] == second["process"] != host.process.pid
        assert text_of(host.ask(call(3, "refuse"))) == "of my own"
        host.close_input()
        assert host.wait() == 0
        assert "adding" in host.read_notes()


@pytest.mark.parametrize(
    ("end", "is_busy"), [("end of input", True), ("SIGINT", False), ("SIGTERM", True), ("SIGKILL", True)]
)
def test_workers_end_with_the_server(end: str, is_busy: bool, folder: Path) -> None:
    with ModuleHost(folder, "-m", "worked", GRACE=0.5) as host:
        worker = host.start_worker()
        if is_busy:
            host.send(call(2, "spin"))
            host.wait_for_note("spinning")
        if end == "end of input":
            host.close_input()
        else:
            host.signal(signal.Signals[end])
        host.wait()
        assert worker.has_ended()
