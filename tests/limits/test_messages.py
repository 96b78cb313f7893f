"""Bounds of a request and of the message in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpkit import Server
from mcpkit.common.errors import ProtocolError
from mcpkit.engine.peer import MAX_BATCH
from mcpkit.protocol.eras import MAX_CLIENT_LENGTH
from mcpkit.protocol.jsonrpc import MAX_ID_LENGTH
from mcpkit.transports.framing import Framing
from mcpkit.transports.http.intake import refused_body as unread
from mcpkit.transports.http.sessions.token import MAX_LENGTH
from tests.helpers.pipe import settle, stateless_meta
from tests.helpers.raw_client import Answer, Judge, Serve, initialize
from tests.limits.conftest import Ask
from tests.limits.ways import LONG, Asker, around, limit, peak
from tests.wire.conftest import Wire

pytestmark = [pytest.mark.anyio, pytest.mark.long]

BODY = 4096
LEVELS = 201
"""Of arrays and objects, which the parser reads."""


def call_of(client: Asker, value: bytes) -> bytes:
    """Return a call whose argument is a JSON text."""
    request = client.request(7, "tools/call", {"name": "echo", "arguments": {"value": "here"}})
    return json.dumps(request).encode().replace(b'"here"', value)


def padded(request: dict[str, Any], size: int) -> bytes:
    body = json.dumps(request).encode()
    return body + b" " * (size - len(body))


@limit("body of a request")
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("size", around(BODY))
async def test_body(size: int, is_chunked: bool, server: Server, serve: Serve) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": stateless_meta()}}
    headers = {
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
    }
    body = padded(request, size)
    headers |= {"transfer-encoding": "chunked"} if is_chunked else {"content-length": str(size)}
    async with serve(server, max_body=BODY) as client:
        peaks: list[int] = []
        for _ in range(2):  # what is imported and cached the first time is not the body's
            answer = client.open("POST", headers=headers, body=None)
            answer.judge.expect(request)
            for start in range(0, size, 1024):
                answer.feed(body[start : start + 1024], more=start + 1024 < size)
            with peak() as taken:
                await answer.whole()
                peaks.append(taken())
        assert min(peaks) < 25 * BODY
        if size <= BODY:
            assert "result" in answer.json()
        else:
            assert answer.status == 413
            assert (
                answer.body == b"a message has at most 4096 bytes; server.asgi(max_body=...) sets the limit\n"
            )
        assert (await client.ask("tools/list").whole()).status == 200


@limit("bodies that are on their way")
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("count", around(4))
async def test_bodies(count: int, is_chunked: bool, server: Server, serve: Serve) -> None:
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": stateless_meta()}}
    body = padded(request, BODY)
    headers = {
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/list",
    }
    headers |= {"transfer-encoding": "chunked"} if is_chunked else {"content-length": str(BODY)}
    cut = BODY if is_chunked else 100  # one of a known length takes its place from its first part on

    async with serve(server, max_body_total=4 * BODY) as client:

        def begin() -> Answer:
            answer = client.open("POST", headers=headers, body=None)
            answer.judge.expect(request)
            return answer.feed(body[:cut], more=True)

        held = [begin() for _ in range(min(count, 4))]
        await settle()
        for _ in range(count - 4):
            answer = await begin().feed(body[cut:]).whole()
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
            assert answer.body == b"too many bytes are on their way (16384); try again later\n"
        assert (await client.ask("tools/list").whole()).status == 200, "it has come whole"
        for answer in held:
            assert "result" in (await answer.feed(body[cut:]).whole()).json()
        assert "result" in (await begin().feed(body[cut:]).whole()).json()


@limit("bodies that are on their way")
@pytest.mark.parametrize("excess", [-1, 0, 1, 100 * BODY])
async def test_bytes_of_bodies(excess: int, server: Server, serve: Serve) -> None:
    async with serve(server, max_body=200 * BODY, max_body_total=4 * BODY) as client:
        headers = {"content-type": "application/json"}
        held = client.open("POST", headers=headers, body=None).feed(b" " * 3 * BODY, more=True)
        await settle()
        answer = client.open("POST", headers=headers, body=None).feed(b" " * (BODY + excess), more=True)
        await answer.feed(b"").whole()
        assert answer.status == (400 if excess <= 0 else 503), "it is no JSON, once it is read"
        assert (await held.feed(b"").whole()).status == 400


@limit("time for a body")
@pytest.mark.parametrize("era", ["handshake", "stateless"])
async def test_body_timeout(era: str, server: Server, serve: Serve) -> None:
    headers = {"content-type": "application/json", "content-length": "100", "accept": "application/json"}
    async with serve(server, body_timeout=0.05) as client:
        answer = client.open("POST", headers=headers, body=None).feed(b"{", more=True)
        await answer.head()
        assert answer.status == 408
        answer.feed(b" " * 99)
        await answer.whole()
        assert answer.body == b"the body did not arrive within 0.05 seconds\n"
        if era == "stateless":
            assert (await client.ask("tools/list").whole()).status == 200
        else:
            assert (await (await client.initialize()).ask("ping").whole()).status == 200


@limit("body of a request that is refused")
@pytest.mark.parametrize("size", around(1000))
async def test_unread_body(size: int, server: Server, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unread, "_SHORT", 1000)
    monkeypatch.setattr(unread, "_MUCH", 10_000)
    headers = {"content-type": "text/plain", "content-length": str(size)}
    async with serve(server) as client:
        answer = client.open("POST", headers=headers, body=None)
        for start in range(0, size, 500):
            answer.feed(b"x" * min(500, size - start), more=start + 500 < size)
        await answer.whole()
        assert answer.status == 415
        assert answer.headers.get("connection") == (None if size <= 1000 else "close")
        left = answer._incoming.qsize()
        assert (left > 100) == (size > 10_000 + 500), "what comes later is not read"


@limit("line")
@given(st.sampled_from([*around(64)]) | st.integers(1, 300), st.integers(1, 200))
def test_line(size: int, step: int) -> None:
    framing = Framing(64)
    sent = b"x" * size + b"\nnext\n"
    found = [each for start in range(0, len(sent), step) for each in framing.feed(sent[start : start + step])]
    assert found[-1] == b"next"
    assert len(found) == 2
    if size <= 64:
        assert found[0] == b"x" * size
    else:
        assert isinstance(found[0], ProtocolError)
        assert (found[0].code, found[0].message) == (-32600, "Message too long: a line has at most 64 bytes")


@limit("line")
@pytest.mark.parametrize("size", around(1000))
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_line_is_answered_under_its_id(wire: Wire, revision: str, size: int, server: Server) -> None:
    async with wire(server, revision) as pipe:
        framing = Framing(1000)
        request = pipe.message(7, "tools/list", {"cursor": ""})
        request["params"].pop("cursor")
        pipe.methods[7] = [("tools/list", revision)]
        sent = padded(request, size - 1) + b" "
        with peak() as taken:
            lines = [
                line for start in range(0, size, 100) for line in framing.feed(sent[start : start + 100])
            ]
            lines += framing.feed(b"\n")
            assert taken() < 20_000, "what is too long is not kept"
        (line,) = lines
        pipe.connection.receive(line)
        answer = await pipe.receive()
        assert answer["id"] == 7
        assert ("error" in answer) == (size > 1000)
        await pipe.result("tools/list")


@limit("nesting of a message")
@pytest.mark.parametrize(
    "levels", [LEVELS - 1, LEVELS, LEVELS + 1, 2 * LEVELS, 100 * LEVELS, 10_000 * LEVELS]
)
async def test_nesting(levels: int, server: Server, ask: Ask) -> None:
    async with ask(server) as client:
        inner = levels - 3  # the message, params and arguments are levels, too
        answer = await client.send(call_of(client, b"[" * inner + b"]" * inner))
        if levels <= LEVELS:
            assert answer.text == "echoed"
        else:
            answer.refused(-32700, "Parse error: recursion limit exceeded", 400)
            assert answer.message.get("id") == (7 if answer.status is None else None)
        await client.goes_on()


@limit("number")
@pytest.mark.parametrize("digits", around(4300))
async def test_integer(digits: int, server: Server, ask: Ask) -> None:
    async with ask(server) as client:
        answer = await client.send(call_of(client, b"1" * digits))
        if digits <= 4300:
            assert answer.text == "echoed"
        else:
            answer.refused(-32700, "Parse error: number out of range", 400)
        await client.goes_on()


@limit("number")
@pytest.mark.parametrize("exponent", [307, 308, 309, 400, 30_000])
async def test_exponent(exponent: int, server: Server, ask: Ask) -> None:
    async with ask(server) as client:
        answer = await client.send(call_of(client, b"1e%d" % exponent))
        if exponent <= 308:
            assert answer.text == "echoed"
        else:
            answer.refused(-32700, "Parse error: number out of range", 400)
        await client.goes_on()


@limit("id of a request")
@pytest.mark.parametrize("length", around(MAX_ID_LENGTH))
async def test_id(length: int, server: Server, ask: Ask) -> None:
    async with ask(server) as client:
        answer = await client.ask("tools/list", id="i" * length)
        if length <= MAX_ID_LENGTH:
            assert answer.message["id"] == "i" * length
        else:
            answer.refused(
                -32600,
                "expected a string of at most 256 characters or an integer of at most 64 bits as id",
                400,
            )
            assert "id" not in answer.message
        await client.goes_on()


INTEGERS = [
    sign * number - (sign < 0) for sign in (1, -1) for number in (0, 2**63 - 1, 2**63, 2**64, 10**4290)
]


@limit("id of a request")
@pytest.mark.parametrize(
    "number", INTEGERS, ids=lambda number: f"{number:.3e}" if abs(number) < 2**65 else "long"
)
async def test_integer_id(number: int, server: Server, ask: Ask) -> None:
    async with ask(server) as client:
        answer = await client.ask("tools/list", id=number)
        if -(2**63) <= number < 2**63:
            assert answer.message["id"] == number
            assert "tools" in answer.message["result"]
        else:
            answer.refused(-32600, "an integer of at most 64 bits as id", 400)
            assert "id" not in answer.message
        await client.goes_on()


@limit("progress token")
@pytest.mark.parametrize(
    "number", INTEGERS, ids=lambda number: f"{number:.3e}" if abs(number) < 2**65 else "long"
)
async def test_integer_progress_token(number: int, server: Server, ask: Ask) -> None:
    async with ask(server) as client:
        answer = await client.call("echo", progressToken=number)
        if -(2**63) <= number < 2**63:
            assert answer.text == "echoed"
        else:
            is_stateless = client.era == "stateless"
            answer.refused(-32602, "an integer of at most 64 bits", 400 if is_stateless else 200)
            assert answer.message["id"]
        await client.goes_on()


@limit("progress token")
@pytest.mark.parametrize("length", around(MAX_ID_LENGTH))
async def test_progress_token(length: int, server: Server, ask: Ask) -> None:
    async with ask(server) as client:
        answer = await client.call("echo", progressToken="p" * length)
        if length <= MAX_ID_LENGTH:
            assert answer.text == "echoed"
        else:
            is_stateless = client.era == "stateless"
            answer.refused(
                -32602, "progressToken: expected a string of at most 256", 400 if is_stateless else 200
            )
            assert answer.message["id"]
        await client.goes_on()


@limit("batch")
@pytest.mark.parametrize("count", [0, *around(MAX_BATCH)])
async def test_batch_on_a_pipe(count: int, server: Server, wire: Wire) -> None:
    async with wire(server, "2025-03-26") as pipe:
        pipe.send([pipe.message(f"b{number}", "ping") for number in range(count)])
        answer = await pipe.receive()
        if 1 <= count <= MAX_BATCH:
            assert len(answer) == count
        else:
            assert answer["error"]["code"] == -32600
            assert answer["error"]["message"].endswith(f"a batch holds 1 to 100 messages, this one {count}")
        await pipe.result("ping")


@limit("batch")
@pytest.mark.parametrize("count", around(MAX_BATCH))
async def test_batch_over_http(count: int, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        batch = [{"jsonrpc": "2.0", "id": f"b{number}", "method": "ping"} for number in range(count)]
        answer = await session.post(batch).whole()
        assert answer.status == (200 if count <= MAX_BATCH else 400)
        if count > MAX_BATCH:
            assert answer.error()["message"].endswith(f"a batch holds 1 to 100 messages, this one {count}")
        assert (await session.ask("ping").whole()).status == 200


@limit("what a client says of itself")
@pytest.mark.parametrize("excess", [-1, 0, 1, MAX_CLIENT_LENGTH])
async def test_client_info(excess: int, server: Server, serve: Serve, wire: Wire) -> None:
    info = {"name": "", "version": "1"}
    size = MAX_CLIENT_LENGTH + excess - len(json.dumps([{}, info], separators=(",", ":")))
    message = initialize(clientInfo={**info, "name": "n" * size})
    words = "clientInfo and capabilities: expected at most 262,144 bytes, as the session keeps them"
    async with serve(server) as client:
        answer = await client.post(message, judge=Judge(client.folder, "2025-11-25")).whole()
        if excess <= 0:
            assert "result" in answer.json()
        else:
            assert (answer.error()["code"], answer.error()["message"]) == (-32602, words)
        assert len(answer.body) < LONG
    async with wire(server, "2025-11-25", initialize=False) as pipe:
        pipe.methods["initialize"] = [("initialize", "2025-11-25")]
        pipe.send(message)
        answer = await pipe.receive()
        assert answer.get("error", {}).get("message") == (None if excess <= 0 else words)
        if excess > 0:
            await pipe.initialize()


@limit("revision that a client names")
@pytest.mark.parametrize("length", [99, 100, 101, 200, 10_000, 1_000_000])
async def test_revision(length: int, server: Server, wire: Wire, serve: Serve) -> None:
    params = {"_meta": stateless_meta("r" * length)}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    async with wire(server, "2026-07-28") as pipe:
        pipe.send(message)
        problem = (await pipe.receive())["error"]
        assert problem["code"] == -32022
        assert problem["data"] == {"supported": ["2026-07-28"], "requested": "r" * min(length, 100)}
        await pipe.result("tools/list")
    async with serve(server) as client:
        headers = {"mcp-protocol-version": "r" * length, "mcp-method": "tools/list"}
        answer = await client.post(message, headers).whole()
        assert (answer.status, answer.error()["data"]["requested"]) == (400, "r" * min(length, 100))
        assert len(answer.body) < LONG


@limit("session id")
@pytest.mark.parametrize("length", around(MAX_LENGTH))
@pytest.mark.parametrize("letter", ["A", "é"])
async def test_session_id(length: int, letter: str, server: Server, serve: Serve) -> None:
    async with serve(server) as client:
        session = await client.initialize()
        assert session.id is not None
        assert len(session.id) <= MAX_LENGTH
        good, session.id = session.id, letter * length
        with peak() as taken:
            answer = await session.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).whole()
            assert taken() < 100_000 + 20 * length
        assert (answer.status, answer.error()["code"]) == (404, -32600)
        assert len(answer.body) < LONG
        session.id = good
        assert (await session.ask("ping").whole()).status == 200


async def test_a_client_that_says_much_of_itself_gets_an_id_that_is_short(
    server: Server, serve: Serve
) -> None:
    capabilities = {"experimental": {f"feature {number}": {} for number in range(2000)}}
    async with serve(server) as client:
        session = await client.initialize(capabilities=capabilities)
        assert session.id is not None
        assert len(session.id) <= MAX_LENGTH
        assert (await session.ask("ping").whole()).status == 200
