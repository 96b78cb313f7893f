"""Pages that a server wants the user to visit (client/elicitation, "URL Mode Elicitation Requests")."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import urlsplit

from ...calls.asking.questions import ElicitationResult
from ...common.errors import MalformedError, ProtocolError
from ...common.listeners import Listeners
from ...protocol.jsonrpc import is_array, is_object
from ...protocol.types import Json

URL_ELICITATION_REQUIRED: Final = -32042
"""The user has to visit a page before a request can be done (2025-11-25)."""

_ROUNDS: Final = 10
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 32.0


class UrlRequest:
    """A page that a server wants the user to visit; nothing but the handler opens it.

    Show the user the whole URL, and ask before anything is opened. An answer of True is the user's consent; that the
    user is done there is no matter of the answer.

    Attributes:
        message: Why.
        url: Where; http or https.
        host: The host of the URL, which people should see.
        id: What tells it from others, as long as the revision has that (2025-11-25); else None.
        params: All params of the request.
        server: What the server says it is (`name`, `title`); people should see who asks.
    """

    __slots__ = ("host", "id", "message", "params", "server", "url")

    def __init__(self, params: Json, server: Json) -> None:
        message, url, id_ = params.get("message"), params.get("url"), params.get("elicitationId")
        if not isinstance(message, str):
            raise MalformedError("message: expected a string")
        self.host = _host(url) if isinstance(url, str) else None
        if not isinstance(url, str) or self.host is None:
            raise MalformedError("url: expected an http or https URL")
        self.message = message
        self.url = url
        self.id = id_ if isinstance(id_, str) else None
        self.params = params
        self.server = server

    def result(self, answer: object) -> Json:
        """Return the result that tells the server an answer.

        Args:
            answer: True for consent, False for a no, None for no choice, or an `ElicitationResult`.

        Raises:
            TypeError: It is none of them.
        """
        if isinstance(answer, ElicitationResult):
            return {"action": answer.action}
        if answer is None:
            return {"action": "cancel"}
        if not isinstance(answer, bool):
            raise TypeError(f"elicit_url= returns True, False or None, not {answer!r}")
        return {"action": "accept" if answer else "decline"}

    def __repr__(self) -> str:
        """Show message and URL."""
        return f"UrlRequest({self.message!r}, {self.url!r})"


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.scheme in ("http", "https") and url.isprintable() else None
    except ValueError:
        return None


async def visited(
    error: ProtocolError,
    request: Callable[[], Awaitable[Json]],
    visit: Callable[[Json], Awaitable[Json]],
    listeners: Listeners[[str, Json | None]],
) -> Json:
    """Have the user visit the pages that an error of a server names, and make the request again.

    It is made again when the server tells that all is done, and after a pause where it does not tell, a few times. The
    user is asked once for each page.

    Args:
        error: The error, -32042.
        request: Makes the request once more, under a new id.
        visit: Answers the params of an `elicitation/create`.
        listeners: Whoever hears the server's notifications.

    Returns:
        The result.

    Raises:
        ProtocolError: The server has answered with another error; or with this one, and the user does not go there,
            or it keeps to it.
    """
    asked: set[str] = set()
    done = _Done()
    stop = listeners.add(done.hear)
    pause = _FIRST_PAUSE
    try:
        for _ in range(_ROUNDS):
            for elicitation in _elicitations(error):
                if elicitation["elicitationId"] in asked:
                    continue
                asked.add(elicitation["elicitationId"])
                try:
                    answer = await visit({**elicitation, "mode": "url"})
                except ProtocolError:  # nobody visits pages here, or it is none
                    raise error from None
                if answer.get("action") != "accept":
                    raise error
            await done.within(asked, pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            try:
                return await request()
            except ProtocolError as again:
                if again.code != URL_ELICITATION_REQUIRED:
                    raise
                error = again
        raise error
    finally:
        stop()


def _elicitations(error: ProtocolError) -> list[Json]:
    """Return what an error wants to have visited; raises it where it does not say."""
    found: object = error.data.get("elicitations") if is_object(error.data) else None
    if not is_array(found) or not found:
        raise error
    if not all(is_object(each) and isinstance(each.get("elicitationId"), str) for each in found):
        raise error
    return found


class _Done:
    """Hears which pages users are done with."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._news = asyncio.Event()

    def hear(self, method: str, params: Json | None) -> None:
        if method == "notifications/elicitation/complete" and params is not None:
            id_ = params.get("elicitationId")
            if isinstance(id_, str) and len(self._ids) < 1_000:
                self._ids.add(id_)
                self._news.set()

    async def within(self, ids: set[str], seconds: float) -> None:
        """Return when the user is done with all of these, at the latest after so many seconds."""
        try:
            await asyncio.wait_for(self._all(ids), seconds)
        except asyncio.TimeoutError:
            return

    async def _all(self, ids: set[str]) -> None:
        while not ids <= self._ids:
            self._news.clear()
            await self._news.wait()
