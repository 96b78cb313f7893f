"""Measurements of authorization, by OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ..identity.meter import AuditMeter

if TYPE_CHECKING:
    from opentelemetry import metrics

_BUCKETS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
"""Seconds: a signature takes a tenth of a millisecond, and a provider that is asked as long as it likes."""


class AuthorizationMeter(AuditMeter):
    """Measures token verifications, fetches and refusals of a protected server; attributes contain no client data.

    Args:
        meter: Meter for the instruments.
    """

    def __init__(self, meter: metrics.Meter) -> None:
        self._meter = meter
        self._verifications = meter.create_histogram(
            "mcpkit.auth.verification.duration",
            unit="s",
            description="Duration of the verification of access tokens that were not cached.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._fetches = meter.create_histogram(
            "mcpkit.auth.fetch.duration",
            unit="s",
            description="Duration of requests to an authorization server.",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._refusals = meter.create_counter(
            "mcpkit.auth.refusals", unit="{request}", description="Requests that were rejected."
        )
        self._known: list[Callable[[], int]] = []

    def attach(self, known_tokens: Callable[[], int]) -> None:
        """Add a server to the counter of requests with tokens that were verified before.

        Args:
            known_tokens: Returns the server's count.
        """
        self._known.append(known_tokens)
        if len(self._known) == 1:
            self._meter.create_observable_counter(
                "mcpkit.auth.known_tokens",
                callbacks=[self._observe],
                unit="{request}",
                description="Requests with access tokens that had been verified before.",
            )

    def _observe(self, _: metrics.CallbackOptions) -> Iterable[metrics.Observation]:
        from opentelemetry.metrics import Observation

        yield Observation(sum(count() for count in self._known))

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
