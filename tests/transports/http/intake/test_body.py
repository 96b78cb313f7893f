"""The body of a request, whole or in parts."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx2
import pytest

from mcpkit import Server
from mcpkit.calls.channel import NO_HEADERS
from mcpkit.transports.http.exchange import Exchange, RefusedError
from mcpkit.transports.http.intake.body import Bodies
from mcpkit.transports.http.options import Settings
from tests.helpers.event_streams import ACCEPT, site, stateless_meta

pytestmark = pytest.mark.anyio


async def send(message: object) -> None:
    raise AssertionError("whoever reads answers nothing")


async def read(
    *parts: bytes,
    limit: int = 100,
    is_cut: bool = False,
    is_late: bool = False,
    seconds: float = 10,
    headers: Mapping[bytes, bytes] = NO_HEADERS,
) -> bytes:
    """Read a body that comes in parts, and perhaps never ends."""
    messages: list[dict[str, object]] = [
        {"type": "http.request", "body": part, "more_body": is_cut or number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]
    if is_cut:
        messages.append({"type": "http.disconnect"})
    coming = iter(messages)

    async def receive() -> dict[str, object]:
        if is_late:
            await asyncio.sleep(0)
        message = next(coming, None)
        if message is None:
            await asyncio.Event().wait()
            raise AssertionError
        return message

    bodies = Bodies(Settings(max_body=limit, body_timeout=seconds))
    return await bodies.read(Exchange(receive, send, 15, headers))


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("parts", [[b"{}"], [b"{", b"}"], [b"", b"{", b"", b"}"], [b"{}", b""]])
async def test_all_parts_make_the_body(parts: list[bytes], is_late: bool) -> None:
    assert await read(*parts, is_late=is_late) == b"{}"


async def test_a_server_may_give_any_awaitable() -> None:
    def receive() -> asyncio.Future[dict[str, object]]:
        future: asyncio.Future[dict[str, object]] = asyncio.get_running_loop().create_future()
        message: dict[str, object] = {"type": "http.request", "body": b"{}"}
        asyncio.get_running_loop().call_soon(future.set_result, message)
        return future

    assert await Bodies(Settings()).read(Exchange(receive, send, 15)) == b"{}"


async def test_a_body_is_as_long_as_allowed_however_it_is_cut() -> None:
    assert await read(b"x" * 60, b"x" * 40) == b"x" * 100
    for parts in ([b"x" * 101], [b"x" * 60, b"x" * 41], [b"x" * 100, b"x", b""]):
        with pytest.raises(RefusedError) as refusal:
            await read(*parts)
        assert refusal.value.status == 413


async def test_a_client_that_leaves_before_the_end_has_sent_nothing() -> None:
    for parts in ([b"{"], []):
        with pytest.raises(RefusedError, match="ended before its body"):
            await read(*parts, is_cut=True)


async def test_who_waits_for_a_body_for_too_long_goes_on_with_other_work() -> None:
    with pytest.raises(RefusedError) as refusal:
        await read(seconds=0.01)
    assert refusal.value.status == 408
    await asyncio.sleep(0.02)  # the cancellation was used up: nothing is left to be delivered


async def test_a_reader_that_is_cancelled_by_others_is_cancelled() -> None:
    reading = asyncio.ensure_future(read(seconds=60))
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading


@pytest.mark.parametrize("web", ["h11", "httptools"])
def test_a_long_message_arrives_whole(web: str) -> None:
    server = Server("s")

    @server.tool
    def count(text: str) -> int:
        return len(text)

    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"_meta": stateless_meta(), "name": "count", "arguments": {"text": "x" * 1_000_000}},
    }
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "count"}
    with site(server, uvicorn={"http": web}) as there:
        answer = httpx2.post(there.url, json=message, headers=ACCEPT | headers).json()
    assert answer["result"]["content"][0]["text"] == "1000000"


@pytest.mark.parametrize("headers", [{b"content-length": b"2"}, {b"transfer-encoding": b"chunked"}])
@pytest.mark.parametrize("parts", [[b""], [b"", b""]])
async def test_a_body_that_is_announced_and_empty_is_refused_with_its_cause(
    headers: dict[bytes, bytes], parts: list[bytes]
) -> None:
    with pytest.raises(RefusedError, match=r"although its headers announce one\. Send one") as refusal:
        await read(*parts, headers=headers)
    assert refusal.value.status == 400
    with pytest.raises(RefusedError, match="uvicorn with --http h11"):
        await read(*parts, headers={**headers, b"upgrade": b"h2c"})
    assert await read(*parts, headers={b"content-length": b"0", b"upgrade": b"h2c"}) == b""
