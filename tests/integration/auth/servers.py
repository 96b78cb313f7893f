"""Protected servers for official clients, with each kind of `auth=`. They record requests and responses."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus

from mcpkit import Context, Scope, Server
from mcpkit.auth import AuditEvent, DevAuth, Jwt, OAuthProxy, TokenVerifier, UpstreamProvider
from mcpkit.auth.base64url import encode
from tests.helpers.browser import Profile
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
    method: str
    path: str
    query: str
    sent: bytes = b""
    status: int | None = None
    answered: bytes = b""
    has_token: bool = False

    @property
    def asked(self) -> dict[str, str]:
        """The parameters of the query, or else of the form."""
        return dict(parse_qsl(self.query or self.sent.rpartition(b"\n")[2].decode()))

    @property
    def said(self) -> Any:
        """The JSON of the response."""
        return json.loads(self.answered.rpartition(b"\n")[2])

    @property
    def message(self) -> str:
        """The method of a JSON-RPC request, and the name of the tool."""
        try:
            message = json.loads(self.sent.rpartition(b"\n")[2])
        except ValueError:
            return ""
        words = (message.get("method"), message.get("params", {}).get("name"))
        return " ".join(word for word in words if word)


class Wire:
    """Records what passes through an ASGI app."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.passed: list[RecordedRequest] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        one = RecordedRequest(scope["method"], path, scope["query_string"].decode(), _head(scope["headers"]))
        one.has_token = any(name == b"authorization" for name, _ in scope["headers"])
        self.passed.append(one)

        async def received() -> Any:
            event = await receive()
            one.sent += event.get("body", b"")
            return event

        async def sent(event: Any) -> None:
            if event["type"] == "http.response.start":
                one.status = event["status"]
                one.answered = _head(event["headers"])
            one.answered += event.get("body", b"")
            await send(event)

        return await self._app(scope, received, sent)

    def seen(self, path: str, method: str = "GET") -> list[RecordedRequest]:
        return [each for each in self.passed if (each.path, each.method) == (path, method)]


def _head(headers: Any) -> bytes:
    return b"".join(name + b": " + value + b"\n" for name, value in headers) + b"\n"


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

    def check_legs(self, logins: int, issuer: str = "") -> None:
        """Check that each leg has its own challenge and state, and that each code was redeemed with its verifier."""
        outer = [each.asked for each in self.wire.seen(f"{issuer}/authorize")]
        inner = [each.params for each in self.provider.seen("/auth")]
        assert {each["code_challenge_method"] for each in outer + inner} == {"S256"}
        assert {each["client_id"] for each in inner} == {CONFIDENTIAL[0]}
        assert not {each.get("state") for each in outer} & {each["state"] for each in inner}
        asked, forwarded = ({each["code_challenge"] for each in leg} for leg in (outer, inner))
        here = _challenges_of(each.asked for each in self.wire.seen(f"{issuer}/token", "POST"))
        there = _challenges_of(each.params for each in self.provider.seen("/token"))
        assert (len(here), len(there)) == (logins, logins)
        assert not asked & forwarded
        assert here <= asked, "mcpkit's client asks once more, without the user, whether it is still known"
        assert there == forwarded

    def check_secrets(self, *pages: Profile, clients: str = "") -> None:
        """Check that neither clients nor browsers received a secret of the provider."""
        wire = b"\n".join(
            part for each in self.wire.passed for part in (each.query.encode(), each.sent, each.answered)
        )
        assert contains(wire, self.wire.seen("/token", "POST")[0].said["access_token"]), "nothing is recorded"
        for page in pages:
            network = json.dumps(page.network()).encode()
            state = self.provider.seen("/auth")[0].params["state"]
            assert contains(network, state), "nothing of the browser is recorded"
            wire += network
        exchanged = self.provider.seen("/token")
        kinds = ("access_token", "refresh_token", "id_token")
        tokens = {each.said[kind] for each in exchanged for kind in kinds if kind in each.said}
        assert len(tokens) >= 3, "no user has logged in"
        verifiers = {each.params["code_verifier"] for each in exchanged if "code_verifier" in each.params}
        for secret in {CONFIDENTIAL[1], *tokens, *verifiers}:
            assert not contains(wire + clients.encode(), secret)


def _challenges_of(forms: Iterable[dict[str, str]]) -> set[str]:
    return {
        encode(sha256(form["code_verifier"].encode()).digest()) for form in forms if "code_verifier" in form
    }


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
    """Make a server at a URL whose users log in at the provider; `wire` is its app."""
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
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": name,
        **({"authorization": f"Bearer {token}"} if token else {}),
        **headers,
    }
    return {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, "headers": sent}


def contains(text: bytes, secret: str) -> bool:
    """Return whether a secret occurs in a text: as it is, escaped, or as part of base64."""
    return any(form in text for form in _forms(secret))


def _forms(secret: str) -> Iterator[bytes]:
    for form in (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]):
        yield form.encode()
    for before in range(3):  # how many bytes of three stand before it
        begin, end = (0, 2, 3)[before], (before + len(secret.encode())) * 8 // 6
        for encode_ in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode_(bytes(before) + secret.encode() + bytes(2))[begin:end]
