"""Protected servers for official clients, with each kind of `auth=`. They record requests and responses."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from mcpkit import Context, Scope, Server
from mcpkit.auth import AuditEvent, DevAuth, Jwt, OAuthProxy, TokenVerifier, UpstreamProvider
from tests.helpers.identity_provider import CONFIDENTIAL, IdentityProvider, confidential, providing
from tests.helpers.serving import in_thread_at

SCOPES = {
    "notes:read": Scope("Read notes", default=True),
    "notes:write": Scope("Change notes", implies=["notes:read"]),
    "notes:admin": Scope("Change the notes of everybody", implies=["notes:write"]),
}
USERS = {"ada": {"email": "ada@example.com"}, "bob": {"email": "bob@example.com"}}
SECRET = "a secret of the tests, long enough"


@dataclass
class RecordedRequest:
    path: str
    has_token: bool
    sent: bytes = b""
    status: int | None = None

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.sent.decode()))

    @property
    def message(self) -> str:
        """The method of a JSON-RPC request, and the name of the tool."""
        try:
            message = json.loads(self.sent)
        except ValueError:
            return ""
        words = (message.get("method"), message.get("params", {}).get("name"))
        return " ".join(word for word in words if word)


class Wire:
    """Records the requests to an ASGI app."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.passed: list[RecordedRequest] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        one = RecordedRequest(scope["path"], any(name == b"authorization" for name, _ in scope["headers"]))
        self.passed.append(one)

        async def received() -> Any:
            event = await receive()
            one.sent += event.get("body", b"")
            return event

        async def sent(event: Any) -> None:
            one.status = event.get("status", one.status)
            await send(event)

        return await self._app(scope, received, sent)


class ProtectedServer(NamedTuple):
    url: str
    exchanges: list[RecordedRequest]
    notes: list[str]


def make_server(
    auth: TokenVerifier,
    notes: list[str],
    audit: Callable[[AuditEvent], None] = lambda _: None,
    **options: Any,
) -> Server:
    server = Server("notes", auth=auth, scopes=SCOPES, **options)
    server.on_audit(audit)

    @server.tool(scopes="notes:read")
    def whoami(ctx: Context) -> dict[str, Any]:
        return {"subject": ctx.principal.subject, "scopes": sorted(ctx.principal.scopes)}

    @server.tool(scopes="notes:write")
    def add_note(text: str) -> str:
        notes.append(text)
        return "added"

    return server


@contextmanager
def serve(auth: TokenVerifier) -> Iterator[ProtectedServer]:
    notes: list[str] = []
    server = make_server(auth, notes)
    wires: list[Wire] = []

    def make(origin: str) -> Wire:
        wires.append(Wire(server.asgi(public_url=f"{origin}/mcp")))
        return wires[0]

    with in_thread_at(make) as origin:
        yield ProtectedServer(f"{origin}/mcp", wires[0].passed, notes)


def serve_jwt(issuer: str) -> AbstractContextManager[ProtectedServer]:
    return serve(Jwt(issuer))


def serve_dev_auth() -> AbstractContextManager[ProtectedServer]:
    return serve(DevAuth(users=["ada", "bob"]))


class ProxyServer(NamedTuple):
    """A server with an `OAuthProxy`, and the provider behind it."""

    guarded: ProtectedServer
    provider: IdentityProvider
    wire: Wire
    events: list[AuditEvent]

    @property
    def url(self) -> str:
        return self.guarded.url


@contextmanager
def serve_provider(callback: str) -> Iterator[IdentityProvider]:
    client = confidential(callback)
    claims = {"email": ["email"]}
    with providing(
        registers=False, reads_documents=False, clients=[client], users=USERS, identity_claims=claims
    ) as provider:
        yield provider


@contextmanager
def serve_proxy(*, issuer: str = "") -> Iterator[ProxyServer]:
    with ExitStack() as stack:
        proxies: list[ProxyServer] = []

        def make(origin: str) -> Wire:
            provider = stack.enter_context(serve_provider(f"{origin}{issuer}/callback"))
            proxies.append(make_proxy(provider, f"{origin}/mcp", f"{origin}{issuer}" if issuer else None))
            return proxies[0].wire

        stack.enter_context(in_thread_at(make))
        yield proxies[0]


def make_proxy(provider: IdentityProvider, url: str, issuer: str | None) -> ProxyServer:
    """Make a server at a URL with logins at the provider; `wire` is its app."""
    upstream = UpstreamProvider.openid(
        provider.issuer, *CONFIDENTIAL, name="directory", scopes=["openid", "email"]
    )
    notes: list[str] = []
    events: list[AuditEvent] = []
    server = make_server(OAuthProxy(upstream, issuer=issuer), notes, events.append, secret_key=SECRET)
    wire = Wire(server.asgi(public_url=url))
    return ProxyServer(ProtectedServer(url, wire.passed, notes), provider, wire, events)


def tool_call(name: str, token: str | None = None, **headers: str) -> dict[str, Any]:
    """Return the options of an HTTP client's `post` for a stateless call of a tool without arguments."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": name, "arguments": {}, "_meta": meta}
    sent = {
        "accept": "application/json, text/event-stream", "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name,
        **({"authorization": f"Bearer {token}"} if token else {}), **headers,
    }  # fmt: skip
    return {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, "headers": sent}
