"""Interface of token verifiers, the values of `Server(auth=...)`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from .._utils.exceptions import LoginNeededError

if TYPE_CHECKING:
    from starlette.routing import Route

    from ..identity.audit import AuditLog
    from ..identity.principal import Principal
    from ..identity.scopes import Scopes
    from ..storage.base import Storage
    from ..storage.encryption_keys import Keys

InThread = Callable[[Callable[[], object]], Awaitable[object]]
"""Calls a function in a thread and returns its result."""


class InvalidTokenError(Exception):
    """The access token is not valid here: forged, expired, for another audience, or not a token (HTTP 401).

    Args:
        description: The reason in one sentence, for the client and the log. Visible ASCII without quotes and
            backslashes, and no part of the token (RFC 6750, section 3).
        advice: Hint for the operator, if the configuration is the likely cause. It is logged once per process and never
            sent to a client. It must contain no part of the token.
    """

    def __init__(self, description: str, *, advice: str | None = None) -> None:
        super().__init__(description)
        self.description = description
        self.advice = advice


class VerifierUnavailableError(Exception):
    """The token cannot be verified now, because the authorization server does not respond (HTTP 503).

    Args:
        description: What is unavailable, for the log. Clients only receive `Retry-After`.
        retry_after: Seconds after which the client should retry.
    """

    def __init__(self, description: str, *, retry_after: int = 5) -> None:
        super().__init__(description)
        self.description = description
        self.retry_after = retry_after


class AccessToken(NamedTuple):
    """A verified access token: the principal, and the period of validity.

    Attributes:
        principal: The user or client of the token, with the granted scopes.
        expires: Unix time in seconds at which the token expires; None for a token that does not expire.
        issued: Unix time in seconds at which the token was issued; None if unknown.
        fresh_until: Unix time in seconds until which the result may be cached; None until the token expires.
    """

    principal: Principal
    expires: float | None = None
    issued: float | None = None
    fresh_until: float | None = None


class ProtectedResource(NamedTuple):
    """The server that a token verifier protects (OAuth's protected resource).

    Attributes:
        public_url: URL of the MCP endpoint, as clients use it.
        resources: URLs of all endpoints that accept tokens. Each is a separate audience.
        name: Name of the server.
        keys: Keys that sign and encrypt for the server.
        scopes: The scopes of the server.
        storage: Storage that all processes of the server share.
        audit: The audit log of the server.
        run_in_thread: Calls a blocking function in one of the worker threads of the server.
    """

    public_url: str
    resources: tuple[str, ...]
    name: str
    keys: Keys
    scopes: Scopes
    storage: Storage
    audit: AuditLog
    run_in_thread: InThread = asyncio.to_thread


class VerifierContext(NamedTuple):
    """Name, keys, storage and audit log of a server, for calls of a verifier that need no public URL.

    Attributes:
        name: Name of the server.
        keys: Keys that sign and encrypt for the server.
        storage: Storage that all processes of the server share.
        audit: The audit log of the server.
    """

    name: str
    keys: Keys
    storage: Storage
    audit: AuditLog


class TokenVerifier(ABC):
    """Base class of token verifiers. A subclass must implement `verify`.

    Attributes:
        issuers: Issuers of the authorization servers that clients can log in at. If empty, clients need a token from
            the operator.
        providers: Names of the identity providers with upstream tokens, for `ctx.upstream_token`.
    """

    issuers: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()

    @abstractmethod
    async def verify(self, token: str, audience: str) -> AccessToken:
        """Verify an access token, and return its principal and validity.

        The result is cached until `fresh_until` or until the token expires. The server refuses a token if the claims of
        its principal contain `cnf`, because a token that is bound to a key must not be accepted as a bearer token.

        Args:
            token: The bearer token of the request: untrusted text without spaces.
            audience: URL of the endpoint, which must be an audience of the token.

        Raises:
            InvalidTokenError: The token is not valid for this server.
            VerifierUnavailableError: The token cannot be verified now.
        """

    def bind(self, resource: ProtectedResource) -> None:  # noqa: B027 - most need nothing of it
        """Bind the verifier to the server that it protects. It is called once for each app, before the app serves.

        Args:
            resource: The protected server.

        Raises:
            ValueError: The verifier cannot be used there. The message contains the fix.
        """

    def routes(self) -> Sequence[Route]:
        """Return additional routes at the root of the server, such as the endpoints of an authorization server.

        Cross-origin requests from browsers are refused, unless the endpoint has a true attribute `is_for_any_origin`.
        """
        return ()

    def refusal(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the reason to refuse a request regardless of its token; None to serve it.

        Args:
            headers: Headers of the request, by lower-case name.
        """
        return None

    def notices(self) -> Sequence[str]:
        """Return notices for the operator at each start of the server, such as a redirect URI to register."""
        return ()

    async def token_for(self, principal: Principal, provider: str, context: VerifierContext) -> str:
        """Return the access token of a user at an identity provider, valid for a while; see `Context.upstream_token`.

        Args:
            principal: The user.
            provider: One of `providers`.
            context: Name, keys and storage of the server.

        Raises:
            LoginNeededError: The user has not logged in at the provider, or must log in again.
            ProviderUnavailableError: The provider does not respond.
        """
        raise LoginNeededError(provider)

    async def revoke(self, principal: Principal, context: VerifierContext) -> None:  # noqa: B027 - most have granted nothing
        """Revoke all grants of a principal, for all clients, so that no client can get new tokens for it.

        Args:
            principal: The user or client.
            context: Name, keys and storage of the server.

        Raises:
            OSError: The storage does not respond.
        """

    async def aclose(self) -> None:  # noqa: B027 - most have nothing to close
        """Close connections of the running event loop. The verifier can be used again afterwards."""
