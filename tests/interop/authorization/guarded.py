"""Servers that want a token: ours, and one of the official SDK, the control group. What goes over the wire is kept."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx2
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from mcp.server import MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings

from mcpkit import Context, Scope, Server
from mcpkit.auth import Jwt, TokenVerifier
from tests.helpers.serving import in_thread_at


class Exchange(NamedTuple):
    """A request and the answer to it.

    Attributes:
        message: The method of its JSON-RPC message, or nothing.
        has_token: Whether it carried an access token.
        challenge: The `WWW-Authenticate` of the answer, or nothing.
    """

    method: str
    path: str
    message: str
    has_token: bool
    status: int
    challenge: str


class Guarded(NamedTuple):
    """A server that runs.

    Attributes:
        url: Its endpoint.
        exchanges: What it was asked so far.
        notes: What its tool `add_note` has kept.
    """

    url: str
    exchanges: list[Exchange]
    notes: list[str]

    @property
    def challenges(self) -> list[tuple[int, str, bool]]:
        """The refusals so far: the status, the method of the message, and whether there was a token."""
        return [
            (each.status, each.message, each.has_token)
            for each in self.exchanges
            if each.status in (401, 403)
        ]


class Recorded:
    """An ASGI app that keeps what goes in and out; messages are short here, and come in one piece."""

    def __init__(self, app: Any, exchanges: list[Exchange]) -> None:
        self._app = app
        self._exchanges = exchanges

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        message = ""

        async def received() -> Any:
            nonlocal message
            event = await receive()
            if event.get("body"):
                message = method_of(event["body"])
            return event

        async def sent(event: Any) -> None:
            if event["type"] == "http.response.start":
                headers = {name.decode().lower(): value.decode() for name, value in event["headers"]}
                has_token = any(name == b"authorization" for name, _ in scope["headers"])
                challenge = headers.get("www-authenticate", "")
                self._exchanges.append(
                    Exchange(scope["method"], scope["path"], message, has_token, event["status"], challenge)
                )
            await send(event)

        return await self._app(scope, received, sent)


def method_of(body: bytes) -> str:
    """The JSON-RPC method in a body, with the name of a tool behind it."""
    try:
        message = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(message, dict):
        return ""
    name = message.get("params", {}).get("name")
    return f"{message.get('method', '')} {name}" if name else message.get("method", "")


class OfficialVerifier:
    """Verifies the JWTs of an issuer for one audience, as an author who uses the official SDK has to write it."""

    def __init__(self, issuer: str, audience: str) -> None:
        self._issuer = issuer
        self._audience = audience

    async def verify_token(self, token: str) -> AccessToken | None:
        async with httpx2.AsyncClient() as http:
            keys = KeySet.import_key_set((await http.get(f"{self._issuer}/jwks")).json())
        try:
            claims = jwt.decode(token, keys, algorithms=["RS256"]).claims
            exact = {"essential": True}
            jwt.JWTClaimsRegistry(
                iss={**exact, "value": self._issuer}, aud={**exact, "value": self._audience}, exp=exact
            ).validate(claims)
        except (JoseError, ValueError):
            return None
        return AccessToken(
            token=token,
            client_id=claims["client_id"],
            scopes=claims.get("scope", "").split(),
            expires_at=claims["exp"],
            resource=self._audience,
            subject=claims["sub"],
            claims=claims,
        )


class StepUp:
    """Refuses `add_note` without `notes:write`: the official SDK has scopes for the whole server alone."""

    def __init__(self, app: Any, verifier: OfficialVerifier, metadata: str) -> None:
        self._app = app
        self._verifier = verifier
        self._metadata = metadata

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            return await self._app(scope, receive, send)
        event = await receive()
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode()
        if method_of(event["body"]) == "tools/call add_note":
            token = await self._verifier.verify_token(authorization.removeprefix("Bearer "))
            if token is not None and "notes:write" not in token.scopes:
                challenge = (
                    'Bearer error="insufficient_scope", scope="notes:read notes:write", '
                    f'resource_metadata="{self._metadata}"'
                )
                headers = [(b"www-authenticate", challenge.encode()), (b"content-length", b"0")]
                await send({"type": "http.response.start", "status": 403, "headers": headers})
                return await send({"type": "http.response.body", "body": b""})
        waiting = [event]

        async def received() -> Any:
            return waiting.pop() if waiting else await receive()

        return await self._app(scope, received, send)


def notebook(auth: TokenVerifier, notes: list[str], **options: Any) -> Server:
    """Return a server of this package with tools that need more and more.

    Args:
        auth: Verifies its tokens.
        notes: What its tools keep.
        options: More for `Server`.
    """
    server = Server(
        "ours",
        auth=auth,
        scopes={
            "notes:read": Scope("Read notes", default=True),
            "notes:write": Scope("Change notes", implies=["notes:read"]),
            "notes:admin": Scope("Change the notes of everybody", implies=["notes:write"]),
        },
        **options,
    )

    @server.tool(scopes="notes:read")
    def whoami(ctx: Context) -> dict[str, Any]:
        return {"subject": ctx.principal.subject, "scopes": sorted(ctx.principal.scopes)}

    @server.tool(scopes="notes:write")
    def add_note(text: str) -> str:
        notes.append(text)
        return "added"

    @server.tool(scopes="notes:write", may_need="notes:admin")
    async def pin_note(text: str, ctx: Context) -> str:
        ctx.require("notes:admin")
        notes.append(f"{text}, pinned")
        return "pinned"

    return server


@contextmanager
def ours(issuer: str) -> Iterator[Guarded]:
    """Run a server of this package that wants tokens of an issuer."""
    exchanges: list[Exchange] = []
    notes: list[str] = []
    server = notebook(Jwt(issuer), notes)
    with in_thread_at(lambda origin: Recorded(server.asgi(public_url=f"{origin}/mcp"), exchanges)) as origin:
        yield Guarded(f"{origin}/mcp", exchanges, notes)


@contextmanager
def official(issuer: str) -> Iterator[Guarded]:
    """Run a server of the official SDK that wants tokens of an issuer."""
    exchanges: list[Exchange] = []
    notes: list[str] = []

    def make(origin: str) -> Any:
        url = f"{origin}/mcp"
        verifier = OfficialVerifier(issuer, url)
        root = logging.getLogger()
        level, handlers = root.level, root.handlers[:]
        server = MCPServer(
            "official",
            token_verifier=verifier,
            auth=AuthSettings(
                issuer_url=issuer,
                resource_server_url=url,
                required_scopes=["notes:read"],
                validate_token_resource=True,
            ),
        )
        root.setLevel(level)  # it sets up the logging of the whole process
        root.handlers[:] = handlers

        @server.tool()
        def whoami() -> dict[str, Any]:
            token = get_access_token()
            assert token is not None
            return {"subject": token.subject, "scopes": sorted(token.scopes)}

        @server.tool()
        def add_note(text: str) -> str:
            notes.append(text)
            return "added"

        metadata = f"{origin}/.well-known/oauth-protected-resource/mcp"
        return Recorded(StepUp(server.streamable_http_app(), verifier, metadata), exchanges)

    with in_thread_at(make) as origin:
        yield Guarded(f"{origin}/mcp", exchanges, notes)
