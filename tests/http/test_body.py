"""The body of a request, whole or in parts."""

from __future__ import annotations

import httpx2
import pytest

from event_streams import ACCEPT, site, stateless_meta
from mcpkit import Server
from mcpkit.transports.http.body import GONE, Refusal, read_body

pytestmark = pytest.mark.anyio


async def read(*parts: bytes, limit: int = 100, is_cut: bool = False) -> bytes | Refusal:
    """Read a body that comes in parts, and perhaps never ends."""
    messages = [
        {"type": "http.request", "body": part, "more_body": is_cut or number < len(parts)}
        for number, part in enumerate(parts, 1)
    ]
    if is_cut:
        messages.append({"type": "http.disconnect"})
    coming = iter(messages)

    async def receive() -> dict[str, object]:
        return next(coming)

    return await read_body(receive, None, limit, 10)


@pytest.mark.parametrize("parts", [[b"{}"], [b"{", b"}"], [b"", b"{", b"", b"}"], [b"{}", b""]])
async def test_all_parts_make_the_body(parts: list[bytes]) -> None:
    assert await read(*parts) == b"{}"


async def test_a_body_is_as_long_as_allowed_however_it_is_cut() -> None:
    assert await read(b"x" * 60, b"x" * 40) == b"x" * 100
    for parts in ([b"x" * 101], [b"x" * 60, b"x" * 41], [b"x" * 100, b"x", b""]):
        refusal = await read(*parts)
        assert isinstance(refusal, Refusal)
        assert refusal.status == 413


async def test_a_client_that_leaves_before_the_end_has_sent_nothing() -> None:
    assert await read(b"{", is_cut=True) == GONE
    assert await read(is_cut=True) == GONE


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
