"""CORS for web pages of the origins that the guard allows."""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .guard import Guard

_EXPOSED = "Mcp-Session-Id, MCP-Protocol-Version, Retry-After, WWW-Authenticate"
_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"
_PREFLIGHT_SECONDS = "7200"
"""Seconds for which a browser may cache a preflight response, the maximum of Chrome."""

_ASKED = ", ".join(
    ["Origin", *(f"Access-Control-Request-{what}" for what in ("Method", "Headers", "Private-Network"))]
)


class Cors:
    """ASGI middleware for CORS, independent of the version of Starlette.

    All requested headers are accepted, because authors choose the names of `Mcp-Param-*`. Cookies and other ambient
    credentials are not: a client sends its token in `Authorization`.

    Args:
        app: The ASGI app. Put the guard before this middleware, so that a preflight request of another origin is
            refused too.
        guard: Check of origins.
    """

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        self._app = app
        self._guard = guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a preflight request, or add CORS headers to the response of the app."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        allowed = self._allowed(headers.get("origin"))
        if allowed and scope["method"] == "OPTIONS" and "access-control-request-method" in headers:
            await PlainTextResponse("OK", headers=_preflight(headers, allowed))(scope, receive, send)
            return

        async def add(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                answered = MutableHeaders(scope=message)
                answered["Vary"] = ", ".join([*answered.getlist("Vary"), "Origin"])
                if allowed:
                    answered["Access-Control-Allow-Origin"] = allowed
                    answered["Access-Control-Expose-Headers"] = _EXPOSED
            await send(message)

        await self._app(scope, receive, add)

    def _allowed(self, origin: str | None) -> str | None:
        if origin is None or not self._guard.allows_origin(origin):
            return None
        return "*" if self._guard.allows_all_origins else origin


def _preflight(headers: Headers, allowed: str) -> dict[str, str]:
    answered = {
        "Vary": _ASKED,
        "Access-Control-Allow-Origin": allowed,
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
    }
    if (asked := headers.get("access-control-request-headers")) is not None:
        answered["Access-Control-Allow-Headers"] = asked
    if "access-control-request-private-network" in headers:
        answered["Access-Control-Allow-Private-Network"] = "true"
    return answered
