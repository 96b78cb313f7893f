"""A server of mcpkit that takes the tokens of an authorization server whose token endpoint a test scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mcpkit import Context, Scope, Server
from mcpkit.auth import AccessToken, InvalidTokenError, TokenVerifier
from mcpkit.state.principal import client
from tests.helpers.serving import in_thread_at

SCOPES = {"notes:read": Scope("Read", default=True), "notes:write": Scope("Write")}
METADATA = "/.well-known/oauth-authorization-server"


@dataclass
class TokenRequest:
    """What came to a token endpoint."""

    path: str
    form: dict[str, str]
    headers: dict[str, str]


@dataclass
class TokenSite:
    """The authorization server at the root, an identity provider at `/idp`, the MCP server at `/mcp`.

    Attributes:
        issuer: Changes to the metadata.
        answer: Answers a request to `/token`; by default with a new token.
        exchange: The same at `/idp/token`.
        seconds: How long a token is good.
        wraps: What the MCP server is wrapped in.
        requests: What came to both.
        issued: The tokens that are good, and when they end.
        origin: Where it is, as soon as it runs.
        granted: The scopes of each token: those that were asked for.
    """

    issuer: dict[str, Any] = field(default_factory=dict)
    answer: Callable[[TokenRequest], Response] | None = None
    exchange: Callable[[TokenRequest], Response] | None = None
    seconds: float = 3600
    wraps: Callable[[Any], Any] = lambda app: app
    requests: list[TokenRequest] = field(default_factory=list)
    issued: dict[str, float] = field(default_factory=dict)
    origin: str = ""
    granted: dict[str, frozenset[str]] = field(default_factory=dict)

    def token(self, **more: Any) -> Response:
        """Issue a token."""
        token = f"token-{len(self.issued)}-of-the-site"
        self.issued[token] = time.time() + self.seconds
        self.granted[token] = frozenset(self.requests[-1].form.get("scope", "").split())
        return JSONResponse(
            {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds, **more}
        )

    @contextmanager
    def running(self) -> Iterator[str]:
        """Run it, and give the URL of the MCP server."""
        with in_thread_at(self._app) as origin:
            yield f"{origin}/mcp"

    def _app(self, origin: str) -> Any:
        self.origin = origin
        server = Server("notes", auth=_Issued(self), scopes=SCOPES)

        @server.tool
        def whoami(ctx: Context) -> str:
            """Say who asks."""
            assert ctx.principal is not None
            return str(ctx.principal.client_id)

        @server.tool(scopes="notes:write")
        def add_note() -> str:
            """Add a note."""
            return "added"

        own = Starlette(
            routes=[
                Route(METADATA, lambda _: JSONResponse(self._metadata(origin))),
                Route(f"{METADATA}/idp", lambda _: JSONResponse(self._metadata(f"{origin}/idp"))),
                Route("/token", self._asked, methods=["POST"]),
                Route("/idp/token", self._asked, methods=["POST"]),
            ]
        )
        served = self.wraps(server.asgi(public_url=f"{origin}/mcp"))

        async def app(scope: Any, receive: Any, send: Any) -> None:
            is_own = scope["type"] == "http" and scope["path"].endswith(
                ("/token", METADATA, f"{METADATA}/idp")
            )
            await (own if is_own else served)(scope, receive, send)

        return app

    def _metadata(self, issuer: str) -> dict[str, Any]:
        return {
            "issuer": issuer,
            "authorization_endpoint": f"{issuer}/authorize",
            "token_endpoint": f"{issuer}/token",
            "code_challenge_methods_supported": ["S256"],
            **self.issuer,
        }

    async def _asked(self, request: Request) -> Response:
        form = dict(parse_qsl((await request.body()).decode(), strict_parsing=True))
        asked = TokenRequest(request.url.path, form, dict(request.headers))
        self.requests.append(asked)
        answer = self.exchange if asked.path == "/idp/token" else self.answer
        return self.token() if answer is None else answer(asked)


class _Issued(TokenVerifier):
    def __init__(self, site: TokenSite) -> None:
        self._site = site
        self.issuers = (site.origin,)

    async def verify(self, token: str, audience: str) -> AccessToken:
        until = self._site.issued.get(token, 0)
        if until < time.time():
            raise InvalidTokenError("it is not one of these")
        principal = client(self.issuers[0], "reports", self._site.granted[token])
        return AccessToken(
            principal, until, fresh_until=0.0
        )  # asked again for each request, so that a test can revoke it
