"""Enterprise-managed authorization: a grant from the enterprise's identity provider (ext-auth, EMA; ID-JAG)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.urls import MetadataError, check_url, shortened
from ...protocol.jsonrpc import Json
from .authorization import Authorization
from .client_authentication import SecretAuthentication, by_method, method_for
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
    """Obtains tokens for a user who has logged in at the identity provider of an enterprise.

        auth = EnterpriseManaged(
            "notes-client", secret=SECRET, issuer="https://auth.notes.example",
            idp="https://acme.idp.example", idp_client_id="our-client", identity=id_token,
        )

    The user is not prompted. The identity provider decides what the client may do, and exchanges the user's identity
    token for a grant (ID-JAG). The authorization server of the MCP server exchanges the grant for a token
    ("Enterprise-Managed Authorization").

    Args:
        client_id: The client id at the authorization server of the MCP server.
        secret: The client secret there. Give either `secret` or `private_key`.
        private_key: The private key of the client there: the text of a PEM file, its path, or a JWK.
        issuer: That authorization server. Grants are sent to no other server.
        idp: The issuer of the enterprise's identity provider.
        idp_client_id: The client id at the identity provider.
        identity: The identity token of the user from the login, an ID token or a SAML assertion: the token, the path of
            a file that holds it, or a function that returns it.
        idp_secret: The client secret at the identity provider; None if there is none.
        identity_type: The type of `identity`: `id_token` or `saml2`.
        idp_token_endpoint: The token endpoint of the identity provider. None takes it from the provider's metadata.
        scopes: The scopes to request. None takes those that the server names.
        storage: The storage of the tokens, for this user only. None takes memory, since tokens can be obtained again at
            any time.
        dpop: Whether tokens are bound to a key of the client (DPoP, RFC 9449).
        accept_plain_http: Whether servers and authorization servers on other machines may have URLs with `http`, as in
            a cluster. Everything in between can then read the tokens.

    Raises:
        ImportError: `private_key` requires the extra `mcpkit[auth]`.
        OSError: The file of the key cannot be read.
        ValueError: A URL does not begin with `https`, `identity_type` is unknown, or not exactly one of `secret` and
            `private_key` is given.
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
        """The client id."""
        return self._credentials.client_id

    async def obtain(self, context: GrantContext) -> Tokens:
        """Request a grant from the identity provider, and tokens for it; see `Authorization.obtain`."""
        form = {"grant_type": JWT_BEARER, "assertion": await self._grant(context)}
        return await context.tokens(form, self._credentials.authentication(context))

    async def _grant(self, context: GrantContext) -> str:
        """Return the grant of the identity provider for one server (section 4)."""
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
                await SecretAuthentication(self._idp_client_id).sign(request, idp)
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
