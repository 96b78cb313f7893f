"""Rate limits and CORS of the endpoints of a public authorization server."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...identity.principals_and_scopes import digest_of
from ..authorization_server.html_pages import Branding, page
from ..authorization_server.oauth_requests import NO_STORE, client_address, is_untrusted_proxy
from ..verifier import ProtectedResource

logger = logging.getLogger(__name__)

_PREFLIGHT_SECONDS = "7200"
"""Seconds for which a browser may cache a preflight response, the maximum of Chrome."""


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

_PAGES = frozenset({"authorize", "callback"})
"""Last path segments of pages for browsers. All other endpoints are for programs."""
_RATES = {"authorize": PAGES, "callback": PAGES, "register": REGISTRATIONS, "token": TOKENS, "revoke": TOKENS}


def protect_routes(routes: Iterable[Route], resource: ProtectedResource, branding: Branding) -> list[Route]:
    """Return the endpoints of an authorization server with rate limits and CORS.

    Args:
        routes: The endpoints.
        resource: The protected server, which has the storage of the counters.
        branding: Title and logo of the pages.
    """
    warned: set[str] = set()
    protected: list[Route] = []
    for route in routes:
        name, app, methods = route.path.rpartition("/")[2], route.app, set(route.methods or ())
        if name in _RATES:
            app = _RateLimit(app, name, resource, branding, warned)
        if name not in _PAGES:
            app = _AnyOrigin(app, ", ".join(sorted(methods | {"OPTIONS"})))
            methods.add("OPTIONS")
        protected.append(Route(route.path, app, methods=sorted(methods)))
    return protected


@dataclass
class _RateLimit:
    """ASGI middleware that counts the requests of each address, in all processes together, and refuses excessive ones.

    Requests through a proxy that the ASGI server does not trust are not counted, because all its clients would share
    one address. Nothing is counted while the storage does not respond.

    Attributes:
        app: The endpoint.
        endpoint: Its name. Each is counted separately.
        resource: The protected server, which has the storage of the counters.
        branding: Title and logo of the pages.
        warned: The proxy that a warning has named, shared by all endpoints.
    """

    app: ASGIApp
    endpoint: str
    resource: ProtectedResource
    branding: Branding
    warned: set[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        seconds, address = 0.0, client_address(scope)
        resource, endpoint, rate = self.resource, self.endpoint, _RATES[self.endpoint]
        if address is not None:
            key = f"{resource.name}/authority/{endpoint}/{digest_of(address)[:32]}"
            with suppress(OSError):
                seconds = await resource.storage.take_tokens(key, every=rate.every, burst=rate.burst)
        elif not self.warned and is_untrusted_proxy(scope):
            self.warned.add(scope["client"][0])
            logger.warning(
                "%s: rate limits are off for requests through the proxy %s, as the ASGI server does not trust its"
                " forwarding headers. Add the proxy to the trusted ones, as in uvicorn --forwarded-allow-ips",
                resource.name,
                scope["client"][0],
            )
        if not seconds:
            await self.app(scope, receive, send)
            return
        detail = f"too many requests to {endpoint}"
        resource.audit.emit("refusal", status=429, reason="too_many", detail=detail, caller=address)
        text = f"Too many requests from your address; try again in {math.ceil(seconds)} s"
        if endpoint in _PAGES:
            response: Response = page("Please wait", f"<p>{text}.</p>", 429, branding=self.branding)
        else:
            content = {"error": "temporarily_unavailable", "error_description": text}
            response = JSONResponse(content, 429, headers=NO_STORE)
        response.headers["Retry-After"] = str(math.ceil(seconds))
        await response(scope, receive, send)


class _AnyOrigin:
    """ASGI middleware that allows pages of any origin to read responses (CORS).

    The responses depend on no cookie, so a page reads no more than its own server could.

    Attributes:
        is_for_any_origin: Exempts the endpoint from the refusal of cross-origin requests.
    """

    is_for_any_origin = True

    def __init__(self, app: ASGIApp, methods: str) -> None:
        self._app = app
        self._methods = methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS":
            headers = {
                "Access-Control-Allow-Origin": "*",
                "Access-Control-Allow-Methods": self._methods,
                "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
                "Vary": "Access-Control-Request-Headers",
            }
            if (requested := Headers(scope=scope).get("access-control-request-headers")) is not None:
                headers["Access-Control-Allow-Headers"] = requested
            await Response(status_code=204, headers=headers)(scope, receive, send)
            return

        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers["Access-Control-Allow-Origin"] = "*"
                headers["Access-Control-Expose-Headers"] = "Retry-After, WWW-Authenticate"
            await send(message)

        await self._app(scope, receive, add_headers)
