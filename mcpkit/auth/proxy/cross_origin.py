"""CORS for web page clients: pages of any origin can read the responses of an authorization server."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_EXPOSED = "Retry-After, WWW-Authenticate"
_PREFLIGHT_SECONDS = "7200"
"""Seconds for which a browser may cache a preflight response, the maximum of Chrome."""


class ForAnyOrigin:
    """ASGI middleware that allows pages of any origin to read responses.

    The responses depend on no cookie, so a page reads no more than its own server could.

    Args:
        app: The ASGI app.
        methods: Methods of the endpoint.

    Attributes:
        is_for_any_origin: Exempts the endpoint from the refusal of cross-origin requests.
    """

    is_for_any_origin = True

    def __init__(self, app: ASGIApp, methods: Collection[str]) -> None:
        self._app = app
        self._methods = ", ".join(sorted(methods))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a preflight request, or add CORS headers to the response of the app."""
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
