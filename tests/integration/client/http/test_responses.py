"""HTTP responses that are no JSON-RPC answer: statuses, other content, too large, broken, compressed, cancelled."""

from __future__ import annotations

import asyncio
import tracemalloc
import zlib
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest

from mcpkit import Client, ProtocolError, Retries
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.exceptions import AuthorizationError, StatusError, TransportError
from tests.helpers.scripted_http import Asked, Reply, Script, ScriptedServer, greeting, scripted
from tests.helpers.tables import each_row
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

NOW = datetime(2020, 1, 1, tzinfo=timezone.utc)
REVISIONS = ["2025-11-25", "2026-07-28"]
MOST = 100_000


def client(server: ScriptedServer, revision: str = "2026-07-28") -> Client:
    transport = HttpTransport(server.url, max_answer=MOST)
    return Client(transport, protocol_version=revision, retries=Retries(attempts=1))


async def failure(script: Script, revision: str = "2026-07-28") -> Any:
    """Return the error of a call that a script answers."""
    async with scripted(greeting(script)) as server:
        async with client(server, revision) as opened:
            with pytest.raises((TransportError, ProtocolError)) as caught:
                await opened.call_tool("bake", retry=True)
        await until(lambda: not server.open)
    return caught.value


def replies(number: int, body: bytes = b"", **headers: str) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(number, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return script


def sends(body: bytes, **headers: str) -> Script:
    return replies(200, body, **{"content_type": "application/json", **headers})


@pytest.mark.parametrize("status", [400, 404])
@pytest.mark.parametrize("members", [{}, {"id": None}, {"id": "server-error"}])
async def test_json_rpc_error_with_status_is_protocol_error(status: int, members: dict[str, Any]) -> None:
    async def script(request: Asked, reply: Reply) -> None:
        await reply.error(status, -32601, "no such thing", **members)

    error = await failure(script)
    assert isinstance(error, ProtocolError)
    assert (error.code, str(error)) == (-32601, "no such thing")


@pytest.mark.parametrize("status", [400, 405])
async def test_client_error_status_has_not_begun(status: int) -> None:
    error = await failure(replies(status, b"go away\x07\n now"))
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun) == (status, False)
    assert f"HTTP {status}{')' if status == 405 else ''}: 'go away now'" in str(error)


async def test_server_error_status_has_unknown_outcome() -> None:
    error = await failure(replies(503))
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun, error.retry_after) == (503, True, None)
    assert "127.0.0.1" in str(error)


async def test_status_404_with_session_means_session_gone() -> None:
    error = await failure(replies(404), "2025-11-25")
    assert (error.session_is_gone, error.may_have_begun) == (True, False)
    assert "session" in str(error)


CHALLENGE = 'Bearer realm="mcp", resource_metadata="https://a.example/meta", scope="read"'


@each_row(("status", "challenge", "texts"), [
    (401, CHALLENGE, [
        "requires authentication", "token=",
        "Bearer, realm 'mcp', scope 'read', described at 'https://a.example/meta'",
    ]),
    (403, 'Bearer error="insufficient_scope", scope="write"',
     ["denied access (HTTP 403)", "scope 'write'", ": 'no'"]),
])  # fmt: skip
async def test_status_401_and_403_name_challenge(status: int, challenge: str, texts: list[str]) -> None:
    error = await failure(replies(status, b"no", www_authenticate=challenge))
    assert isinstance(error, AuthorizationError)
    assert (error.status, error.challenge, error.may_have_begun) == (status, challenge, False)
    assert [text for text in texts if text not in str(error)] == []


async def streams_without_end(request: Asked, reply: Reply) -> None:
    await reply.begin_stream()
    while True:
        await reply.chunk(b"data: " + b"x" * 10_000)


async def sends_without_end(request: Asked, reply: Reply) -> None:
    await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        await reply.raw(b"[" * 10_000)


@pytest.mark.parametrize("script", [sends(b" " * (MOST + 1)), sends_without_end, streams_without_end])
async def test_response_larger_than_max_answer_is_error(script: Script) -> None:
    error = await failure(script, "2025-11-25")
    assert f"more than {MOST:,} bytes" in str(error)
    assert "max_answer=" in str(error)
    assert (error.may_have_begun, error.may_pass) == (True, False)


@pytest.mark.long
async def test_compressed_response_limit_is_on_decompressed_size() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    bomb = b"".join(packer.compress(b" " * 2**20) for _ in range(100)) + packer.flush()
    tracemalloc.start()
    try:
        error = await failure(sends(bomb, content_encoding="gzip"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "more than" in str(error)
    assert peak < 50 * 2**20


async def test_response_cut_is_error() -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(200, b'{"jsonrpc": "2.0"', {"Content-Type": "application/json"}, length=100)
        reply.cut()

    error = await failure(script, "2025-11-25")
    assert "was lost before the response was complete" in str(error)
    assert error.may_have_begun


@pytest.mark.parametrize(("revision", "streams"), [("2025-11-25", True), ("2026-07-28", False)])
async def test_call_cancelled_closes_connection(revision: str, streams: bool) -> None:
    begun, left = asyncio.Event(), asyncio.Event()

    async def script(asked: Asked, reply: Reply) -> None:
        if streams:
            await reply.begin_stream()
            await reply.event({"jsonrpc": "2.0", "method": "notifications/x"})
        begun.set()
        await reply.hang_up()
        left.set()

    async with scripted(greeting(script)) as server, client(server, revision) as opened:
        call = asyncio.ensure_future(opened.call_tool("bake"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(left.wait(), 10)
        if revision == "2026-07-28":  # the closed response is the message
            assert server.of("POST", "notifications/cancelled") == []
        else:
            await until(lambda: server.of("POST", "notifications/cancelled"))


def date(seconds: int = 0) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


@each_row(("retry_after", "headers", "seconds"), [
    ("0", {}, 0), (date(90), {"date": date()}, 90), (date(-90), {"date": date()}, 0), (date(), {}, 0),
    *[(malformed, {}, None) for malformed in ("-5", "1.5", "soon", "9" * 500, "Wed, 99 Foo 2020", "")],
])  # fmt: skip
async def test_retry_after_is_parsed(
    retry_after: str, headers: dict[str, str], seconds: float | None
) -> None:
    headers = {"retry_after": retry_after, **headers}
    assert (await failure(replies(429, **headers))).retry_after == seconds
