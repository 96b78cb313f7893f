"""A program shows the token of the platform that it runs on: the JWT bearer grant (RFC 7523, section 2.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .authorization import Authorization
from .client_authentication import PublicClient
from .grant_context import GrantContext
from .presented import Presented, PresentedToken
from .storage import MemoryTokens, TokenStorage
from .tokens import Tokens

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class WorkloadIdentity(Authorization):
    """Tokens for a program that is known by where it runs, and has no secret.

        Client(url, auth=WorkloadIdentity("reports", Path("/var/run/secrets/tokens/mcp"), issuer="https://id.example.com"))

    The platform gives a JWT, such as Kubernetes in a file and cloud providers by a request, whose audience is the
    authorization server. What that refuses is not asked again, nor in another way (ext-auth, workload identity
    federation, a draft: SEP-1933).

    Args:
        client_id: The client's id at the authorization server.
        token: The JWT; the path of a file that holds it, read each time; or a function that returns it.
        issuer: The authorization server that the JWT is for: nobody else gets it.
        scopes: The scopes to ask for; None for those that the server names.
        storage: Where tokens are kept; None for memory.
        dpop: Whether tokens are bound to a key of the client's (RFC 9449).
        accept_plain_http: Whether servers and authorization servers may be at URLs of http on other machines, as in a
            cluster: then everything between can read the tokens.

    Raises:
        TypeError: `token` is none of these.
        ValueError: The issuer is no URL of https.
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
        """The client's id."""
        return self._client_id

    async def obtain(self, context: GrantContext) -> Tokens:
        """Ask the token endpoint once, with the token of the platform."""
        form = {"grant_type": JWT_BEARER, "assertion": await self._token.value()}
        return await context.tokens(form, PublicClient(self._client_id))
