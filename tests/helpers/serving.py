"""Servers under a real uvicorn in a thread or a process, and nginx as a reverse proxy."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from signal import SIGTERM, Signals
from typing import Any, NamedTuple

import pytest
import uvicorn

from mcpkit import Limits, Server, Timeouts
from mcpkit.transports.http.app_options import Settings
from mcpkit.transports.http.asgi import HttpApp
from tests.helpers.signed_tokens import CertificateAuthority

ROOT = Path(__file__).parents[2]


HELPERS = Path(__file__).parent


DEFAULT_TIMEOUT = 30.0


_GLANCE = 0.005


_ADDRESS = re.compile(r"(?:Uvicorn running on|MCP endpoint:) (http://127\.0\.0\.1:\d+)")


class Prompt(uvicorn.Server):
    """A uvicorn server that checks more often than ten times a second whether it must end.

    Attributes:
        is_up: Set when it serves. An old uvicorn that is stopped before that leaves its sockets open.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = threading.Event()

    async def main_loop(self) -> None:
        """Run until it is stopped."""
        self.is_up.set()
        for turn in count():
            if await self.on_tick(turn):
                return
            await asyncio.sleep(_GLANCE)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End as uvicorn does, without its rest of a tenth of a second."""
        for each in (*self.servers, *(sockets or [])):
            each.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._all_ended(), self.config.timeout_graceful_shutdown)
        for task in self.server_state.tasks:
            task.cancel()
        await self.lifespan.shutdown()

    async def _all_ended(self) -> None:
        while self.server_state.connections or self.server_state.tasks:
            await asyncio.sleep(_GLANCE)


@contextmanager
def in_thread(app: Any, **options: Any) -> Iterator[str]:
    """Serve an app from a thread of this process, which gets no signals.

    Args:
        app: The ASGI app.
        options: More for `uvicorn.Config`.

    Returns:
        A context manager that gives the URL. Leaving it shuts the server down and waits for that.
    """
    with in_thread_at(lambda url: app, **options) as url:
        yield url


@contextmanager
def in_thread_at(make: Callable[[str], Any], **options: Any) -> Iterator[str]:
    """Serve as `in_thread` does the app that a function makes of the URL, for one that has to know where it is."""
    # Open before the server starts, so that a client waits in its queue and nobody has to poll.
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    policy = asyncio.get_event_loop_policy()
    server = Prompt(uvicorn.Config(make(url), log_level="warning", **options))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield url
    finally:
        while thread.is_alive() and not server.is_up.wait(0.05):
            pass  # where it cannot start, the thread ends
        server.should_exit = True
        thread.join()
        listener.close()
        asyncio.set_event_loop_policy(policy)  # which an old uvicorn changes for the whole process


def environment(**changes: object) -> dict[str, str]:
    """Return the environment of a child process that imports this package."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return inherited | {"PYTHONPATH": str(ROOT)} | {name: str(value) for name, value in changes.items()}


class Served:
    """A server in a process of its own; a context manager that leaves no process of its behind.

    Args:
        command: Starts it; it prints its address to standard error, as uvicorn does.
        settings: Environment variables that it reads.

    Attributes:
        process: The process.
    """

    def __init__(self, command: Sequence[str], **settings: object) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env=environment(**settings),
            start_new_session=True,
        )
        self._notes = ""
        self._is_over = False
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *_: object) -> None:
        if sys.platform == "win32":
            self.process.kill()
        else:
            # Its workers, too: the group is there as long as one of them is.
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()

    @property
    def origin(self) -> str:
        """Its URL, without a path, as soon as it listens."""
        with self._news:
            self._news.wait_for(
                lambda: self._is_over or _ADDRESS.search(self._notes), timeout=DEFAULT_TIMEOUT
            )
            found = _ADDRESS.search(self._notes)
            assert found is not None, f"it does not listen: {self._notes!r}"
            return found[1]

    def wait_for(self, text: str, *, times: int = 1) -> None:
        """Wait until a text is on standard error, so many times."""
        with self._news:
            is_said = self._news.wait_for(
                lambda: self._is_over or self._notes.count(text) >= times, timeout=DEFAULT_TIMEOUT
            )
            assert is_said, f"no {text!r}: {self._notes!r}"
            assert self._notes.count(text) >= times, f"it has ended without {text!r}: {self._notes!r}"

    def signal(self, number: Signals, *, group: bool = False) -> None:
        """Send it a signal; `group` for its workers as well, as a terminal does."""
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def wait(self, timeout: float = DEFAULT_TIMEOUT) -> int:
        """Wait some seconds until it and its workers have ended, and return its exit status."""
        status = self.process.wait(timeout)
        self._reader.join(DEFAULT_TIMEOUT)
        assert not self._reader.is_alive(), f"a worker is left: {self._notes!r}"
        return status

    def stop(self, number: Signals = SIGTERM) -> None:
        """Send it a signal, and wait until it has ended."""
        self.signal(number)
        self.wait()

    @property
    def notes(self) -> str:
        """Standard error so far."""
        return self._notes

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._news:
                self._notes += line
                self._news.notify_all()
        with self._news:
            self._is_over = True
            self._news.notify_all()


@contextmanager
def serving(command: Sequence[str], **settings: object) -> Iterator[Served]:
    """Run a server until the end of the block, where SIGTERM must stop it."""
    with Served(command, **settings) as served:
        served.wait_for("Uvicorn running on http")
        yield served
        served.stop()


def from_file(app: str, *options: str) -> list[str]:
    """Return the command for an app such as `tests.helpers.servers.slow:app`."""
    return [sys.executable, "-m", "uvicorn", "--app-dir", str(ROOT), "--port", "0", *options, app]


def from_text(program: str) -> list[str]:
    """Return the command for the `app` that a program defines."""
    return [sys.executable, "-c", f"import uvicorn\n{program}\nuvicorn.run(app, port=0)"]


_NGINX_PATIENCE = 10


_NGINX_CONFIGURATION = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 256; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{tls} ssl;
        listen 127.0.0.1:{plain};
        ssl_certificate {certificate};
        ssl_certificate_key {key};
        {locations}
    }}
}}
"""


class NginxProxy(NamedTuple):
    url: str
    plain: str
    authority: Path


class NginxPorts(NamedTuple):
    tls: int
    plain: int

    @property
    def url(self) -> str:
        return f"https://localhost:{self.tls}"

    @property
    def plain_url(self) -> str:
        return f"http://localhost:{self.plain}"


def free_ports() -> NginxPorts:
    if nginx_executable() is None:
        pytest.skip("no nginx on this machine (Debian: apt-get install nginx-light)")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return NginxPorts(one.getsockname()[1], two.getsockname()[1])


def nginx_executable() -> str | None:
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def serve_nginx(ports: NginxPorts, folder: Path, locations: str) -> Iterator[NginxProxy]:
    found = nginx_executable()
    assert found is not None
    authority = CertificateAuthority(folder)
    certificate, key = authority.certificate("localhost")
    written = folder / "nginx.conf"
    values = {**ports._asdict(), "certificate": certificate, "key": key, "locations": locations}
    written.write_text(_NGINX_CONFIGURATION.format(folder=folder, **values))
    log = folder / "nginx.log"
    command = [found, "-p", str(folder), "-c", str(written), "-e", "stderr"]
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
    try:
        _wait_for_nginx(ports, process, log)
        yield NginxProxy(ports.url, ports.plain_url, authority.file)
    finally:
        process.terminate()
        process.wait(_NGINX_PATIENCE)


def _wait_for_nginx(ports: NginxPorts, process: subprocess.Popen[bytes], log: Path) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", ports.tls), timeout=1).close()
        except ConnectionRefusedError:
            continue
        return
    raise AssertionError(f"nginx has ended: {log.read_text()}")


AT_ONCE = Timeouts(shutdown=0)
"""Running calls are cancelled as soon as the app is asked to stop."""


def app_of(
    server: Server, *, limits: Limits | None = None, timeouts: Timeouts | None = None, **options: Any
) -> HttpApp:
    """Return what `server.asgi(**options)` does, with other limits and timeouts."""
    runtime = server.engine.runtime
    settings = Settings(limits or runtime.limits, timeouts or runtime.timeouts, **options)
    return HttpApp(server.engine, settings)
