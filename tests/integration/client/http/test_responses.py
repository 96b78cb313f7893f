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
from tests.helpers.waiting import until

NOW = datetime(2020, 1, 1, tzinfo=timezone.utc)

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]
EVERY = pytest.mark.parametrize("revision", REVISIONS[1:])


async def call(script: Script, revision: str = "2026-07-28", **options: Any) -> Any:
    """Call a tool of a server that answers calls as the script does."""
    async with (
        scripted(greeting(script)) as server,
        Client(
            HttpTransport(server.url, **options), protocol_version=revision, retries=Retries(attempts=1)
        ) as client,
    ):
        return await client.call_tool("bake", retry=True)


async def failure(script: Script, revision: str = "2026-07-28", **options: Any) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await call(script, revision, **options)
    assert "127.0.0.1" in str(caught.value)
    return caught.value


def replies(number: int, body: bytes = b"", **headers: str) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(number, body, {name.replace("_", "-"): value for name, value in headers.items()})

    return script


def rpc_error(
    number: int, code: int, output: str, headers: dict[str, str] | None = None, **more: Any
) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.error(number, code, output, headers, **more)

    return script


@EVERY
@pytest.mark.parametrize("number", [400, 404])
@pytest.mark.parametrize("more", [{}, {"id": None}, {"id": "server-error"}])
async def test_json_rpc_error_with_status_is_protocol_error(
    revision: str, number: int, more: dict[str, Any]
) -> None:
    if revision == "2025-11-25" and number == 404:
        return  # the session has ended
    with pytest.raises(ProtocolError, match="no such thing") as caught:
        await call(rpc_error(number, -32601, "no such thing", **more), revision)
    assert caught.value.code == -32601


@EVERY
@pytest.mark.parametrize("number", [400, 405])
async def test_client_error_status_has_not_begun(revision: str, number: int) -> None:
    error = await failure(replies(number, b"go away\x07\n now"), revision)
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun) == (number, False)
    assert f"HTTP {number}{')' if number == 405 else ''}: 'go away now'" in str(error)


@EVERY
@pytest.mark.parametrize("number", [500, 503])
async def test_server_error_status_has_unknown_outcome(revision: str, number: int) -> None:
    error = await failure(replies(number), revision)
    assert isinstance(error, StatusError)
    assert (error.status, error.may_have_begun, error.retry_after) == (number, True, None)


async def test_status_404_with_session_means_session_gone() -> None:
    error = await failure(replies(404), "2025-11-25")
    assert (error.session_is_gone, error.may_have_begun) == (True, False)
    assert "session" in str(error)


@EVERY
async def test_status_401_names_challenge(revision: str) -> None:
    challenge = 'Bearer realm="mcp", resource_metadata="https://a.example/meta", scope="read"'
    error = await failure(replies(401, www_authenticate=challenge), revision)
    assert isinstance(error, AuthorizationError)
    assert (error.status, error.challenge, error.may_have_begun) == (401, challenge, False)
    assert "requires authentication" in str(error)
    assert "token=" in str(error)
    assert "Bearer, realm 'mcp', scope 'read', described at 'https://a.example/meta'" in str(error)


async def test_status_403_names_scope() -> None:
    error = await failure(
        replies(403, b"no", www_authenticate='Bearer error="insufficient_scope", scope="write"')
    )
    assert isinstance(error, AuthorizationError)
    assert "denied access (HTTP 403)" in str(error)
    assert "scope 'write'" in str(error)
    assert str(error).endswith(": 'no'")


MOST = 100_000


def client(server: ScriptedServer, revision: str = "2026-07-28", **options: Any) -> Client:
    return Client(
        HttpTransport(server.url, **options), protocol_version=revision, retries=Retries(attempts=1)
    )


async def call_failure(script: Script, revision: str = "2026-07-28", **options: Any) -> TransportError:
    async with scripted(greeting(script)) as server:
        async with client(server, revision, **{"max_answer": MOST, **options}) as asked:
            with pytest.raises(TransportError) as caught:
                await asked.call_tool("bake", retry=True)
        await until(lambda: not server.open)
    return caught.value


def sends(body: bytes, **headers: str) -> Script:
    async def script(asked: Asked, reply: Reply) -> None:
        reported = {name.replace("_", "-"): value for name, value in headers.items()}
        await reply.send(200, body, {"Content-Type": "application/json", **reported})

    return script


async def streams_without_end(asked: Asked, reply: Reply) -> None:
    await reply.begin_stream()
    while True:
        await reply.chunk(b"data: " + b"x" * 10_000)


async def sends_without_end(asked: Asked, reply: Reply) -> None:
    await reply.raw(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        await reply.raw(b"[" * 10_000)


@pytest.mark.parametrize("revision", ["2025-11-25"])
@pytest.mark.parametrize("script", [sends(b" " * (MOST + 1)), sends_without_end, streams_without_end])
async def test_response_larger_than_max_answer_is_error(script: Script, revision: str) -> None:
    error = await call_failure(script, revision)
    assert f"more than {MOST:,} bytes" in str(error)
    assert "max_answer=" in str(error)
    assert (error.may_have_begun, error.may_pass) == (True, False)


@pytest.mark.long
@pytest.mark.parametrize("streams", [False])
async def test_compressed_response_limit_is_on_decompressed_size(streams: bool) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    piece = b"data: " + b"x" * 2**20 if streams else b" " * 2**20
    bomb = b"".join(packer.compress(piece) for _ in range(200)) + packer.flush()
    kind = "text/event-stream" if streams else "application/json"
    tracemalloc.start()
    try:
        error = await call_failure(sends(bomb, content_encoding="gzip", content_type=kind))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "more than" in str(error)
    assert peak < 100 * 2**20


@pytest.mark.parametrize("revision", ["2025-11-25"])
async def test_response_cut_is_error(revision: str) -> None:
    async def script(asked: Asked, reply: Reply) -> None:
        await reply.send(200, b'{"jsonrpc": "2.0"', {"Content-Type": "application/json"}, length=100)
        reply.cut()

    error = await call_failure(script, revision)
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

    async with scripted(greeting(script)) as server, client(server, revision) as asked:
        call = asyncio.ensure_future(asked.call_tool("bake"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await asyncio.wait_for(left.wait(), 10)
        cancelled = server.of("POST", "notifications/cancelled")
        if revision == "2026-07-28":
            assert cancelled == []  # closing the response says so
        else:
            await until(lambda: server.of("POST", "notifications/cancelled"))


@pytest.mark.parametrize(("output", "date", "seconds"), [
    ("0", None, 0),
    (format_datetime(NOW + timedelta(seconds=90), usegmt=True), format_datetime(NOW, usegmt=True), 90),
    (format_datetime(NOW - timedelta(seconds=90), usegmt=True), format_datetime(NOW, usegmt=True), 0),
    (format_datetime(NOW, usegmt=True), None, 0),
    ("-5", None, None),
    ("1.5", None, None),
    ("soon", None, None),
    ("9" * 500, None, None),
    ("Wed, 99 Foo 2020", None, None),
    ("", None, None),
])  # fmt: skip
async def test_retry_after_is_parsed(output: str, date: str | None, seconds: float | None) -> None:
    headers = {"retry_after": output} | ({"date": date} if date else {})
    assert (await failure(replies(429, **headers))).retry_after == seconds
