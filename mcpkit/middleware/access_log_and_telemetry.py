"""The access log, and OpenTelemetry spans and metrics of requests, authorization and tasks, with `Timing` of requests.

Names and attributes of requests follow the semantic conventions for MCP of OpenTelemetry, which are in development.
Arguments and results, which may be secret, and session ids, which grant access, are left out. Unexpected exceptions are
recorded with text and traceback, as in the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple
from weakref import WeakSet

from .._utils.exceptions import HandlerError, ProtocolError, exception_text
from .._utils.package import missing_package
from ..context import Context
from ..execution.coroutines import is_cancelled_from_outside
from ..identity.audit_and_revocation import AuditMeter
from ..protocol.revisions import METHODS
from ..requests.access_and_error_responses import (
    code_of,
    is_input_required,
    is_masked,
    is_unexpected,
    ref_of,
    single,
)
from ..requests.request_record import call_of
from ..storage.base import TaskMeter
from .base import CallNext, Request, Result, ToolCallResult

if TYPE_CHECKING:
    from opentelemetry.context import Context as TraceContext
    from opentelemetry.metrics import CallbackOptions, Histogram, MeterProvider, Observation
    from opentelemetry.trace import Link, Span, TracerProvider
    from opentelemetry.util.types import AttributeValue

    from ..storage.base import QueueStats, Waits

# Members of `_meta` with the trace of the client (basic/index, "OpenTelemetry trace context").
_TRACE_MEMBERS = ("traceparent", "tracestate", "baggage")

# Bounds in seconds. Those of requests are recommended by the conventions. A signature takes a tenth of a millisecond.
_REQUEST_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
_AUTH_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
_TASK_BUCKETS = (0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 1800, 3600, 7200, 14400)

# Characters of a URI in a span. It is not validated yet, and spans stay in memory until they are exported.
_MAX_URI_LENGTH = 2048


# Timing, and the access log

_MAX_LENGTH = 200  # characters of a value from a client

Outcome = Literal["ok", "tool_error", "error", "input_required", "cancelled"]


class RequestTiming(NamedTuple):
    """Duration and outcome of one request.

    Args:
        request: The request.
        seconds: Duration in seconds.
        outcome: `ok`; `tool_error` for a tool result with `isError`; `error` for a JSON-RPC error; `input_required`
            for a round that ended with a request to the client (2026-07-28); or `cancelled`.
        error: Exception, with the outcome `error`, and with `tool_error` unless the tool returned the error result. An
            exception group with a single exception is replaced by that exception.
        code: JSON-RPC error code of the response.
        ref: Reference of the exception in the log and in the client's message ("Internal error (ref ...)"). None if
            the client gets the text of the exception.
    """

    request: Request
    seconds: float
    outcome: Outcome
    error: BaseException | None = None
    code: int | None = None
    ref: str | None = None


class Timing:
    """Measures each request and reports it when it has ended.

    The time that a request waits for input of the user counts. In 2026-07-28 each round is a request of its own.

    Args:
        report: Called with each measurement, in the event loop; it must not block. Its exceptions replace the result
            of the request.
    """

    def __init__(self, report: Callable[[RequestTiming], object]) -> None:
        self._report = report

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Process the request and report its measurement."""
        started = time.perf_counter()
        try:
            result = await call_next(request)
        except BaseException as error:
            seconds = time.perf_counter() - started
            call = call_of(request.ctx)
            if is_input_required(error):
                self._report(RequestTiming(request, seconds, "input_required"))
            elif call.is_ended or is_cancelled_from_outside(error):  # the client gets no response
                self._report(RequestTiming(request, seconds, "cancelled"))
            else:
                ref = ref_of(call) if is_masked(error) else None
                timing = RequestTiming(request, seconds, "error", single(error), code_of(call, error), ref)
                self._report(timing)
            raise
        seconds = time.perf_counter() - started
        if isinstance(result, ToolCallResult) and result.is_error:
            self._report(RequestTiming(request, seconds, "tool_error", result.exception, None, result.ref))
        else:
            self._report(RequestTiming(request, seconds, "ok"))
        return result


class AccessLog(Timing):
    """Logs each request when it has ended, as one line, and as attributes of the log record.

    The attributes are `mcp_method`, `mcp_target` (name or URI), `mcp_request_id`, `mcp_protocol_version`, `mcp_client`
    (name of the client software), `mcp_principal` (id of the authenticated user), `mcp_attempt` (number of the run of
    a task), `mcp_duration_ms`, `mcp_outcome` (see `RequestTiming`), `mcp_error_code`, `mcp_error_type` (class of the
    exception) and `mcp_error_ref` (reference of the exception in the log and in the client's message). Missing values
    are None.

    Arguments, results and texts of exceptions are not logged.

    Args:
        logger: The logger; None takes `mcpkit.access`.
        level: Level of the records.
    """

    def __init__(self, logger: logging.Logger | None = None, *, level: int = logging.INFO) -> None:
        self._logger = logger if logger is not None else logging.getLogger("mcpkit.access")
        self._level = level
        super().__init__(self._log)

    def _log(self, timed: RequestTiming) -> None:
        if not self._logger.isEnabledFor(self._level):
            return
        ctx, method, target = timed.request.ctx, timed.request.method[:_MAX_LENGTH], timed.request.target
        target = None if target is None else target[:_MAX_LENGTH]
        client = ctx.client.info.get("name")
        attempt = None if ctx.task is None else ctx.task.attempt
        kind = type(timed.error)
        module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
        error_type = None if timed.error is None else f"{module}{kind.__qualname__}"
        milliseconds = round(timed.seconds * 1000, 3)
        extra = {
            "mcp_method": method,
            "mcp_target": target,
            "mcp_request_id": ctx.request_id,
            "mcp_protocol_version": ctx.protocol_version,
            "mcp_client": None if client is None else client[:_MAX_LENGTH],
            "mcp_principal": ctx.principal.id,
            "mcp_attempt": attempt,
            "mcp_duration_ms": milliseconds,
            "mcp_outcome": timed.outcome,
            "mcp_error_code": timed.code,
            "mcp_error_type": error_type,
            "mcp_error_ref": timed.ref,
        }
        # A client cannot start a new line in the log, because its values are written as `repr` or are printable.
        about = method if method.isprintable() else repr(method)
        if target is not None:
            about = f"{about} {target!r}"
        if attempt is not None:
            about = f"{about} run {attempt}"
        ending = timed.outcome if timed.code is None else f"{timed.outcome} {timed.code}"
        if timed.ref is not None:  # the client got no text, so the class helps to find the exception
            ending = f"{ending} {error_type} (ref {timed.ref})"
        self._logger.log(self._level, "%s %s %.1f ms", about, ending, milliseconds, extra=extra)


# OpenTelemetry


class Telemetry(AuditMeter, TaskMeter):
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
        self, *, tracer_provider: TracerProvider | None = None, meter_provider: MeterProvider | None = None
    ) -> None:
        try:
            from opentelemetry import context, metrics, propagate, trace
        except ImportError as error:
            problem = missing_package("Telemetry", "OpenTelemetry", "otel")
            raise ImportError(problem, name=error.name) from error
        self._context = context
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("mcpkit", tracer_provider=tracer_provider)
        meter = self._meter = metrics.get_meter("mcpkit", meter_provider=meter_provider)

        def histogram(name: str, about: str, buckets: tuple[float, ...], unit: str = "s") -> Histogram:
            return meter.create_histogram(name, unit, about, explicit_bucket_boundaries_advisory=buckets)

        self._requests = histogram("mcp.server.operation.duration", "Duration of requests.", _REQUEST_BUCKETS)
        self._verifications = histogram(
            "mcpkit.auth.verification.duration",
            "Duration of the verification of access tokens that were not cached.",
            _AUTH_BUCKETS,
        )
        self._fetches = histogram(
            "mcpkit.auth.fetch.duration", "Duration of requests to an authorization server.", _AUTH_BUCKETS
        )
        self._refusals = meter.create_counter(
            "mcpkit.auth.refusals", unit="{request}", description="Requests that were rejected."
        )
        self._known_tokens: list[Callable[[], int]] = []
        self._task_waits = histogram(
            "mcpkit.task.wait.duration", "Time that tasks waited for their runs.", _TASK_BUCKETS
        )
        self._task_runs = histogram("mcpkit.task.run.duration", "Duration of runs of tasks.", _TASK_BUCKETS)
        self._task_attempts = histogram(
            "mcpkit.task.attempts",
            "Number of runs of a task until it ended.",
            (1, 2, 3, 4, 5, 10, 20),
            unit="{run}",
        )
        self._task_queues: WeakSet[Waits] = WeakSet()
        self._has_task_gauges = False

    # Requests

    async def __call__(self, request: Request, call_next: CallNext) -> Result:
        """Process the request within its span."""
        ctx = request.ctx
        name, attributes = _describe(request)
        context, links = self._parent(ctx)
        token = self._context.attach(context)  # for its baggage, too
        span_attributes = {**attributes, "jsonrpc.request.id": str(ctx.request_id)}
        if request.method.startswith("resources/") and isinstance(uri := request.params.get("uri"), str):
            span_attributes["mcp.resource.uri"] = uri[:_MAX_URI_LENGTH]
        if ctx.task is not None:
            span_attributes["mcpkit.task.attempt"] = ctx.task.attempt
        try:
            with self._tracer.start_as_current_span(
                name,
                kind=self._trace.SpanKind.SERVER,
                attributes=span_attributes,
                links=links,
                record_exception=False,
                set_status_on_exception=False,
            ) as span:

                def report(timed: RequestTiming) -> None:
                    outcome = _outcome(timed)
                    span.set_attributes(outcome)
                    if "error.type" in outcome:
                        self._set_error(span, timed)
                    self._requests.record(timed.seconds, {**attributes, **outcome})

                return await Timing(report)(request, call_next)
        finally:
            self._context.detach(token)

    def _parent(self, ctx: Context[Any]) -> tuple[TraceContext, list[Link]]:
        """Return the context of the client's span, and a link to the current span if that is another one."""
        carrier = {key: value for key in _TRACE_MEMBERS if isinstance(value := ctx.meta.get(key), str)}
        if not carrier:
            return self._context.get_current(), []
        context = self._propagate.extract(carrier)
        current = self._trace.get_current_span().get_span_context()
        parent = self._trace.get_current_span(context).get_span_context()
        return context, [self._trace.Link(current)] if current.is_valid and parent != current else []

    def _set_error(self, span: Span, timed: RequestTiming) -> None:
        error = timed.error
        is_sent = timed.outcome == "error" and isinstance(error, (ProtocolError, HandlerError))
        text = exception_text(error) if error is not None and is_sent else None
        span.set_status(self._trace.StatusCode.ERROR, text)
        if timed.ref is not None:
            span.set_attribute("mcpkit.error.ref", timed.ref)
        if error is not None and is_unexpected(error):
            span.record_exception(error)

    # Authorization

    def attach(self, known_tokens: Callable[[], int]) -> None:
        """Add a server to the counter of requests with tokens that were verified before.

        Args:
            known_tokens: Returns the server's count.
        """

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            from opentelemetry.metrics import Observation

            yield Observation(sum(count() for count in self._known_tokens))

        self._known_tokens.append(known_tokens)
        if len(self._known_tokens) == 1:
            self._meter.create_observable_counter(
                "mcpkit.auth.known_tokens",
                callbacks=[observe],
                unit="{request}",
                description="Requests with access tokens that had been verified before.",
            )

    def verified(self, outcome: str, seconds: float) -> None:
        """Record a token verification.

        Args:
            outcome: Outcome of the verification.
            seconds: Duration in seconds.
        """
        self._verifications.record(seconds, {"mcpkit.auth.outcome": outcome})

    def fetched(self, kind: str, outcome: str, seconds: float) -> None:
        """Record a request to an authorization server.

        Args:
            kind: Kind of the fetched document.
            outcome: Outcome of the request.
            seconds: Duration in seconds.
        """
        self._fetches.record(seconds, {"mcpkit.auth.fetched": kind, "mcpkit.auth.outcome": outcome})

    def refused(self, status: int | None, reason: str) -> None:
        """Count a refused request.

        Args:
            status: HTTP status, or None.
            reason: Reason of the refusal.
        """
        attributes: dict[str, str | int] = {"error.type": reason}
        if status is not None:
            attributes["http.response.status_code"] = status
        self._refusals.add(1, attributes)

    # Tasks

    def attach_tasks(self, tasks: Waits) -> None:
        """Add a task queue to the observable gauges.

        All processes share one queue, and each reports its size: aggregate with the maximum, not the sum.

        Args:
            tasks: The queue; a weak reference is kept.
        """
        self._task_queues.add(tasks)
        if self._has_task_gauges:
            return
        self._has_task_gauges = True
        self._add_task_gauge("ready", "{task}", "Tasks that are ready to run.", lambda each: each.ready)
        description = "Tasks that are running, wait for an answer, or are scheduled for later."
        self._add_task_gauge("held", "{task}", description, lambda each: each.held)
        description = "Time that the oldest task has been ready to run."
        self._add_task_gauge("age", "s", description, lambda each: each.oldest, max)

    def _add_task_gauge(
        self,
        name: str,
        unit: str,
        description: str,
        value: Callable[[QueueStats], float],
        combine: Callable[[list[float]], float] = sum,
    ) -> None:
        """Add a gauge with a value for each tool, combined from the values of its versions and servers."""

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            from opentelemetry.metrics import Observation

            found: dict[str, list[float]] = {}
            for tasks in tuple(self._task_queues):
                for tool, stats in tasks.waiting():
                    found.setdefault(tool, []).append(value(stats))
            return [Observation(combine(each), {"gen_ai.tool.name": tool}) for tool, each in found.items()]

        self._meter.create_observable_gauge(
            f"mcpkit.task.queue.{name}", callbacks=[observe], unit=unit, description=description
        )

    def run_began(self, tool: str, seconds: float) -> None:
        """Record the time that a task waited for its run."""
        self._task_waits.record(seconds, {"gen_ai.tool.name": tool})

    def run_ended(self, tool: str, outcome: str, attempt: int, seconds: float) -> None:
        """Record the duration of a run, and the number of runs if the task has ended."""
        attributes = {"gen_ai.tool.name": tool, "mcpkit.task.outcome": outcome}
        self._task_runs.record(seconds, attributes)
        if outcome in {"completed", "failed", "cancelled", "given_up"}:
            self._task_attempts.record(attempt, attributes)


def _describe(request: Request) -> tuple[str, dict[str, AttributeValue]]:
    """Return the name of the span, and the attributes of the span and the measurement."""
    ctx, target = request.ctx, request.target
    catalog = ctx.server.catalog
    method = ctx.method if ctx.method in METHODS or ctx.method in catalog.methods else "_OTHER"
    attributes: dict[str, AttributeValue] = {
        "mcp.method.name": method,
        "mcp.protocol.version": ctx.protocol_version,
        "network.transport": "tcp" if ctx.headers else "pipe",
    }
    if ctx.headers:
        attributes["network.protocol.name"] = "http"
    if ctx.task is not None:
        attributes["mcpkit.task.run"] = True
    if method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
        if target is not None and target in catalog.tools:
            attributes["gen_ai.tool.name"] = target
            return f"{method} {target}", attributes
    elif method == "prompts/get" and target is not None and target in catalog.prompts:
        attributes["gen_ai.prompt.name"] = target
        return f"{method} {target}", attributes
    return method, attributes


def _outcome(timed: RequestTiming) -> dict[str, str]:
    """Return the attributes for the outcome of a request."""
    if timed.outcome == "input_required":
        return {"mcpkit.result_type": timed.outcome}
    if timed.code is not None:
        return {"error.type": str(timed.code), "rpc.response.status_code": str(timed.code)}
    if timed.outcome in {"tool_error", "cancelled"}:
        return {"error.type": timed.outcome}
    return {}
