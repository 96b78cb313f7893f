"""Spans of a client's requests, and those of the server below them."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcpkit import Client, ClientTelemetry, Context, ProtocolError, Server, ToolError
from mcpkit.middlewares import Telemetry

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_server_goes_on_with_the_clients_trace(revision: str) -> None:
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    spans, meters = TracerProvider(), MeterProvider([reader])
    spans.add_span_processor(SimpleSpanProcessor(exporter))
    server = Server("bakery")
    server.middleware(Telemetry(tracer_provider=spans, meter_provider=meters))

    @server.tool
    async def bake(ctx: Context, fails: bool = False) -> str:
        await ctx.progress(1, 2)
        if fails:
            raise ToolError("no flour")
        return "bread"

    @server.prompt
    def toast() -> str:
        return "to you"

    @server.tool
    async def wait() -> None:
        await asyncio.Event().wait()

    telemetry = ClientTelemetry(tracer_provider=spans, meter_provider=meters)
    steps: list[float] = []
    async with Client(server, revision=revision, telemetry=telemetry) as client:
        exporter.clear()
        with spans.get_tracer("test").start_as_current_span("breakfast") as breakfast:
            await client.call("bake", progress=lambda *step: steps.append(step[0]))
        await client.call("bake", {"fails": True})
        with pytest.raises(ProtocolError):
            await client.get_prompt("none")
        with pytest.raises(TimeoutError):
            await client.call("wait", timeout=0.01)
    assert steps == [1]
    ours = [span for span in exporter.get_finished_spans() if span.kind is SpanKind.CLIENT]
    baked, failed, unread, late = ours
    assert baked.name == "tools/call bake"
    assert baked.parent is not None
    assert baked.parent.span_id == breakfast.get_span_context().span_id
    assert dict(baked.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "bake",
    }
    assert failed.status.status_code is StatusCode.ERROR
    assert [dict(span.attributes or {}).get("error.type") for span in ours] == [
        None,
        "tool_error",
        "-32602",
        "TimeoutError",
    ]
    assert unread.name == "prompts/get none"
    servers = [span for span in exporter.get_finished_spans() if span.kind is SpanKind.SERVER]
    below = {span.parent.span_id for span in servers if span.parent}
    assert {span.context.span_id for span in (baked, failed, unread)} <= below
    names = {
        metric.name
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    assert "mcp.client.operation.duration" in names
    assert late.name == "tools/call wait"


async def test_without_it_nothing_is_said_of_traces() -> None:
    seen: list[str] = []
    async with Client(Server("bakery"), trace=lambda way, text: seen.append(text)):
        pass
    assert "traceparent" not in "".join(seen)
