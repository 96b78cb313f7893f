from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pytest

from tests.helpers.process_client import PATIENCE, ROOT, call, environment, line
from tests.helpers.raw_client import text_of

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="has no Unix sockets"),
    pytest.mark.usefixtures("hear_interrupts"),
    pytest.mark.slow,
]

EXAMPLE = ROOT / "examples" / "unix_socket" / "server.py"


class Example(NamedTuple):
    process: subprocess.Popen[bytes]
    path: Path


@contextmanager
def client(example: Example) -> Iterator[BinaryIO]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE)
        connection.connect(str(example.path))
        with connection.makefile("rwb", buffering=0) as stream:
            yield stream


@pytest.fixture
def example(tmp_path: Path) -> Iterator[Example]:
    path = tmp_path / "clock.sock"
    process = subprocess.Popen([sys.executable, str(EXAMPLE), str(path)], env=environment())
    try:
        deadline = time.monotonic() + PATIENCE
        while not path.exists():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield Example(process, path)
    finally:
        process.kill()
        process.wait()


def receive(stream: BinaryIO) -> dict[str, Any]:
    return json.loads(stream.readline())


def test_each_client_is_answered(example: Example) -> None:
    with client(example) as one, client(example) as other:
        one.write(line(call(1, "now")))
        other.write(line(call(1, "now")))
        for stream in (one, other):
            assert datetime.fromisoformat(text_of(receive(stream)).replace("Z", "+00:00")).tzinfo is not None


def test_a_client_that_goes_away_leaves_the_others_alone(example: Example) -> None:
    with client(example) as other:
        with client(example) as one:
            one.write(line(call(1, "now")) * 1000)
        other.write(b"not JSON\n" + line(call(1, "now")))
        assert receive(other)["error"]["code"] == -32700
        assert receive(other)["id"] == 1


def test_ctrl_c_ends_it_while_a_client_is_connected(example: Example) -> None:
    with client(example) as one:
        one.write(line(call(1, "now")))
        receive(one)
        example.process.send_signal(signal.SIGINT)
        assert example.process.wait(PATIENCE) == 0
