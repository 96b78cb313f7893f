"""uvicorn as the app finds it: a stop by a program ends what is open, and an offer of an upgrade loses no body."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount

from mcpkit import Server
from tests.helpers.wire_requests import LATEST, META, PATIENCE, make_server, message, opened, start

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
GRACE = 1.0
MARGIN = 4.0
"""Seconds beyond the grace period, for a machine that has more to do."""
OPEN = (
    "",
    "get",
    "sse",
    "listen",
    "wait",
    "block",
    "report",
    "unread",
    "kept alive",
    "half a head",
    "half a body",
)


@pytest.mark.parametrize("is_mounted", [False, True], ids=["app", "mounted"])
@pytest.mark.parametrize("parser", ["h11", "httptools"])
def test_a_stop_by_a_program_ends_what_is_open_within_the_grace_period(
    parser: str, is_mounted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    runs: list[tuple[str, threading.Thread, socket.socket]] = []
    for what in OPEN:
        begun = threading.Event()
        # The time in which a body may arrive is longer than the grace period.
        app: Any = make_server(begun, released).asgi(grace=GRACE)
        server, thread, address = start(
            Starlette(routes=[Mount("/", app)]) if is_mounted else app, http=parser
        )
        runs.append((what, thread, opened(address, what)))
        if what in {"wait", "block"}:
            assert begun.wait(PATIENCE)
        server.should_exit = True
    deadline = time.monotonic() + GRACE + MARGIN
    for _, thread, _ in runs:
        thread.join(max(0.0, deadline - time.monotonic()))
    assert [what for what, thread, _ in runs if thread.is_alive()] == []
    released.set()
    for _, _, connection in runs:
        connection.close()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_the_last_request_of_a_limit_ends_streams_too() -> None:
    app = make_server(threading.Event(), threading.Event()).asgi(grace=GRACE)
    _, thread, address = start(app, limit_max_requests=1)
    with opened(address, "listen"), opened(address, "kept alive"):
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.anyio
async def test_an_app_is_served_again_in_the_same_loop_and_beside_another_server() -> None:
    app = make_server(threading.Event(), threading.Event()).asgi(grace=GRACE)
    other = uvicorn.Server(uvicorn.Config(Server("other").asgi(), log_config=None, port=0))
    besides = asyncio.create_task(other.serve())
    for _ in range(2):
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = asyncio.create_task(server.serve([listening]))
        while not server.started:
            await asyncio.sleep(0.005)
        connection = await asyncio.to_thread(opened, listening.getsockname(), "listen")
        server.should_exit = True
        await asyncio.wait_for(serving, PATIENCE)
        connection.close()
    other.should_exit = True
    await asyncio.wait_for(besides, PATIENCE)


@pytest.fixture(scope="module")
def addresses() -> Iterator[dict[str, tuple[str, int]]]:
    app = make_server(threading.Event(), threading.Event()).asgi()
    runs = {parser: start(app, http=parser) for parser in ("httptools", "h11")}
    yield {parser: address for parser, (_, _, address) in runs.items()}
    for server, thread, _ in runs.values():
        server.should_exit = True
        thread.join(PATIENCE)


@st.composite
def requests(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], int]:
    """Draw requests with offers, the same without, and the bytes in a part in which they are sent."""
    offered, plain = [], []
    for number in range(draw(st.integers(1, 3))):
        text = draw(st.text("aé\n", max_size=200)) + str(number)
        if draw(st.booleans()):
            params = {"name": "echo", "arguments": {"text": text}, "_meta": META}
            body, headers = (
                message("tools/call", params),
                LATEST | {"Mcp-Method": "tools/call", "Mcp-Name": "echo"},
            )
        else:
            body, headers = message("ping", {"text": text}), {}
        framing = {"Content-Length": str(len(body))}
        if draw(st.booleans()):
            framing = {"Transfer-Encoding": "chunked"}
            body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
        protocol = draw(st.sampled_from(["h2c", "H2C", "websocket", "TLS/1.0, HTTP/1.1", "foo"]))
        options = draw(st.permutations(["Upgrade", "HTTP2-Settings", "keep-alive"]))
        offer = {"Connection": ", ".join(options), "Upgrade": protocol, "HTTP2-Settings": "AAEAAEAAAAIAAAAB"}
        plain_lines = headers | framing
        lines = list((plain_lines | (offer if draw(st.integers(0, 3)) else {})).items())
        offered.append(_written(draw(st.permutations(lines)), body))
        plain.append(_written(list(plain_lines.items()), body))
    return offered, plain, draw(st.sampled_from([1, 7, 50, 400, 100_000]))


def _written(lines: list[tuple[str, str]], body: bytes) -> bytes:
    fixed = [("Host", "localhost"), ("Content-Type", "application/json"), ("Accept", "application/json")]
    head = "".join(f"{name}: {value}\r\n" for name, value in [*fixed, *lines])
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


def exchanged(address: tuple[str, int], sent: list[bytes], size: int) -> list[tuple[str, bytes]]:
    """Send requests on one connection, and return status and body of each response."""
    answers = []
    data = b"".join(sent)
    with socket.create_connection(address, PATIENCE) as connection, connection.makefile("rb") as incoming:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), max(size, len(data) // 40)):
            connection.sendall(data[start : start + max(size, len(data) // 40)])
        for _ in sent:
            status, length = incoming.readline().decode().strip(), 0
            while (line := incoming.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.append((status, incoming.read(length)))
    return answers


@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(requests())
def test_requests_with_an_offer_of_an_upgrade_are_answered_as_those_without(
    addresses: dict[str, tuple[str, int]], drawn: tuple[list[bytes], list[bytes], int]
) -> None:
    offered, plain, size = drawn
    expected = [exchanged(addresses["h11"], [each], 100_000)[0] for each in plain]
    assert exchanged(addresses["httptools"], offered, size) == expected
