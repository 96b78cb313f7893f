"""Limits of a request and of the message in it: at the bound and just above."""

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
from tests.helpers.raw_client import Answer, Client, Judge, Serve, initialize
from tests.helpers.waiting import LoopClock
from tests.transports.limits.conftest import Wire, limit, peak

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

BODY = 4096
LEVELS = 201
"""Nested arrays and objects that the parser reads."""

REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": stateless_meta()}}
HEADERS = {
    "content-type": "application/json",
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/list",
}


def padded(message: dict[str, Any], size: int) -> bytes:
    body = json.dumps(message).encode()
    return body + b" " * (size - len(body))


def upload(client: Client, size: int, *, is_chunked: bool) -> Answer:
    """Begin a request with a body that is fed later."""
    length = {"transfer-encoding": "chunked"} if is_chunked else {"content-length": str(size)}
    answer = client.open("POST", headers=HEADERS | length, body=None)
    answer.judge.expect(REQUEST)
    return answer


@limit("body of a request")
@pytest.mark.parametrize("is_chunked", [False, True])
@pytest.mark.parametrize("size", [BODY, BODY + 1, 100 * BODY])
async def test_body_above_max_body_is_rejected_unread(
    size: int, is_chunked: bool, server: Server, serve: Serve
) -> None:
    body = padded(REQUEST, size)
    async with serve(server, max_body=BODY) as client:
        peaks: list[int] = []
        for _ in range(2):  # the first request also allocates caches and imports
            answer = upload(client, size, is_chunked=is_chunked)
            for start in range(0, size, 1024):
                answer.feed(body[start : start + 1024], more=start + 1024 < size)
            with peak() as allocated:
                await answer.whole()
                peaks.append(allocated())
        assert min(peaks) < 25 * BODY
        if size <= BODY:
            assert "result" in answer.json()
        else:
            assert answer.status == 413
            expected = b"a message has at most 4096 bytes; server.asgi(max_body=...) sets the limit\n"
            assert answer.body == expected
        assert (await client.ask("tools/list").whole()).status == 200


@limit("bodies that are on their way")
@pytest.mark.parametrize("is_chunked", [False, True])
async def test_bodies_above_max_body_total_get_503(is_chunked: bool, server: Server, serve: Serve) -> None:
    body = padded(REQUEST, BODY)
    cut = BODY if is_chunked else 100  # a known length is reserved with the first part
    async with serve(server, max_body_total=4 * BODY) as client:

        def begin() -> Answer:
            return upload(client, BODY, is_chunked=is_chunked).feed(body[:cut], more=True)

        pending = [begin() for _ in range(4)]
        await settle()
        answer = await begin().feed(body[cut:]).whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.body == b"too many bytes are on their way (16384); try again later\n"
        assert (await client.ask("tools/list").whole()).status == 200, "a whole body needs no reservation"
        for each in pending:
            assert "result" in (await each.feed(body[cut:]).whole()).json()
        assert "result" in (await begin().feed(body[cut:]).whole()).json()


@limit("bodies that are on their way")
@pytest.mark.parametrize("excess", [0, 1])
async def test_bytes_above_max_body_total_get_503(excess: int, server: Server, serve: Serve) -> None:
    async with serve(server, max_body=200 * BODY, max_body_total=4 * BODY) as client:
        headers = {"content-type": "application/json"}
        pending = client.open("POST", headers=headers, body=None).feed(b" " * 3 * BODY, more=True)
        await settle()
        answer = client.open("POST", headers=headers, body=None).feed(b" " * (BODY + excess), more=True)
        await answer.feed(b"").whole()
        assert answer.status == (503 if excess else 400), "400: it is read, and not JSON"
        assert (await pending.feed(b"").whole()).status == 400


@limit("time for a body")
@pytest.mark.parametrize("parts", [[], [b"{", b" "]])
@pytest.mark.parametrize("seconds", [950, 1050])
async def test_body_after_body_timeout_gets_408(
    seconds: int, parts: list[bytes], server: Server, serve: Serve
) -> None:
    async with serve(server, body_timeout=1000) as client:
        headers = {"content-type": "application/json", "content-length": "2000000"}
        answer = client.open("POST", headers=headers, body=None)
        await settle()
        clock = LoopClock()
        for part in parts:  # a part does not extend the time
            clock.ahead += seconds / (len(parts) + 1)
            await settle()
            answer.feed(part, more=True)
            await settle()
        clock.ahead = seconds
        await settle()
        if seconds < 1000:
            assert not answer.task.done()
            answer.feed(b"", more=False)
            assert (await answer.whole()).status == 400, "it is read, and not JSON"
        else:
            clock.ahead += 1000  # nor is the rest of the body waited for
            await settle()
            assert (await answer.head()).status == 408
            assert answer.body == b"the body did not arrive within 1000 seconds\n"
            assert answer.headers["connection"] == "close"
        assert (await client.ask("tools/list").whole()).status == 200


@limit("body of a request that is refused")
@pytest.mark.parametrize(
    ("size", "is_kept", "is_read"), [(1000, True, True), (1001, False, True), (100_000, False, False)]
)
async def test_rejected_body_is_drained_up_to_a_limit(
    size: int, is_kept: bool, is_read: bool, server: Server, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unread, "_SHORT", 1000)
    monkeypatch.setattr(unread, "_MUCH", 10_000)
    async with serve(server) as client:
        headers = {"content-type": "text/plain", "content-length": str(size)}
        answer = client.open("POST", headers=headers, body=None)
        for start in range(0, size, 500):
            answer.feed(b"x" * min(500, size - start), more=start + 500 < size)
        await answer.whole()
        assert answer.status == 415
        assert answer.headers.get("connection") == (None if is_kept else "close")
        assert (answer._incoming.qsize() <= 100) == is_read


@limit("line")
@given(st.sampled_from([64, 65]) | st.integers(1, 300), st.integers(1, 200))
def test_framing_line_above_max_line_is_one_error(size: int, step: int) -> None:
    framing = Framing(64)
    data = b"x" * size + b"\nnext\n"
    lines = [line for start in range(0, len(data), step) for line in framing.feed(data[start : start + step])]
    assert len(lines) == 2
    assert lines[1] == b"next"
    if size <= 64:
        assert lines[0] == b"x" * size
    else:
        assert isinstance(lines[0], ProtocolError)
        expected = (-32600, "Message too long: a line has at most 64 bytes")
        assert (lines[0].code, lines[0].message) == expected


@limit("line")
@pytest.mark.parametrize("size", [1000, 1001, 100_000])
async def test_line_above_max_line_gets_error_with_its_id(wire: Wire, size: int, server: Server) -> None:
    async with wire(server) as pipe:
        framing = Framing(1000)
        request = pipe.message(7, "tools/list")
        pipe.methods[7] = [("tools/list", "2025-11-25")]
        data = padded(request, size)
        with peak() as allocated:
            lines = [line for n in range(0, size, 100) for line in framing.feed(data[n : n + 100])]
            lines += framing.feed(b"\n")
            assert allocated() < 20_000, "a long line is not kept"
        (line,) = lines
        pipe.connection.receive(line)
        answer = await pipe.receive()
        assert (answer["id"], "error" in answer) == (7, size > 1000)


NESTED = "Parse error: recursion limit exceeded"
RANGE = "Parse error: number out of range"
VALUES = {
    "levels": (b"[" * (LEVELS - 3) + b"]" * (LEVELS - 3), None),  # in the message, params and arguments
    "one level more": (b"[" * (LEVELS - 2) + b"]" * (LEVELS - 2), NESTED),
    "two million levels": (b"[" * 2_000_000 + b"]" * 2_000_000, NESTED),
    "digits": (b"1" * 4300, None),
    "one digit more": (b"1" * 4301, RANGE),
    "exponent": (b"1e308", None),
    "exponent above": (b"1e309", RANGE),
    "huge exponent": (b"1e30000", RANGE),
}


@limit("nesting of a message")
@limit("number")
@pytest.mark.parametrize(("value", "error"), VALUES.values(), ids=VALUES)
async def test_value_above_parser_limit_is_a_parse_error(
    wire: Wire, value: bytes, error: str | None, server: Server
) -> None:
    async with wire(server) as pipe:
        request = pipe.message(7, "tools/call", {"name": "echo", "arguments": {"value": "here"}})
        pipe.methods[7] = [("tools/call", "2025-11-25")]
        pipe.send(json.dumps(request).encode().replace(b'"here"', value))
        answer = await pipe.receive()
        if error is None:
            assert answer["result"]["content"][0]["text"] == "echoed"
        else:
            assert answer["id"] == 7
            assert answer["error"]["code"] == -32700
            assert error in answer["error"]["message"]
        await pipe.result("ping")


IDS: list[tuple[Any, bool]] = [
    ("i" * MAX_ID_LENGTH, True),
    ("i" * (MAX_ID_LENGTH + 1), False),
    *((number, True) for number in (0, 2**63 - 1, -(2**63))),
    *((number, False) for number in (2**63, -(2**63) - 1, 10**4290)),
]
ID_NAMES = [f"{str(value)[:3]}-{len(str(value))}" for value, _ in IDS]


@limit("id of a request")
@pytest.mark.parametrize(("id_", "is_valid"), IDS, ids=ID_NAMES)
async def test_id_above_limit_is_an_invalid_request(
    wire: Wire, id_: Any, is_valid: bool, server: Server
) -> None:
    async with wire(server) as pipe:
        pipe.send(pipe.message(id_, "tools/list"))
        answer = await pipe.receive()
        if is_valid:
            assert answer["id"] == id_
            assert "tools" in answer["result"]
        else:
            expected = "expected a string of at most 256 characters or an integer of at most 64 bits as id"
            assert answer["error"]["code"] == -32600
            assert expected in answer["error"]["message"]
            assert len(str(answer)) < 1000
            assert "id" not in answer
        await pipe.result("ping")


@limit("progress token")
@pytest.mark.parametrize(("token", "is_valid"), IDS, ids=ID_NAMES)
async def test_progress_token_above_limit_is_invalid_params(
    wire: Wire, token: Any, is_valid: bool, server: Server
) -> None:
    async with wire(server) as pipe:
        answer = await pipe.request("tools/call", {"name": "echo"}, progressToken=token)
        if is_valid:
            assert answer["result"]["content"][0]["text"] == "echoed"
        else:
            assert answer["error"]["code"] == -32602
            assert "progressToken: expected a string of at most 256" in answer["error"]["message"]
        await pipe.result("ping")


@limit("batch")
@pytest.mark.parametrize("count", [0, MAX_BATCH, MAX_BATCH + 1])
async def test_batch_above_limit_is_an_invalid_request(
    count: int, server: Server, wire: Wire, serve: Serve
) -> None:
    batch = [{"jsonrpc": "2.0", "id": f"b{number}", "method": "ping"} for number in range(count)]
    async with wire(server, "2025-03-26") as pipe:
        pipe.send(batch)
        answer = await pipe.receive()
    async with serve(server) as client:
        session = await client.initialize("2025-03-26")
        response = await session.post(batch).whole()
    if count == MAX_BATCH:
        assert len(answer) == len(response.json()) == count
    else:
        assert (answer["error"]["code"], response.status) == (-32600, 400)
        for message in (answer["error"]["message"], response.error()["message"]):
            assert message.endswith(f"a batch holds 1 to 100 messages, this one {count}")


@limit("what a client says of itself")
@pytest.mark.parametrize("excess", [0, 1])
async def test_client_info_above_limit_is_invalid_params(
    excess: int, server: Server, serve: Serve, wire: Wire
) -> None:
    info = {"name": "", "version": "1"}
    size = MAX_CLIENT_LENGTH + excess - len(json.dumps([{}, info], separators=(",", ":")))
    message = initialize(clientInfo={**info, "name": "n" * size})
    words = "clientInfo and capabilities: expected at most 262,144 bytes, as the session keeps them"
    async with serve(server) as client:
        answer = await client.post(message, judge=Judge(client.folder, "2025-11-25")).whole()
        if excess:
            assert (answer.error()["code"], answer.error()["message"]) == (-32602, words)
        else:
            assert "result" in answer.json()
    async with wire(server, "2025-11-25", initialize=False) as pipe:
        pipe.methods["initialize"] = [("initialize", "2025-11-25")]
        pipe.send(message)
        assert (await pipe.receive()).get("error", {}).get("message") == (words if excess else None)


@limit("revision that a client names")
@pytest.mark.parametrize("length", [100, 101, 1_000_000])
async def test_unsupported_version_is_repeated_up_to_limit(
    length: int, server: Server, wire: Wire, serve: Serve
) -> None:
    params = {"_meta": stateless_meta("r" * length)}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    async with wire(server, "2026-07-28") as pipe:
        pipe.send(message)
        error = (await pipe.receive())["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "r" * min(length, 100)}
    async with serve(server) as client:
        headers = {"mcp-protocol-version": "r" * length, "mcp-method": "tools/list"}
        answer = await client.post(message, headers).whole()
        assert (answer.status, answer.error()["data"]["requested"]) == (400, "r" * min(length, 100))
        assert len(answer.body) < 10_000


@limit("session id")
@pytest.mark.parametrize(
    ("length", "letter"), [(MAX_LENGTH, "A"), (MAX_LENGTH + 1, "é"), (100 * MAX_LENGTH, "A")]
)
async def test_unknown_session_id_of_any_length_gets_404(
    length: int, letter: str, server: Server, serve: Serve
) -> None:
    capabilities = {"experimental": {f"feature {number}": {} for number in range(2000)}}
    async with serve(server) as client:
        session = await client.initialize(capabilities=capabilities)
        assert session.id is not None
        assert len(session.id) <= MAX_LENGTH, "also of a client with many capabilities"
        valid, session.id = session.id, letter * length
        with peak() as allocated:
            answer = await session.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).whole()
            assert allocated() < 100_000 + 20 * length
        assert (answer.status, answer.error()["code"]) == (404, -32600)
        assert len(answer.body) < 10_000
        session.id = valid
        assert (await session.ask("ping").whole()).status == 200


async def test_limits_over_http_have_status_of_their_error(server: Server, serve: Serve) -> None:
    """Each kind of limit once over HTTP, in a session and without one."""
    server.resource("it://{name}", name="it")(lambda name: name)
    long_uri = {"uri": "it://" + "a" * 9000}
    async with serve(server) as client:
        session = await client.initialize()
        nested = b'{"jsonrpc":"2.0","id":7,"method":"ping","params":%s}' % (b"[" * 300 + b"]" * 300)
        for headers in (session.headers(), HEADERS | {"mcp-method": "ping"}):
            answer = await client.post(nested, headers, judge=Judge(client.folder, "2025-11-25")).whole()
            assert (answer.status, answer.error()["code"]) == (400, -32700)
        for source, status in ((session, 200), (client, 400)):
            token = {"_meta": {"progressToken": "p" * 257}}
            answer = (
                session.ask("tools/call", {"name": "echo", **token})
                if source is session
                else client.call("echo", meta=token["_meta"])
            )
            assert ((await answer.whole()).status, answer.error()["code"]) == (status, -32602)
            answer = await source.ask("resources/read", long_uri).whole()
            assert answer.error()["code"] == -32602
            answer = await source.ask("tools/list", id="i" * 257).whole()
            assert (answer.status, answer.error()["code"]) == (400, -32600)
