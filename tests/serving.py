"""Runs an ASGI app under a real uvicorn, on a free port of this machine."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import uvicorn

MAIN = """
import contextlib, socket, uvicorn
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it again after its shutdown
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"""


@contextmanager
def in_thread(app: Any, **options: Any) -> Iterator[str]:
    """Serve an app from a thread of this process, which hears no signals.

    Args:
        app: The ASGI app.
        options: More for `uvicorn.Config`.

    Returns:
        A context manager that gives the URL. Leaving it shuts the server down and waits for that.
    """
    # Open before the server starts, so that a client waits in its queue and nobody has to poll.
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", **options))
    thread = Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield url
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def in_process(program: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Serve an app from a process of its own.

    Args:
        program: Python that defines `app`.

    Returns:
        A context manager that gives the process, and the URL. Leaving it kills what still runs.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", program + MAIN],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield process, f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.communicate()
