"""Metadata document of a protected endpoint (RFC 9728; basic/authorization)."""

from __future__ import annotations

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import Receive, Scope, Send

from ....components.component import optional
from ....identity.principals_and_scopes import Scopes

_METHODS = "GET, HEAD, OPTIONS"
_HEADERS = {
    "Access-Control-Allow-Origin": "*",  # it is as public as the page of a website
    "Cache-Control": "public, max-age=300",
}


def document(url: str, issuers: tuple[str, ...], scopes: Scopes, name: str) -> bytes:
    """Return the metadata document of an endpoint.

    Args:
        url: Public URL of the endpoint.
        issuers: Issuers of its authorization servers, byte by byte as they identify themselves.
        scopes: Scopes of the server. The document lists only those that clients need first.
        name: Display name of the server.
    """
    return to_json(
        optional(
            resource=url,
            authorization_servers=list(issuers),
            scopes_supported=list(scopes.defaults) or None,
            bearer_methods_supported=["header"],
            resource_name=name,
        )
    )


class Document:
    """ASGI app that serves a document, readable by pages of any origin.

    Args:
        body: The document as JSON.
    """

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        request = Request(scope)
        if request.method == "OPTIONS":
            asked = request.headers.get("access-control-request-headers", "")
            answer = Response(
                status_code=204,
                headers={
                    **_HEADERS,
                    "Access-Control-Allow-Methods": _METHODS,
                    "Access-Control-Allow-Headers": asked,
                    "Access-Control-Max-Age": "7200",
                    "Vary": "Access-Control-Request-Headers",
                },
            )
        elif request.method in {"GET", "HEAD"}:
            answer = Response(self._body, media_type="application/json", headers=_HEADERS)
        else:
            answer = PlainTextResponse("use GET to read this document", 405, {"Allow": _METHODS})
        await answer(scope, receive, send)
