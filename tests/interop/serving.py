"""A server as a process that speaks HTTP on a free port of this machine."""

from __future__ import annotations

import queue
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

TIME_OUT = 30.0
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


@dataclass
class Served:
    """A running server.

    Attributes:
        origin: Its URL, without a path.
        said: What it has said on standard error so far.
    """

    origin: str
    said: list[str] = field(repr=False)
    _process: subprocess.Popen[str]

    def stop(self, with_signal: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal, and wait until the process is gone."""
        self._process.send_signal(with_signal)
        self._process.wait(TIME_OUT)


@contextmanager
def serving(command: Sequence[str]) -> Iterator[Served]:
    """Run a server until the end of the block, where it must stop when it is told to.

    Args:
        command: Starts a server that says its address on standard error.
    """
    said: list[str] = []
    origins: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    errors = process.stderr
    assert errors is not None

    def read() -> None:
        for line in errors:
            said.append(line)
            if found := ADDRESS.search(line):
                origins.put(found[0])
        origins.put(None)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        origin = origins.get(timeout=TIME_OUT)
        if origin is None:
            raise RuntimeError(f"the server ended before it served:\n{''.join(said)}")
        served = Served(origin, said, process)
        yield served
        served.stop()
    finally:
        process.kill()
        process.wait()
        reader.join()
        errors.close()
