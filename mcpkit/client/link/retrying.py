"""What is asked again when the way to the server or back has broken."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Final

from ...common.numbers import check_count, check_seconds
from ...protocol.types import Json
from .errors import OutcomeUnknownError, TransportError

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
"""Methods that may be asked twice: nothing is done, or the same once more."""

_FIRST_PAUSE: Final = 0.1
"""Seconds before what has failed twice is tried again; from then on twice as long each time."""

_LONGEST_PAUSE: Final = 10.0


class Retrying:
    """Asks again, so often and no oftener.

    Args:
        tries: How often a request is tried in all.
        longest_wait: The seconds that are waited at most where the server says when to come back; a longer wait is
            left to the caller.
    """

    def __init__(self, tries: int, longest_wait: float) -> None:
        check_count("tries", tries)
        check_seconds("longest_wait", longest_wait, may_be_zero=True)
        self._tries = tries
        self._longest_wait = longest_wait

    async def ask(self, ask: Callable[[], Awaitable[Json]], method: str, retry: bool | None) -> Json:
        """Ask, and again where that is needed; see `go_on`."""
        try:
            return await ask()
        except TransportError as error:
            return await self.go_on(error, ask, method, retry)

    async def go_on(
        self, error: TransportError, ask: Callable[[], Awaitable[Json]], method: str, retry: bool | None
    ) -> Json:
        """Ask again after a failure, as long as that does no harm and may help.

        Args:
            error: How it has failed the first time.
            ask: Asks once more, under a new id.
            method: The method.
            retry: Whether it may be done twice; None where the method tells.

        Raises:
            OutcomeUnknownError: It may have been done, and must not be done twice.
            TransportError: It failed each time, without having been begun.
            ProtocolError: The server has answered with an error.
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
    """Return the seconds before the next try; a little by chance, so that many clients do not come at once."""
    if tried == 1:
        return 0
    return min(_FIRST_PAUSE * 2.0 ** (tried - 2), _LONGEST_PAUSE) * random.uniform(0.5, 1)
