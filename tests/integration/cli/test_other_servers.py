"""Commands with servers of other SDKs, over stdio, HTTP and SSE."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.node import node_search_path

ROOT = Path(__file__).parents[3]


INSTALLED = ROOT / ".servers"


PEERS = ROOT / "tests" / "servers" / "peers"


FASTMCP = INSTALLED / "fastmcp" / ("Scripts" if sys.platform == "win32" else "bin") / "python"


Run = Callable[..., tuple[int, str, str]]


def npm(name: str) -> str:
    return str(INSTALLED / "node_modules" / "@modelcontextprotocol" / name / "dist" / "index.js")


class Peer(NamedTuple):
    """A server that is asked.

    Args:
        command: Starts it; how it is told the transport follows.
        ways: How it is told each.
    """

    command: list[str]
    ways: Mapping[str, str]


LIBRARY_WAYS = {"stdio": "stdio", "http": "http", "sse": "sse"}


SERVERS = {
    "everything": Peer(
        ["node", npm("server-everything")], {"stdio": "stdio", "http": "streamableHttp", "sse": "sse"}
    ),
    "filesystem": Peer(["node", npm("server-filesystem")], {"stdio": str(PEERS)}),
    "mcp": Peer([sys.executable, str(PEERS / "mcp_2.py")], LIBRARY_WAYS),
    "fastmcp": Peer([str(FASTMCP), str(PEERS / "fastmcp_4.py")], LIBRARY_WAYS),
}


Line = tuple[list[str], int, str]


"""A command with `@` for its target, the status, and something that it writes."""


LIBRARY: list[Line] = [
    (["list", "@", "tools"], 0, "first: integer, second: integer"),
    (["list", "@", "--json"], 0, '"uri": "note://hello"'),
    (["call", "@", "add", "first=40", "second=2"], 0, "42\n"),
    (
        ["call", "@", "add", "first=forty"],
        5,
        'first: expected integer, got "forty"\nsecond is missing\nadd takes:',
    ),
    (["call", "@", "add", "--args", '{"first": "x", "second": 2}'], 5, "first"),
    (["call", "@", "ad"], 2, "there is no tool ad; did you mean add?"),
    (["call", "@", "ask_name", "--answer", "name=Ada"], 0, "Ada\n"),
    (["read", "@", "note://hello"], 0, "Hello\n"),
    (["read", "@", "note://absent"], 2, "note://absent"),
    (["prompt", "@", "greet", "name=Ada"], 0, "user:\nGreet Ada\n"),
    (["prompt", "@", "greet"], 5, "name is missing"),
    (["prompt", "@", "gret", "name=Ada"], 2, "did you mean greet?"),
    (["complete", "@", "greet", "name=A"], 0, ""),
    (["ping", "@"], 0, "answered in"),
    (["inspect", "@"], 0, "tokens in all"),
]


TABLE: dict[str, list[Line]] = {
    "mcp": LIBRARY,
    "fastmcp": LIBRARY,
    "everything": [
        (["list", "@", "prompts"], 0, "city: string, state?: string"),
        (["list", "@", "--json"], 0, '"uriTemplate": '),
        (["call", "@", "get-sum", "a=2", "b=3.5"], 0, "The sum of 2 and 3.5 is 5.5."),
        (["call", "@", "get-sum", "a=2"], 5, "b is missing"),
        (["call", "@", "get-sum", "--args", '{"a": 2, "b": "x"}'], 5, "expected number, received string"),
        (["call", "@", "get-structured-content", "location=Chicago", "--json"], 0, '"structuredContent": {'),
        (["call", "@", "get-summ"], 2, "there is no tool get-summ; did you mean get-sum?"),
        (
            ["call", "@", "trigger-long-running-operation", "duration=0.1", "steps=2", "-v"],
            0,
            "progress: 2/2",
        ),
        (["call", "@", "trigger-elicitation-request", "--answer", "name=Ada"], 0, "Name: Ada"),
        (["call", "@", "trigger-sampling-request", "prompt=Hi", "--sample-text", "Good day"], 0, "Good day"),
        (["call", "@", "simulate-research-query", "topic=tea"], 0, "tea"),
        (["read", "@", "demo://resource/dynamic/text/1"], 0, "Resource 1: "),
        (["read", "@", "demo://absent"], 2, "Resource demo://absent not found"),
        (["prompt", "@", "args-prompt", "city=Oslo"], 0, "user:\nWhat's weather in Oslo?\n"),
        (["complete", "@", "completable-prompt", "department=E"], 0, "Engineering\n"),
        (["ping", "@"], 0, "answered in"),
        (["inspect", "@"], 0, "tokens in all"),
    ],
    "filesystem": [
        (["list", "@"], 0, "read_text_file"),
        (["call", "@", "list_allowed_directories"], 0, str(PEERS)),
        (["call", "@", "read_text_file", f"path={PEERS / 'absent'}"], 5, "ENOENT"),
        (["read", "@", "file:///absent"], 2, "Method not found"),
        (["prompt", "@", "any"], 2, "the server has no prompts"),
        (["complete", "@", "any", "key=a"], 0, "the server completes nothing"),
        (["ping", "@"], 0, "secure-filesystem-server"),
    ],
}


FEW = ("call", "read", "ping")


"""What is asked over stdio of servers that are asked everything over HTTP: there, each command starts a process."""


def lines(name: str, way: str) -> list[Line]:
    """Return the commands for a server: over stdio, where each starts a process, only some of them."""
    return [
        line
        for line in TABLE[name]
        if way != "stdio" or name == "filesystem" or (line[0][0] in FEW and line[1] != 5)
    ]


@pytest.fixture(scope="module")
def targets() -> Iterator[dict[tuple[str, str], str]]:
    """Start each server once for each way over HTTP, all at the same time, and return what names them."""
    for needed in (FASTMCP, Path(npm("server-everything"))):
        if not needed.exists():
            pytest.skip("servers of others are not installed: make servers")
    targets: dict[tuple[str, str], str] = {}
    ports: list[tuple[int, subprocess.Popen[bytes]]] = []
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", node_search_path())
        for name, peer in SERVERS.items():
            for way, word in peer.ways.items():
                if way == "stdio":
                    targets[name, way] = " ".join(f'"{each}"' for each in (*peer.command, word))
                    continue
                with socket.create_server(("127.0.0.1", 0)) as free:
                    port = free.getsockname()[1]
                process = subprocess.Popen(
                    [*peer.command, word, str(port)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env=os.environ | {"PORT": str(port)},
                )
                stack.callback(process.wait)
                stack.callback(process.kill)
                ports.append((port, process))
                targets[name, way] = f"http://127.0.0.1:{port}/{'sse' if way == 'sse' else 'mcp'}"
        for port, process in ports:
            _until_it_listens(port, process)
        yield targets


def _until_it_listens(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            assert process.poll() is None, process.args
            assert time.monotonic() < deadline, process.args
            time.sleep(0.05)
        else:
            return


@pytest.mark.parametrize(("name", "way"), [(name, way) for name in TABLE for way in SERVERS[name].ways])
def test_command_output_and_status_with_servers_of_other_sdks(
    mcpkit: Run, targets: dict[tuple[str, str], str], name: str, way: str
) -> None:
    faults = []
    for words, status, text in lines(name, way):
        actual = mcpkit(*(targets[name, way] if word == "@" else word for word in words))
        output = actual[1] if status == 0 and text not in actual[2] else actual[2]
        if actual[0] != status or text not in output or "Traceback" in actual[2]:
            faults.append((words, status, text, actual))
    assert faults == []


@pytest.mark.parametrize("name", ["everything", "mcp", "fastmcp"])
def test_call_all_revisions_of_other_servers(
    mcpkit: Run, targets: dict[tuple[str, str], str], name: str
) -> None:
    arguments = ["echo", "message=Hi"] if name == "everything" else ["add", "first=1", "second=2"]
    status, out, _ = mcpkit("call", targets[name, "http"], *arguments, "--all-revisions", "--yes", "--json")
    assert status == 0
    told = json.loads(out)
    spoken = [revision for each in told["results"] for revision in each["revisions"]]
    assert sorted([*spoken, *told["unspoken"]]) == [
        "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28",
    ]  # fmt: skip
    assert list(told["unspoken"]) == (["2026-07-28"] if name == "everything" else [])


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGINT for another process")
@pytest.mark.parametrize(("name", "uri"), [("everything", "demo://resource/dynamic/text/1"), ("mcp", None)])
def test_listen_runs_until_interrupt(targets: dict[tuple[str, str], str], name: str, uri: str | None) -> None:
    command = [sys.executable, "-m", "mcpkit", "listen", targets[name, "http"], *([uri] if uri else [])]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as listening:
        assert listening.stderr is not None
        said = next((line for line in listening.stderr if line.startswith("listening (")), None)
        listening.send_signal(signal.SIGINT)
        assert listening.wait(60) == 130
    assert said is not None
