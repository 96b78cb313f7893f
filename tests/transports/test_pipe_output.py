"""Writing to a pipe whose end is nobody else's: the loop does it alone, and waits for whoever reads."""

from __future__ import annotations

import asyncio
import os
import sys
import threading

import pytest

from mcpkit.transports.pipe_output import PipeOutput

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform == "win32", reason="there, a thread writes")]


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


async def test_what_does_not_fit_is_written_when_it_is_read_and_no_thread_is_started() -> None:
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


async def test_who_waits_for_room_is_told_of_the_end_of_the_reader() -> None:
    pipe = Pipe()
    pipe.output.send(b"x" * 5_000_000)
    waiting = asyncio.ensure_future(pipe.output.ready())
    await asyncio.sleep(0)
    os.close(pipe.reading)
    await waiting
    assert pipe.is_broken
    assert pipe.output.is_broken
    pipe.close()


async def test_who_waits_for_room_is_told_of_its_own_end() -> None:
    pipe = Pipe()
    pipe.output.send(b"x" * 5_000_000)
    waiting = asyncio.ensure_future(pipe.output.ready())
    await asyncio.sleep(0)
    pipe.close()
    await waiting
    os.close(pipe.reading)
    assert not pipe.is_broken
