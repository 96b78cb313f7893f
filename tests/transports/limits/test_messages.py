"""Limits of a request, of the message in it, and of its arguments and result: at the bound and just above."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcpkit import Limits, ResultOptions, Server
from mcpkit.components.prompts_and_completion import MOST, MOST_COUNTED
from mcpkit.content.iterators_and_third_party_values import MAX_ITEMS
from mcpkit.content.json_encoding import MAX_DEPTH
from mcpkit.engine.message_dispatch import MAX_BATCH
from mcpkit.engine.request_handlers_and_capabilities import _MAX_URI_LENGTH
from mcpkit.protocol.jsonrpc import MAX_ID_LENGTH
from mcpkit.protocol.revisions import MAX_CLIENT_LENGTH
from mcpkit.requests.multi_round_trip import _MAX_ANSWERS, MAX_STATE
from mcpkit.testing import connect
from tests.helpers.pipe import Wire, settle, stateless_meta
from tests.helpers.raw_client import Answer, Client, Serve, initialize, request, standard_headers
from tests.helpers.tables import each_row
from tests.transports.limits.conftest import limit, limit_client, peak

pytestmark = pytest.mark.slow

BODY = 4096
LEVELS = 201
"""Nested arrays and objects that the parser reads."""


def request_body(size: int) -> bytes:
    body = json.dumps(request("tools/list")).encode()
    return body + b" " * (size - len(body))


def upload(client: Client, size: int, *, is_chunked: bool) -> Answer:
    """Begin a request with a body that is fed later."""
    length = {"transfer-encoding": "chunked"} if is_chunked else {"content-length": str(size)}
    headers = {"content-type": "application/json", **standard_headers("tools/list"), **length}
    answer = client.open("POST", headers=headers, body=None)
    answer.judge.expect(request("tools/list"))
    return answer


@limit("body of a request")
@each_row(
    ("size", "is_chunked"),
    [(size, is_chunked) for size in (BODY, BODY + 1, 100 * BODY) for is_chunked in (False, True)],
)
async def test_body_above_max_body_is_rejected_unread(size, is_chunked, server, serve) -> None:
    body = request_body(size)
    async with serve(server, limits=Limits(max_request_body_size=BODY)) as client:
        peaks: list[int] = []
        for _ in range(2):  # the first request also allocates caches and imports
            answer = upload(client, size, is_chunked=is_chunked)
            for start in range(0, size, 1024):
                answer.feed(body[start : start + 1024], more=start + 1024 < size)
            with peak() as allocated:
                await answer.whole()
                peaks.append(allocated())
        assert min(peaks) < 25 * BODY
        assert answer.status == (200 if size <= BODY else 413)
        assert (b"Limits(max_request_body_size=...)" in answer.body) == (size > BODY)


@limit("bodies that are on their way")
@each_row("is_chunked", [False, True])
async def test_bodies_above_max_body_total_get_503(is_chunked: bool, server: Server, serve: Serve) -> None:
    body = request_body(BODY)
    cut = BODY if is_chunked else 100  # a known length is reserved with the first part
    async with serve(server, limits=Limits(max_buffered_bytes=4 * BODY)) as client:

        def begin() -> Answer:
            return upload(client, BODY, is_chunked=is_chunked).feed(body[:cut], more=True)

        pending = [begin() for _ in range(4)]
        await settle()
        answer = await begin().feed(body[cut:]).whole()
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert answer.body == b"the server is receiving too many bytes (16384). Try again later\n"
        assert (await client.ask("tools/list").whole()).status == 200, "a whole body needs no reservation"
        for each in pending:
            assert "result" in (await each.feed(body[cut:]).whole()).json()
        assert "result" in (await begin().feed(body[cut:]).whole()).json()


NESTED = "Parse error: recursion limit exceeded"
RANGE = "Parse error: number out of range"


@limit("nesting of a message")
@limit("number")
@each_row(("value", "error"), [
    (b"[" * (LEVELS - 3) + b"]" * (LEVELS - 3), None),  # in the message, params and arguments
    (b"[" * (LEVELS - 2) + b"]" * (LEVELS - 2), NESTED),
    (b"[" * 2_000_000 + b"]" * 2_000_000, NESTED),
    (b"1" * 4300, None),
    (b"1" * 4301, RANGE),
    (b"1e308", None),
    (b"1e309", RANGE),
])  # fmt: skip
async def test_value_above_parser_limit_is_a_parse_error(value, error, wire, server) -> None:
    async with wire(server) as pipe:
        call = pipe.message(7, "tools/call", {"name": "echo", "arguments": {"value": "here"}})
        pipe.methods[7] = [("tools/call", "2025-11-25")]
        pipe.send(json.dumps(call).encode().replace(b'"here"', value))
        answer = await pipe.receive()
        assert answer["id"] == 7
        if error is None:
            assert answer["result"]["content"][0]["text"] == "echoed"
        else:
            assert answer["error"]["code"] == -32700
            assert error in answer["error"]["message"]
        await pipe.result("ping")


@limit("id of a request")
@limit("progress token")
@each_row(("id_", "is_valid"), [
    ("i" * MAX_ID_LENGTH, True),
    ("i" * (MAX_ID_LENGTH + 1), False),
    *((number, True) for number in (2**63 - 1, -(2**63))),
    *((number, False) for number in (2**63, -(2**63) - 1, 10**4290)),
])  # fmt: skip
async def test_id_or_progress_token_above_limit_is_rejected(id_, is_valid, wire, server) -> None:
    async with wire(server) as pipe:
        pipe.send(pipe.message(id_, "tools/list"))
        answer = await pipe.receive()
        called = await pipe.request("tools/call", {"name": "echo"}, progressToken=id_)
        if is_valid:
            assert (answer["id"], "result" in called) == (id_, True)
        else:
            assert (answer["error"]["code"], "id" in answer) == (-32600, False)
            assert "at most 256 characters or an integer of at most 64 bits" in answer["error"]["message"]
            assert called["error"]["code"] == -32602
            assert len(str([answer, called])) < 2000


@limit("batch")
@each_row("count", [0, MAX_BATCH, MAX_BATCH + 1])
async def test_batch_above_limit_is_an_invalid_request(count: int, server: Server, wire: Wire) -> None:
    async with wire(server, "2025-03-26") as pipe:
        pipe.send([{"jsonrpc": "2.0", "id": f"b{number}", "method": "ping"} for number in range(count)])
        answer = await pipe.receive()
    if count == MAX_BATCH:
        assert len(answer) == count
    else:
        assert answer["error"]["code"] == -32600
        text = f"a batch must contain 1 to 100 messages, this one has {count}"
        assert answer["error"]["message"].endswith(text)


@limit("description of a client")
@each_row("excess", [0, 1])
async def test_client_info_above_limit_is_invalid_params(excess: int, server: Server, wire: Wire) -> None:
    info = {"name": "", "version": "1"}
    size = MAX_CLIENT_LENGTH + excess - len(json.dumps([{}, info], separators=(",", ":")))
    async with wire(server, "2025-11-25", initialize=False) as pipe:
        pipe.methods["initialize"] = [("initialize", "2025-11-25")]
        pipe.send(initialize(clientInfo={**info, "name": "n" * size}))
        error = (await pipe.receive()).get("error", {})
        expected = "clientInfo and capabilities: expected at most 262,144 bytes together"
        assert error.get("message") == (expected if excess else None)


@limit("revision that a client names")
@each_row("length", [100, 101, 1_000_000])
async def test_unsupported_version_is_repeated_up_to_limit(length: int, server: Server, wire: Wire) -> None:
    async with wire(server, "2026-07-28") as pipe:
        pipe.send(request("tools/list", {"_meta": stateless_meta("r" * length)}))
        error = (await pipe.receive())["error"]
        assert error["code"] == -32022
        assert error["data"] == {"supported": ["2026-07-28"], "requested": "r" * min(length, 100)}


# Arguments


@limit("URI that is read")
async def test_uri_above_limit_is_invalid_params(server: Server) -> None:
    server.resource("it://{name}", name="it")(lambda name: "read")
    uri = "it://" + "a" * (_MAX_URI_LENGTH - 5)
    async with limit_client(server) as client:
        assert (await client.client.read_resource(uri))[0]["text"] == "read"
        await client.error(-32602, "uri: expected at most 8,192 characters", "resources/read", uri=uri + "a")


@limit("`requestState` that a client brings")
@limit("answers where more is asked")
async def test_state_and_answers_above_limit_are_invalid_params(server: Server) -> None:
    answers = {"first": {"action": "accept", "content": {"value": "x" * _MAX_ANSWERS}}}
    async with limit_client(server) as client:
        state = "A" * (MAX_STATE + 1)
        await client.error(-32602, "this server did not issue it", name="confirm", requestState=state)
        problem = "at most 8,192 bytes while input is still required"
        await client.error(-32602, problem, name="confirm", inputResponses=answers)


@limit("values that complete an argument")
async def test_completion_reads_an_endless_iterator_up_to_limit() -> None:
    server, values = Server("limited"), itertools.count()
    server.prompt(lambda city: "", name="plan", complete={"city": lambda value: map(str, values)})
    async with connect(server) as client:
        params = {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "city", "value": ""}}
        found = (await client.request("completion/complete", params))["completion"]
    assert (len(found["values"]), found["hasMore"], "total" in found) == (MOST, True, False)
    assert next(values) == MOST_COUNTED + 1


# Results


@limit("items of an iterator")
async def test_iterator_above_limit_fails_and_is_closed(server: Server) -> None:
    closed = []

    @server.tool(result=ResultOptions(structured=False))
    def numbers(count: int) -> Iterator[int]:
        try:
            yield from itertools.repeat(7, count) if count else itertools.repeat(7)
        finally:
            closed.append(True)

    async with limit_client(server) as client:
        assert await client.text("numbers", arguments={"count": MAX_ITEMS})
        problem = "a generator with more than 100,000 items, perhaps endless"
        await client.error(None, problem, name="numbers", arguments={"count": 0})
    assert len(closed) == 2


def nest(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


@limit("nesting of a result")
@limit("integer in a result")
async def test_result_above_limit_is_an_error(server: Server) -> None:
    results = {"lists": nest(MAX_DEPTH), "integer": 2**1024 - 1, "one list more": nest(MAX_DEPTH + 1)}

    @server.tool
    async def give(name: str) -> Any:
        return results.get(name, 2**1024)

    async with limit_client(server) as client:
        for name in ("lists", "integer"):
            assert json.loads(await client.text("give", arguments={"name": name})) == results[name]
        for name, problem in (
            ("one list more", "more than 190 levels of arrays and objects"),
            ("integer above", "an integer of 1,025 bits, which few JSON parsers support; return a string"),
        ):
            await client.error(None, problem, name="give", arguments={"name": name})
