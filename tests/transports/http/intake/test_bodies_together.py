"""The bodies that are on their way together: bounded, shared, and given back whatever becomes of each."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Server
from mcpkit.state.principal import Principal
from mcpkit.transports.http.exchange import Exchange, RefusedError
from mcpkit.transports.http.intake.body import Bodies
from mcpkit.transports.http.options import Settings
from tests.helpers.asgi_client import Serve
from tests.helpers.event_streams import ACCEPT, Site, eventually, site, stateless_meta
from tests.helpers.pipe import settle

MOST, TOTAL = 40, 100


class Body(NamedTuple):
    """A body that somebody sends, and where it ends: whole, or with the connection, or with its reader."""

    caller: str | None
    is_declared: bool
    parts: list[int]
    end: str


BODIES = st.lists(
    st.builds(
        Body,
        st.sampled_from([None, "eve", "ada"]),
        st.booleans(),
        st.lists(st.integers(0, 30), min_size=1, max_size=4),
        st.sampled_from(["whole", "gone", "cancelled", "broken"]),
    ),
    min_size=1,
    max_size=12,
)


class Reading:
    """A body that is being read, part by part."""

    def __init__(self, bodies: Bodies, body: Body) -> None:
        self.body = body
        self.coming = [*body.parts]
        self._parts: asyncio.Queue[dict[str, Any] | Exception] = asyncio.Queue()
        headers = {b"content-length": b"%d" % sum(body.parts)} if body.is_declared else {}
        exchange = Exchange(self._receive, self._send, 15, headers, Principal(body.caller))
        self.task = asyncio.ensure_future(bodies.read(exchange))

    async def _receive(self) -> dict[str, Any]:
        part = await self._parts.get()
        if isinstance(part, Exception):
            raise part
        return part

    async def _send(self, message: object) -> None:
        raise AssertionError("whoever reads answers nothing")

    def go_on(self) -> None:
        if self.coming:
            part = b"x" * self.coming.pop(0)
            is_last = not self.coming and self.body.end == "whole"
            self._parts.put_nowait({"type": "http.request", "body": part, "more_body": not is_last})
        elif self.body.end == "gone":
            self._parts.put_nowait({"type": "http.disconnect"})
        elif self.body.end == "broken":
            self._parts.put_nowait(OSError("broken"))
        else:
            self.task.cancel()

    async def status(self) -> int:
        """Return the status of what has ended; 0 for what has ended with its connection or its reader."""
        try:
            assert len(await self.task) == sum(self.body.parts)
        except RefusedError as error:
            return error.status
        except (OSError, asyncio.CancelledError):
            return 0
        return 200


@given(BODIES, st.randoms(use_true_random=False))
def test_what_is_on_its_way_is_bounded_and_given_back(bodies: list[Body], order: Any) -> None:
    async def run() -> None:
        reader = Bodies(Settings(max_body=MOST, max_body_total=TOTAL))
        shares = reader._shares
        going = [Reading(reader, body) for body in bodies]
        await settle()
        while going:
            each = order.choice(going)
            each.go_on()
            await settle()
            assert shares.taken <= TOTAL
            assert shares.taken_by("principal 'eve'") + shares.taken_by("principal 'ada'") <= shares.taken
            if not each.task.done():
                continue
            going.remove(each)
            size, status = sum(each.body.parts), await each.status()
            if size > MOST:
                assert status in {0, 400, 413, 503}
            elif status == 503:
                assert going, "what comes alone is read"
            else:
                assert status == {"whole": 200, "gone": 400}.get(each.body.end, 0)
            if not going:
                assert (shares.taken, shares._taken_by) == (0, {})

    asyncio.run(run())


@pytest.mark.parametrize("caller", [None, "eve"])
def test_a_body_that_comes_alone_is_read_however_large_it_may_be(caller: str | None) -> None:
    async def run() -> None:
        bodies = Bodies(Settings(max_body=1000, max_body_total=10))
        alone = Reading(bodies, Body(caller, False, [500, 300, 200], "whole"))
        while not alone.task.done():
            alone.go_on()
            await settle()
        assert await alone.status() == 200

    asyncio.run(run())


@pytest.mark.anyio
async def test_one_client_leaves_room_for_the_bodies_of_others(server: Server, serve: Serve) -> None:
    headers = {"content-type": "application/json", "content-length": "1000"}

    def begin(client: Any, address: str) -> Any:
        return client.open("POST", headers=headers, body=None, client=(address, 1)).feed(b"{", more=True)

    async with serve(server, max_body_total=8000) as client:
        held = [begin(client, "203.0.113.7") for _ in range(4)]
        await settle()
        refused = begin(client, "203.0.113.7").feed(b" " * 999)
        assert (await refused.whole()).status == 503
        assert refused.headers["retry-after"] == "1"
        assert refused.body == (
            b"too many bytes are on their way (4000 from address 203.0.113.7; one client has at most as many of 8000 "
            b"as are left for others); try again later\n"
        )
        held.append(begin(client, "203.0.113.8"))
        for each in held:
            assert (await each.feed(b" " * 999).whole()).status == 400, "it was read, and is no JSON"


@contextmanager
def sending(there: Site, part: bytes, length: int) -> Iterator[socket.socket]:
    """Send the head of a call and a part of its body."""
    host, port = there.url.removeprefix("http://").removesuffix("/mcp").split(":")
    headers = ACCEPT | {
        "Host": "localhost",
        "Content-Length": str(length),
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": "tools/list",
    }
    head = "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head.encode() + b"\r\n" + part)
        yield connection


@pytest.mark.parametrize("web", ["h11", "httptools"])
def test_over_a_socket_the_answer_comes_and_the_rest_is_dropped(web: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": stateless_meta()}}
    size = 1_000_000
    body = json.dumps(message).encode().ljust(size)
    server = Server("s")
    server.tool(lambda: "", name="tool")
    with site(server, uvicorn={"http": web}, max_body_total=size + 1) as there:
        with sending(there, body[:1000], size) as first:
            eventually(lambda: there.app.door()._services and there.service.bodies._shares.taken == size)
            with sending(there, body, size) as second:
                answer = b""
                while read := second.recv(65536):
                    answer += read
                head = answer.lower()
                assert answer.startswith(b"HTTP/1.1 503 ")
                assert b"retry-after: 1\r\n" in head
                assert b"connection: close\r\n" in head
                assert answer.endswith(b"too many bytes are on their way (1000001); try again later\n")
            first.sendall(body[1000:])
            assert first.recv(65536).startswith(b"HTTP/1.1 200 ")
        eventually(lambda: there.service.bodies._shares.taken == 0)
