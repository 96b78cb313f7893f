"""The client's end of stdio: messages to a child process and back."""

from __future__ import annotations

import asyncio
import logging
import sys
import tracemalloc
from typing import Any

import pytest

from mcpkit.client.link.errors import TransportError
from mcpkit.client.transports.processes.stdio import StdioTransport
from tests.helpers.child import ECHO, Received, ask, script, send

pytestmark = pytest.mark.anyio


async def test_messages_go_to_the_server_and_come_back() -> None:
    transport, received = StdioTransport(script(ECHO)), Received()
    await transport.open(received)
    assert await ask(transport, received, 1, text="é\u2028\n") == {"text": "é\u2028\n"}
    await transport.close()
    assert received.error is None


async def test_what_is_no_message_is_passed_over_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    noise = 'print("starting"); print("[INFO] ready"); print("{}\\n\\n", end="", flush=True)'
    transport, received = StdioTransport(script(noise + ECHO)), Received()
    with caplog.at_level(logging.WARNING, logger="mcpkit"):
        await transport.open(received)
        await send(transport, 1, a=1)
        assert await received.next() == {}
        assert (await received.next())["result"] == {"a": 1}
        await transport.close()
    [record] = caplog.records
    assert record.getMessage() == (
        f"The server ({sys.executable.rpartition('/')[2]}) prints what is no message to its standard output,"
        " which is passed over: starting"
    )


async def test_nothing_is_sent_without_a_server() -> None:
    transport = StdioTransport(script(ECHO))
    with pytest.raises(TransportError, match="has not been started") as raised:
        await send(transport, 1)
    assert not raised.value.may_have_begun


BIG = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    order, size = message["params"]["order"], message["params"]["size"]
    members = {"jsonrpc": '"2.0"', "id": str(message["id"]), "result": '{"id": 9, "text": "'}
    print("{", end="")
    for n, name in enumerate(order.split()):
        print(", " * (n > 0) + f'"{name}": {members[name]}', end="")
        if name == "result":
            for _ in range(size // 1000):
                sys.stdout.write('\\\\"' * 500)
            print('"}', end="")
    print("}", flush=True)
"""
"""Answers with its members in the order that is asked for, and a text of so many bytes."""

ORDERS = [
    "jsonrpc id result",
    "id jsonrpc result",
    "result jsonrpc id",
    "result id jsonrpc",
    "jsonrpc result id",
]


@pytest.mark.parametrize("order", ORDERS)
async def test_an_answer_that_is_too_long_fails_its_request_alone(order: str) -> None:
    transport, received = StdioTransport(script(BIG), max_answer=100_000), Received()
    await transport.open(received)
    for size in (100_000, 300_000, 1_000_000):
        await send(transport, size, order=order, size=size)
        id_, error = await received.next()
        assert id_ == size
        assert isinstance(error, TransportError)
        assert error.may_have_begun
        assert not error.may_pass
        assert "has answered with more than 100,000 bytes, the most that is read" in str(error)
        assert (await ask(transport, received, 1, order=order, size=50_000))["id"] == 9
    await transport.close()
    assert received.error is None


async def test_an_answer_that_is_too_long_is_not_kept() -> None:
    transport, received = StdioTransport(script(BIG), max_answer=100_000), Received()
    await transport.open(received)
    tracemalloc.start()
    try:
        await send(transport, 1, order=ORDERS[0], size=30_000_000)
        await received.next()
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    await transport.close()


async def test_a_notification_that_is_too_long_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    code = (
        """print('{"jsonrpc": "2.0", "method": "notifications/message", "params": "' + "x" * 100 + '"}')\n"""
    )
    transport, received = StdioTransport(script(code + ECHO), max_answer=80), Received()
    with caplog.at_level(logging.WARNING, logger="mcpkit"):
        await transport.open(received)
        assert await ask(transport, received, 1) == {}
        await transport.close()
    assert received.error is None
    assert "has sent a message of more than 80 bytes, which is passed over" in caplog.records[0].getMessage()


@pytest.mark.parametrize("noise", ["x", "[1, ", '{"result": '])
async def test_what_is_too_long_and_answers_nobody_is_the_end(noise: str) -> None:
    code = f"print({noise!r} + 'x' * 1000, flush=True)\ninput()"
    transport, received = StdioTransport(script(code), max_answer=100), Received()
    await transport.open(received)
    error = await received.end()
    assert isinstance(error, TransportError)
    assert "It does not tell whom it answers, so it is ended" in str(error)
    with pytest.raises(TransportError, match="has ended"):
        await send(transport, 1)
    await transport.close()


async def test_a_line_that_never_ends_takes_no_memory() -> None:
    code = "import sys\nprint(sys.stdin.readline()[:0], end='')\nfor _ in range(3000): sys.stdout.write('{' * 10_000)"
    transport, received = StdioTransport(script(code), max_answer=100_000), Received()
    await transport.open(received)
    tracemalloc.start()
    try:
        await send(transport, 1)
        await received.end()
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()
    await transport.close()


READ_LATER = """
import os, select, sys
assert not select.select([sys.stdin], [], [], 0)[0]
print('{"jsonrpc": "2.0", "method": "ready"}', flush=True)
while not os.path.exists(sys.argv[1]): select.select([], [], [], 0.01)
"""


async def test_while_the_server_does_not_read_sending_waits_and_can_be_cancelled(tmp_path: Any) -> None:
    transport = StdioTransport([*script(READ_LATER + ECHO), str(tmp_path / "go")])
    received = Received()
    await transport.open(received)
    await received.next()
    sent = 0
    waiting: asyncio.Task[None]
    while True:  # a pipe and a megabyte
        waiting = asyncio.create_task(send(transport, sent, text="x" * 100_000))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if not waiting.done():
            break
        sent += 1
        assert sent < 100
    waiting.cancel()
    await asyncio.wait([waiting])
    later = asyncio.create_task(send(transport, 1000))
    (tmp_path / "go").touch()
    await later
    ids = [(await received.next())["id"] for _ in range(sent + 1)]
    assert ids == [*range(sent), 1000], "what was cancelled has not been sent"
    await transport.close()


@pytest.mark.slow
async def test_much_at_once_goes_both_ways_in_order() -> None:
    transport, received = StdioTransport(script(ECHO)), Received()
    await transport.open(received)
    sizes = [0, 1, 4095, 4096, 4097, 65_535, 65_536, 70_000, 1_000_000, 3_000_000, 10] * 3
    await asyncio.gather(*(send(transport, n, text="é" * (size // 2)) for n, size in enumerate(sizes)))
    for n, size in enumerate(sizes):
        answer = await received.next()
        assert (answer["id"], len(answer["result"]["text"])) == (n, size // 2)
    await transport.close()


@pytest.mark.slow
async def test_a_server_that_closes_its_output_is_lost_and_ended() -> None:
    code = "import os, time\nos.close(1)\nprint('why', file=__import__('sys').stderr, flush=True)\ntime.sleep(3600)"
    transport, received = StdioTransport(script(code), stderr=lambda line: None, grace=0.1), Received()
    await transport.open(received)
    assert str(await received.end()).endswith(
        "has closed its standard output; its last words on standard error:\nwhy"
    )
    await transport.close()


@pytest.mark.slow
async def test_a_server_that_closes_its_input_is_lost_and_ended() -> None:
    code = "import os, time\nos.close(0)\nprint('{}', flush=True)\ntime.sleep(3600)"
    transport, received = StdioTransport(script(code), grace=0.1), Received()
    await transport.open(received)
    await received.next()
    await send(transport, 1)
    assert "does not read its standard input any more; it has said nothing" in str(await received.end())
    with pytest.raises(TransportError, match="has ended") as raised:
        await send(transport, 2)
    assert not raised.value.may_have_begun
    await transport.close()


async def test_what_it_has_said_before_its_end_is_received() -> None:
    code = "print('{\"id\": 1}')\nprint('{\"id\": 2}', end='')"
    transport, received = StdioTransport(script(code)), Received()
    await transport.open(received)
    await received.end()
    assert received.messages == [{"id": 1}, {"id": 2}]
    await transport.close()


async def test_nothing_is_received_once_it_is_closed() -> None:
    code = ECHO + "\nprint('{}', flush=True)"
    transport, received = StdioTransport(script(code)), Received()
    await transport.open(received)
    await ask(transport, received, 1)
    await transport.close()
    assert received.messages == []
    assert received.error is None
