"""Middleware that observes requests: telemetry, metrics of authorization, the access log and timing; size limits."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from mcpkit import Principal, ProtocolError, ResultOptions, Server, ToolError
from mcpkit._utils.package import install_command
from mcpkit.auth import Introspection, Jwt
from mcpkit.exceptions import ResourceNotFoundError
from mcpkit.middleware import AccessLog, RequestTiming, SizeLimit, Telemetry, Timing
from mcpkit.testing import connect
from tests.helpers.identity_provider import RESOURCE_SERVER, providing
from tests.helpers.raw_client import serving
from tests.helpers.servers.protected import ISSUER, Table, bearer
from tests.helpers.waiting import Clock, Work, over


class Exported:
    """Spans and metrics that a test has exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.traces = TracerProvider(shutdown_on_exit=False)
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meters = MeterProvider([self.reader], shutdown_on_exit=False)

    @property
    def spans(self) -> list[ReadableSpan]:
        """All spans but that of the client's first request."""
        first = {"initialize", "server/discover"}
        return [span for span in self.exporter.get_finished_spans() if span.name not in first]

    def points(self) -> dict[str, list[Any]]:
        """Return the data points of each metric."""
        data = self.reader.get_metrics_data()
        assert data is not None
        metrics = data.resource_metrics[0].scope_metrics[0].metrics
        return {metric.name: list(metric.data.data_points) for metric in metrics}

    def counts(self, name: str) -> list[tuple[dict[str, Any], int]]:
        """Return the attributes and counts of a metric."""
        points = self.points().get(name, [])
        return [(dict(each.attributes), getattr(each, "count", getattr(each, "value", 0))) for each in points]


@pytest.fixture
def exported() -> Iterator[Exported]:
    exported = Exported()
    yield exported
    exported.traces.shutdown()
    exported.meters.shutdown()


@pytest.fixture
def server(exported: Exported) -> Server:
    server = Server("observed")
    server.middleware(Telemetry(tracer_provider=exported.traces, meter_provider=exported.meters))
    server.middleware(AccessLog())
    tracer = exported.traces.get_tracer("author")

    @server.tool
    async def greet(name: str = "") -> str:
        with tracer.start_as_current_span("inside"):
            return f"Hello {name}"

    @server.tool
    async def fail() -> str:
        raise ToolError("no")

    @server.resource("observed://{name}")
    async def resource(name: str) -> str:
        raise KeyError("secret") if name == "broken" else ResourceNotFoundError

    server.prompt(lambda: "Hello", name="greet")
    return server


# Telemetry


async def test_telemetry_call_has_a_span_with_the_attributes_of_the_conventions(server, exported, revision):
    trace_id, span_id = "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
    meta = {"traceparent": f"00-{trace_id}-{span_id}-01", "tracestate": "rojo=1"}
    async with connect(server, protocol_version=revision) as client:
        await client.call_tool("greet")
        await client.request("tools/call", {"name": "greet", "_meta": meta})
    inside, span, _, child = exported.spans
    assert (span.name, span.kind) == ("tools/call greet", SpanKind.SERVER)
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes == {
        "mcp.method.name": "tools/call", "mcp.protocol.version": revision, "network.transport": "pipe",
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "greet", "jsonrpc.request.id": "2",
    }  # fmt: skip
    assert (span.parent, inside.parent) == (None, span.context)
    assert child.parent is not None
    assert (f"{child.parent.trace_id:032x}", f"{child.parent.span_id:016x}") == (trace_id, span_id)
    assert child.parent.trace_state.get("rojo") == "1"
    assert child.context.trace_id == child.parent.trace_id
    assert child.links == ()


async def test_telemetry_spans_distinguish_failures(server: Server, exported: Exported) -> None:
    async with connect(server) as client:
        await client.call_tool("fail")
        with pytest.raises(ProtocolError):
            await client.get_prompt("none")
        with pytest.raises(ProtocolError):
            await client.read_resource("observed://broken")
        with pytest.raises(ProtocolError, match="at most 8,192 characters"):
            await client.read_resource("observed://" + "a" * 100_000)
    attributes = [dict(span.attributes or {}) for span in exported.spans]
    assert [
        (span.name, span.status.description, each["error.type"], each.get("rpc.response.status_code"))
        for span, each in zip(exported.spans[:3], attributes, strict=False)
    ] == [
        ("tools/call fail", None, "tool_error", None),
        ("prompts/get", "Unknown prompt: none", "-32602", "-32602"),
        ("resources/read", None, "-32603", "-32603"),
    ]
    assert {span.status.status_code for span in exported.spans} == {StatusCode.ERROR}
    assert [len(span.events) for span in exported.spans[:3]] == [0, 0, 1]
    assert attributes[2]["mcp.resource.uri"] == "observed://broken"
    assert ["mcpkit.error.ref" in each for each in attributes[:3]] == [False, False, True]
    assert len(attributes[3]["mcp.resource.uri"]) == 2048


async def test_telemetry_has_no_names_that_clients_made_up(server: Server, exported: Exported) -> None:
    requests = [
        ("no/such", {}), ("tools/call", {"name": "made up"}), ("tools/call", {"name": ["greet"]}),
        ("prompts/get", {"name": "made up"}),
    ]  # fmt: skip
    async with connect(server) as client:
        for method, params in requests:
            with pytest.raises(ProtocolError):
                await client.request(method, params)
    assert [span.name for span in exported.spans] == ["_OTHER", "tools/call", "tools/call", "prompts/get"]
    assert "made up" not in str([exported.counts(name) for name in exported.points()])


async def test_telemetry_measures_durations_by_method_and_tool(server: Server, exported: Exported) -> None:
    async with connect(server) as client:
        for name in ("greet", "greet", "fail"):
            await client.call_tool(name)
    points = exported.points()["mcp.server.operation.duration"]
    names = ("gen_ai.tool.name", "error.type")
    counts = [(*map(each.attributes.get, names), each.count) for each in points]
    assert counts == [(None, None, 1), ("greet", None, 2), ("fail", "tool_error", 1)]
    assert all("jsonrpc.request.id" not in each.attributes for each in points)
    assert {each.explicit_bounds[:3] for each in points} == {(0.01, 0.02, 0.05)}
    Telemetry()  # uses the global providers
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


# Metrics of a protected server

URL = "https://mcp.example.com/mcp"
HTTP = {"public_url": URL, "allowed_hosts": ["localhost"]}


async def test_telemetry_measures_verifications_and_refusals(schema_dir: Path, exported: Exported) -> None:
    verifier = Table(ISSUER)
    server = Server("notes", auth=verifier, scopes={"mail": "Send mail"})
    server.middleware(Telemetry(meter_provider=exported.meters))

    server.tool(lambda: "", name="subject")
    server.tool(lambda: "sent", name="send", scopes="mail")
    async with serving(server, schema_dir, **HTTP) as client:
        for name, token, status in [
            *[("subject", bearer("ada"), 200)] * 4,
            ("send", bearer("ada"), 403),
            *[("subject", token, 401) for token in (bearer("bad1"), bearer("bad2"), {})],
            ("subject", bearer("bob"), 503),
        ]:
            verifier.is_down = status == 503
            assert (await client.call_tool(name, headers=token).whole()).status == status
    outcomes = [({"mcpkit.auth.outcome": "verified"}, 1), ({"mcpkit.auth.outcome": "invalid"}, 2),
        ({"mcpkit.auth.outcome": "unavailable"}, 1)]  # fmt: skip
    assert exported.counts("mcpkit.auth.verification.duration") == outcomes
    refusals = exported.counts("mcpkit.auth.refusals")
    assert [(each["error.type"], each["http.response.status_code"], count) for each, count in refusals] == [
        ("insufficient_scope", 403, 1), ("invalid_token", 401, 2), ("no_token", 401, 1), ("unavailable", 503, 1),
    ]  # fmt: skip
    assert exported.counts("mcpkit.auth.known_tokens") == [({}, 4)]
    assert not exported.counts("mcpkit.auth.fetch.duration")
    assert exported.counts("mcp.server.operation.duration")


@pytest.mark.parametrize("is_opaque", [False, True])
async def test_telemetry_measures_requests_to_an_identity_provider(schema_dir, exported, is_opaque) -> None:
    with providing(opaque=is_opaque) as issuer:
        name, secret = RESOURCE_SERVER
        introspection = Introspection(issuer.issuer, client_id=name, client_secret=secret)
        verifier = introspection if is_opaque else Jwt(issuer.issuer)
        server = Server("notes", auth=verifier)
        server.middleware(Telemetry(meter_provider=exported.meters))
        async with serving(server, schema_dir, **HTTP) as client:
            token = {"authorization": f"Bearer {issuer.token('ada', 'notes:read', URL)}"}
            for _ in range(3):
                assert (await client.ask("server/discover", headers=token).whole()).status == 200
            if is_opaque:
                with issuer.down("failing"):
                    other = {"authorization": "Bearer unknown"}
                    assert (await client.ask("server/discover", headers=other).whole()).status == 503
            await verifier.aclose()
    fetched = {
        (each["mcpkit.auth.fetched"], each["mcpkit.auth.outcome"]): count
        for each, count in exported.counts("mcpkit.auth.fetch.duration")
    }
    introspected = {("introspection", "fetched"): 1, ("introspection", "failed"): 1}
    assert fetched == {("metadata", "fetched"): 1} | (introspected if is_opaque else {("keys", "fetched"): 1})


# Access log


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "mcpkit.access")
    return caplog


def fields(log: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """Return the fields of each record of the access log."""
    return [
        {name[4:]: value for name, value in vars(record).items() if name.startswith("mcp_")}
        for record in log.records
        if record.name == "mcpkit.access"
    ]


@pytest.mark.parametrize(("revision", "principal"), [("2025-11-25", None), ("2026-07-28", "ada")])
async def test_access_log_writes_one_record_per_request(server, revision, principal, log) -> None:
    async with connect(server, protocol_version=revision, principal=Principal(principal)) as client:
        await client.call_tool("greet", {"name": "Ada"})
    opened, called = fields(log)
    assert opened["method"] == ("server/discover" if revision == "2026-07-28" else "initialize")
    milliseconds = called.pop("duration_ms")
    assert milliseconds > 0
    assert called == {
        "method": "tools/call", "target": "greet", "request_id": 2, "protocol_version": revision,
        "client": "mcpkit-testing", "outcome": "ok", "error_code": None, "error_type": None, "error_ref": None,
        "principal": principal, "attempt": None,
    }  # fmt: skip
    assert log.records[1].getMessage() == f"tools/call 'greet' ok {milliseconds:.1f} ms"
    assert "Ada" not in log.text


async def test_access_log_distinguishes_outcomes(server: Server, log: pytest.LogCaptureFixture) -> None:
    work = Work()
    server.tool(work.wait)
    async with connect(server, protocol_version="2025-11-25") as client:
        await client.call_tool("fail")
        with pytest.raises(ProtocolError):
            await client.call_tool("none")
        with pytest.raises(ProtocolError):
            await client.read_resource("observed://lost")
        call = asyncio.ensure_future(client.call_tool("wait"))
        await work.started.wait()
        await over(call)
        await client.list_tools()
    assert [(each["outcome"], each["error_code"]) for each in fields(log)[1:]] == [
        ("tool_error", None), ("error", -32602), ("error", -32002), ("cancelled", None), ("ok", None),
    ]  # fmt: skip


async def test_access_log_escapes_line_breaks(log: pytest.LogCaptureFixture) -> None:
    server = Server("logged")
    server.middleware(AccessLog())
    async with connect(server) as client:
        for method, name in [("tools/call", "x\nINFO all well"), ("a\nINFO", "x"), ("m" * 999, "n" * 999)]:
            with pytest.raises(ProtocolError):
                await client.request(method, {"name": name})
    messages = [record.getMessage() for record in log.records]
    assert not any("\n" in message for message in messages)
    assert max(map(len, messages)) < 500


# Size limits and timing


async def test_size_limit_larger_result_is_an_error_with_advice(revision: str) -> None:
    server = Server("limited")
    server.middleware(SizeLimit(2000))

    @server.tool(result=ResultOptions(structured=False))
    async def repeat(times: int, word: str = "x") -> str:
        return word * times

    server.resource("limited://large", name="large")(lambda: "x" * 5000)
    async with connect(server, protocol_version=revision) as client:
        large = await client.call_tool("repeat", {"times": 10_000})
        assert large.is_error
        assert large.text.startswith("The result is too large: it has 10,")
        advice = " bytes, and the limit is 2,000. Request less data with its arguments: times, word"
        assert large.text.endswith(advice)
        assert len((await client.read_resource("limited://large"))[0]["text"]) == 5000


async def test_size_limit_allows_a_result_of_exactly_its_bytes() -> None:
    server = Server("limited")
    server.middleware(SizeLimit(2000))
    server.tool(lambda times: "x" * int(times), name="repeat", result=ResultOptions(structured=False))
    rest = 2000 - len(b'{"content":[{"type":"text","text":""}]}')
    async with connect(server, protocol_version="2025-11-25") as client:  # which adds nothing to the result
        assert (await client.call_tool("repeat", {"times": rest})).text == "x" * rest
        above = await client.call_tool("repeat", {"times": rest + 1})
        assert above.text.startswith("The result is too large: it has 2,001 bytes")


async def test_timing_reports_each_request_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0)
    monkeypatch.setattr(
        "mcpkit.middleware.access_log_and_telemetry.time", SimpleNamespace(perf_counter=clock)
    )
    reported: list[RequestTiming] = []
    server = Server("timed")
    server.middleware(Timing(reported.append))

    @server.tool
    async def work() -> None:
        clock.now += 2.5

    @server.prompt
    async def fail() -> str:
        clock.now += 1.5
        raise KeyError

    async with connect(server) as client:
        await client.call_tool("work")
        with pytest.raises(ProtocolError):
            await client.get_prompt("fail")
    assert [(timed.request.method, timed.seconds, timed.outcome, timed.code) for timed in reported] == [
        ("server/discover", 0, "ok", None), ("tools/call", 2.5, "ok", None), ("prompts/get", 1.5, "error", -32603),
    ]  # fmt: skip
    assert isinstance(reported[2].error, KeyError)
