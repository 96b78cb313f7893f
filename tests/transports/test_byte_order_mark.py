"""Messages behind a byte order mark (RFC 8259, 8.1): to a server and to a client, over every transport."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, Context, Server
from mcpkit.common.errors import TooLongError
from mcpkit.engine.connection import Connection
from mcpkit.protocol.unreadable import id_of_answer
from mcpkit.transports.framing import Framing

pytestmark = pytest.mark.anyio

EXAMPLES = int(os.environ.get("MCPKIT_TEST_EXAMPLES", "200"))
MARK = b"\xef\xbb\xbf"
SPACES = ("", " ", "\t", "\r\n", "\n", " \r\n\t")
LETTERS = 'a"\\ é\ufeff\u2028\x85日😀\x7f'


def drawn(draw: random.Random, id_: int) -> bytes:
    """One request as some program writes it: with or without a mark, white space, ASCII alone or not."""
    text = "".join(draw.choices(LETTERS, k=draw.randrange(8)))
    message = {"jsonrpc": "2.0", "id": id_, "method": "ping", "params": {"text": text}}
    written = json.dumps(message, ensure_ascii=draw.random() < 0.3).encode()
    before, between, after = (draw.choice(SPACES).encode() for _ in range(3))
    return before + (MARK + between.strip(b"\r\n") if draw.random() < 0.6 else b"") + written + after


def pieces(draw: random.Random, stream: bytes) -> list[bytes]:
    """Cut a stream anywhere, as pipes do."""
    cuts = sorted(draw.randrange(len(stream) + 1) for _ in range(draw.choice((0, 0, 1, 2, 9))))
    return [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


async def test_messages_are_read_over_their_marks_however_the_stream_is_cut() -> None:
    server = Server("marks")
    for seed in range(EXAMPLES):
        draw = random.Random(seed)
        ids = list(range(draw.randrange(1, 6)))
        stream = b"".join(drawn(draw, id_) + draw.choice((b"\n", b"\r\n", b"\n\n")) for id_ in ids)
        if draw.random() < 0.2:
            stream = stream.rstrip()
        answers: list[dict[str, Any]] = []
        connection = Connection(server, lambda line, answers=answers: answers.append(json.loads(line)))
        framing = Framing()
        lines = [line for piece in pieces(draw, stream) for line in framing.feed(piece)] + framing.finish()
        connection.receive(b'{"jsonrpc":"2.0","id":"i","method":"initialize","params":%s}' % OPENING)
        for line in lines:
            connection.receive(line)
        await connection.drain()
        assert sorted(each["id"] for each in answers[1:] if "result" in each) == ids, (seed, stream, answers)
        assert len(answers) == 1 + len(ids), (seed, stream, answers)
        await connection.aclose()


OPENING = json.dumps(
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
).encode()


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_answer_of_a_line_that_is_too_long_is_known_by_its_id_behind_a_mark(size: int) -> None:
    framing = Framing(40, waits_for_end=True)
    stream = MARK + b'{"jsonrpc":"2.0","id":7,"result":{"text":"%s"}}\n' % (b"x" * 100)
    (error,) = [line for at in range(0, len(stream), size) for line in framing.feed(stream[at : at + size])]
    assert isinstance(error, TooLongError)
    assert id_of_answer(error.beginning, error.ending) == 7


def test_a_mark_alone_is_a_blank_line() -> None:
    assert Framing().feed(MARK + b"\n" + MARK + b"\r\n" + b"{}\n") == [b"{}"]


MARKED_SERVER = """
import sys
from mcpkit import Server

server = Server("marked")


@server.tool
def greet() -> str:
    return "hello"


if __name__ == "__main__":
    server.run()
"""


def test_a_server_process_answers_a_host_that_begins_with_a_mark(tmp_path: Path) -> None:
    (script := tmp_path / "server.py").write_text(MARKED_SERVER)
    opening = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":%s}\n' % OPENING
    done = subprocess.run(
        [sys.executable, script], input=MARK + opening, capture_output=True, timeout=60, check=True
    )
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "marked"


FILTER = """
import subprocess, sys
child = subprocess.Popen([sys.executable, sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in sys.stdin.buffer:
    child.stdin.write(b"\\xef\\xbb\\xbf" + line)
    child.stdin.flush()
    if b'"id"' in line:
        sys.stdout.buffer.write(b"\\xef\\xbb\\xbf" + child.stdout.readline())
        sys.stdout.buffer.flush()
"""
"""A process between a client and a server that puts a mark before each message of both."""


async def test_a_client_reads_the_answers_of_a_process_over_their_marks(tmp_path: Path) -> None:
    (script := tmp_path / "server.py").write_text(MARKED_SERVER)
    (between := tmp_path / "between.py").write_text(FILTER)
    async with Client([sys.executable, str(between), str(script)]) as client:
        assert (await client.call("greet")).text == "hello"


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("streams", [False, True])
async def test_bodies_and_events_are_read_over_their_marks(
    revision: str, streams: bool, tmp_path: Path
) -> None:
    server = Server("marked")

    @server.tool
    async def greet(ctx: Context) -> str:
        if streams:
            await ctx.progress(1)
        return "hello"

    app = server.asgi(allowed_hosts=["*"])
    came: list[bytes] = []

    async def marked(scope: Any, receive: Any, send: Any) -> None:
        async def receive_marked() -> Any:
            message = await receive()
            if message.get("body"):
                message = {**message, "body": MARK + message["body"]}
            return message

        async def send_marked(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = [each for each in message["headers"] if each[0] != b"content-length"]
                message = {**message, "headers": headers}
            elif body := message.get("body"):
                body = (
                    MARK + body
                    if body.startswith(b"{")
                    else body.replace(b"data: {", b"data: " + MARK + b"{")
                )
                came.append(body)
                message = {**message, "body": body}
            await send(message)

        await app(scope, receive_marked, send_marked)

    recorded = tmp_path / "messages.jsonl"
    async with Client(marked, revision=revision, record=recorded) as client:
        result = await client.call("greet", progress=lambda *_: None)
        assert result.text == "hello"
    assert any((b"data: " + MARK in body) is streams and MARK in body for body in came)
    assert all(json.loads(line) for line in recorded.read_text("utf-8").splitlines())
