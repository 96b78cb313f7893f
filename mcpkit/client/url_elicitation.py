"""URL elicitation: pages for the user to visit (client/elicitation, "URL Mode Elicitation Requests")."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from .._utils.concurrency import Listeners
from .._utils.exceptions import MalformedError, ProtocolError
from ..protocol.jsonrpc import Json, is_array, is_object
from ..requests.elicitation_and_sampling import ElicitationResult

if TYPE_CHECKING:
    from .client_session import RequestHandler

URL_ELICITATION_REQUIRED: Final = -32042
"""Error code: the user has to visit a page before the request can succeed (2025-11-25)."""

_MAX_ROUNDS: Final = 10
_MIN_PAUSE: Final = 1.0
_MAX_PAUSE: Final = 32.0
_MAX_FINISHED: Final = 1_000


class UrlRequest:
    """A URL elicitation: a server requests that the user visits a page.

    mcpkit does not open the page; the handler does. Show the user the whole URL, and ask for consent before opening it.
    The result True means consent, not that the user has finished there.

    Args:
        params: The params of the request.
        server: The server's `Implementation`.

    Attributes:
        message: The text that explains the page to the user.
        url: The URL, with the scheme http or https.
        host: The host of the URL. Show it to the user.
        id: The `elicitationId` of 2025-11-25; None in other versions.
        params: All params of the request.
        server: The server's `Implementation` (`name`, `title`). Show the user which server sends the request.

    Raises:
        MalformedError: The params are malformed.
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
        """Return the `ElicitResult` to send to the server.

        Args:
            answer: True if the user consents, False if the user declines, None if the user dismisses the request, or an
                `ElicitationResult`.

        Raises:
            TypeError: The answer is none of these.
        """
        if isinstance(answer, ElicitationResult):
            return {"action": answer.action}
        if answer is None:
            return {"action": "cancel"}
        if not isinstance(answer, bool):
            raise TypeError(f"elicit_url= must return True, False or None, not {answer!r}")
        return {"action": "accept" if answer else "decline"}

    def __repr__(self) -> str:
        """Return a representation with message and URL."""
        return f"UrlRequest({self.message!r}, {self.url!r})"


def _host(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.scheme in ("http", "https") and url.isprintable() else None
    except ValueError:
        return None


async def retry_after_url_elicitation(
    error: ProtocolError,
    send: Callable[[], Awaitable[Json]],
    handler: RequestHandler,
    listeners: Listeners[[str, Json | None]],
) -> Json:
    """Show the user the pages named in an error, and send the request again.

    The request is sent again when the server notifies that the user has finished, and otherwise a few times after a
    pause. The user gets each page once.

    Args:
        error: The error with code -32042.
        send: Sends the request once more, under a new id.
        handler: Handles `elicitation/create`.
        listeners: The listeners to the server's notifications.

    Returns:
        The result.

    Raises:
        ProtocolError: The server responded with another error; or the user declined, or the server repeats this error.
    """
    shown: set[str] = set()
    finished: set[str] = set()
    news = asyncio.Event()

    def on_notification(method: str, params: Json | None) -> None:
        if method == "notifications/elicitation/complete" and params is not None:
            id_ = params.get("elicitationId")
            if isinstance(id_, str) and len(finished) < _MAX_FINISHED:
                finished.add(id_)
                news.set()

    async def wait_until_finished() -> None:
        while not shown <= finished:
            news.clear()
            await news.wait()

    remove_listener = listeners.add(on_notification)
    pause = _MIN_PAUSE
    try:
        for _ in range(_MAX_ROUNDS):
            await _show_pages(error, shown, handler)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(wait_until_finished(), pause)
            pause = min(2 * pause, _MAX_PAUSE)
            try:
                return await send()
            except ProtocolError as again:
                if again.code != URL_ELICITATION_REQUIRED:
                    raise
                error = again
        raise error
    finally:
        remove_listener()


async def _show_pages(error: ProtocolError, shown: set[str], handler: RequestHandler) -> None:
    """Pass the elicitations in an error to the handler, except those shown before; raise the error if one fails."""
    elicitations: object = error.data.get("elicitations") if is_object(error.data) else None
    if not is_array(elicitations) or not elicitations:
        raise error
    if not all(is_object(each) and isinstance(each.get("elicitationId"), str) for each in elicitations):
        raise error
    for elicitation in elicitations:
        if elicitation["elicitationId"] in shown:
            continue
        shown.add(elicitation["elicitationId"])
        try:
            response = await handler.answer("elicitation/create", {**elicitation, "mode": "url"})
        except ProtocolError:  # there is no handler, or the elicitation is malformed
            raise error from None
        if response.get("action") != "accept":
            raise error
