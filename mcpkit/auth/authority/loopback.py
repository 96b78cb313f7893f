"""Restriction of a development server to its own machine."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from ...protocol import http_headers
from ..urls import is_loopback

_FORWARDING = frozenset(
    {b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"x-host", b"x-proxyuser-ip"}
    | {b"x-rewrite-url", b"client-ip", b"true-client-ip", b"fastly-client-ip", b"fly-client-ip", b"cdn-loop"}
)
_FORWARDING_PREFIXES = (b"x-forwarded", b"x-original-", b"x-envoy-", b"x-azure-", b"cf-")
"""Headers that proxies and tunnels add for clients on other machines."""

_BEGIN = "DevAuth only serves this machine: "


def refusal(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the reason to refuse a request that names another host or came through a proxy; else None.

    Args:
        headers: Headers of the request, by lower-case name.
    """
    host = http_headers.host(headers.get(b"host", b"").decode("latin-1"))
    if host is None or not is_loopback(host.name.strip("[]")):
        return f"{_BEGIN}the Host header is not localhost, 127.0.0.1 or [::1]. Use one of these in the URL"
    for header in headers:
        if header in _FORWARDING or header.startswith(_FORWARDING_PREFIXES):
            return (
                f"{_BEGIN}the request has the header {header.decode('latin-1')}, so a proxy or tunnel forwarded it. "
                "Connect without one, or use a real authorization server"
            )
    return None


class Nearby:
    """ASGI middleware that only serves requests from this machine.

    Args:
        app: The ASGI app.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve or refuse a request."""
        reason = refusal(dict(scope["headers"]))
        peer = scope.get("client")
        if reason is None and peer is not None and not is_loopback(peer[0]):
            reason = f"{_BEGIN}the request comes from another machine. Use a real authorization server for it"
        if reason is None and scope.get("http_version") == "1.0":
            # nginx adds no header unless it is told to, names this machine as the host, and speaks HTTP/1.0.
            reason = (
                f"{_BEGIN}this request came through a proxy (HTTP/1.0). "
                "Use a real authorization server behind a proxy"
            )
        if reason is None:
            await self._app(scope, receive, send)
        else:
            await PlainTextResponse(reason, 403)(scope, receive, send)
