"""Base of the authorizations for `Client(url, auth=...)`."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar
from weakref import WeakKeyDictionary

from ...auth.urls import MetadataError, canonical, check_url
from ...auth.verifier import warn_insecure_options
from ...protocol.jsonrpc import Json
from .authorizer import ResourceAuthorizer
from .grant_context import GrantContext
from .keyring_tokens import default_storage
from .roles import ClientAuthentication, Prover
from .storage import TokenStorage
from .tokens import Tokens


class Authorization(ABC):
    """Base class of the ways to obtain tokens for protected servers, one subclass for each kind of grant.

    One object may serve several clients, servers and event loops. Clients of the same server share its tokens.

    Args:
        scopes: The scopes to request. None takes those that the server names. Scopes of a challenge are added.
        storage: The storage of the tokens. None takes the system keyring if there is one, and memory otherwise.
        issuer: The only authorization server that may issue tokens. None takes the one that the server names.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.

    Attributes:
        scopes: The scopes to request, or None.
        storage: The storage of the tokens.
        issuer: The only authorization server that may issue tokens, or None.
        accepts_http: Whether URLs with `http` are accepted for other machines.

    Raises:
        TypeError: `scopes` is a string.
        ValueError: `issuer` is not a URL with `https`.
    """

    is_interactive: ClassVar[bool] = False
    """Whether a user takes part. The client starts no login before the server has responded with a challenge."""

    def __init__(
        self,
        *,
        scopes: Iterable[str] | None = None,
        storage: TokenStorage | None = None,
        issuer: str | None = None,
        dpop: bool = False,
        accept_plain_http: bool = False,
    ) -> None:
        if isinstance(scopes, str):
            raise TypeError(f"scopes= must be a list of scopes, not a string. Write {scopes.split()!r}")
        self.scopes = None if scopes is None else tuple(scopes)
        self.storage = default_storage() if storage is None else storage
        self.accepts_http = accept_plain_http
        self.issuer = None if issuer is None else check_url(issuer, "issuer=", accepts_http=accept_plain_http)
        warn_insecure_options(
            type(self).__name__, issuer or "servers", {"accept_plain_http": accept_plain_http}
        )
        self._dpop = dpop
        self._authorizers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ResourceAuthorizer]] = (
            WeakKeyDictionary()
        )

    @property
    def client(self) -> str:
        """The key that separates its tokens from those of other clients in the same storage."""
        return ""

    def authorizer(self, url: str) -> ResourceAuthorizer:
        """Return the object that adds tokens to requests to a server, for the running event loop.

        Args:
            url: The URL of the protected server.

        Raises:
            ValueError: The URL is not encrypted, so that no token may be sent to it.
        """
        try:
            what = "the URL of the protected server"
            server = canonical(check_url(url, what, accepts_http=self.accepts_http))
        except MetadataError as error:
            raise ValueError(str(error)) from None
        of_loop = self._authorizers.setdefault(asyncio.get_running_loop(), {})
        if server not in of_loop:
            of_loop[server] = ResourceAuthorizer(self, server)
        return of_loop[server]

    def prover(self, key: Json | None) -> Prover | None:
        """Return the DPoP prover for the tokens; None for bearer tokens.

        Args:
            key: The private key, as a JWK, that tokens are bound to already. None makes a new one.
        """
        if key is None and not self._dpop:
            return None
        from .dpop import Proofs

        return Proofs(key)

    @abstractmethod
    async def obtain(self, context: GrantContext) -> Tokens:
        """Obtain tokens. For each server it is called once at a time.

        Args:
            context: The server, its authorization server and the scopes to request.

        Returns:
            The tokens.

        Raises:
            AuthorizationFailedError: No token could be obtained.
            MetadataError: The metadata of the authorization server cannot be used.
        """

    async def authentication(self, context: GrantContext, tokens: Tokens) -> ClientAuthentication | None:
        """Return the client authentication for refreshing tokens; None if tokens are obtained anew instead.

        Args:
            context: The server and its authorization server.
            tokens: The tokens to refresh.
        """
        return None
