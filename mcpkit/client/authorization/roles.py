"""Interfaces of a login: browser, client authentication and proof of possession."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ...auth.discovery import AuthorizationServerMetadata
from ...protocol.jsonrpc import Json


class RedirectReceiver(Protocol):
    """Receives the response of an authorization server at a redirect URI."""

    @property
    def redirect_uri(self) -> str:
        """The redirect URI."""
        ...

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        """Show the user the authorization page, and return the query parameters of the redirect.

        Args:
            url: The URL of the page: `https`, or `http` of this machine.
            state: The `state` of the request. Redirects without it, or with another one, are ignored.

        Returns:
            The query parameters, each of which occurred once.

        Raises:
            AuthorizationFailedError: The page cannot be shown, or the user did not finish in time.
        """
        ...


class Browser(Protocol):
    """Shows pages of authorization servers to the user. The page is not requested before the user sees it."""

    def receive_redirect(
        self, registered: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[RedirectReceiver]:
        """Wait for a redirect until the context is left.

        Args:
            registered: The redirect URIs that the client has registered. If it has none, or none of them is free, the
                receiver has another `redirect_uri`.

        Returns:
            A context manager with the receiver of the redirect.

        Raises:
            AuthorizationFailedError: No redirect can be received.
        """
        ...


@dataclass
class TokenRequest:
    """A request to a token endpoint, before it is sent.

    Attributes:
        url: The URL of the endpoint.
        form: The form parameters.
        headers: The additional headers.
        encoded: Secrets that a header contains in encoded form.
    """

    url: str
    form: dict[str, str] = field(repr=False)
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    encoded: list[str] = field(default_factory=list[str], repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All possibly secret values in the request, which are removed from error messages."""
        return (*self.form.values(), *self.headers.values(), *self.encoded)


class ClientAuthentication(Protocol):
    """Authenticates a client at a token endpoint; see `client_authentication.py` for the basic methods."""

    @property
    def client_id(self) -> str:
        """The client id."""
        ...

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add `client_id`, and a secret or an assertion, to the form or headers of a request.

        Args:
            request: The request.
            server: The authorization server. Its `issuer` is the audience of assertions.
        """


class Prover(Protocol):
    """Proves possession of the key that tokens are bound to (DPoP, RFC 9449)."""

    @property
    def key(self) -> Json:
        """The private key, as a JWK, to store with the tokens."""
        ...

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """Return a new proof for one request, the value of the header `DPoP`.

        Args:
            method: The HTTP method.
            url: The URL. Query and fragment are ignored.
            token: The access token of the request; None for the token endpoint.
        """
        ...

    def set_nonce(self, url: str, nonce: str) -> None:
        """Store a nonce (`DPoP-Nonce`) for further proofs for the origin of a URL.

        Args:
            url: A URL with that origin.
            nonce: The nonce.
        """
