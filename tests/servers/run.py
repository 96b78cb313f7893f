"""Connect the client to servers that others have written, over each transport that they speak.

`make servers` installs them and runs this, which writes docs/project/client-interoperability.md. It ends with status 1
if a server failed."""

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
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from journey import NONE, travel

from tests.helpers.node import node_search_path
from tests.servers.servers import INSTALLED, PEERS, ROOT_FOLDER, Server, python, servers

PAGE = ROOT_FOLDER / "docs" / "project" / "client-interoperability.md"


WAYS = {"stdio": "stdio", "http": "streamable HTTP", "sse": "HTTP+SSE"}


TRIED = ("call", "read", "prompt", "elicitation", "sampling", "roots", "progress", "changes", "cancel")


@dataclass(frozen=True)
class Row:
    """One server over one transport in one revision.

    Attributes:
        revision: The one that was asked for; None for what the client found out.
    """

    server: Server
    version: str
    transport: str
    revision: str | None
    seen: dict[str, str]

    def expected(self, column: str) -> str | None:
        """Return the known difference in a column."""
        revision = self.seen.get("revision", "")
        keys = (
            f"{column}, {self.transport}, {revision}",
            f"{column}, {self.transport}",
            f"{column}, {revision}",
            column,
        )
        return next((self.server.differs[key] for key in keys if key in self.server.differs), None)

    def failures(self) -> list[str]:
        """Return the failures, one line each."""
        where = f"{self.server.name} over {self.transport} ({self.revision or 'found out'})"
        lines = []
        for column, seen in self.seen.items():
            is_known = self.expected(column) is not None
            if seen.startswith("no") and not is_known:
                lines.append(f"{where}: {column}: {seen}")
            if seen == "yes" and is_known:
                lines.append(f"{where}: {column}: works, so take it out of what differs")
        return lines


HEAD = """\
<!-- Written by tests/servers/run.py: change that, and run `make servers`. -->

# Servers that the client has met

What `mcpkit.Client` did with servers that others have written, over each transport that they speak. `make servers`
installs them, tries all of it and writes this page.

Five are programs: the reference servers `everything`, `filesystem` and `memory` of npm, `time` and `git` of PyPI.
Four are libraries, each with a small server as its users write it. Where a server knows the stateless revision as well
as the handshake, both are tried: what the client finds out by itself, and `protocol_version="2025-11-25"`.

| server | version | transport | revision | lists | call | read | prompt | elicit | sample | roots \
| progress | changes | cancel | closed in |
"""


LEGEND = """
- *Lists*: how many tools, resources, resource templates and prompts there are, all pages.
- *Elicit*, *sample*, *roots*: a tool sent a request, the client's handler answered, and the tool returned the answer.
- *Progress*: a call reported progress three times.
- *Changes*: `client.listen` reported a changed list of tools, or a changed resource.
- *Cancel*: a call that takes a minute was given up. *Yes*: the function was stopped, as the server reports.
  *Freed*: the caller went on at once, and the server answered the next call; it does not report the end of the
  function.
- *Closed in*: how long it took until the client was closed. No process, descriptor or task of it was left.
- A dash: the server has nothing of the kind, or does not declare it.
"""


def write(rows: Sequence[Row]) -> None:
    """Write the page."""
    notes: list[str] = []
    lines = [["---"] * 15]
    for row in rows:
        cells = [row.server.name, row.version, WAYS[row.transport], row.seen.get("revision", "no")]
        cells += [shown(row, column, notes) for column in ("lists", *TRIED, "close")]
        lines.append(cells)
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    differs = "".join(f"{number}. {note}\n" for number, note in enumerate(notes, 1))
    why: dict[tuple[str, str], list[str]] = defaultdict(list)
    for row in rows:
        if row.revision is None:
            key = row.seen.get("revision", ""), row.seen.get("why", "")
            why[key].append(f"{row.server.name} ({row.transport})")
    reasons = "".join(f"| {key[0]} | {key[1]} | {', '.join(names)} |\n" for key, names in sorted(why.items()))
    PAGE.write_text(
        f"{HEAD}{table}\n{LEGEND}\n## What differs\n\n{differs}\n## Why that revision\n\n"
        "`client.protocol_version_reason` where the client found the version.\n\n"
        f"| revision | reason | servers |\n| --- | --- | --- |\n{reasons}",
        "utf-8",
    )


def shown(row: Row, column: str, notes: list[str]) -> str:
    """Return the text of a cell, with the number of its note where it differs from what is expected."""
    seen = row.seen.get(column, NONE)
    note = row.expected(column)
    if note is None:
        return seen.split(":")[0]
    if note not in notes:
        notes.append(note)
    return f"{seen.split(':')[0]} [{notes.index(note) + 1}]"


TIMEOUT = 30.0
"""Seconds until a server listens, and until it has ended."""


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


async def one(server: Server, transport: str, revision: str | None, work: Path) -> dict[str, str]:
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
                process.wait(TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until a server listens."""
    deadline = time.monotonic() + TIMEOUT
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
