"""Rate limits of a public authorization server."""

from __future__ import annotations

import logging
import math
from typing import NamedTuple

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...identity.audit import AuditLog
from ...identity.principal import digest_of
from ...storage.base import PubSub
from ..authority.callers import caller_of, is_unbelieved_proxy
from ..authority.errors import NOT_KEPT
from ..authority.look import Look
from ..authority.pages import page

logger = logging.getLogger(__name__)


class Rate(NamedTuple):
    """Rate limit of one address.

    Attributes:
        every: Seconds until one more request is allowed.
        burst: Maximum requests at once.
    """

    every: float
    burst: int


PAGES = Rate(every=1.0, burst=60)
"""For pages. One address can be a household or a company."""
REGISTRATIONS = Rate(every=2.0, burst=60)
TOKENS = Rate(every=0.1, burst=300)
"""For tokens. One address can be a host that runs the clients of all its users."""


class Limits:
    """Counts requests of each address, in all processes together.

    Requests through a proxy that the ASGI server does not trust are not counted, because all its clients would share
    one address. Nothing is counted while the storage does not respond.

    Args:
        broker: Storage of the counters.
        name: Name of the server.
        audit: The audit log.
        look: Title and logo of the pages.
    """

    def __init__(self, broker: PubSub, name: str, audit: AuditLog, look: Look) -> None:
        self._broker = broker
        self._name = name
        self._audit = audit
        self._look = look
        self._has_warned = False

    async def refusal(self, scope: Scope, what: str, rate: Rate, *, is_page: bool) -> Response | None:
        """Return the response to a request above the limit; None below it.

        Args:
            scope: The request.
            what: Name of the endpoint. Each is counted separately.
            rate: The limit.
            is_page: Whether the response is a page for a user.
        """
        caller = caller_of(scope)
        if caller is None:
            self._warn(scope)
            return None
        key = f"{self._name}/authority/{what}/{digest_of(caller)[:32]}"
        try:
            wait = await self._broker.take_tokens(key, every=rate.every, burst=rate.burst)
        except OSError:
            return None
        if not wait:
            return None
        self._audit.emit(
            "refusal", status=429, reason="too_many", detail=f"too many requests to {what}", caller=caller
        )
        return self._refused(math.ceil(wait), is_page=is_page)

    def _warn(self, scope: Scope) -> None:
        """Log once that requests through an untrusted proxy are not rate limited."""
        if not self._has_warned and is_unbelieved_proxy(scope):
            self._has_warned = True
            logger.warning(
                "%s: rate limits are off for requests through the proxy %s, as the ASGI server does not trust its"
                " forwarding headers. Add the proxy to the trusted ones, as in uvicorn --forwarded-allow-ips",
                self._name,
                scope["client"][0],
            )

    def _refused(self, seconds: int, *, is_page: bool) -> Response:
        text = f"Too many requests from your address; try again in {seconds} s"
        if is_page:
            response: Response = page("Please wait", f"<p>{text}.</p>", 429, look=self._look)
        else:
            said = {"error": "temporarily_unavailable", "error_description": text}
            response = JSONResponse(said, 429, headers=NOT_KEPT)
        response.headers["Retry-After"] = str(seconds)
        return response


class Limited:
    """ASGI middleware that refuses requests above a rate limit.

    Args:
        app: The ASGI app.
        limits: The counters.
        what: Name of the endpoint.
        rate: The limit.
        is_page: Whether responses are pages for users.
    """

    def __init__(self, app: ASGIApp, limits: Limits, what: str, rate: Rate, *, is_page: bool) -> None:
        self._app = app
        self._limits = limits
        self._what, self._rate, self._is_page = what, rate, is_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse a request."""
        refusal = await self._limits.refusal(scope, self._what, self._rate, is_page=self._is_page)
        await (refusal or self._app)(scope, receive, send)
