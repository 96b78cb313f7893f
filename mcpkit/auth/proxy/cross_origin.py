"""CORS for clients that are web pages: what an authorization server says to programs, pages of any origin may read."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_EXPOSED = "Retry-After, WWW-Authenticate"
_PREFLIGHT_SECONDS = "7200"
"""How long a browser may keep a preflight's answer: as long as Chrome keeps any."""


class ForAnyOrigin:
    """Lets pages of any origin read what is answered, and takes no cookie of theirs.

    What is answered here depends on no cookie, so that a page reads no more than its own server could.

    Args:
        app: What answers.
        methods: The methods that it knows.

    Attributes:
        is_for_any_origin: Says so to whoever refuses the pages of other sites.
    """

    is_for_any_origin = True

    def __init__(self, app: ASGIApp, methods: Collection[str]) -> None:
        self._app = app
        self._methods = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a preflight, or let pages read an answer."""
        if scope["method"] == "OPTIONS":
            asked = Headers(scope=scope).get("access-control-request-headers")
            allowed = {} if asked is None else {"Access-Control-Allow-Headers": asked}
            answer = Response(
                status_code=204,
                headers={
                    "Access-Control-Allow-Origin": "*",
                    "Access-Control-Allow-Methods": self._methods,
                    "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
                    "Vary": "Access-Control-Request-Headers",
                    **allowed,
                },
            )
            await answer(scope, receive, send)
            return

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                answered = MutableHeaders(scope=message)
                answered["Access-Control-Allow-Origin"] = "*"
                answered["Access-Control-Expose-Headers"] = _EXPOSED
            await send(message)

        await self._app(scope, receive, add)
