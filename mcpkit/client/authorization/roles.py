"""Who takes part when a client gets tokens: what shows pages, what says who the client is, what proves it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from ...auth.discovery import AuthorizationServerMetadata
from ...protocol.types import Json


class RedirectReceiver(Protocol):
    """Where an authorization server answers after the user has been there: it waits at a redirect URI."""

    @property
    def redirect_uri(self) -> str:
        """Where it waits."""
        ...

    async def authorize(self, url: str, state: str) -> Mapping[str, str]:
        """Show a page to the user, and return the parameters of the answer, each of which came once.

        Args:
            url: The page; `https`, or `http` of this machine.
            state: What the answer repeats; one with another `state`, or without, is none, and is waited past.

        Raises:
            AuthorizationFailedError: The page cannot be shown, or the user did not come back in time.
        """
        ...


class Browser(Protocol):
    """What shows pages of authorization servers to the user. No page is asked for before the user is shown it."""

    def receive_redirect(
        self, registered: Sequence[str] = ()
    ) -> AbstractAsyncContextManager[RedirectReceiver]:
        """Wait at a redirect URI until the context is left.

        Args:
            registered: Where the client may wait: the redirect URIs that it has registered. Where there are none, or
                none of them is free, it waits elsewhere, and whoever asks sees by `redirect_uri` that it does.

        Raises:
            AuthorizationFailedError: There is nowhere to wait.
        """
        ...


@dataclass
class TokenRequest:
    """A request to a token endpoint, before it is sent.

    Attributes:
        url: The endpoint.
        form: What is asked for; what is secret in it is not shown.
        headers: What goes along beside what each request has.
        encoded: Secrets that a header has in another form.
    """

    url: str
    form: dict[str, str] = field(repr=False)
    headers: dict[str, str] = field(default_factory=dict[str, str], repr=False)
    encoded: list[str] = field(default_factory=list[str], repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """All that may be secret in it, of which no error repeats anything, whatever the answer says."""
        return (*self.form.values(), *self.headers.values(), *self.encoded)


class ClientAuthentication(Protocol):
    """How a client says to a token endpoint who it is; see `client_authentication.py` for the plain ways."""

    @property
    def client_id(self) -> str:
        """The client's id."""
        ...

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add to a request who asks: `client_id`, and a secret or an assertion, to its form or its headers.

        Args:
            request: The request.
            server: The authorization server, of which `issuer` is the audience of assertions.
        """


class Prover(Protocol):
    """What proves that tokens are the client's own (DPoP, RFC 9449)."""

    @property
    def key(self) -> Json:
        """The private key, as a JWK, that is kept with the tokens that are bound to it."""
        ...

    def proof(self, method: str, url: str, token: str | None = None) -> str:
        """Return a new proof for one request: the value of the header `DPoP`.

        Args:
            method: The HTTP method.
            url: The URL, of which query and fragment do not count.
            token: The access token that goes along; None for the token endpoint.
        """
        ...

    def set_nonce(self, url: str, nonce: str) -> None:
        """Take note of a nonce (`DPoP-Nonce`) that proofs for the origin of a URL need from now on."""
