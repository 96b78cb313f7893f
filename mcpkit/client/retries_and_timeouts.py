"""Time limits of requests, and retries after a lost connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from .._utils.exceptions import OutcomeUnknownError, TransportError
from .._utils.option_checks import check_count, check_seconds
from ..options import Options
from ..protocol.jsonrpc import Json

ROUNDS: Final = 10
"""The default limit of input rounds, the same as in the official clients."""

WITHOUT_EFFECTS: Final = frozenset(
    {
        "completion/complete",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tools/list",
    }
)
"""Methods of requests that may be sent twice, since they change nothing or are idempotent."""

_MIN_PAUSE: Final = 0.1
"""Seconds before the third attempt. The pause doubles with each further attempt."""

_MAX_PAUSE: Final = 10.0


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


class Retrying:
    """Sends requests again after a failure.

    Args:
        attempts: How often a request is sent in all.
        max_delay: The longest `Retry-After` in seconds to wait for. After a longer one the error is raised.
    """

    def __init__(self, attempts: int, max_delay: float) -> None:
        self._attempts = attempts
        self._max_delay = max_delay

    async def send(self, send: Callable[[], Awaitable[Json]], method: str, retry: bool | None) -> Json:
        """Send a request, and again if necessary; see `send_again`."""
        try:
            return await send()
        except TransportError as error:
            return await self.send_again(error, send, method, retry)

    async def send_again(
        self, error: TransportError, send: Callable[[], Awaitable[Json]], method: str, retry: bool | None
    ) -> Json:
        """Send a request again after a failure, as long as that is safe and may help.

        Args:
            error: The error of the first attempt.
            send: Sends the request once more, with a new id.
            method: The method.
            retry: Whether the request may be sent twice. None decides by the method.

        Raises:
            OutcomeUnknownError: The server may have run the request, and it must not run twice.
            TransportError: All attempts failed before the server began.
            ProtocolError: The server responded with an error.
        """
        may_repeat = method in WITHOUT_EFFECTS if retry is None else retry
        for attempt in range(1, self._attempts + 1):
            if error.may_have_begun and not may_repeat:
                hint = " (pass retry=True if repeating it does no harm)" if error.may_pass else ""
                raise OutcomeUnknownError(
                    f"the server may have executed {method}, so the client does not repeat it{hint}: {error}"
                ) from error
            if attempt == self._attempts or not error.may_pass or (error.retry_after or 0) > self._max_delay:
                break
            await asyncio.sleep(pause_after(attempt) if error.retry_after is None else error.retry_after)
            try:
                return await send()
            except TransportError as again:
                error = again
        raise error


def pause_after(attempts: int) -> float:
    """Return the seconds between failed attempts and the next one, with random jitter."""
    if attempts == 1:
        return 0
    return min(_MIN_PAUSE * 2.0 ** (attempts - 2), _MAX_PAUSE) * random.uniform(0.5, 1)
