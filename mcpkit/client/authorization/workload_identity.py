"""The JWT bearer grant with a token of the platform that a program runs on (RFC 7523, section 2.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .authorization import Authorization
from .client_authentication import SecretAuthentication
from .grant_context import GrantContext
from .presented import Presented, PresentedToken
from .storage import MemoryTokens, TokenStorage
from .tokens import Tokens

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class WorkloadIdentity(Authorization):
    """Obtains tokens for a program by the identity token of its platform, without a secret.

        Client(url, auth=WorkloadIdentity("reports", Path("/var/run/secrets/tokens/mcp"), issuer="https://id.example.com"))

    The platform provides a JWT with the authorization server as audience, for example Kubernetes in a file and cloud
    providers by a request. After a refusal the client does not try again, or in another way (ext-auth, workload
    identity federation, a draft: SEP-1933).

    Args:
        client_id: The client id at the authorization server.
        token: The JWT; the path of a file that holds it, read each time; or a function that returns it.
        issuer: The authorization server that the JWT is for. It is sent to no other server.
        scopes: The scopes to request. None takes those that the server names.
        storage: The storage of the tokens. None takes memory.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.

    Raises:
        TypeError: `token` is none of these.
        ValueError: `issuer` is not a URL with `https`.
    """

    def __init__(
        self,
        client_id: str,
        token: PresentedToken,
        *,
        issuer: str,
        scopes: Iterable[str] | None = None,
        storage: TokenStorage | None = None,
        dpop: bool = False,
        accept_plain_http: bool = False,
    ) -> None:
        self._client_id = client_id
        self._token = Presented("token", token)
        super().__init__(
            scopes=scopes,
            storage=MemoryTokens() if storage is None else storage,
            issuer=issuer,
            dpop=dpop,
            accept_plain_http=accept_plain_http,
        )

    def __repr__(self) -> str:
        return f"WorkloadIdentity({self.client!r})"

    @property
    def client(self) -> str:
        """The client id."""
        return self._client_id

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request tokens from the token endpoint, once, with the token of the platform; see `Authorization.obtain`."""
        form = {"grant_type": JWT_BEARER, "assertion": await self._token.value()}
        return await context.tokens(form, SecretAuthentication(self._client_id))
