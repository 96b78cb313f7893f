"""A proxy of a Redis that loses replies, and that leads to another one when that has taken over."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class Swallowing:
    """What stands between, and lets replies get lost, once something is done there.

    Attributes:
        port: Where connections lead that are opened from now on.
        is_cut: Whether a connection breaks when a reply of its gets lost; else nothing more comes by it.
        is_swallowing: Whether the next reply gets lost.
        swallowed: How many have been.
    """

    def __init__(self, port: int, *, is_cut: bool = False) -> None:
        self.port = port
        self.is_cut = is_cut
        self.is_swallowing = False
        self.swallowed = 0

    async def start(self) -> tuple[asyncio.Server, int]:
        """Begin to stand between; give what is to be closed, and the port."""
        listening = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        return listening, listening.sockets[0].getsockname()[1]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            behind, before = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            writer.close()
            return

        async def back() -> None:
            with suppress(OSError):
                await forward()
            writer.close()

        async def forward() -> None:
            while data := await behind.read(65_536):
                if self.is_swallowing:
                    self.is_swallowing = False
                    self.swallowed += 1
                    while not self.is_cut and await behind.read(65_536):
                        pass
                    return
                writer.write(data)

        answering = asyncio.create_task(back())
        with suppress(OSError):
            while data := await reader.read(65_536):
                before.write(data)
        for each in (before, writer):
            each.close()
            with suppress(OSError):
                await each.wait_closed()
        await answering
