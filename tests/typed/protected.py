"""A protected server and its clients as authors write them; the type checkers read it.

The mistakes at the end are ones that the checkers must report: an ignored error that is none is an error to them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from typing_extensions import assert_type

from mcpkit import Access, Client, Context, HttpOptions, Principal, Scope, Server, SyncClient
from mcpkit.auth import (
    AccessToken,
    AuditEvent,
    DevAuth,
    DevClient,
    DevUser,
    Entra,
    Introspection,
    InvalidTokenError,
    Jwt,
    Keycloak,
    StaticTokens,
    TokenVerifier,
)
from mcpkit.client import ClientCredentials, FileTokens, LocalCallbackServer, OAuth
from mcpkit.doctor import check_authorization
from mcpkit.storage import Sqlite

ISSUER = "https://id.example.com"


class Badges(TokenVerifier):
    """Knows badges."""

    async def verify(self, token: str, audience: str) -> AccessToken:
        if token != "badge":
            raise InvalidTokenError("the badge is unknown")
        return badge()


def badge() -> AccessToken:
    return AccessToken(Principal("badge:ada", {"notes:read"}), expires=None)


development = DevAuth(
    users=["ada", DevUser("bob", password="p", scopes=["notes:read"], claims={"groups": ["ops"]})],
    clients=[DevClient("ci", secret="s", scopes={"notes:read"})],
)
several = [
    Jwt(ISSUER, audience=["a", "b"], required={"org_id": "acme"}, claims=["groups"], leeway=5),
    Introspection("https://opaque.example.com", client_id="notes", client_secret="s"),
    StaticTokens({"0" * 64: ("backup", ["notes:read"])}),
    Keycloak("https://sso.example.com/realms/one"),
    Entra("00000000-0000-0000-0000-000000000000", "00000000-0000-0000-0000-000000000001"),
    Badges(),
]
server = Server(
    "notes",
    secret_key=["the new one, 16 characters", b"the old one, 16 characters"],
    storage=Sqlite(Path("notes.db")),
    auth=several,
    scopes={
        "notes:read": Scope("Read notes", default=True),
        "notes:write": Scope("Change notes", implies=["notes:read"]),
        "notes:admin": "Do anything",
    },
)


def is_admin(who: Principal) -> bool:
    return "notes:admin" in who.scopes


@server.tool(access=Access(scopes="notes:write", optional_scopes=["notes:admin"]))
async def add_note(text: str, ctx: Context, pinned: bool = False) -> str:
    """Add a note."""
    if pinned:
        ctx.require_scopes("notes:admin", "notes:write")
    assert_type(ctx.principal.id, "str | None")
    assert_type(ctx.principal.scopes, frozenset[str])
    assert_type(ctx.principal.claims["groups"], object)
    return text


@server.tool(access=Access(scopes={"notes:admin"}, visible=is_admin, allow_anonymous=False))
async def lock_out(subject: str) -> None:
    """Send somebody away."""
    await server.revoke(f"{ISSUER}#sub={subject}", ttl=3600)
    await server.revoke(Principal(subject))


@server.resource("notes://{name}", scopes="notes:read")
def note(name: str) -> str:
    """One note."""
    return name


@server.route("/export", scopes="notes:read")
async def export(request: Request) -> Response:
    """All notes."""
    return JSONResponse({})


@server.on_audit
def on_event(event: AuditEvent) -> None:
    """Hear of what happens."""
    assert_type(event.scopes, tuple[str, ...])


app = server.asgi(public_url="https://mcp.example.com/mcp", http=HttpOptions(readiness_path="/health"))
routes = app.well_known()


async def log_in() -> None:
    """Ask it, by each way in."""
    storage, browser = FileTokens("tokens.json"), LocalCallbackServer(port=8123)
    user = OAuth(client_id="notebook", issuer=ISSUER, scopes=["notes:read"], storage=storage, browser=browser)
    program = ClientCredentials("reports", "secret", issuer=ISSUER)
    async with Client("https://mcp.example.com/mcp", auth=user) as client:
        assert_type(await client.call_tool("add_note", {"text": "a"}, result_type=str), str)
    Client("https://mcp.example.com/mcp", auth="oauth")
    with SyncClient("https://mcp.example.com/mcp", auth=program) as waiting:
        waiting.call_tool("status")
    for finding in await check_authorization("https://mcp.example.com/mcp"):
        assert_type(finding.code, str)


if TYPE_CHECKING:
    Server("s", auth=Jwt)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Server("s", auth=OAuth())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Server("s", scopes=["notes:read"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Server("s", storage="notes.db")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Scope("Read", implies=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    Jwt(ISSUER, audiences="a")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    Client("https://mcp.example.com/mcp", auth=Jwt(ISSUER))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    server.asgi(auth=development)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    server.run("http", public_url=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
