"""What measures authorization; a middleware may be one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter

measuring: ContextVar[tuple[AuditMeter, ...]] = ContextVar("measuring", default=())
"""The meters of the request that is being authenticated, and of the tasks that it starts."""


class AuditMeter:
    """Hears of each thing that authorization takes time for, and of each refusal; by itself it does nothing.

    A middleware that derives from it is told, as `Telemetry` is. Its methods are called in the event loop, so that they
    must not block.
    """

    def attach(self, known_tokens: Callable[[], int]) -> None:
        """Hear of a server that will tell it.

        Args:
            known_tokens: Returns how many requests have come with a token that had been verified before.
        """

    def verified(self, outcome: str, seconds: float) -> None:
        """Hear of an access token that was not known yet.

        Args:
            outcome: `verified`, `invalid`, `unavailable` where nobody could tell, or `failed`.
            seconds: How long that took.
        """

    def fetched(self, what: str, outcome: str, seconds: float) -> None:
        """Hear of something that was fetched of a provider.

        Args:
            what: `metadata`, `keys` or `introspection`.
            outcome: `fetched` or `failed`.
            seconds: How long that took.
        """

    def refused(self, status: int | None, reason: str) -> None:
        """Hear of a request that was refused.

        Args:
            status: The status of HTTP; None where it was a result.
            reason: As `AuditEvent` has it.
        """


@contextmanager
def fetching(what: str) -> Generator[None]:
    """Measure how long it takes to fetch something, in a block.

    Args:
        what: As `AuditMeter.fetched` has it.
    """
    started, outcome = perf_counter(), "failed"
    try:
        yield
        outcome = "fetched"
    finally:
        for meter in measuring.get():
            meter.fetched(what, outcome, perf_counter() - started)
