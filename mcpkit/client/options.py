"""Option groups of a client: `Timeout` and `Retries`."""

from __future__ import annotations

from dataclasses import dataclass

from .._utils.option_checks import check_count, check_seconds
from ..options import Options
from .asking.rounds import ROUNDS


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Timeout(Options):
    """Time limits of a client, in seconds: `Client(url, timeout=Timeout(response=30, total=120))`.

    `timeout=30` is short for `timeout=Timeout(response=30)`.

    Attributes:
        response: How long a request may wait without a response or a progress notification. None sets no limit.
        total: How long a request may take in all, with retries and reconnecting. None sets no limit.
        connect: How long connecting and negotiating a protocol version may take. None sets no limit.

    Raises:
        TypeError: There is no such option, or it is not a number.
        ValueError: A number is not above 0.
    """

    response: float | None = None
    total: float | None = None
    connect: float | None = 60

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value in vars(self).items():
            check_seconds(f"Timeout({name}=...)", value, may_be_none=True)

    @classmethod
    def of(cls, value: Timeout | float | None) -> Timeout:
        """Return the `Timeout` for an option `timeout=`, where a number stands for `response`.

        Args:
            value: A `Timeout`, the seconds to wait for a response, or None for no limit.
        """
        return value if isinstance(value, Timeout) else Timeout(response=value)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Retries(Options):
    """Limits of repeated requests of a client: `Client(url, retries=Retries(attempts=5))`.

    The client repeats only requests that change nothing, or that the caller marks with `retry=True`.

    Attributes:
        attempts: How often a request is sent in all if the connection fails.
        max_delay: The longest `Retry-After` of a server in seconds to wait for. After a longer one the error is raised.
        rounds: How many rounds of input requests (elicitation, sampling, roots) a request may have in 2026-07-28. 0
            returns results of type `input_required` to the caller.

    Raises:
        TypeError: There is no such option, or it is not a number.
        ValueError: A number is too small.
    """

    attempts: int = 3
    max_delay: float = 30
    rounds: int = ROUNDS

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_count("Retries(attempts=...)", self.attempts)
        check_seconds("Retries(max_delay=...)", self.max_delay, may_be_zero=True)
        check_count("Retries(rounds=...)", self.rounds, least=0)
