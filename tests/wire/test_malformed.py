"""What is no message, or no good one, is refused, and the connection goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Server
from tests.helpers.pipe import HANDSHAKE, REVISIONS
from tests.wire.conftest import Wire

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b" ",
        b"{",
        b"\xff",
        b'{"jsonrpc":',
        b"nul",
        b"[" * 100_000,
        b"NaN",
        b"1e400",
        b'"\\ud800"',
        b"{}{}",
    ],
)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_bytes_that_are_not_json_are_a_parse_error(wire: Wire, revision: str, line: bytes) -> None:
    async with wire(Server("s"), revision) as pipe:
        pipe.send(line)
        answer = await pipe.receive()
        assert answer["error"]["code"] == -32700


@pytest.mark.parametrize(
    "message",
    [
        None,
        True,
        3,
        "text",
        {},
        {"jsonrpc": "2.0"},
        {"jsonrpc": "1.0", "method": "notifications/initialized"},
        {"id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": None, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1.5, "method": "ping"},
        {"jsonrpc": "2.0", "id": True, "method": "ping"},
        {"jsonrpc": "2.0", "id": [], "method": "ping"},
        {"jsonrpc": "2.0", "method": 3},
        {"jsonrpc": "2.0", "method": None},
    ],
)
@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_is_no_message_is_an_invalid_request(wire: Wire, revision: str, message: Any) -> None:
    async with wire(Server("s"), revision) as pipe:
        pipe.send(message)
        assert (await pipe.receive())["error"]["code"] == -32600


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_an_error_that_belongs_to_no_request_has_a_null_id_until_the_schema_lets_it_be_left_out(
    wire: Wire, revision: str
) -> None:
    async with wire(Server("s"), revision) as pipe:
        for line in (b"{", b"3", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'):
            pipe.send(line)
            answer = await pipe.receive()
            if revision == "2025-11-25":
                assert "id" not in answer
            else:
                assert answer["id"] is None


async def test_an_error_that_belongs_to_no_request_has_no_id_in_the_stateless_era(wire: Wire) -> None:
    async with wire(Server("s"), "2026-07-28") as pipe:
        pipe.send(b"{")
        assert "id" not in await pipe.receive()


async def test_a_readable_id_is_used_even_when_the_method_is_malformed(wire: Wire) -> None:
    async with wire(Server("s")) as pipe:
        pipe.send({"jsonrpc": "2.0", "id": 7, "method": 3})
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (7, -32600)


async def test_a_readable_id_is_used_even_when_the_version_is_missing(wire: Wire) -> None:
    async with wire(Server("s")) as pipe:
        pipe.send({"id": 7, "method": "ping"})
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (7, -32600)


@pytest.mark.parametrize("malformed", [{"jsonrpc": "2.0", "method": 3}, {"method": "ping"}])
async def test_a_malformed_request_does_not_answer_the_one_that_runs_under_its_id(
    wire: Wire, malformed: dict[str, Any]
) -> None:
    server = Server("s")
    gate = asyncio.Event()

    @server.tool
    async def wait() -> str:
        await gate.wait()
        return "done"

    async with wire(server) as pipe:
        id_ = pipe.start("tools/call", {"name": "wait"})
        pipe.send({"id": id_, **malformed})
        refusal = await pipe.receive()
        assert refusal["error"]["code"] == -32600
        assert "id" not in refusal
        gate.set()
        answer = await pipe.receive()
        assert (answer["id"], answer["result"]["content"][0]["text"]) == (id_, "done")


async def test_a_response_is_ignored_in_a_session(wire: Wire) -> None:
    async with wire(Server("s")) as pipe:
        pipe.send({"jsonrpc": "2.0", "id": 5, "result": {}})
        pipe.send({"jsonrpc": "2.0", "id": 6, "error": {"code": 1, "message": "no"}})
        await pipe.quiet()


async def test_a_response_outside_a_session_is_an_invalid_request(wire: Wire) -> None:
    async with wire(Server("s"), "2026-07-28") as pipe:
        pipe.send({"jsonrpc": "2.0", "id": 5, "result": {}})
        assert (await pipe.receive())["error"]["code"] == -32600


@pytest.mark.parametrize("params", [[], "text", 3, False, {"_meta": []}, {"_meta": "x"}])
async def test_params_of_the_wrong_shape_are_invalid(wire: Wire, params: Any) -> None:
    async with wire(Server("s")) as pipe:
        pipe.send({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params})
        answer = await pipe.receive()
        assert (answer["id"], answer["error"]["code"]) == (1, -32602)


@pytest.mark.parametrize("token", [1.5, True, [], {}])
async def test_a_malformed_progress_token_is_invalid(wire: Wire, token: Any) -> None:
    async with wire(Server("s")) as pipe:
        assert (await pipe.error("ping", None, progressToken=token))["code"] == -32602
