"""The memory that large messages take at the most and afterwards, over real pipes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.process_client import STATELESS_META as META
from tests.helpers.process_client import environment, line

pytestmark = pytest.mark.long

SERVER = Path(__file__).with_name("large_server.py")
SIZE = 3_000_000
"""Less than a body may have."""
Ask = Callable[[str, dict[str, Any]], dict[str, Any]]


@contextmanager
def over_stdio() -> Iterator[Ask]:
    command = [sys.executable, str(SERVER)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment(), **pipes) as process:  # type: ignore[call-overload]

        def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            process.stdin.write(
                line({"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": META}})
            )
            process.stdin.flush()
            while "id" not in (message := json.loads(process.stdout.readline())):
                pass
            return message["result"]

        yield ask
        process.stdin.close()


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    with over_stdio() as ask:
        yield ask


def call(ask: Ask, name: str, **arguments: Any) -> Any:
    result = ask("tools/call", {"name": name, "arguments": arguments})
    assert not result.get("isError"), result
    return result


def memory_of(ask: Ask, make: Callable[[int], tuple[str, dict[str, Any]]]) -> tuple[float, float]:
    """Return what a large message leaves behind and takes at the most, in sizes of its own; all is warm before."""
    for _ in range(3):
        ask(*make(1000))
        call(ask, "begin")
        call(ask, "held")
    call(ask, "begin")
    ask(*make(SIZE))
    held = call(ask, "held")["structuredContent"]
    return held["now"] / SIZE, held["most"] / SIZE


def argument_call(tool: str, size: int) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": tool, "arguments": {"text": "x" * size}}


def result_call(tool: str, size: int) -> tuple[str, dict[str, Any]]:
    return "tools/call", {"name": tool, "arguments": {"size": size}}


def read_request(size: int) -> tuple[str, dict[str, Any]]:
    return "resources/read", {"uri": f"large://{size}"}


LARGE = {
    "argument": (partial(argument_call, "take"), 2.1),  # the line, and the text in it
    "argument of a thread": (partial(argument_call, "take_in_thread"), 2.1),
    "text": (partial(result_call, "give"), 3.1),  # its JSON, and the answer, where it stands twice
    "text of a thread": (partial(result_call, "give_in_thread"), 4.1),
    "rows": (partial(result_call, "give_rows"), 4.5),
    "image": (partial(result_call, "give_image"), 4.1),
    "resource": (read_request, 3.1),
}


@pytest.mark.parametrize("kind", list(LARGE))
def test_large_message_memory_is_bounded_and_released(ask: Ask, kind: str) -> None:
    make, most = LARGE[kind]
    left, allocated = memory_of(ask, make)
    assert left < 0.05
    assert allocated < most
