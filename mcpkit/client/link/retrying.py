"""Sends requests again after a lost connection."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from ..._utils.exceptions import OutcomeUnknownError, TransportError
from ..._utils.option_checks import check_count, check_seconds
from ...protocol.jsonrpc import Json

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

_FIRST_PAUSE: Final = 0.1
"""Seconds before the third attempt. The pause doubles with each further attempt."""

_LONGEST_PAUSE: Final = 10.0


class Retrying:
    """Sends requests again after a failure.

    Args:
        tries: How often a request is sent in all.
        longest_wait: The longest `Retry-After` in seconds to wait for. After a longer one the error is raised.
    """

    def __init__(self, tries: int, longest_wait: float) -> None:
        check_count("tries", tries)
        check_seconds("longest_wait", longest_wait, may_be_zero=True)
        self._tries = tries
        self._longest_wait = longest_wait

    async def ask(self, ask: Callable[[], Awaitable[Json]], method: str, retry: bool | None) -> Json:
        """Send a request, and again if necessary; see `go_on`."""
        try:
            return await ask()
        except TransportError as error:
            return await self.go_on(error, ask, method, retry)

    async def go_on(
        self, error: TransportError, ask: Callable[[], Awaitable[Json]], method: str, retry: bool | None
    ) -> Json:
        """Send a request again after a failure, as long as that is safe and may help.

        Args:
            error: The error of the first attempt.
            ask: Sends the request once more, with a new id.
            method: The method.
            retry: Whether the request may be sent twice. None decides by the method.

        Raises:
            OutcomeUnknownError: The server may have run the request, and it must not run twice.
            TransportError: All attempts failed before the server began.
            ProtocolError: The server responded with an error.
        """
        may_repeat = method in WITHOUT_EFFECTS if retry is None else retry
        for tried in range(1, self._tries + 1):
            if error.may_have_begun and not may_repeat:
                way_out = " (pass retry=True if repeating it does no harm)" if error.may_pass else ""
                raise OutcomeUnknownError(
                    f"the server may have executed {method}, so the client does not repeat it{way_out}: "
                    f"{error}"
                ) from error
            if tried == self._tries or not error.may_pass or (error.retry_after or 0) > self._longest_wait:
                break
            await asyncio.sleep(pause(tried) if error.retry_after is None else error.retry_after)
            try:
                return await ask()
            except TransportError as again:
                error = again
        raise error


def pause(tried: int) -> float:
    """Return the seconds before the next attempt, with random jitter."""
    if tried == 1:
        return 0
    return min(_FIRST_PAUSE * 2.0 ** (tried - 2), _LONGEST_PAUSE) * random.uniform(0.5, 1)
