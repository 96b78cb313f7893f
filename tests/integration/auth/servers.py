"""Protected servers for official clients: with a JWT verifier and with an OAuthProxy. They record what they receive."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, quote_plus

import httpx2
from starlette.requests import Request
from starlette.responses import Response

from mcpkit import Access, Context, Scope, Server
from mcpkit.auth import AuditEvent, DevAuth, Jwt, OAuthProxy, TokenVerifier, UpstreamProvider
from tests.helpers.browser import Profile
from tests.helpers.identity_provider import CONFIDENTIAL, IdentityProvider, confidential, providing
from tests.helpers.serving import in_thread_at


class Exchange(NamedTuple):
    method: str
    path: str
    message: str
    has_token: bool
    status: int
    challenge: str


class ProtectedServer(NamedTuple):
    url: str
    exchanges: list[Exchange]
    notes: list[str]

    @property
    def challenges(self) -> list[tuple[int, str, bool]]:
        return [
            (each.status, each.message, each.has_token)
            for each in self.exchanges
            if each.status in (401, 403)
        ]


class Recorder:
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
    try:
        message = json.loads(body)
    except ValueError:
        return ""
    if not isinstance(message, dict):
        return ""
    name = message.get("params", {}).get("name")
    return f"{message.get('method', '')} {name}" if name else message.get("method", "")


def make_server(auth: TokenVerifier, notes: list[str], **options: Any) -> Server:
    server = Server(
        "notes",
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

    @server.tool(access=Access(scopes="notes:write", optional_scopes="notes:admin"))
    async def pin_note(text: str, ctx: Context) -> str:
        ctx.require_scopes("notes:admin")
        notes.append(f"{text}, pinned")
        return "pinned"

    return server


@contextmanager
def serve_jwt(issuer: str) -> Iterator[ProtectedServer]:
    exchanges: list[Exchange] = []
    notes: list[str] = []
    server = make_server(Jwt(issuer), notes)
    with in_thread_at(lambda origin: Recorder(server.asgi(public_url=f"{origin}/mcp"), exchanges)) as origin:
        yield ProtectedServer(f"{origin}/mcp", exchanges, notes)


USERS = {"ada": {"email": "ada@example.com"}, "bob": {"email": "bob@example.com"}}


NAME = "directory"


SECRET = "a secret of the tests, long enough"


class ProxyServer(NamedTuple):
    guarded: ProtectedServer
    server: Server
    provider: IdentityProvider
    wire: Wire
    events: list[AuditEvent]

    @property
    def url(self) -> str:
        return self.guarded.url

    @property
    def secrets(self) -> set[str]:
        exchanged = self.provider.seen("/token")
        kinds = ("access_token", "refresh_token", "id_token")
        tokens = {each.said[kind] for each in exchanged for kind in kinds if kind in each.said}
        verifiers = {each.params["code_verifier"] for each in exchanged if "code_verifier" in each.params}
        assert len(tokens) >= 3, "nobody has logged in"
        return {CONFIDENTIAL[1], *tokens, *verifiers}

    def check_legs(self, logins: int, issuer: str = "") -> None:
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
        assert here <= asked, (
            "the client of mcpkit checks once more, without the user, whether it is still known"
        )
        assert there == forwarded

    def check_secrets(self, *pages: Profile, clients: str = "") -> None:
        wire = self.wire.text()
        assert contains(wire, self.wire.seen("/token", "POST")[0].said["access_token"]), "nothing is heard"
        for page in pages:
            network = json.dumps(page.network()).encode()
            state = self.provider.seen("/auth")[0].params["state"]
            assert contains(network, state), "nothing of the browser is heard"
            wire += network
        for secret in self.secrets:
            assert not contains(wire + clients.encode(), secret)


@contextmanager
def serve_proxy(
    *,
    upstream: Callable[[IdentityProvider], UpstreamProvider] | None = None,
    around: Callable[[Any], Any] = lambda app: app,
    issuer: str = "",
    provided: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[ProxyServer]:
    with ExitStack() as stack:
        exchanges: list[Exchange] = []
        notes: list[str] = []
        parts: list[Any] = []

        def make(origin: str) -> Any:
            provider = stack.enter_context(serve_provider(f"{origin}{issuer}/callback", **(provided or {})))
            known = (upstream or upstream_of)(provider)
            proxy = OAuthProxy(known, issuer=f"{origin}{issuer}" if issuer else None, **options)
            server, events = make_proxy_server(proxy, notes)
            wire = Wire(Recorder(server.asgi(public_url=f"{origin}/mcp"), exchanges))
            parts.extend((server, provider, wire, events))
            return around(wire)

        origin = stack.enter_context(in_thread_at(make))
        yield ProxyServer(ProtectedServer(f"{origin}/mcp", exchanges, notes), *parts)


@contextmanager
def serve_provider(callback: str, **options: Any) -> Iterator[IdentityProvider]:
    with providing(
        registers=False,
        reads_documents=False,
        clients=[confidential(callback)],
        users=USERS,
        identity_claims={"email": ["email"]},
        **options,
    ) as provider:
        yield provider


def upstream_of(provider: IdentityProvider) -> UpstreamProvider:
    return UpstreamProvider.openid(provider.issuer, *CONFIDENTIAL, name=NAME, scopes=["openid", "email"])


def make_proxy_server(proxy: OAuthProxy, notes: list[str]) -> tuple[Server, list[AuditEvent]]:
    server = make_server(proxy, notes, secret_key=SECRET)
    events: list[AuditEvent] = []
    server.on_audit(events.append)

    @server.tool(scopes="notes:read")
    async def profile(ctx: Context) -> dict[str, Any]:
        [provider] = {str(ctx.principal.issuer)}
        token = await ctx.upstream_token(NAME)
        async with httpx2.AsyncClient(base_url=provider) as http:
            answer = await http.get("/me", headers={"Authorization": f"Bearer {token}"})
        answer.raise_for_status()
        return {"said": answer.json(), "known": ctx.principal.claims.get("email")}

    @server.route("/send-away", methods=["POST"])
    async def send_away(request: Request) -> Response:
        await server.revoke(request.query_params["who"])
        return Response(status_code=204)

    return server, events


def challenge_of(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")


def _challenges_of(forms: Iterable[dict[str, str]]) -> set[str]:
    return {challenge_of(form["code_verifier"]) for form in forms if "code_verifier" in form}


@contextmanager
def serve_dev_auth() -> Iterator[ProtectedServer]:
    """Run a server with `DevAuth`, where bob can log in."""
    exchanges: list[Exchange] = []
    notes: list[str] = []
    server = make_server(DevAuth(users=["ada", "bob"]), notes)
    with in_thread_at(lambda origin: Recorder(server.asgi(public_url=f"{origin}/mcp"), exchanges)) as origin:
        yield ProtectedServer(f"{origin}/mcp", exchanges, notes)


@dataclass
class RecordedRequest:
    method: str
    path: str
    query: str
    sent: bytes = b""
    status: int | None = None
    answered: bytes = b""

    @property
    def asked(self) -> dict[str, str]:
        return dict(parse_qsl(self.query or self.sent.rpartition(b"\n")[2].decode()))

    @property
    def said(self) -> Any:
        return json.loads(self.answered.rpartition(b"\n")[2])


class Wire:
    def __init__(self, app: Any) -> None:
        self._app = app
        self.passed: list[RecordedRequest] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        one = RecordedRequest(scope["method"], path, scope["query_string"].decode())
        one.sent = _head(scope["headers"])
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

    def text(self) -> bytes:
        return b"\n".join(
            part for each in self.passed for part in (each.query.encode(), each.sent, each.answered)
        )


def contains(text: bytes, secret: str) -> bool:
    return any(form in text for form in _forms(secret))


def _head(headers: Any) -> bytes:
    return b"".join(name + b": " + value + b"\n" for name, value in headers) + b"\n"


def _forms(secret: str) -> Iterator[bytes]:
    for form in (secret, quote(secret, safe=""), quote_plus(secret), json.dumps(secret)[1:-1]):
        yield form.encode()
    for before in range(3):  # how many bytes of three stand before it
        begin, end = (0, 2, 3)[before], (before + len(secret.encode())) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            yield encode(bytes(before) + secret.encode() + bytes(2))[begin:end]
