"""What a server says in a terminal, and that it says nothing anywhere else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="it takes a pseudo-terminal"),
    pytest.mark.slow,
]

PROGRAM = """
from mcpkit import Server

server = Server("weather station", version="1.2.3")

@server.tool
def forecast() -> str:
    return "rain"

@server.tool
def hidden() -> str:
    return "nothing"

@server.resource("data://a/{b}")
def station(b: str) -> str:
    return b

server.catalog.tools.disable("hidden")
server.run()
"""
IN_THE_FOREGROUND = """
import fcntl, os, signal, sys, termios
signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever runs the tests may have been started with it ignored
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'


@contextmanager
def run_in_terminal(*arguments: str, folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Run Python with a terminal for standard input, in its foreground; give the process and what is typed into."""
    keyboard, terminal = os.openpty()
    command = [sys.executable, "-c", IN_THE_FOREGROUND, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[3]), str(folder)])}
    with subprocess.Popen(
        command,
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        cwd=folder,
        env=environment,
    ) as process:
        os.close(terminal)
        try:
            yield process, keyboard
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            os.close(keyboard)


def read_greeting(process: subprocess.Popen[bytes]) -> str:
    assert process.stderr is not None
    lines = []
    while not lines or "Ctrl+C" not in lines[-1]:
        line = process.stderr.readline().decode()
        assert line, "".join(lines)
        lines.append(line)
    return "".join(lines)


def test_terminal_shows_server_and_how_to_use_it(tmp_path: Path) -> None:
    (tmp_path / "server.py").write_text(PROGRAM)
    with run_in_terminal("server.py", "--verbose", folder=tmp_path) as (process, keyboard):
        printed = read_greeting(process)
        assert "weather station 1.2.3, an MCP server" in printed
        assert "1 tool: forecast\n1 resource: data://a/{b}\n\n" in printed
        assert "prompt" not in printed
        entry = json.loads(printed[printed.index("  {\n") : printed.index("\n  }\n") + 5])
        command = [sys.executable, str(tmp_path / "server.py"), "--verbose"]
        assert entry == {"mcpServers": {"weather station": {"command": command[0], "args": command[1:]}}}
        assert f"npx @modelcontextprotocol/inspector {' '.join(command)}\n" in printed

        os.write(keyboard, PING)
        assert process.stdout is not None
        assert json.loads(process.stdout.readline()) == {"jsonrpc": "2.0", "id": 1, "result": {}}

        os.write(keyboard, b"\x03")
        assert process.wait(30) == 130
        assert process.stdout.read() == b""
        assert process.stderr is not None
        assert process.stderr.read().strip() == b""


@pytest.mark.parametrize("output", ["a terminal"])
def test_output_without_terminal_input_is_empty(tmp_path: Path, output: str) -> None:
    (tmp_path / "server.py").write_text(PROGRAM)
    screen, terminal = os.openpty()
    try:
        finished = subprocess.run(
            [sys.executable, "server.py"],
            input=PING,
            stdout=terminal if output == "a terminal" else subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
            timeout=60,
        )
    finally:
        os.close(terminal)
        os.close(screen)
    assert (finished.returncode, finished.stderr) == (0, b"")
