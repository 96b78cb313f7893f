"""Rate limits and CORS of the endpoints of a public authorization server."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable
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
    limiter = RateLimiter(resource, branding)
    protected: list[Route] = []
    for route in routes:
        name, app, methods = route.path.rpartition("/")[2], route.app, set(route.methods or ())
        if name in _RATES:
            app = _Limited(app, limiter, name)
        if name not in _PAGES:
            app = _AnyOrigin(app, ", ".join(sorted(methods | {"OPTIONS"})))
            methods.add("OPTIONS")
        protected.append(Route(route.path, app, methods=sorted(methods)))
    return protected


class RateLimiter:
    """Counts requests of each address, in all processes together.

    Requests through a proxy that the ASGI server does not trust are not counted, because all its clients would share
    one address. Nothing is counted while the storage does not respond.

    Args:
        resource: The protected server, which has the storage of the counters.
        branding: Title and logo of the pages.
    """

    def __init__(self, resource: ProtectedResource, branding: Branding) -> None:
        self._resource = resource
        self._branding = branding
        self._has_warned = False

    async def refusal(self, scope: Scope, endpoint: str) -> Response | None:
        """Return the response to a request above the limit; None below it.

        Args:
            scope: The request.
            endpoint: Name of the endpoint. Each is counted separately.
        """
        resource, rate, address = self._resource, _RATES[endpoint], client_address(scope)
        if address is None:
            if not self._has_warned and is_untrusted_proxy(scope):
                self._has_warned = True
                logger.warning(
                    "%s: rate limits are off for requests through the proxy %s, as the ASGI server does not trust its"
                    " forwarding headers. Add the proxy to the trusted ones, as in uvicorn --forwarded-allow-ips",
                    resource.name,
                    scope["client"][0],
                )
            return None
        key = f"{resource.name}/authority/{endpoint}/{digest_of(address)[:32]}"
        try:
            wait = await resource.storage.take_tokens(key, every=rate.every, burst=rate.burst)
        except OSError:
            return None
        if not wait:
            return None
        detail = f"too many requests to {endpoint}"
        resource.audit.emit("refusal", status=429, reason="too_many", detail=detail, caller=address)
        text = f"Too many requests from your address; try again in {math.ceil(wait)} s"
        if endpoint in _PAGES:
            response: Response = page("Please wait", f"<p>{text}.</p>", 429, branding=self._branding)
        else:
            content = {"error": "temporarily_unavailable", "error_description": text}
            response = JSONResponse(content, 429, headers=NO_STORE)
        response.headers["Retry-After"] = str(math.ceil(wait))
        return response


class _Limited:
    """ASGI middleware that refuses requests above a rate limit."""

    def __init__(self, app: ASGIApp, limiter: RateLimiter, endpoint: str) -> None:
        self._app = app
        self._limiter = limiter
        self._endpoint = endpoint

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await self._limiter.refusal(scope, self._endpoint)
        await (refusal or self._app)(scope, receive, send)


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
