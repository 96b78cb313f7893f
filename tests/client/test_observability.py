"""Callbacks, notifications, traces, recordings and telemetry of a client."""

import asyncio
import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcpkit import Client, ClientGroup, Context, ProtocolError, Server, ToolError
from mcpkit.client import ClientTelemetry, Replay
from mcpkit.client.telemetry_tracing_and_recording import MASK, Mask
from mcpkit.middleware import Telemetry
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, text
from tests.helpers.tables import each_row
from tests.helpers.waiting import until

bakery = Server("bakery")


@bakery.tool
async def bake(ctx: Context) -> str:
    for number in range(3):
        await ctx.report_progress(number, 3)
        await ctx.debug(number + 10)
        await ctx.info(number)
    return "bread"


async def test_call_returns_after_async_progress_and_log_handlers(revision: str) -> None:
    reported: list[float] = []
    logged: list[int] = []

    async def append(numbers: list[Any], number: Any) -> None:
        for _ in range(5 - int(number)):  # the first takes longest
            await asyncio.sleep(0)
        numbers.append(number)

    async def log(level: str, data: int, logger: str | None) -> None:
        await append(logged, data)

    async def progress(done: float, total: float | None, message: str | None) -> None:
        await append(reported, done)

    async with Client(bakery, protocol_version=revision, log_handler=log) as client:
        await client.set_log_level("info")
        assert (await client.call_tool("bake", progress=progress)).text == "bread"
        assert reported == [0, 1, 2]
        await until(lambda: logged == [0, 1, 2])


@pytest.mark.parametrize("turns", [0, 50])
async def test_progress_handler_error_ends_call(turns: int) -> None:
    async def fail(*_: object) -> None:
        for _ in range(turns):  # more, and the answer is there before
            await asyncio.sleep(0)
        raise RuntimeError("no display")

    async with Client(bakery) as client:
        with pytest.raises(RuntimeError, match="no display"):
            await client.call_tool("bake", progress=fail)
        assert (await client.call_tool("bake")).text == "bread"


async def test_message_handler_receives_all_notifications() -> None:
    methods = ("notifications/tools/list_changed", "example.com/rang")
    sent: list[Message] = [{"method": method, "params": {"number": 1}} for method in methods]
    sent.append({"method": "notifications/bare"})
    received: list[tuple[str, dict[str, Any]]] = []

    def answer(_: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "server/discover":
            return [discovered(message)]
        return [*sent, text(message, "rung")]

    options: Any = {"message_handler": lambda *message: received.append(message)}
    async with Client(ScriptedTransport(answer), **options) as client:
        await client.call_tool("ring")
    assert received == [(each["method"], each.get("params", {})) for each in sent]


async def test_call_meta_is_sent(revision: str) -> None:
    server = Server("bakery")

    @server.tool
    def bake(ctx: Context) -> str:
        return str(ctx.meta.get("example.com/priority"))

    async with Client(server, protocol_version=revision) as client:
        result = await client.call_tool("bake", meta={"example.com/priority": "high"}, progress=print)
        assert result.text == "high"
        assert (await client.call_tool("bake")).text == "None"
    async with ClientGroup({"mcpServers": {"a": server, "b": Server("empty")}}) as client:
        assert (await client.call_tool("a_bake", meta={"example.com/priority": "low"})).text == "low"


def recorded_server() -> Server:
    server, numbers = Server("bakery", version="3"), count(1)

    @server.tool
    async def bake(bread: str, ctx: Context, password: str = "") -> str:
        await ctx.report_progress(1, 2, "in the oven")
        return f"{bread} {next(numbers)}"

    @server.tool
    async def ask(ctx: Context) -> str:
        return f"{await ctx.elicit('How many?', int)}"

    @server.resource("bread://rye")
    def rye() -> str:
        return "rye"

    return server


async def talk(client: Client, password: str) -> list[Any]:
    """Send all kinds of requests, and return their answers."""
    steps: list[Any] = []
    first = await client.call_tool("bake", {"bread": "rye"}, progress=lambda *step: steps.append(step))
    secret = await client.call_tool("bake", {"bread": "oat", "password": password})
    others = [await client.call_tool("bake", {"bread": bread}) for bread in ("rye", "wheat")]
    with pytest.raises(ProtocolError) as caught:
        await client.read_resource("bread://none")
    return [
        *(result.text for result in (first, secret, *others, await client.call_tool("ask"))),
        *(client.protocol_version, client.server_info, steps, str(caught.value)),
        *(await client.list_tools(), await client.read_resource("bread://rye")),
    ]


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_replay_answers_as_recorded_without_secrets(tmp_path: Path, revision: str) -> None:
    path = tmp_path / "bakery.jsonl"
    options: Any = {"protocol_version": revision, "elicitation_handler": lambda form: {"value": 3}}
    async with Client(recorded_server(), record=path, **options) as client:
        answers = await talk(client, "open sesame")
    assert answers[:4] == ["rye 1", "oat 2", "rye 3", "wheat 4"]
    assert "open sesame" not in path.read_text()
    async with Client(Replay(path), **options) as client:
        assert await talk(client, "another password") == answers
        assert (await client.call_tool("bake", {"bread": "rye"})).text == "rye 3"  # the last one from then on


async def test_telemetry_server_spans_continue_client_trace(revision: str) -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    spans, meters = TracerProvider(), MeterProvider([reader])
    spans.add_span_processor(SimpleSpanProcessor(exporter))
    server = Server("bakery")
    server.middleware(Telemetry(tracer_provider=spans, meter_provider=meters))

    @server.tool
    async def bake(ctx: Context, fails: bool = False) -> str:
        await ctx.report_progress(1, 2)
        if fails:
            raise ToolError("no flour")
        return "bread"

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    telemetry = ClientTelemetry(tracer_provider=spans, meter_provider=meters)
    steps: list[float] = []
    async with Client(server, protocol_version=revision, telemetry=telemetry) as client:
        exporter.clear()
        with spans.get_tracer("test").start_as_current_span("breakfast") as breakfast:
            await client.call_tool("bake", progress=lambda *step: steps.append(step[0]))
        await client.call_tool("bake", {"fails": True})
        with pytest.raises(ProtocolError):
            await client.get_prompt("none")
        with pytest.raises(TimeoutError):
            await client.call_tool("wait", timeout=0.01)
    assert steps == [1]
    sent = [span for span in exporter.get_finished_spans() if span.kind is SpanKind.CLIENT]
    assert [(span.name, (span.attributes or {}).get("error.type")) for span in sent] == [
        ("tools/call bake", None),
        ("tools/call bake", "tool_error"),
        ("prompts/get none", "-32601"),
        ("tools/call wait", "TimeoutError"),
    ]
    baked, failed, *_ = sent
    assert baked.parent is not None
    assert baked.parent.span_id == breakfast.get_span_context().span_id
    assert dict(baked.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "bake",
    }
    assert failed.status.status_code is StatusCode.ERROR
    received = [span for span in exporter.get_finished_spans() if span.kind is SpanKind.SERVER]
    assert {span.context.span_id for span in sent[:3]} <= {
        span.parent.span_id for span in received if span.parent
    }
    assert "mcp.client.operation.duration" in reader.get_metrics_data().to_json()


async def test_trace_receives_messages_in_order_without_secrets(revision: str) -> None:
    server = Server("bakery")

    @server.tool
    async def bake(flour: str, password: str, ctx: Context) -> str:
        await ctx.report_progress(1, 2)
        return f"bread of {flour}"

    seen: list[tuple[str, Any]] = []
    options: Any = {"protocol_version": revision, "validate_results": False}
    async with Client(
        server, trace=lambda way, line: seen.append((way, json.loads(line))), **options
    ) as client:
        arguments = {"flour": "rye", "password": "open sesame"}
        await client.call_tool("bake", arguments, progress=lambda *step: None)
    ways = [(way, message.get("method", "answer")) for way, message in seen][-3:]
    assert ways == [("sent", "tools/call"), ("received", "notifications/progress"), ("received", "answer")]
    sent = seen[-3][1]["params"]
    assert sent["arguments"] == {"flour": "rye", "password": MASK}
    assert sent["_meta"]["progressToken"] != MASK
    assert "open sesame" not in str(seen)


@each_row("line", [
    '{"access_token": "0123456789"}',
    '{"headers": {"Authorization": "Basic 0123456789"}}',
    '{"a": [{"apiKey": "0123456789"}]}', '{"API_KEY": "0123456789"}', '{"text": "Bearer 0123456789"}',
    '{"text": "call with eyJ0123456789.eyJ0123456789.0123456789"}',
    '{"text": "ghp_01234567890123456789"}', '{"text": "sk-proj-01234567890123456789"}',
    '{"text": "it is the known 0123456789"}', '{"the known 0123456789": 1',
])  # fmt: skip
def test_mask_replaces_secrets(line: str) -> None:
    text = Mask(["the known 0123456789"]).masked(line.encode())
    assert "0123456789" not in text
    assert MASK in text


def test_mask_knows_client_options() -> None:
    headers = {"X-Api-Key": "the-api-key", "Authorization": "Basic in-base-64", "Accept-Language": "german"}
    env = {"DB_PASSWORD": "a-password", "HOME": "/home/ada"}
    mask = Mask.of({"token": "the-token", "headers": headers, "env": env, "cwd": "/srv/bakery"})
    line = b'["the-token", "the-api-key", "in-base-64", "german", "a-password", "/home/ada", "/srv/bakery"]'
    assert json.loads(mask.masked(line)) == [MASK, MASK, MASK, "german", MASK, "/home/ada", "/srv/bakery"]
