"""Standard streams of every encoding, however an author's code has wrapped, replaced, detached or closed them."""

from __future__ import annotations

import encodings.aliases
import io
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="has /dev/full"), pytest.mark.long]

PROCESSES = min(2000, int(os.environ.get("MCPKIT_TEST_EXAMPLES", "36")))

PARTS = 6

SERVER = r"""
import codecs, contextlib, ctypes, io, json, logging, os, subprocess, sys, warnings

case = json.loads(os.environ["CASE"])
E = case["encoding"]


class Tee:
    def __init__(self, stream):
        self.stream = stream

    def write(self, text):
        return self.stream.write(text)

    def flush(self):
        self.stream.flush()


exec(case["imported"])
with contextlib.suppress(AttributeError):  # the stream is None
    exec(case["before"])
if case["command"] == "compat":
    from mcp.server.fastmcp import FastMCP as Server
else:
    from mcpkit import Server
server = mcp = Server("streams")


@server.tool()
def treat() -> str:
    with contextlib.suppress(AttributeError, TypeError, io.UnsupportedOperation):  # of None, or of memory
        exec(case["within"], globals())
    return "done"


@server.tool()
def write() -> str:
    exec(case["written"], globals())
    print(case["text"], "printed")
    return "done"


if __name__ == "__main__":
    server.run()
"""

TEXT = r"\u2713 \U0001f600 \u0141\u00f3d\u017a caf\udce9 \0 \u65e5"
"""Nothing but ASCII has all of it, and half a surrogate pair is in no encoding."""

IMPORTED = {
    "nothing": "",
    "a line": "print('imported')",
    "no end of line": "print('imported... ', end='', flush=True)",
    "below Python": "with contextlib.suppress(OSError): os.write(1, b'imported')",
    "by C": "ctypes.CDLL(None).puts(b'imported')",
    "by a child": "subprocess.run(['echo', 'imported'])",
    "much": "print('imported' * 9000)",
}

BEFORE = {
    "nothing": "",
    "wraps": "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, E)",
    "detaches": "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), E, 'strict')",
    "writer": "sys.stdout = codecs.getwriter(E)(sys.stdout.buffer)",
    "writer of detached": "sys.stdout = codecs.getwriter(E)(sys.stdout.detach())",
    "reader and writer": (
        "sys.stdout = codecs.StreamReaderWriter(sys.stdout.buffer, codecs.getreader(E), codecs.getwriter(E))"
    ),
    "reconfigures": "sys.stdout.reconfigure(encoding=E, errors='strict')",
    "reopens": "sys.stdout = open(1, 'w', encoding=E, closefd=False)",
    "reopens to close": "sys.stdout = os.fdopen(1, 'w', encoding=E)",
    "copies": "sys.stdout = os.fdopen(os.dup(1), 'w', encoding=E)",
    "tee": "sys.stdout = Tee(sys.stdout)",
    "memory": "sys.stdout = io.StringIO()",
    "none": "sys.stdout = None",
    "all none": "sys.stdout = sys.__stdout__ = sys.stderr = sys.__stderr__ = sys.stdin = None",
    "stderr for stdout": "sys.stdout = sys.stderr",
    "wraps stderr": "sys.stderr = io.TextIOWrapper(sys.stderr.buffer, E, 'strict')",
    "detaches stderr": "sys.stderr = io.TextIOWrapper(sys.stderr.detach(), E, 'strict')",
    "closes stderr": "sys.stderr.close()",
    "wraps stdin": "sys.stdin = io.TextIOWrapper(sys.stdin.buffer, E)",
    "detaches stdin": "sys.stdin = io.TextIOWrapper(sys.stdin.detach(), E)",
    "copies stdin": "sys.stdin = os.fdopen(os.dup(0))",
    "file": "sys.stdout = open(os.devnull, 'w', encoding=E)",
    "logs": "logging.basicConfig(stream=sys.stdout, level='INFO', force=True)",
}

WITHIN = {
    "nothing": "",
    "closes": "sys.stdout.close()",
    "leaves a block": "with sys.stdout: pass",
    "closes both": "sys.__stdout__.close(); sys.stdout.close()",
    "wraps and drops": "io.TextIOWrapper(sys.stdout.buffer)",
    "wraps": "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, E, 'strict')",
    "detaches": "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), E, 'strict')",
    "detaches and drops": "sys.stdout.detach()",
    "writer": "sys.stdout = codecs.getwriter(E)(sys.stdout.buffer)",
    "reconfigures": "sys.stdout.reconfigure(encoding=E)",
    "redirects": "contextlib.redirect_stdout(io.StringIO()).__enter__()",
    "none": "sys.stdout = None",
    "closes stderr": "sys.stderr.close()",
    "closes stdin": "sys.stdin.close()",
    "reads": "sys.stdin.read() if sys.stdin else None",
}

WRITTEN = {
    "print": f"print('{TEXT} marker')",
    "no end of line": f"print('marker {TEXT}', end='')",
    "the first stdout": f"print('{TEXT} marker', file=sys.__stdout__)",
    "stderr": f"print('{TEXT} marker', file=sys.stderr)",
    "write": f"sys.stdout and sys.stdout.write('{TEXT} marker\\n')",
    "much": f"print('{TEXT} marker' * 3000)",
    "logging": f"logging.getLogger('x').warning('{TEXT} marker')",
    "warning": f"warnings.warn('{TEXT} marker')",
    "below Python": "with contextlib.suppress(OSError): os.write(1, b'marker')",
    "by C": "ctypes.CDLL(None).puts(b'marker')",
    "by a child": "subprocess.run(['echo', 'marker'])",
}

COMMANDS = ("run", "file", "compat")
ERRORS = ("pipe", "pipe", "closed", "broken", "full")
"""What standard error is: `broken` has no reader, and `full` is a disk that is."""


def _writes(encoding: str) -> bool:
    try:
        io.TextIOWrapper(io.BytesIO(), encoding).write("{}\n")
    except (LookupError, UnicodeError):
        return False
    return True


ENCODINGS = sorted(name for name in {*encodings.aliases.aliases.values(), "utf_8_sig"} if _writes(name))
FACTORS: dict[str, Any] = {
    "encoding": ENCODINGS,
    "before": list(BEFORE),
    "within": list(WITHIN),
    "written": list(WRITTEN),
    "imported": list(IMPORTED),
    "command": COMMANDS,
    "errors": ERRORS,
    "unbuffered": ("", "1"),
}


FOUND = {
    "encoding": "gbk",
    "before": "copies stdin",
    "within": "reads",
    "written": "by C",
    "imported": "nothing",
    "command": "file",
    "errors": "closed",
    "unbuffered": "1",
}
"""A case that once failed: the copy of standard input has the number of the standard error that is closed."""


def cases(count: int) -> Iterator[dict[str, str]]:
    """Yield cases so that each brings as many pairs of levels as possible that none before it had."""
    draw = random.Random(3)
    seen: set[tuple[tuple[str, str], ...]] = set()

    def pairs(case: dict[str, str]) -> set[tuple[tuple[str, str], ...]]:
        return set(itertools.combinations(case.items(), 2))

    turns = {name: itertools.cycle(draw.sample(levels, len(levels))) for name, levels in FACTORS.items()}
    for number in range(count):
        drawn = [{name: draw.choice(levels) for name, levels in FACTORS.items()} for _ in range(30)]
        if number < len(BEFORE):  # each treatment comes once where nothing else protects the streams
            fixed = {name: next(turns[name]) for name in ("before", "within", "written")}
            drawn = [{**each, **fixed, "command": "file", "errors": "pipe"} for each in drawn]
        best = max(drawn, key=lambda case: len(pairs(case) - seen))
        seen |= pairs(best)
        yield best


def request(id_: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}


MESSAGES = [
    request(
        1,
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    ),
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    request(2, "tools/call", {"name": "treat", "arguments": {}}),
    request(3, "tools/call", {"name": "write", "arguments": {}}),
    request(4, "tools/call", {"name": "write", "arguments": {}}),
]


def served(case: dict[str, str], script: Path) -> tuple[bytes, bytes, int]:
    """Serve one process as a host does, one message after the other; return its output, its log, and its status."""
    command = {
        "file": [str(script)],
        "run": ["-m", "mcpkit", "run", str(script)],
        "compat": ["-m", "mcpkit.compat", str(script)],
    }[case["command"]]
    parameters = {
        **case,
        "imported": IMPORTED[case["imported"]],
        "before": BEFORE[case["before"]],
        "within": WITHIN[case["within"]],
        "written": WRITTEN[case["written"]],
        "text": "\u2713 \U0001f600 caf\udce9",
    }
    environment = {
        **os.environ,
        "CASE": json.dumps(parameters),
        "PYTHONIOENCODING": case["encoding"],
        "PYTHONUTF8": "0",
    }
    environment["PYTHONUNBUFFERED"] = case["unbuffered"]
    reader, writer = os.pipe()
    errors: int = writer
    if case["errors"] == "broken":
        os.close(reader)
    elif case["errors"] == "full":
        errors = os.open("/dev/full", os.O_WRONLY)
    log = script.parent / "log"
    with log.open("wb") as kept:
        if case["errors"] == "pipe":
            errors = kept.fileno()
        words = [sys.executable, *command]
        if case["errors"] == "closed":
            words = ["sh", "-c", 'exec "$@" 2>&-', "sh", *words]
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=environment
        )
    assert process.stdin is not None
    assert process.stdout is not None
    output = b""
    with suppress(BrokenPipeError):  # it has ended
        for message in MESSAGES:
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            if "id" in message:
                output += process.stdout.readline()
    rest, _ = process.communicate(timeout=60)
    for descriptor in {writer, errors, reader} - {-1}:
        try:
            os.close(descriptor)
        except OSError:
            continue
    return output + rest, log.read_bytes(), process.returncode


ELSEWHERE = {"memory", "none", "all none", "file", "closes stderr", "redirects"}
"""Treatments after which what is printed comes out nowhere."""


OWN = {"tee", "writer", "writer of detached", "reader and writer"}
"""Treatments whose objects hold on to the first stream, and pass on that the disk is full."""


def problem(case: dict[str, str], output: bytes, log: bytes, status: int) -> str | None:
    """Say what is wrong with what a process has answered and logged."""
    try:
        answers = [json.loads(line) for line in output.splitlines()]
    except ValueError:
        return f"standard output has {output[:200]!r}"
    if [each.get("id") for each in answers] != [1, 2, 3, 4]:
        return f"answers {output!r} and logs {log[-1000:]!r}"
    texts = [each["result"]["content"][0]["text"] for each in answers[1:]]
    if (texts, status) != (["done"] * 3, 0):
        return f"{texts}, status {status}, {log[-1000:]!r}"
    is_plain = "printed".encode(case["encoding"]) == b"printed"
    is_logged = (
        is_plain and case["errors"] == "pipe" and not ELSEWHERE.intersection((case["before"], case["within"]))
    )
    if is_logged and log.count(b"printed") < 2:
        return f"standard error has {log[-1000:]!r}"
    return None


@pytest.mark.parametrize("part", range(PARTS))
def test_stream_treatments_do_not_lose_responses(part: int, tmp_path: Path) -> None:
    (script := tmp_path / "server.py").write_text(SERVER)
    faults = []
    for number, case in enumerate([FOUND, *cases(PROCESSES)]):
        if number % PARTS != part:
            continue
        if case["command"] == "file":
            case["imported"] = "nothing"  # Python has written it before there is a server
        if case["errors"] == "full" and case["before"] in OWN:
            case["errors"] = "broken"
        wrong = problem(case, *served(case, script))
        if wrong is not None:
            faults.append(f"{number}: {case}: {wrong}")
    assert not faults, "\n".join(faults)
