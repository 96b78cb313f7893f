"""`DevAuth`: an authorization server in one line, for development on one machine."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ..urls import is_loopback, origin
from ..verifier import AccessToken, ProtectedResource, TokenVerifier
from .access_tokens import AccessTokens
from .authority import Authority
from .client_documents import ClientDocuments
from .clients import Clients
from .consent import Consent
from .dev_login import DevLogin
from .grants import Grants
from .look import Look
from .loopback import Nearby, refusal
from .parts import Parts
from .people import DevClient, DevUser
from .registration import Registration

if TYPE_CHECKING:
    from starlette.routing import Route


logger = logging.getLogger(__name__)


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
        self._users = _by_name(users)
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
        if not 0 < token_lifetime < math.inf:
            raise ValueError(f"token_lifetime must be a positive number of seconds, got {token_lifetime!r}")
        self._issuer = issuer
        self._lifetime = token_lifetime
        self._documents = ClientDocuments() if client_documents else None
        self._authority: Authority | None = None

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
            who = ", ".join(self._users)
            logger.warning(
                "%s: DevAuth does not authenticate users: any process on this machine can log in at %s as %s",
                resource.name,
                issuer,
                who,
            )
        self.issuers = (issuer,)
        self._authority = made(issuer, resource, self._users, self._clients, self._lifetime, self._documents)
        self._authority.parts.tokens.key_set()  # what is not installed is missed now, and not at the first login

    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token of this authorization server.

        Raises:
            InvalidTokenError: The token was not issued here, has expired, was revoked, or has another audience.
            VerifierUnavailableError: The storage does not respond.
        """
        return await self._entered().verify(token, audience)

    def routes(self) -> Sequence[Route]:
        """Return the endpoints of the authorization server. Each refuses requests from other machines."""
        from starlette.routing import Route

        # Each endpoint refuses by itself, so that it does wherever somebody else puts it.
        return [Route(each.path, Nearby(each.app), methods=each.methods) for each in self._entered().routes()]

    def refusal(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the reason to refuse a request that names another host or was forwarded; else None."""
        return refusal(headers)

    async def aclose(self) -> None:
        """Cancel fetches of client documents in the running event loop."""
        if self._documents is not None:
            await self._documents.aclose()

    def _entered(self) -> Authority:
        if self._authority is None:
            raise RuntimeError("DevAuth is not part of a server yet. Call bind(resource) first")
        return self._authority


def made(
    issuer: str,
    site: ProtectedResource,
    users: Mapping[str, DevUser],
    clients: Iterable[DevClient],
    lifetime: float,
    documents: ClientDocuments | None,
    clock: Callable[[], float] = time.time,
) -> Authority:
    """Create an authorization server for development.

    Args:
        issuer: URL of the authorization server.
        site: The protected server.
        users: Users by name.
        clients: Preregistered clients.
        lifetime: Seconds for which an access token is valid.
        documents: Client ID metadata documents; None forbids them.
        clock: Returns the Unix time in seconds.
    """
    registration = Registration(site.keys, clock)
    parts = Parts(
        issuer,
        site.name,
        site.resources,
        site.scopes,
        Clients(registration, documents, (each.client for each in clients)),
        Grants(site.storage, site.keys, clock),
        AccessTokens(issuer, site.keys, lifetime, clock),
        site.audit,
        Look(site.name),
    )
    login = DevLogin(users, Consent(parts, site.keys, clock))
    return Authority(parts, registration, login, clock)


def _by_name(users: Iterable[str | DevUser]) -> dict[str, DevUser]:
    given: object = users
    if isinstance(
        given, str | DevUser | Mapping
    ):  # a mapping's values, passwords perhaps, would be passed over
        raise TypeError(
            'users must be a list such as ["ada", DevUser("bob", password="...")], not'
            f" {type(users).__name__}"
        )
    found: dict[str, DevUser] = {}
    for user in users:
        one = DevUser(user) if isinstance(user, str) else user
        if not isinstance(one, DevUser):  # pyright: ignore[reportUnnecessaryIsInstance]  # untyped authors
            raise TypeError(f'users: each must be a name or a DevUser("ada", ...), got {user!r}')
        if one.name in found:
            raise ValueError(f"users contains two users with the name {one.name!r}. Rename one of them")
        found[one.name] = one
    if not found:
        raise ValueError("DevAuth needs at least one user")
    return found
