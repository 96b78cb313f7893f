"""Meters of authorization: base class, and measuring of fetches. A middleware can be a meter."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

measuring: ContextVar[tuple[AuditMeter, ...]] = ContextVar("measuring", default=())
"""The meters of the request that is being authenticated, and of the tasks that it starts."""


class AuditMeter:
    """Base class of meters of authorization. Its methods do nothing.

    A middleware that derives from it receives the measurements, as `Telemetry` does. The methods are called in the
    event loop, so they must not block.
    """

    def attach(self, known_tokens: Callable[[], int]) -> None:
        """Attach the meter to a server, before its first measurement.

        Args:
            known_tokens: Returns the number of requests with a token that was verified before.
        """

    def verified(self, outcome: str, seconds: float) -> None:
        """Receive the duration of the verification of a new access token.

        Args:
            outcome: `verified`, `invalid`, `unavailable` (the token could not be verified now), or `failed`.
            seconds: Duration in seconds.
        """

    def fetched(self, kind: str, outcome: str, seconds: float) -> None:
        """Receive the duration of a request to an authorization server.

        Args:
            kind: `metadata`, `keys` or `introspection`.
            outcome: `fetched` or `failed`.
            seconds: Duration in seconds.
        """

    def refused(self, status: int | None, reason: str) -> None:
        """Receive a refused request.

        Args:
            status: HTTP status; None where the refusal was an MCP result.
            reason: The reason, as in `AuditEvent`.
        """


@contextmanager
def fetching(kind: str) -> Generator[None]:
    """Measure the duration of a fetch, as a context manager.

    Args:
        kind: Kind of fetch, as in `AuditMeter.fetched`.
    """
    started, outcome = perf_counter(), "failed"
    try:
        yield
        outcome = "fetched"
    finally:
        for meter in measuring.get():
            meter.fetched(kind, outcome, perf_counter() - started)
