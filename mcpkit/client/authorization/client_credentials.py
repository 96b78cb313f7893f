"""The client credentials grant, for clients without a user (OAuth 2.1, section 4.2)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ...protocol.jsonrpc import Json
from .authorization import Authorization
from .credentials import Credentials
from .grant_context import GrantContext
from .presented import PresentedToken
from .storage import MemoryTokens, TokenStorage
from .tokens import Tokens


class ClientCredentials(Authorization):
    """Obtains tokens for a program that acts for itself, such as a service or a job, without a login.

        Client(url, auth=ClientCredentials("reports", secret=SECRET, issuer="https://id.example.com"))
        Client(url, auth=ClientCredentials("reports", private_key=Path("reports.pem")))

    The client must be registered at the authorization server. Expired tokens are requested again (ext-auth, "OAuth
    Client Credentials Extension").

    Args:
        client_id: The client id.
        secret: The client secret. It is sent in a header or in the form, as the authorization server requires.
        private_key: The private key that signs assertions (`private_key_jwt`): the text of a PEM file, its path, or a
            JWK.
        assertion: A JWT from another issuer that authenticates the client, such as the platform that it runs on: the
            token, the path of a file that holds it, or a function that returns it.
        issuer: The authorization server that the secret or the assertion is sent to, and no other. It may be left out
            with a private key, since each signed assertion is valid for one authorization server only.
        scopes: The scopes to request. None takes those that the server names.
        algorithm: The algorithm of the signature, such as `ES256`. None takes one that suits the key and the
            authorization server.
        key_id: The `kid` of the key.
        audience: The `aud` of signed assertions. None takes the issuer. Some servers require the URL of their token
            endpoint.
        storage: The storage of the tokens. None takes memory.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.

    Raises:
        ImportError: `private_key` requires the extra `mcpkit[auth]`.
        OSError: The file of the key cannot be read.
        ValueError: Not exactly one of `secret`, `private_key` and `assertion` is given; or `issuer` is missing.
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
        """The client id."""
        return self._credentials.client_id

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request tokens from the token endpoint; see `Authorization.obtain`."""
        return await context.tokens(
            {"grant_type": "client_credentials"}, self._credentials.authentication(context)
        )
