"""A protected server and its authorization server at one origin, of which every part can be wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

Document = dict[str, Any]
RESOURCE = "/.well-known/oauth-protected-resource"
ISSUER = "/.well-known/oauth-authorization-server"


@dataclass
class Site:
    """What is served; `{origin}` in texts stands for the origin.

    Attributes:
        first: The status for who has no token.
        bad: The status for who has a bad one.
        challenge: The header of a 401; None for none.
        headers: More headers of the first answer.
        resource: Changes to the metadata of the server; None removes a member.
        resource_at: The paths where it is.
        issuer: Changes to the metadata of the authorization server.
        issuer_at: The paths where it is.
        answer: What answers a path in the place of all this, by path.
        pages: Whether pages of the web may read it.
    """

    first: int = 401
    bad: int = 401
    challenge: str | None = (
        'Bearer resource_metadata="{origin}/.well-known/oauth-protected-resource/mcp", scope="notes:read"'
    )
    headers: dict[str, str] = field(default_factory=dict)
    resource: Document = field(default_factory=dict)
    resource_at: tuple[str, ...] = (f"{RESOURCE}/mcp",)
    issuer: Document = field(default_factory=dict)
    issuer_at: tuple[str, ...] = (ISSUER,)
    answer: dict[str, Callable[[], Response]] = field(default_factory=dict)
    pages: bool = True
    seen: list[tuple[str, str, str | None]] = field(default_factory=list)

    def app(self) -> ASGIApp:
        """Return the ASGI app."""
        app = Starlette()
        for methods in (["GET", "POST", "DELETE"],):
            app.add_route("/{path:path}", self._serve, methods=methods)
        if not self.pages:
            return app
        return CORSMiddleware(
            app,
            allow_origins=["*"],
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=["WWW-Authenticate"],
        )

    async def _serve(self, request: Request) -> Response:
        origin, path = str(request.base_url).rstrip("/"), request.url.path
        token = request.headers.get("authorization")
        self.seen.append((request.method, path, token))
        if path in self.answer:
            return self.answer[path]()
        if path in self.resource_at:
            return JSONResponse(_changed(_resource(origin), self.resource, origin))
        if path in self.issuer_at:
            return JSONResponse(_changed(_issuer(origin), self.issuer, origin))
        if path != "/mcp":
            return Response(status_code=404)
        status = self.first if token is None else self.bad
        headers = {name: value.replace("{origin}", origin) for name, value in self.headers.items()}
        if status == 401 and self.challenge is not None:
            headers["WWW-Authenticate"] = self.challenge.replace("{origin}", origin)
        return JSONResponse({"jsonrpc": "2.0", "id": 1, "result": {}}, status, headers)


def _changed(document: Document, changes: Document, origin: str) -> Document:
    changed = {
        name: value.replace("{origin}", origin) if isinstance(value, str) else value
        for name, value in {**document, **changes}.items()
        if value is not None
    }
    for name in ("authorization_servers",):
        if isinstance(changed.get(name), list):
            changed[name] = [str(each).replace("{origin}", origin) for each in changed[name]]
    return changed


def _resource(origin: str) -> Document:
    return {
        "resource": f"{origin}/mcp",
        "authorization_servers": [origin],
        "scopes_supported": ["notes:read"],
        "bearer_methods_supported": ["header"],
    }


def _issuer(origin: str) -> Document:
    return {
        "issuer": origin,
        "authorization_endpoint": f"{origin}/authorize",
        "token_endpoint": f"{origin}/token",
        "registration_endpoint": f"{origin}/register",
        "response_types_supported": ["code"],
        "grant_types_supported": ["authorization_code", "refresh_token"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["none"],
        "client_id_metadata_document_supported": True,
        "authorization_response_iss_parameter_supported": True,
    }
