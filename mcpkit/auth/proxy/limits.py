"""How often somebody may come to an authorization server that the whole internet sees."""

from __future__ import annotations

import logging
import math
from typing import NamedTuple

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...state.audit import AuditLog
from ...state.broker import PubSub
from ...state.owner import digest_of
from ..authority.callers import caller_of, is_unbelieved_proxy
from ..authority.errors import NOT_KEPT
from ..authority.look import Look
from ..authority.pages import page

logger = logging.getLogger(__name__)


class Rate(NamedTuple):
    """How often an address may come.

    Attributes:
        every: Seconds after which it may once more.
        burst: How often it may at once.
    """

    every: float
    burst: int


PAGES = Rate(every=1.0, burst=60)
"""Pages, where one address is a household, or a company behind one."""
REGISTRATIONS = Rate(every=2.0, burst=60)
TOKENS = Rate(every=0.1, burst=300)
"""Tokens, where one address may be a host that has all its users' clients on its own servers."""


class Limits:
    """Counts requests of each address, in all processes together.

    Whose address cannot be told is not counted, such as that of a proxy that the ASGI server does not believe: all of
    its clients would be one. Nor is anything counted while the store does not
    answer, which whatever comes of a request needs as well.

    Args:
        broker: Where they are counted.
        name: The server's name.
        audit: Hears of those that are refused.
        look: How a page looks.
    """

    def __init__(self, broker: PubSub, name: str, audit: AuditLog, look: Look) -> None:
        self._broker = broker
        self._name = name
        self._audit = audit
        self._look = look
        self._has_warned = False

    async def refusal(self, scope: Scope, what: str, rate: Rate, *, is_page: bool) -> Response | None:
        """Return what is answered to who comes too often; None to others.

        Args:
            scope: The request.
            what: What is asked for: each is counted apart.
            rate: How often.
            is_page: Whether a person reads it.
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
    """Answers whoever does not come too often.

    Args:
        app: What answers.
        limits: Count.
        what: What is asked for.
        rate: How often.
        is_page: Whether a person reads the answers.
    """

    def __init__(self, app: ASGIApp, limits: Limits, what: str, rate: Rate, *, is_page: bool) -> None:
        self._app = app
        self._limits = limits
        self._what, self._rate, self._is_page = what, rate, is_page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        refusal = await self._limits.refusal(scope, self._what, self._rate, is_page=self._is_page)
        await (refusal or self._app)(scope, receive, send)
