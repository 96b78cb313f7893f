"""What a client might try: to keep the server busy, to learn of what is hidden, to keep rights it has lost."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.authentication import AuthCredentials, SimpleUser

from asgi_answer import Judge
from asgi_client import initialize, serving
from mcpkit import Context, Header, LogHandler, Principal, ProtocolError, Server
from mcpkit.calls.asking.pending import MOST_OPEN
from mcpkit.calls.workers.threads import Threads
from mcpkit.context import current_context
from mcpkit.errors import BusyError
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.middlewares import RateLimit, Telemetry
from mcpkit.schema.problems import Reader
from mcpkit.testing import connect
from mcpkit.transports import Connection
from mcpkit.transports.http.intake.authenticated import principal_of
from waiting import until

pytestmark = pytest.mark.anyio

# Texts that take an engine which backtracks a lifetime

PATTERN = r"^(\w+\s?)+$"
TEXT = "a" * 60 + "!"

SEARCHES = {
    "an argument": """
        async def find(name: Annotated[str, Field(pattern=PATTERN)]) -> str:
            return name
        server.tool(find)
    """,
    "an argument of a JSON Schema": """
        async def find(arguments: dict) -> str:
            return "found"
        properties = {"name": {"type": "string", "pattern": PATTERN}}
        server.tool(find, input_schema={"type": "object", "properties": properties})
    """,
    "an answer": """
        async def find(ctx: Context, name: str) -> str:
            class Form(BaseModel):
                name: Annotated[str, Field(pattern=PATTERN)]
            return (await ctx.elicit("Whom?", Form)).value.name
        server.tool(find)
    """,
}

PROGRAM = """
import asyncio
from typing import Annotated
from pydantic import BaseModel, Field
from mcpkit import Context, Server
from mcpkit.testing import connect

PATTERN, TEXT = {pattern!r}, {text!r}

def answers(method, params):
    return {{"action": "accept", "content": {{"name": TEXT}}}}

async def main():
    server = Server("s")
{tool}
    async with connect(server, revision="2025-11-25", answers=answers) as client:
        print((await client.call("find", {{"name": TEXT}})).is_error)

asyncio.run(main())
"""


@pytest.mark.parametrize("where", SEARCHES)
def test_a_pattern_takes_no_longer_to_explain_than_to_check(where: str) -> None:
    tool = "\n".join(line[4:] for line in SEARCHES[where].splitlines())
    program = PROGRAM.format(pattern=PATTERN, text=TEXT, tool=tool)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr


@pytest.mark.parametrize("schema", [{"type": "integer"}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}])
def test_only_so_many_items_of_an_array_are_looked_at(schema: dict[str, Any]) -> None:
    looked_at: list[Any] = []
    array: dict[str, Any] = {"type": "array", "items": schema}

    def fits(part: dict[str, Any], value: Any) -> bool:
        looked_at.extend(value if part.get("type") == "array" else [])
        return False

    found = list(Reader(array, fits).faults(["x"] * 50_000))
    assert 500 < len(found) < 2_000
    assert len(found) <= len(looked_at) < len(found) + 300
    assert sum(1 for _ in Reader(array).faults(["x"] * 50_000)) == len(found)


# Threads that get stuck


async def test_calls_that_wait_for_a_thread_cannot_get_stuck_beyond_the_limit() -> None:
    threads, gate = Threads(2, stuck=1), threading.Event()
    blocked: list[threading.Thread] = []

    def block() -> None:
        blocked.append(threading.current_thread())
        gate.wait(10)

    calls = [asyncio.create_task(threads.run(block, {})) for _ in range(20)]
    try:
        for call in calls:
            await until(lambda: len(blocked) >= threads.given_up + 1 or threads.given_up > 1)
            call.cancel()
            await asyncio.wait((call,))
        assert len(blocked) <= 4
        assert sum(isinstance(call.exception(), BusyError) for call in calls if not call.cancelled()) > 10
    finally:
        gate.set()
    await until(lambda: not threads.given_up)
    assert await threads.run(lambda: "served", {}) == "served"


# Headers that something before the server goes by


@dataclass
class Place:
    region: Annotated[str, Header("Region")]


@pytest.mark.parametrize("is_explicit", [False, True])
async def test_an_argument_that_a_header_repeats_cannot_hide_in_a_text(
    schema_dir: Path, is_explicit: bool
) -> None:
    server, looked = Server("s"), []

    if is_explicit:
        region = {"type": "string", "x-mcp-header": "Region"}
        inner = {"type": "object", "properties": {"region": region}}

        @server.tool(input_schema={"type": "object", "properties": {"place": inner}})
        async def look(arguments: dict[str, Any]) -> None:
            looked.append(arguments["place"]["region"])

    else:

        @server.tool(name="look")
        async def look_at(place: Place) -> None:
            looked.append(place.region)

    async with serving(server, schema_dir) as client:
        for headers in ({}, {"mcp-param-region": "us"}):
            hidden = await client.call("look", {"place": '{"region": "eu"}'}, headers=headers).whole()
            assert (hidden.status, looked) == (400 if headers else 200, [])
        told = client.call("look", {"place": {"region": "eu"}}, headers={"mcp-param-region": "eu"})
        assert ((await told.whole()).status, looked) == (200, ["eu"])


async def test_what_names_a_request_is_a_text(schema_dir: Path) -> None:
    server = Server("s")

    @server.method("thing/do", named_by="id")
    async def do(**params: Any) -> dict[str, Any]:
        return params

    async with serving(server, schema_dir) as client:
        for value in (7, ["7"], {"7": 7}, True):
            answer = await client.ask("thing/do", {"id": value}, headers={"mcp-name": "8"}).whole()
            assert (answer.status, answer.json()["error"]["message"]) == (400, "id: expected a string")
        answer = await client.ask("thing/do", {"id": "7"}, headers={"mcp-name": "8"}).whole()
        assert (answer.status, answer.json()["error"]["code"]) == (400, -32020)
        assert (await client.ask("thing/do", {"id": "7"}, headers={"mcp-name": "7"}).whole()).status == 200


# Questions that nobody answers


async def test_a_client_that_answers_nothing_holds_only_so_many_calls() -> None:
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        return str((await ctx.elicit("How many?", int)).value)

    said: list[dict[str, Any]] = []
    connection = Connection(server, lambda message: said.append(json.loads(message)))

    def receive(method: str, params: dict[str, Any], **id_: int) -> None:
        connection.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **id_}).encode())

    def answers() -> dict[int, Any]:
        return {message["id"]: message for message in said if message.keys() & {"result", "error"}}

    client = {"name": "silent", "version": "1"}
    capabilities: dict[str, Any] = {"elicitation": {}}
    opening = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}
    receive("initialize", opening, id=0)
    for number in range(1, MOST_OPEN + 2):
        receive("tools/call", {"name": "ask"}, id=number)
    await until(lambda: MOST_OPEN + 1 in answers())
    assert answers().keys() == {0, MOST_OPEN + 1}
    error = answers()[MOST_OPEN + 1]["error"]
    assert (error["code"], error["message"].split(";")[0]) == (
        -32603,
        f"Too many questions to this client are open ({MOST_OPEN})",
    )
    receive("notifications/cancelled", {"requestId": 1})
    await until(lambda: len(connection.questions) < MOST_OPEN)
    receive("tools/call", {"name": "ask"}, id=1000)
    await until(lambda: len(connection.questions) == MOST_OPEN)
    assert 1000 not in answers()
    await connection.aclose()


@pytest.mark.parametrize("answers", [{}, {"ok": {"action": "accept", "content": {"value": "perhaps"}}}])
async def test_a_state_cannot_be_kept_alive_by_answering_nothing(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    now = 1000.0
    monkeypatch.setattr("mcpkit.calls.asking.multi_round.time.time", lambda: now)
    server = Server("s", secret="a secret of some length", question_timeout=600)

    @server.tool
    async def buy(ctx: Context) -> str:
        price = await ctx.once("price", lambda: now)
        await ctx.elicit("Of which colour?", str, key="colour")
        await ctx.elicit(f"Buy it for {price}?", bool, key="ok")
        return f"bought for {price}"

    async with connect(server, capabilities={"elicitation": {}}) as client:

        async def go_on(result: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
            state = {"requestState": result["requestState"], "inputResponses": answers}
            return await client.request("tools/call", {"name": "buy", "arguments": {}, **state})

        result = await client.request("tools/call", {"name": "buy", "arguments": {}})
        now += 500
        result = await go_on(result, {"colour": {"action": "accept", "content": {"value": "red"}}})
        now += 500  # what was answered has begun another 600 seconds
        result = await go_on(result, answers)
        now += 99
        result = await go_on(result, answers)
        accepted = {"ok": {"action": "accept", "content": {"value": True}}}
        assert (await go_on(result, accepted))["content"][0]["text"] == "bought for 1000.0"
        now += 2
        with pytest.raises(ProtocolError, match="it has expired"):
            await go_on(result, accepted)


# Who asks


def by_header(scope: MutableMapping[str, Any]) -> Principal:
    headers = dict(scope["headers"])
    return Principal(headers[b"x-user"].decode(), headers.get(b"x-scopes", b"").decode().split())


async def test_over_the_old_transport_scopes_are_those_of_each_message(schema_dir: Path) -> None:
    server = Server("s", secret="a secret of some length")

    @server.tool
    async def look(ctx: Context) -> str:
        return " ".join(sorted(ctx.principal.scopes))

    @server.tool(visible=lambda who: "admin" in who.scopes)
    async def erase() -> str:
        return "erased"

    async with serving(server, schema_dir, principal=by_header, sse=True) as client:
        judge = Judge(client.folder, "2024-11-05")
        stream = client.open("GET", "/sse", headers={"x-user": "ada", "x-scopes": "admin"}, judge=judge)
        opening = await stream.event()
        assert opening is not None
        endpoint = opening.data or ""

        async def asked(message: dict[str, Any], scopes: str) -> Any:
            headers = {"x-user": "ada", "x-scopes": scopes}
            assert (await client.post(message, headers, path=endpoint, judge=judge).whole()).status == 202
            return await stream.message()

        def call(name: str) -> dict[str, Any]:
            return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name}}

        await asked(initialize("2024-11-05"), "admin")
        assert (await asked(call("erase"), ""))["error"]["message"] == "Unknown tool: erase"
        assert (await asked(call("look"), "read"))["result"]["content"][0]["text"] == "read"
        assert (await asked(call("erase"), "admin"))["result"]["content"][0]["text"] == "erased"


async def test_a_client_without_a_session_is_no_new_one_in_each_batch(schema_dir: Path) -> None:
    server, calls = Server("s"), []
    server.middleware(RateLimit(0.001, burst=2))

    @server.tool
    async def look(ctx: Context) -> None:
        calls.append(ctx.request_id)

    def call(number: int) -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": "look"}}

    level = {"jsonrpc": "2.0", "id": 0, "method": "logging/setLevel", "params": {"level": "info"}}
    async with serving(server, schema_dir, stateless=True) as client:
        for first in (1, 4):
            batch = [level, *map(call, range(first, first + 3))]
            await client.post(batch, judge=Judge(client.folder, "2025-03-26")).whole()
    assert calls == [1, 2]


async def test_sessions_are_opened_at_the_rate_that_they_may(schema_dir: Path) -> None:
    server = Server("s", secret="a secret of some length")
    server.middleware(RateLimit(0.001, burst=2, methods=["initialize"]))
    async with serving(server, schema_dir) as client:
        statuses: list[int | None] = []
        for _ in range(4):
            judge = Judge(client.folder, "2025-11-25")
            statuses.append((await client.post(initialize(), judge=judge).whole()).status)
    assert statuses == [200, 200, 503, 503]


async def test_hidden_methods_do_not_show_in_the_rate() -> None:
    server = Server("s")
    server.middleware(RateLimit(0.001, burst=1))

    @server.method("thing/hidden", visible=lambda who: "admin" in who.scopes)
    async def hidden() -> None: ...

    async with connect(server, principal=Principal("bob")) as client:
        for method in ("thing/hidden", "thing/absent"):
            for _ in range(2):
                with pytest.raises(ProtocolError, match=f"Method not found: {method}"):
                    await client.request(method)
    async with connect(server, principal=Principal("ada", {"admin"})) as client:
        await client.request("thing/hidden")
        with pytest.raises(ProtocolError, match="Rate limit exceeded"):
            await client.request("thing/hidden")


class User(SimpleUser):
    """A user known by the key of a database.

    Args:
        key: The key.
    """

    def __init__(self, key: Any) -> None:
        super().__init__("ada")
        self.key = key

    @property
    def identity(self) -> str:
        """The key, whatever it is."""
        key: str = self.key
        return key


@pytest.mark.parametrize(
    ("key", "id_"),
    [
        (17, "17"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ("17", "17"),
        (None, None),
        ([1], None),
    ],
)
def test_users_with_a_key_are_not_nobody(key: Any, id_: str | None) -> None:
    assert principal_of({"user": User(key), "auth": AuthCredentials()}, None) == Principal(id_)


# What belongs to others


async def test_a_watch_is_no_part_of_the_request_that_began_it() -> None:
    server, heard = Server("s"), asyncio.Event()
    contexts: list[Context] = []
    logger = logging.getLogger("author of the watch")
    logger.setLevel(logging.INFO)
    handler = LogHandler()
    logger.addHandler(handler)

    async def watch() -> AsyncGenerator[None]:
        with suppress(RuntimeError):
            contexts.append(current_context())
        logger.info("for those who run the server")
        heard.set()
        await asyncio.Event().wait()
        yield

    @server.resource("data://a", watch=watch)
    def data(ctx: Context) -> str:
        return ""

    @server.middleware("resources/subscribe")
    async def linger(request: Request, call_next: CallNext) -> Result:
        result = await call_next(request)
        await asyncio.wait_for(heard.wait(), 10)
        return result

    try:
        async with connect(server, revision="2025-11-25") as client:
            await client.request("resources/subscribe", {"uri": "data://a"})
            assert contexts == []
            assert client.notifications == []
    finally:
        logger.removeHandler(handler)


async def test_a_span_keeps_no_more_of_a_uri_than_a_uri_needs() -> None:
    exporter = InMemorySpanExporter()
    traces = TracerProvider(shutdown_on_exit=False)
    traces.add_span_processor(SimpleSpanProcessor(exporter))
    server = Server("traced")
    server.middleware(Telemetry(tracer_provider=traces))

    @server.resource("data://{name}")
    async def data(name: str) -> str:
        return name

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="at most 8,192 characters"):
            await client.read("data://" + "a" * 100_000)
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "resources/read"]
    assert span.attributes is not None
    assert len(str(span.attributes["mcp.resource.uri"])) == 2048
    traces.shutdown()
