"""A user of an enterprise has logged in once, and its identity provider says what for (ext-auth, EMA; ID-JAG)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.urls import MetadataError, check_url, shortened
from ...protocol.types import Json
from .authorization import Authorization
from .client_authentication import PublicClient, by_method, method_for
from .credentials import Credentials
from .errors import AuthorizationFailedError
from .grant_context import GrantContext
from .metadata import authorization_server
from .presented import Presented, PresentedToken
from .roles import TokenRequest
from .storage import MemoryTokens, TokenStorage
from .token_endpoint import refusal
from .tokens import Tokens
from .workload_identity import JWT_BEARER

_TYPES: Final = "urn:ietf:params:oauth:token-type:"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"


class EnterpriseManaged(Authorization):
    """Tokens for a user who has logged in at an enterprise's identity provider, which decides what the client may do.

        auth = EnterpriseManaged(
            "notes-client", secret=SECRET, issuer="https://auth.notes.example",
            idp="https://acme.idp.example", idp_client_id="our-client", identity=id_token,
        )

    Nobody is asked anything: the identity provider exchanges what it has said about the user for a grant (ID-JAG), and
    the authorization server of the MCP server exchanges that for a token ("Enterprise-Managed Authorization").

    Args:
        client_id: The client's id at the server's authorization server.
        secret: Its secret there; or else its private key.
        private_key: Its private key: the text of a PEM file, its path, or a JWK.
        issuer: That authorization server: nobody else gets a grant.
        idp: The issuer of the enterprise's identity provider.
        idp_client_id: The client's id there.
        identity: What the identity provider has said about the user when it logged in, an ID token or a SAML assertion:
            as it is, the path of a file that holds it, or a function that returns it.
        idp_secret: The client's secret there; None where it has none.
        identity_type: `id_token` or `saml2`.
        idp_token_endpoint: Where the identity provider exchanges tokens; None to look into its metadata.
        scopes: The scopes to ask for; None for those that the server names.
        storage: Where tokens are kept, of this user alone; None for memory: there are others at any time.
        dpop: Whether tokens are bound to a key of the client's (RFC 9449).
        accept_plain_http: Whether servers and authorization servers may be at URLs of http on other machines, as in a
            cluster: then everything between can read the tokens.

    Raises:
        ImportError: `private_key` needs the extra `mcpkit[auth]`.
        OSError: The file of the key cannot be read.
        ValueError: A URL is none of https, or there is not one of `secret` and `private_key`.
    """

    def __init__(
        self,
        client_id: str,
        *,
        issuer: str,
        idp: str,
        idp_client_id: str,
        identity: PresentedToken,
        secret: str | None = None,
        private_key: str | Path | Json | None = None,
        idp_secret: str | None = None,
        identity_type: str = "id_token",
        idp_token_endpoint: str | None = None,
        scopes: Iterable[str] | None = None,
        storage: TokenStorage | None = None,
        dpop: bool = False,
        accept_plain_http: bool = False,
    ) -> None:
        if identity_type not in {"id_token", "saml2"}:
            raise ValueError(f"identity_type must be 'id_token' or 'saml2', got {identity_type!r}")
        self._credentials = Credentials(
            client_id,
            secret=secret,
            private_key=private_key,
            issuer=issuer,
            algorithm=None,
            key_id=None,
            audience=None,
        )
        self._idp = check_url(idp, "idp=", accepts_http=accept_plain_http)
        self._idp_client_id = idp_client_id
        self._idp_secret = idp_secret
        self._identity = Presented("identity", identity)
        self._identity_type = _TYPES + identity_type
        self._endpoint = (
            None
            if idp_token_endpoint is None
            else check_url(idp_token_endpoint, "idp_token_endpoint=", accepts_http=accept_plain_http)
        )
        super().__init__(
            scopes=scopes,
            storage=MemoryTokens() if storage is None else storage,
            issuer=issuer,
            dpop=dpop,
            accept_plain_http=accept_plain_http,
        )

    def __repr__(self) -> str:
        return f"EnterpriseManaged({self.client!r}, idp={self._idp!r})"

    @property
    def client(self) -> str:
        """The client's id."""
        return self._credentials.client_id

    async def obtain(self, context: GrantContext) -> Tokens:
        """Have the identity provider grant it, and the authorization server issue tokens for the grant."""
        form = {"grant_type": JWT_BEARER, "assertion": await self._grant(context)}
        return await context.tokens(form, self._credentials.authentication(context))

    async def _grant(self, context: GrantContext) -> str:
        """Return the identity provider's grant for one server (section 4)."""
        what = f"the identity provider {shortened(self._idp)}"
        try:
            idp = await self._metadata(context)
            request = TokenRequest(
                idp.endpoint("token_endpoint"),
                {
                    "grant_type": _EXCHANGE,
                    "requested_token_type": _TYPES + "id-jag",
                    "audience": context.server.issuer,
                    "resource": context.resource,
                    "subject_token": await self._identity.value(),
                    "subject_token_type": self._identity_type,
                },
            )
            if context.scopes:
                request.form["scope"] = " ".join(context.scopes)
            if self._idp_secret is None:
                await PublicClient(self._idp_client_id).sign(request, idp)
            else:
                method = method_for(self._idp_secret, idp)
                await by_method(method, self._idp_client_id, self._idp_secret).sign(request, idp)
            answer = await context.web.post(request.url, what, form=request.form, headers=request.headers)
        except MetadataError as error:
            raise AuthorizationFailedError(str(error)) from None
        refused = refusal(answer, what, request.secrets)
        if refused is not None:
            raise refused
        grant = answer.members.get("access_token")
        if (
            answer.status != 200
            or not isinstance(grant, str)
            or answer.members.get("issued_token_type") != _TYPES + "id-jag"
        ):
            raise AuthorizationFailedError(
                f"{what} responded with HTTP {answer.status} without an identity assertion grant (ID-JAG)",
                may_pass=answer.status >= 500,
            )
        return grant

    async def _metadata(self, context: GrantContext) -> AuthorizationServerMetadata:
        if self._endpoint is not None:
            document: Mapping[str, object] = {"issuer": self._idp, "token_endpoint": self._endpoint}
            return AuthorizationServerMetadata(self._idp, document, context.web.accepts_http)
        what = f"the metadata of the identity provider {shortened(self._idp)}"
        return await authorization_server(context.web, self._idp, what)
