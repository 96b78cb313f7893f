"""A client that asks for itself, and for no user: the grant of client credentials (OAuth 2.1, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...protocol.types import Json
from .authorization import Authorization
from .credentials import Credentials
from .grant_context import GrantContext
from .presented import PresentedToken
from .storage import MemoryTokens, TokenStorage
from .tokens import Tokens


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
        accept_plain_http: Whether servers and authorization servers may be at URLs of http on other machines, as in a
            cluster: then everything between can read the tokens.

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
        accept_plain_http: bool = False,
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
            scopes=scopes,
            storage=MemoryTokens() if storage is None else storage,
            issuer=issuer,
            dpop=dpop,
            accept_plain_http=accept_plain_http,
        )

    def __repr__(self) -> str:
        return f"ClientCredentials({self.client!r})"

    @property
    def client(self) -> str:
        """The client's id."""
        return self._credentials.client_id

    async def obtain(self, context: GrantContext) -> Tokens:
        """Ask the token endpoint for tokens of the client's own."""
        return await context.tokens(
            {"grant_type": "client_credentials"}, self._credentials.authentication(context)
        )
