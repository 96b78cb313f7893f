"""Connect the client to servers that others have written, over each transport that they speak.

`make servers` installs them and runs this, which writes docs/reference/servers.md. It ends with status 1 where
something went otherwise than it should.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from journey import Seen, travel
from page import Row, write

from tests.helpers.node import node_search_path
from tests.servers.servers import INSTALLED, PEERS, Server, python, servers

START = 30.0  # seconds until a server listens
STOP = 10.0  # seconds for it to end


def main() -> int:
    """Try each server in each way, print a line for it, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--only", action="append", help="only servers with this in their name; writes no page"
    )
    only = parser.parse_args().only
    os.environ["PATH"] = node_search_path()
    shutil.copy(PEERS / "typescript_2.mjs", INSTALLED)  # Node looks for packages from where the file lies
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="servers-") as work:
        subprocess.run(["git", "init", "--quiet", str(Path(work, "repository"))], check=True)
        for server in servers(Path(work)):
            if only is None or any(part in server.name for part in only):
                rows += try_out(server, Path(work))
    if only is None:
        write(rows)
    failures = [line for row in rows for line in row.failures()]
    print(*failures, sep="\n", end="\n" if failures else "")
    return 1 if failures else 0


def try_out(server: Server, work: Path) -> Iterator[Row]:
    """Try one server over each transport and in each revision."""
    version = installed_version(server)
    for transport in server.transports:
        for revision in server.revisions:
            begin = time.monotonic()
            seen = asyncio.run(one(server, transport, revision, work))
            row = Row(server, version, transport, revision, seen)
            outcome = "FAILED" if row.failures() else seen.get("revision", "")
            seconds = time.monotonic() - begin
            print(f"{server.name:13} {version:11} {transport:6} {outcome:11} {seconds:5.1f} s", flush=True)
            yield row


async def one(server: Server, transport: str, revision: str | None, work: Path) -> Seen:
    """Connect once."""
    command = list(server.command(transport))
    if transport == "stdio":
        words = {"command": command[0], "args": command[1:], "env": dict(server.settings), "cwd": str(work)}
        return await travel({"mcpServers": {server.name: words}}, server.kit, revision)
    with listening(command, server, work) as origin:
        return await travel(f"{origin}/{'sse' if transport == 'sse' else 'mcp'}", server.kit, revision)


@contextmanager
def listening(command: list[str], server: Server, work: Path) -> Iterator[str]:
    """Start a server over HTTP, and give its origin."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [*command, str(port)],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            cwd=work,
            env=os.environ | server.settings | {"PORT": str(port)},
        )
        try:
            wait_for(port, process)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(STOP)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens."""
    deadline = time.monotonic() + START
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{process.args!r} does not listen") from None
            time.sleep(0.05)
        else:
            return


def installed_version(server: Server) -> str:
    """Return the version of a package that is installed."""
    where, package = server.origin
    if where == "npm":
        described = INSTALLED / "node_modules" / package / "package.json"
        return str(json.loads(described.read_text("utf-8"))["version"])
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return subprocess.run(
        [python(where), "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
