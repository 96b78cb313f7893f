"""What stands in `Client(url, auth=...)`: where tokens come from, and how long they are good."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar
from weakref import WeakKeyDictionary

from ...auth.accepted import accepted, warn_of
from ...auth.urls import MetadataError, canonical, check_url
from ...protocol.types import Json
from .authorizer import ResourceAuthorizer
from .grant_context import GrantContext
from .keyring_tokens import default_storage
from .roles import ClientAuthentication, Prover
from .storage import TokenStorage
from .tokens import Tokens


class Authorization(ABC):
    """How a client gets the tokens that protected servers want; each kind of grant is a subclass.

    One object may serve several clients, servers and event loops: those that ask the same server share its tokens.

    Args:
        scopes: The scopes to ask for; None for those that the server names. What a challenge names is added.
        storage: Where tokens are kept; None for the system's keyring where there is one, else memory.
        issuer: The authorization server that alone may issue tokens; None for the one that the server names.
        dpop: Whether tokens are bound to a key of the client's (RFC 9449).
        accept_plain_http: Whether servers and authorization servers may be at URLs of http on other machines, as in a
            cluster: then everything between can read the tokens.

    Attributes:
        accepts_http: Whether they may.

    Raises:
        TypeError: `scopes` is a text.
        ValueError: The issuer is no URL of https.
    """

    is_interactive: ClassVar[bool] = False
    """Whether a user takes part. The client starts no login before the server has been called."""

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
        warn_of(type(self).__name__, issuer or "servers", accepted(accept_plain_http=accept_plain_http))
        self._dpop = dpop
        self._authorizers: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, ResourceAuthorizer]] = (
            WeakKeyDictionary()
        )

    @property
    def client(self) -> str:
        """What tells its tokens apart from those of other clients in the same storage."""
        return ""

    def authorizer(self, url: str) -> ResourceAuthorizer:
        """Return what says who asks a server, in the running event loop.

        Raises:
            ValueError: No token may be sent to that URL, as it is not encrypted.
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
        """Return what proves that tokens are the client's own; None where they are to be good for whoever has them.

        Args:
            key: The key that tokens are bound to already, as a JWK; None for a new one.
        """
        if key is None and not self._dpop:
            return None
        from .dpop import Proofs

        return Proofs(key)

    @abstractmethod
    async def obtain(self, context: GrantContext) -> Tokens:
        """Get tokens; called one at a time for a server.

        Raises:
            AuthorizationFailedError: There are none, and why.
            MetadataError: What the authorization server says of itself cannot be used.
        """

    async def authentication(self, context: GrantContext, tokens: Tokens) -> ClientAuthentication | None:
        """Return what says who the client is when tokens are refreshed; None where they are obtained anew."""
        return None
