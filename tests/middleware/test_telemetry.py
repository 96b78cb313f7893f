"""Spans and measurements, as OpenTelemetry's conventions for MCP have them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcpkit import ProtocolError, Server, ToolError
from mcpkit.common.installation import install_command
from mcpkit.middleware import Telemetry
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-11-25", "2026-07-28"]
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"


class Collected:
    """What has been exported in a test."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.traces = TracerProvider(shutdown_on_exit=False)
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    @property
    def spans(self) -> list[ReadableSpan]:
        """All but the one of the client's opening."""
        opening = {"initialize", "server/discover"}
        return [span for span in self.exporter.get_finished_spans() if span.name not in opening]

    def points(self) -> list[Any]:
        data = self.reader.get_metrics_data()
        assert data is not None
        (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
        assert (metric.name, metric.unit) == ("mcp.server.operation.duration", "s")
        return list(metric.data.data_points)


@pytest.fixture
def collected() -> Iterator[Collected]:
    made = Collected()
    yield made
    made.traces.shutdown()
    made.meters.shutdown()


@pytest.fixture
def server(collected: Collected) -> Server:
    server = Server("traced")
    server.middleware(Telemetry(tracer_provider=collected.traces, meter_provider=collected.meters))
    tracer = collected.traces.get_tracer("author")

    @server.tool
    async def work() -> str:
        with tracer.start_as_current_span("inside"):
            return "done"

    @server.tool
    async def fail() -> str:
        raise ToolError("no")

    @server.resource("traced://{name}")
    async def broken(name: str) -> str:
        raise KeyError("secret")

    @server.prompt
    async def greet() -> str:
        return "Hello"

    return server


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_call_has_a_span_with_the_attributes_of_the_conventions(
    server: Server, collected: Collected, revision: str
) -> None:
    async with connect(server, protocol_version=revision) as client:
        await client.call_tool("work")
    inside, span = collected.spans
    assert (span.name, span.kind, span.status.status_code) == (
        "tools/call work",
        SpanKind.SERVER,
        StatusCode.UNSET,
    )
    assert span.attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "network.transport": "pipe",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "work",
        "jsonrpc.request.id": "2",
    }
    assert span.parent is None
    assert inside.parent == span.context


@pytest.mark.parametrize("revision", REVISIONS)
async def test_span_parent_is_the_traceparent_of_the_client(
    server: Server, collected: Collected, revision: str
) -> None:
    meta = {"traceparent": f"00-{TRACE}-{SPAN}-01", "tracestate": "rojo=1"}
    async with connect(server, protocol_version=revision) as client:
        await client.request("tools/call", {"name": "work", "_meta": meta})
    _, span = collected.spans
    assert span.parent is not None
    assert (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, SPAN)
    assert span.parent.trace_state.get("rojo") == "1"
    assert span.context.trace_id == span.parent.trace_id
    assert span.links == ()


async def test_spans_distinguish_failures(
    server: Server, collected: Collected, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(server) as client:
        await client.call_tool("fail")
        with pytest.raises(ProtocolError):
            await client.get_prompt("none")
        with pytest.raises(ProtocolError):
            await client.read_resource("traced://broken")
    failed = {
        span.name: (
            span.status.status_code,
            span.status.description,
            span.attributes["error.type"],
            span.attributes.get("rpc.response.status_code"),
        )
        for span in collected.spans
        if span.attributes is not None
    }
    assert failed == {
        "tools/call fail": (StatusCode.ERROR, None, "tool_error", None),
        "prompts/get": (StatusCode.ERROR, "Unknown prompt: none", "-32602", "-32602"),
        "resources/read": (StatusCode.ERROR, None, "-32603", "-32603"),
    }
    assert collected.spans[2].attributes["mcp.resource.uri"] == "traced://broken"  # type: ignore[index]
    assert [len(span.events) for span in collected.spans] == [0, 0, 1]


async def test_clients_cannot_make_up_names(server: Server, collected: Collected) -> None:
    async with connect(server) as client:
        for method, params in [
            ("no/such", {}),
            ("tools/call", {"name": "made up"}),
            ("tools/call", {"name": ["work"]}),
            ("prompts/get", {"name": "made up"}),
        ]:
            with pytest.raises(ProtocolError):
                await client.request(method, params)
    assert [span.name for span in collected.spans] == ["_OTHER", "tools/call", "tools/call", "prompts/get"]
    assert not any("made up" in str(point.attributes) for point in collected.points())


async def test_durations_are_measured_by_method_tool_and_failure(
    server: Server, collected: Collected
) -> None:
    async with connect(server) as client:
        await client.call_tool("work")
        await client.call_tool("work")
        await client.call_tool("fail")
    counts = {
        (point.attributes["mcp.method.name"], point.attributes.get("gen_ai.tool.name")): point.count
        for point in collected.points()
    }
    assert counts == {("server/discover", None): 1, ("tools/call", "work"): 2, ("tools/call", "fail"): 1}
    (failed,) = [point for point in collected.points() if point.attributes.get("error.type")]
    assert failed.attributes["error.type"] == "tool_error"
    assert "jsonrpc.request.id" not in failed.attributes
    assert failed.explicit_bounds[:3] == (0.01, 0.02, 0.05)


def test_without_providers_the_global_ones_are_used() -> None:
    Telemetry()
    assert not trace.get_current_span().is_recording()


@pytest.mark.slow
def test_telemetry_without_opentelemetry_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from mcpkit.middleware import Telemetry\n"
        "try: Telemetry()\nexcept ImportError as error: print(error)"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60)
    assert printed == f"Telemetry needs OpenTelemetry. Run: {install_command('otel')}\n"


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
            await client.read_resource("data://" + "a" * 100_000)
    (span,) = [span for span in exporter.get_finished_spans() if span.name == "resources/read"]
    assert span.attributes is not None
    assert len(str(span.attributes["mcp.resource.uri"])) == 2048
    traces.shutdown()
