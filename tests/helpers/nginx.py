"""nginx as a reverse proxy with TLS, on free ports of this machine and with a configuration of the test's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.certificates import Authority

_PATIENCE = 10
"""Seconds in which it has to end."""

_CONFIGURATION = """
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


class Proxy(NamedTuple):
    """A proxy that runs, or will.

    Attributes:
        url: Its origin by TLS, `https://localhost:...`.
        plain: The same without, `http://localhost:...`.
        authority: The file of the authority that its certificate is of.
    """

    url: str
    plain: str
    authority: Path


class Ports(NamedTuple):
    """Where a proxy is going to listen."""

    tls: int
    plain: int

    @property
    def url(self) -> str:
        """The origin by TLS."""
        return f"https://localhost:{self.tls}"

    @property
    def plain_url(self) -> str:
        """The origin without."""
        return f"http://localhost:{self.plain}"


def free_ports() -> Ports:
    """Return two ports that nobody listens at now; skips the test where there is no nginx."""
    if executable() is None:
        pytest.skip("no nginx on this machine (Debian: apt-get install nginx-light)")
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return Ports(one.getsockname()[1], two.getsockname()[1])


def executable() -> str | None:
    """Return where nginx is; None where it is not."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def proxying(ports: Ports, folder: Path, locations: str) -> Iterator[Proxy]:
    """Run nginx until the end of the block.

    Args:
        ports: Where it listens.
        folder: Where it writes.
        locations: Its `location` blocks.
    """
    found = executable()
    assert found is not None
    authority = Authority(folder)
    certificate, key = authority.certificate("localhost")
    written = folder / "nginx.conf"
    written.write_text(
        _CONFIGURATION.format(
            folder=folder,
            tls=ports.tls,
            plain=ports.plain,
            certificate=certificate,
            key=key,
            locations=locations,
        )
    )
    log = folder / "nginx.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [found, "-p", str(folder), "-c", str(written), "-e", "stderr"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        _wait_for(ports, process, log)
        yield Proxy(ports.url, ports.plain_url, authority.file)
    finally:
        process.terminate()
        process.wait(_PATIENCE)


def _wait_for(ports: Ports, process: subprocess.Popen[bytes], log: Path) -> None:
    while process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", ports.tls), timeout=1).close()
        except ConnectionRefusedError:
            continue
        return
    raise AssertionError(f"nginx has ended: {log.read_text()}")
