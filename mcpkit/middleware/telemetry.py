"""OpenTelemetry spans and metrics of requests.

Names and attributes follow the semantic conventions for MCP of OpenTelemetry, which are in development. Arguments and
results, which may be secret, and session ids, which grant access, are left out. Unexpected exceptions are recorded
with text and traceback, as in the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._utils.exceptions import HandlerError, ProtocolError, exception_text
from .._utils.package import install_command
from ..context import Context
from ..protocol.revisions import METHODS
from ..requests.failures import is_unexpected
from .authorization_meter import AuthorizationMeter
from .base import CallNext, Request, Result
from .task_measures import TaskMeasures
from .timing import RequestTiming, Timing

if TYPE_CHECKING:
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Link, Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

_CARRIED = ("traceparent", "tracestate", "baggage")
"""What `_meta` carries of a trace (basic/index, "OpenTelemetry trace context")."""

_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds, as the conventions advise."""

_LONGEST = 2048
"""Characters of a URI, which is here before anybody has looked at it: spans wait in memory until they are exported."""

_OTHER = "_OTHER"


class Telemetry(AuthorizationMeter, TaskMeasures):
    """Creates a span for each request, and measures it in the histogram `mcp.server.operation.duration`.

    The parent of the span is the client's span in `_meta` (`traceparent`). Another current span, such as that of the
    HTTP request, is linked. Spans of a handler are children, in threads too. Unknown names are not used as attributes,
    which limits their number.

    For a server with `auth=`, it also measures `mcpkit.auth.verification.duration`, `mcpkit.auth.fetch.duration`,
    `mcpkit.auth.refusals` and `mcpkit.auth.known_tokens`. For a server with tasks, it measures
    `mcpkit.task.wait.duration`, `mcpkit.task.run.duration`, `mcpkit.task.attempts`, `mcpkit.task.queue.ready`,
    `mcpkit.task.queue.held` and `mcpkit.task.queue.age`.

    Args:
        tracer_provider: Provider for spans; None takes the global one.
        meter_provider: Provider for metrics; None takes the global one.

    Raises:
        ImportError: OpenTelemetry is not installed: `pip install "mcpkit[otel]"`.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
    ) -> None:
        try:
            from opentelemetry import context, metrics, propagate, trace
        except ImportError as error:
            raise ImportError(
                f"Telemetry needs OpenTelemetry. Run: {install_command('otel')}", name=error.name
            ) from error
        self._context = context
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("mcpkit", tracer_provider=tracer_provider)
        meter = metrics.get_meter("mcpkit", meter_provider=meter_provider)
        AuthorizationMeter.__init__(self, meter)
        TaskMeasures.__init__(self, meter)
        self._duration = meter.create_histogram(
            "mcp.server.operation.duration",
            unit="s",
            description="Duration of requests.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Process the request within its span."""
        ctx = request.ctx
        name, attributes = _describe(request)
        context, links = self._parent(ctx)
        token = self._context.attach(context)  # for its baggage, too
        own: dict[str, AttributeValue] = {"jsonrpc.request.id": str(ctx.request_id)}
        if request.method.startswith("resources/") and isinstance(uri := request.params.get("uri"), str):
            own["mcp.resource.uri"] = uri[:_LONGEST]
        if ctx.task is not None:
            own["mcpkit.task.attempt"] = ctx.task.attempt
        try:
            with self._tracer.start_as_current_span(
                name,
                kind=self._trace.SpanKind.SERVER,
                attributes={**attributes, **own},
                links=links,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:

                def report(timed: RequestTiming) -> None:
                    ending = _ending(timed)
                    span.set_attributes(ending)
                    if "error.type" in ending:
                        self._fail(span, timed)
                    self._duration.record(timed.seconds, {**attributes, **ending})

                return await Timing(report)(request, call_next)
        finally:
            self._context.detach(token)

    def _parent(self, ctx: Context[Any]) -> tuple[TraceContext, list[Link]]:
        """Return the context of the client's span, and a link to the current span if that is another one."""
        carrier = {key: value for key in _CARRIED if isinstance(value := ctx.meta.get(key), str)}
        if not carrier:
            return self._context.get_current(), []
        context = self._propagate.extract(carrier)
        current = self._trace.get_current_span().get_span_context()
        named = self._trace.get_current_span(context).get_span_context()
        is_beside = current.is_valid and named != current
        return context, [self._trace.Link(current)] if is_beside else []

    def _fail(self, span: Span, timed: RequestTiming) -> None:
        error = timed.error
        is_told = timed.outcome == "error" and isinstance(error, (ProtocolError, HandlerError))
        span.set_status(
            self._trace.StatusCode.ERROR, exception_text(error) if error is not None and is_told else None
        )
        if timed.ref is not None:
            span.set_attribute("mcpkit.error.ref", timed.ref)
        if error is not None and is_unexpected(error):
            span.record_exception(error)


def _describe(request: Request) -> tuple[str, dict[str, AttributeValue]]:
    """Return the name of the span, and the attributes of the span and the measurement."""
    ctx = request.ctx
    method = ctx.method if ctx.method in METHODS or ctx.method in ctx.server.catalog.methods else _OTHER
    attributes: dict[str, AttributeValue] = {
        "mcp.method.name": method,
        "mcp.protocol.version": ctx.protocol_version,
        "network.transport": "tcp" if ctx.headers else "pipe",
    }
    if ctx.headers:
        attributes["network.protocol.name"] = "http"
    if ctx.task is not None:
        attributes["mcpkit.task.run"] = True
    target = request.target
    if method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
        if target is None or target not in ctx.server.catalog.tools:
            return method, attributes
        attributes["gen_ai.tool.name"] = target
    elif method == "prompts/get" and target is not None and target in ctx.server.catalog.prompts:
        attributes["gen_ai.prompt.name"] = target
    else:
        return method, attributes
    return f"{method} {target}", attributes


def _ending(timed: RequestTiming) -> dict[str, str]:
    if timed.outcome == "input_required":
        return {"mcpkit.result_type": timed.outcome}
    if timed.code is not None:
        return {"error.type": str(timed.code), "rpc.response.status_code": str(timed.code)}
    if timed.outcome in {"tool_error", "cancelled"}:
        return {"error.type": timed.outcome}
    return {}
