"""A client that asks for itself, and for no user: the grant of client credentials (OAuth 2.1, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ...protocol.types import Json
from .authorization import Authorization
from .client_authentication import by_method, method_for
from .presented import Presented, PresentedToken
from .private_key_jwt import ForeignAssertion, PrivateKeyJwt, SigningKey
from .roles import ClientAuthentication
from .storage import MemoryTokens, TokenStorage
from .tokens import Tokens
from .wanted import Wanted


class Credentials:
    """What a registered client says who it is with: one of a secret, a key, or what somebody vouches.

    Args:
        client_id: Its id.
        secret: Its secret.
        private_key: The key that it signs with.
        assertion: What somebody else vouches for it with.
        issuer: The authorization server that has registered it.
        algorithm: What the key signs by.
        key_id: What the key is called.
        audience: Whom assertions are for.

    Raises:
        ValueError: None of them is given, or several; or nobody knows whom a secret is for.
    """

    def __init__(
        self,
        client_id: str,
        *,
        secret: str | None,
        private_key: str | Path | Json | None,
        assertion: PresentedToken | None = None,
        issuer: str | None,
        algorithm: str | None,
        key_id: str | None,
        audience: str | None,
    ) -> None:
        if not client_id:
            raise ValueError(
                "client_id is empty: it is what the authorization server has registered the client by"
            )
        if sum(each is not None for each in (secret, private_key, assertion)) != 1:
            raise ValueError(
                "a client says who it is by one thing: give either secret=, private_key= or assertion="
            )
        if issuer is None and (private_key is None or audience is not None):
            raise ValueError(
                "issuer= is missing: the authorization server that the client is registered at. Any other that a server"
                " names would get what proves who the client is"
            )
        if private_key is None and (algorithm, key_id, audience) != (None, None, None):
            raise ValueError("algorithm=, key_id= and audience= are for private_key=")
        self.client_id: Final = client_id
        self._secret = secret
        self._assertion: ClientAuthentication | None = None
        if private_key is not None:
            self._assertion = PrivateKeyJwt(client_id, SigningKey(private_key, algorithm, key_id), audience)
        elif assertion is not None:
            self._assertion = ForeignAssertion(client_id, Presented("assertion=", assertion))

    def authentication(self, wanted: Wanted) -> ClientAuthentication:
        """Return what says to a token endpoint who the client is."""
        if self._assertion is not None:
            return self._assertion
        return by_method(method_for(self._secret, wanted.server), self.client_id, self._secret)


class ClientCredentials(Authorization):
    """Tokens for a program that asks for itself: a service, a job; nobody logs in.

        Client(url, auth=ClientCredentials("reports", secret=SECRET, issuer="https://id.example.com"))
        Client(url, auth=ClientCredentials("reports", private_key=Path("reports.pem")))

    The client has been registered at the authorization server. Tokens that expire are asked for again (ext-auth, "OAuth
    Client Credentials Extension").

    Args:
        client_id: The client's id.
        secret: Its secret; sent as the authorization server wants it, in a header or in the form.
        private_key: Its private key, with which it signs who it is: the text of a PEM file, its path, or a JWK.
        assertion: A JWT by which somebody else vouches for it, such as the platform that it runs on: the token, the
            path of a file that holds it, or a function that returns it.
        issuer: The authorization server, which the secret or the assertion is for; nobody else gets it. With a private
            key it may be left out, as what is signed is good for one authorization server alone.
        scopes: The scopes to ask for; None for those that the server names.
        algorithm: What the key signs by, such as `ES256`; None for what suits the key and the authorization server.
        key_id: The `kid` of the key.
        audience: Whom what is signed is for; None for the issuer. Some want the URL of their token endpoint.
        storage: Where tokens are kept; None for memory.
        dpop: Whether tokens are bound to a key of the client's (RFC 9449).

    Raises:
        ImportError: `private_key` needs the extra `mcpkit[auth]`.
        OSError: The file of the key cannot be read.
        ValueError: There is not one of `secret`, `private_key` and `assertion`; or nobody knows whom it is for.
    """

    def __init__(
        self,
        client_id: str,
        secret: str | None = None,
        *,
        private_key: str | Path | Json | None = None,
        assertion: PresentedToken | None = None,
        issuer: str | None = None,
        scopes: Iterable[str] | None = None,
        algorithm: str | None = None,
        key_id: str | None = None,
        audience: str | None = None,
        storage: TokenStorage | None = None,
        dpop: bool = False,
    ) -> None:
        self._credentials = Credentials(
            client_id,
            secret=secret,
            private_key=private_key,
            assertion=assertion,
            issuer=issuer,
            algorithm=algorithm,
            key_id=key_id,
            audience=audience,
        )
        super().__init__(
            scopes=scopes, storage=MemoryTokens() if storage is None else storage, issuer=issuer, dpop=dpop
        )

    def __repr__(self) -> str:
        return f"ClientCredentials({self.client!r})"

    @property
    def client(self) -> str:
        """The client's id."""
        return self._credentials.client_id

    async def obtain(self, wanted: Wanted) -> Tokens:
        """Ask the token endpoint for tokens of the client's own."""
        return await wanted.tokens(
            {"grant_type": "client_credentials"}, self._credentials.authentication(wanted)
        )
