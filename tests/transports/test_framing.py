"""Framing of messages in a stream, byte order marks (RFC 8259, 8.1), and writing to a pipe."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Server
from mcpkit.common.errors import ProtocolError, TooLongError
from mcpkit.engine.connection import Connection
from mcpkit.transports.framing import MAX_LINE, Framing
from mcpkit.transports.pipe_output import PipeOutput

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


async def test_framing_with_byte_order_marks_reads_all_messages() -> None:
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


def cut(stream: bytes, *, max_line: int = MAX_LINE, size: int | None = None) -> list[bytes | str]:
    """Frame a whole stream given in chunks of `size` bytes; "error" stands in for an error."""
    framing = Framing(max_line)
    lines: list[bytes | ProtocolError] = []
    for start in range(0, len(stream), size or len(stream) or 1):
        lines += framing.feed(stream[start : start + (size or len(stream))])
    lines += framing.finish()
    return ["error" if isinstance(line, ProtocolError) else line for line in lines]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=20), max_size=20), st.integers(1, 12))
def test_framing_chunks_make_no_difference(chunks: list[bytes], max_line: int) -> None:
    framing = Framing(max_line)
    lines = [line for chunk in chunks for line in framing.feed(chunk)] + framing.finish()
    together = cut(b"".join(chunks), max_line=max_line)
    assert ["error" if isinstance(line, ProtocolError) else line for line in lines] == together


SIZES = (None, 1, 2, 3, 7)
STREAMS: list[tuple[bytes, list[bytes]]] = [
    (b"", []),
    (b"{}\n", [b"{}"]),
    (b'{"a": 1}\n{"b": 2}\n', [b'{"a": 1}', b'{"b": 2}']),
    (b"{}\r\n[]\r\n", [b"{}", b"[]"]),
    (b"\n\r\n \t\n{}\n\n", [b"{}"]),
    (b"{}", [b"{}"]),
    (b"\r\n", []),
    (b"a\rb\n", [b"a\rb"]),
    (b"\0\n\xff\xfe\n", [b"\0", b"\xff\xfe"]),
    ('"\u2028 \u2029 \x85 \x0b \x0c \x1c"\n'.encode(), ['"\u2028 \u2029 \x85 \x0b \x0c \x1c"'.encode()]),
    (MARK + b"\n" + MARK + b"\r\n" + b"{}\n", [b"{}"]),
]


def test_framing_splits_only_on_newline() -> None:
    for stream, lines in STREAMS:
        for size in SIZES:
            assert cut(stream, size=size) == lines, (stream, size)


def test_framing_that_waits_for_end_reports_beginning_and_ending() -> None:
    stream = b"first\n" + b"begun" + b"x" * 10_000 + b"ended\nlast\n"
    for size in (len(stream), 1, 3, 9, 10, 11):
        framing = Framing(10, waits_for_end=True)
        chunks = [stream[n : n + size] for n in range(0, len(stream), size)]
        first, error, last = [line for chunk in chunks for line in framing.feed(chunk)]
        assert (first, last) == (b"first", b"last")
        assert isinstance(error, TooLongError)
        assert error.beginning.startswith(b"begunx")
        assert error.ending.endswith(b"xxended")
        assert len(error.ending) == 1024


class Pipe:
    """An output, and the end that reads it."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        os.set_blocking(self.writing, False)
        self.rooms = 0
        self.is_broken = False
        self.output = PipeOutput(self.writing, on_room=self._note_room, on_broken=self._note_end, is_own=True)

    def read(self) -> bytes:
        try:
            return os.read(self.reading, 1 << 20)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        self.output.close()
        os.close(self.writing)

    def _note_room(self) -> None:
        self.rooms += 1

    def _note_end(self) -> None:
        self.is_broken = True


@pytest.mark.skipif(sys.platform == "win32", reason="there, a thread writes")
async def test_pipe_output_writes_when_there_is_room_without_a_thread() -> None:
    pipe = Pipe()
    threads = threading.active_count()
    messages = [str(n).encode() * 50_000 for n in range(100)]
    for message in messages:
        pipe.output.send(message)
    assert pipe.output.is_full
    assert pipe.output.is_writing
    flushing = asyncio.ensure_future(pipe.output.flush())
    read = b""
    while not flushing.done():
        read += pipe.read()
        await asyncio.sleep(0)
    read += pipe.read()
    assert read == b"".join(message + b"\n" for message in messages)
    assert pipe.rooms == 1
    assert not pipe.output.is_full
    assert not pipe.output.is_writing
    assert threading.active_count() == threads
    pipe.close()
    os.close(pipe.reading)


@pytest.mark.skipif(sys.platform == "win32", reason="there, a thread writes")
async def test_pipe_output_wait_ends_with_the_reader() -> None:
    pipe = Pipe()
    pipe.output.send(b"x" * 5_000_000)
    waiting = asyncio.ensure_future(pipe.output.ready())
    await asyncio.sleep(0)
    os.close(pipe.reading)
    await waiting
    assert pipe.is_broken
    assert pipe.output.is_broken
    pipe.close()
