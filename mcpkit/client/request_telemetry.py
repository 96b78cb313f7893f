"""OpenTelemetry spans and metrics for the requests of a client.

Names and attributes follow the semantic conventions for MCP of OpenTelemetry, which are in development. Arguments and
results are left out, since they may be secret.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from .._utils.exceptions import ProtocolError
from .._utils.package import missing_package
from ..protocol.jsonrpc import Json

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider
    from opentelemetry.util.types import AttributeValue

    from .client_session import ClientSession

_BUCKETS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""The bucket boundaries in seconds that the conventions recommend."""


class ClientTelemetry:
    """Records a span of each request, and its duration as `mcp.client.operation.duration`.

    The span is a child of the current span. The client sends its context in `_meta` (`traceparent`, `tracestate`,
    `baggage`; basic/index, "OpenTelemetry trace context"), so that spans of the server are its children.

    Args:
        tracer_provider: The tracer provider. None takes the global one.
        meter_provider: The meter provider. None takes the global one.

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
            from opentelemetry import metrics, propagate, trace
        except ImportError as error:
            raise ImportError(
                missing_package("ClientTelemetry", "OpenTelemetry", "otel"), name=error.name
            ) from error
        self._trace = trace
        self._propagate = propagate
        self._tracer = trace.get_tracer("mcpkit", tracer_provider=tracer_provider)
        self._duration = metrics.get_meter("mcpkit", meter_provider=meter_provider).create_histogram(
            "mcp.client.operation.duration",
            unit="s",
            description="Duration of requests as seen by the client.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )

    async def measure_request(
        self,
        send: Callable[..., Awaitable[Json]],
        link: ClientSession,
        method: str,
        params: Mapping[str, Any] | None,
        *arguments: Any,
    ) -> Json:
        """Send a request within a span and record its duration.

        Args:
            send: Sends the request. It takes method, params and `arguments`.
            link: The link to the server.
            method: The method.
            params: Its params.
            arguments: Further arguments of `send`.

        Returns:
            The result of `send`.

        Raises:
            BaseException: `send` failed.
        """
        name, attributes = _describe(method, params or {})
        attributes["mcp.protocol.version"] = link.wire.revision
        began = time.perf_counter()
        failed: str | None = "cancelled"
        with self._tracer.start_as_current_span(
            name, kind=self._trace.SpanKind.CLIENT, attributes=attributes, record_exception=False
        ) as span:
            try:
                result = await send(method, self._with_trace(params), *arguments)
                failed = "tool_error" if result.get("isError") else None
            except Exception as error:
                failed = str(error.code) if isinstance(error, ProtocolError) else type(error).__qualname__
                raise
            finally:
                ending = {} if failed is None else {"error.type": failed}
                span.set_attributes(ending)
                if failed == "tool_error":
                    span.set_status(self._trace.StatusCode.ERROR)
                self._duration.record(time.perf_counter() - began, {**attributes, **ending})
        return result

    def _with_trace(self, params: Mapping[str, Any] | None) -> Json:
        carrier: dict[str, str] = {}
        self._propagate.inject(carrier)
        params = {} if params is None else params
        return {**params, "_meta": {**carrier, **params.get("_meta", {})}}


def _describe(method: str, params: Mapping[str, Any]) -> tuple[str, dict[str, AttributeValue]]:
    attributes: dict[str, AttributeValue] = {"mcp.method.name": method}
    name = params.get("name")
    if method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
        attributes["gen_ai.tool.name"] = str(name)
    elif method == "prompts/get":
        attributes["gen_ai.prompt.name"] = str(name)
    else:
        return method, attributes
    return f"{method} {name}", attributes
