"""`DevAuth`: an authorization server in one line, for development on one machine; its users, clients and login page."""

from __future__ import annotations

import hmac
import logging
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from html import escape
from types import MappingProxyType
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Send
from starlette.types import Scope as AsgiScope

from ..._utils.option_checks import check_seconds
from ...identity.principals_and_scopes import scope_names
from ...protocol import http_headers
from ..urls_and_discovery import is_loopback, origin
from ..verifier import AccessToken, ProtectedResource, TokenVerifier
from .authorization_server import AuthorizationServer
from .consent_page import DENY, AuthorizationRequest
from .grants import RESERVED_CLAIMS, GrantRecord, Grants
from .html_pages import Branding
from .oauth_clients import AuthMethod, Client, ClientDocuments, check_redirect_uri
from .oauth_requests import Clock, OAuthError

logger = logging.getLogger(__name__)

_VISIBLE = re.compile(r"[!-~]{1,200}")
_NOTHING: Mapping[str, object] = MappingProxyType({})
_REFUSAL = "DevAuth only serves this machine: "
_FORWARDING_HEADERS = frozenset(
    b"forwarded via x-real-ip x-client-ip x-cluster-client-ip x-host x-proxyuser-ip x-rewrite-url client-ip"
    b" true-client-ip fastly-client-ip fly-client-ip cdn-loop".split()
)
_FORWARDING_PREFIXES = (b"x-forwarded", b"x-original-", b"x-envoy-", b"x-azure-", b"cf-")
"""Headers that proxies and tunnels add for clients on other machines."""


class DevUser:
    """A user of `DevAuth`.

    Args:
        name: Name of the user, the subject of the tokens.
        password: Password for the login; None for a login by one click.
        scopes: Scopes that the user can grant; None for all scopes of the server.
        claims: Additional claims of the user, such as `{"org_id": "acme"}`.

    Attributes:
        name: Name of the user.
        password: Password of the user, or None.
        scopes: Scopes that the user can grant, or None.
        claims: Additional claims, read-only.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name is empty or not printable, the password is empty, or `claims` contains a claim that DevAuth
            sets itself.
    """

    __slots__ = ("claims", "name", "password", "scopes")

    def __init__(
        self,
        name: str,
        *,
        password: str | None = None,
        scopes: Collection[str] | None = None,
        claims: Mapping[str, object] = _NOTHING,
    ) -> None:
        _check_strings("the name of a DevUser", name, "password", password)
        if not name or not name.isprintable() or len(name) > 200:
            raise ValueError(f"the name of a DevUser must have 1 to 200 printable characters, got {name!r}")
        if password == "":
            raise ValueError(f"the password of {name!r} is empty. Pass None for a login without password")
        if reserved := RESERVED_CLAIMS.intersection(claims):
            raise ValueError(
                f"claims of {name!r} must not contain {', '.join(sorted(reserved))}: DevAuth sets these claims itself"
            )
        self.name = name
        self.password = password
        self.scopes = None if scopes is None else scope_names(f"scopes of {name!r}", scopes)
        self.claims = MappingProxyType(dict(claims))

    def __repr__(self) -> str:
        """Return the name, without the password."""
        return f"DevUser({self.name!r})"


class DevClient:
    """A preregistered client of `DevAuth`, such as a job that uses the client credentials grant.

    Args:
        id: The `client_id`.
        secret: The client secret; None for a public client.
        redirect_uris: Allowed redirect URIs.
        scopes: Scopes of the client with the client credentials grant, which needs a secret; None forbids that grant.

    Attributes:
        client: The client, as the authorization server stores it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The ID is a URL or not visible ASCII, the secret is empty or missing, or a redirect URI is not
            allowed.
    """

    __slots__ = ("client",)

    def __init__(
        self,
        id: str,  # noqa: A002 - the parameter's name
        *,
        secret: str | None = None,
        redirect_uris: Iterable[str] = (),
        scopes: Collection[str] | None = None,
    ) -> None:
        _check_strings("the id of a DevClient", id, "secret", secret)
        if not _VISIBLE.fullmatch(id) or id.startswith(("https:", "http:")):
            raise ValueError(
                f"the id of a DevClient must have 1 to 200 visible ASCII characters and not be a URL, got {id!r}"
            )
        if secret == "":
            raise ValueError(f"the secret of DevClient {id!r} is empty. Pass None for a public client")
        if secret is None and scopes is not None:
            raise ValueError(
                f"DevClient {id!r} has scopes= for the client credentials grant. Set secret= as well"
            )
        if isinstance(redirect_uris, str):
            raise TypeError(f"redirect_uris of {id!r} must be a list of URIs, got {redirect_uris!r}")
        try:
            uris = tuple(map(check_redirect_uri, redirect_uris))
        except ValueError as error:
            raise ValueError(f"redirect_uris of {id!r}: {error}") from None
        own_scopes = None if scopes is None else scope_names(f"scopes of {id!r}", scopes)
        method: AuthMethod = "none" if secret is None else "client_secret_basic"
        self.client = Client(id, id, uris, method, secret, own_scopes)

    def __repr__(self) -> str:
        """Return the client ID, without the secret."""
        return f"DevClient({self.client.id!r})"


def _check_strings(what: str, name: object, kind: str, secret: object) -> None:
    """Check that a name and a secret are strings. The error does not show the secret."""
    if not isinstance(name, str):
        raise TypeError(f"{what} must be a string, got {name!r}")
    if not isinstance(secret, str | None):
        raise TypeError(f"the {kind} of {name!r} must be a string or None, not {type(secret).__name__}")


class DevServer(AuthorizationServer):
    """Authorization server of `DevAuth`. Its page has a list of users, each with a button or a password.

    Args:
        issuer: URL of the authorization server.
        resource: The protected server.
        users: Users by name.
        clients: Preregistered clients.
        lifetime: Seconds for which an access token is valid.
        documents: Client ID metadata documents; None forbids them.
        clock: Returns the Unix time in seconds.
    """

    def __init__(
        self,
        issuer: str,
        resource: ProtectedResource,
        users: Mapping[str, DevUser],
        clients: Iterable[DevClient],
        lifetime: float,
        documents: ClientDocuments | None,
        clock: Clock = time.time,
    ) -> None:
        grants = Grants(resource.storage, resource.keys, clock)
        known, branding = [each.client for each in clients], Branding(resource.name)
        super().__init__(issuer, resource, grants, lifetime, documents, known, branding=branding, clock=clock)
        self._users = users

    async def begin_login(self, authorization: AuthorizationRequest, request: Request) -> Response:
        """Return the page."""
        return self.consent.show(authorization, self._forms(authorization), request)

    async def answer_login(self, request: Request) -> Response:
        """Process the form: a selected user, or a denial.

        Raises:
            OAuthError: The form is not valid.
        """
        authorization, form = await self.consent.read_answer(request)
        if form.get("answer") == "deny":
            return self.refuse(authorization, "access_denied", "the user denied the request")
        user = self._users.get(form.require("user"))
        if user is None:
            raise OAuthError("invalid_request", "there is no user with that name")
        password = form.get("password") or ""
        if user.password is not None and not hmac.compare_digest(password.encode(), user.password.encode()):
            self.audit_refusal(request, "wrong password")
            note = f'<p class="note" role="alert">Wrong password for {escape(user.name)}.</p>'
            return self.consent.show(authorization, note + self._forms(authorization), request, status=403)
        self.consent.audit(authorization, "allowed")
        await self.claim(authorization)
        record = self.new_record(authorization, user.name, user.claims)
        return await self.allow(authorization, record, user.scopes)

    async def authorize_refresh(self, record: GrantRecord) -> bool:
        """Return True if the user is still in the list."""
        return record.subject in self._users

    def _forms(self, authorization: AuthorizationRequest) -> str:
        hidden = self.consent.hidden_field(authorization)
        forms = ""
        for user in self._users.values():
            name, label = escape(user.name), ""
            if user.password is not None:
                field = '<input type="password" name="password" required autocomplete="off">'
                label = f"<label>Password of {name} {field}</label> "
            button = f'<button class="go" name="user" value="{name}">Allow it as {name}</button>'
            forms += f'<form method="post">{hidden}{label}{button}</form>'
        return f'{forms}<form method="post">{hidden}<button name="answer" value="deny">{DENY}</button></form>'


class DevAuth(TokenVerifier):
    """Authorization server for development: clients register themselves, and users log in by a click.

    It implements what clients meet elsewhere: discovery, PKCE, consent and rotating refresh tokens. It does not
    authenticate users. So it only serves loopback URLs, and refuses requests that name another host or were forwarded
    by a proxy or tunnel.

    Tokens are signed with the secret of the server, and grants are in `Server(storage=...)`. Several workers need the
    same secret and storage. With both, a login survives a restart.

    Args:
        users: Users that can log in: names, or `DevUser(...)` with passwords, scopes or claims.
        clients: Preregistered clients, such as jobs with the client credentials grant.
        issuer: URL of the authorization server, at the origin of the server's `public_url`. None takes that origin, the
            only place where clients of revision 2025-03-26 find it.
        token_lifetime: Seconds for which an access token is valid.
        client_documents: Allow client ID metadata documents, which are fetched from the public internet without a
            proxy. False makes clients without a preregistration register themselves.

    Raises:
        TypeError: A user is neither a name nor a DevUser, or a client is not a DevClient.
        ValueError: `users` is empty or contains a name twice, a name is also that of a client, or `token_lifetime` is
            not positive.
    """

    def __init__(
        self,
        users: Iterable[str | DevUser] = ("dev",),
        *,
        clients: Iterable[DevClient] = (),
        issuer: str | None = None,
        token_lifetime: float = 600.0,
        client_documents: bool = True,
    ) -> None:
        self._users = _users_by_name(users)
        self._clients = tuple(clients)
        for client in self._clients:
            if not isinstance(client, DevClient):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
                raise TypeError(
                    f'clients must be a list of DevClient, such as DevClient("ci", secret="..."), got {client!r}'
                )
            if client.client.id in self._users:
                raise ValueError(
                    f"{client.client.id!r} is the name of a user and of a client. Rename one of them"
                )
        check_seconds("token_lifetime", token_lifetime)
        self._issuer = issuer
        self._lifetime = token_lifetime
        self._documents = ClientDocuments() if client_documents else None
        self._server: AuthorizationServer | None = None

    def bind(self, resource: ProtectedResource) -> None:
        """Bind the authorization server to a protected server on this machine.

        Args:
            resource: The protected server.

        Raises:
            ValueError: The server is not on a loopback URL, or this DevAuth serves another one.
            RegistrationError: A user or client has a scope that the server does not have.
            ImportError: The extra `auth` is not installed.
        """
        for url in (resource.public_url, *resource.resources, self._issuer or resource.public_url):
            if not is_loopback(urlsplit(url).hostname):
                raise ValueError(
                    f"DevAuth does not authenticate users, so it only serves loopback URLs such as "
                    f"http://127.0.0.1:8000/mcp, not {url}. "
                    'Use a real authorization server there, Server(auth=Jwt("https://id.example.com"))'
                )
        issuer = self._issuer or origin(resource.public_url)
        if origin(issuer) != origin(resource.public_url):
            raise ValueError(
                f"the issuer {issuer} of DevAuth must be on the origin of public_url, {origin(resource.public_url)}"
            )
        if self.issuers not in {(), (issuer,)}:
            raise ValueError(
                f"this DevAuth already serves {self.issuers[0]}. Create another one for {issuer}"
            )
        for user in self._users.values():
            resource.scopes.check(f"DevUser {user.name!r} may grant", user.scopes or ())
        for known in self._clients:
            resource.scopes.check(f"DevClient {known.client.id!r} may have", known.client.scopes or ())
        if not self.issuers:
            logger.warning(
                "%s: DevAuth does not authenticate users: any process on this machine can log in at %s as %s",
                resource.name,
                issuer,
                ", ".join(self._users),
            )
        self.issuers = (issuer,)
        self._server = DevServer(
            issuer, resource, self._users, self._clients, self._lifetime, self._documents
        )

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token of this authorization server.

        Raises:
            InvalidTokenError: The token was not issued here, has expired, was revoked, or has another audience.
            VerifierUnavailableError: The storage does not respond.
        """
        return await self._bound().verify(token, audience)

    def routes(self) -> Sequence[Route]:
        """Return the endpoints of the authorization server. Each refuses requests from other machines."""
        # Each endpoint has its own check, which also works if an author mounts the routes elsewhere.
        return [
            Route(each.path, _LoopbackOnly(each.app), methods=each.methods) for each in self._bound().routes()
        ]

    def refusal(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the reason to refuse a request that names another host or was forwarded; else None."""
        return _refusal(headers)

    async def aclose(self) -> None:
        """Cancel fetches of client documents in the running event loop."""
        if self._documents is not None:
            await self._documents.aclose()

    def _bound(self) -> AuthorizationServer:
        if self._server is None:
            raise RuntimeError("DevAuth is not part of a server yet. Call bind(resource) first")
        return self._server


def _users_by_name(users: Iterable[str | DevUser]) -> dict[str, DevUser]:
    given: object = users
    # The values of a mapping, which may be passwords, would be ignored.
    if isinstance(given, str | DevUser | Mapping):
        raise TypeError(
            'users must be a list such as ["ada", DevUser("bob", password="...")], not'
            f" {type(users).__name__}"
        )
    found: dict[str, DevUser] = {}
    for each in users:
        user = DevUser(each) if isinstance(each, str) else each
        if not isinstance(user, DevUser):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f'users: each must be a name or a DevUser("ada", ...), got {each!r}')
        if user.name in found:
            raise ValueError(f"users contains two users with the name {user.name!r}. Rename one of them")
        found[user.name] = user
    if not found:
        raise ValueError("DevAuth needs at least one user")
    return found


# Restriction to this machine


def _refusal(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the reason to refuse a request that names another host or came through a proxy; else None."""
    host = http_headers.host(headers.get(b"host", b"").decode("latin-1"))
    if host is None or not is_loopback(host.name.strip("[]")):
        return f"{_REFUSAL}the Host header is not localhost, 127.0.0.1 or [::1]. Use one of these in the URL"
    for header in headers:
        if header in _FORWARDING_HEADERS or header.startswith(_FORWARDING_PREFIXES):
            return (
                f"{_REFUSAL}the request has the header {header.decode('latin-1')}, so a proxy or tunnel forwarded it. "
                "Connect without one, or use a real authorization server"
            )
    return None


class _LoopbackOnly:
    """ASGI middleware that only serves requests from this machine."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        reason = _refusal(dict(scope["headers"]))
        peer = scope.get("client")
        if reason is None and peer is not None and not is_loopback(peer[0]):
            reason = (
                f"{_REFUSAL}the request comes from another machine. Use a real authorization server for it"
            )
        if reason is None and scope.get("http_version") == "1.0":
            # By default nginx adds no header, names this machine as the host, and uses HTTP/1.0.
            reason = (
                f"{_REFUSAL}this request came through a proxy (HTTP/1.0). "
                "Use a real authorization server behind a proxy"
            )
        app = self._app if reason is None else PlainTextResponse(reason, 403)
        await app(scope, receive, send)
