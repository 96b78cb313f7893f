"""nginx in front of the replicas: each request goes to the next one, whoever asks."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from tests.helpers.cluster.processes import PATIENCE, Process, free_port

CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream replicas {{
        {servers}
    }}
    server {{
        listen 127.0.0.1:{port} backlog=4096;
        location / {{
            proxy_pass http://replicas;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_buffering off;
            proxy_read_timeout 1h;
            client_max_body_size 4m;
        }}
    }}
}}
"""


class Gateway(Process):
    """An nginx.

    Args:
        nginx: Its executable.
        ports: Where the replicas are.
        folder: Where it writes.
    """

    def __init__(self, nginx: str, ports: Sequence[int], folder: Path) -> None:
        self.file = folder / "nginx.conf"
        command = [nginx, "-p", str(folder), "-c", str(self.file), "-e", "stderr"]
        super().__init__("nginx", command, folder, {}, port=free_port())
        self.folder = folder
        self.configure(ports)

    def configure(self, ports: Sequence[int]) -> None:
        """Say where the replicas are."""
        servers = "\n".join(f"server 127.0.0.1:{port} max_fails=0;" for port in ports)
        text = CONFIGURATION.format(folder=self.folder, port=self.port, servers=servers)
        self.file.write_text(text)

    async def send_to(self, ports: Sequence[int]) -> None:
        """Send what comes from now on to these replicas alone, and wait until what is under way has been answered."""
        self.configure(ports)
        before = self._serving()
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + PATIENCE
        while not self._serving() or self._serving() & before:
            assert time.monotonic() < deadline, "something goes on at the old ones"
            await asyncio.sleep(0.01)

    def _serving(self) -> set[int]:
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return {int(pid) for pid in children}
