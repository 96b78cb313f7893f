"""The context of a token grant: server, authorization server, scopes; and requests to the token endpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.urls import canonical, shortened
from .errors import AuthorizationFailedError
from .roles import ClientAuthentication, Prover, TokenRequest
from .token_endpoint import Granted, refusal
from .tokens import Tokens
from .web import Answer, Web

_NEEDS_NONCE = "use_dpop_nonce"


@dataclass(frozen=True)
class GrantContext:
    """The server and authorization server that tokens are obtained for and from.

    Attributes:
        url: The URL of the server.
        resource: The resource identifier of the server, as it publishes it. The tokens are issued for it.
        server: The metadata of the authorization server.
        scopes: The scopes to request; None leaves `scope` out.
        published: The scopes in the metadata of the server.
        web: Sends requests to the authorization server.
        prover: The DPoP prover; None for bearer tokens.
    """

    url: str
    resource: str
    server: AuthorizationServerMetadata
    scopes: tuple[str, ...] | None
    web: Web = field(repr=False)
    published: tuple[str, ...] = ()
    prover: Prover | None = field(default=None, repr=False)

    async def tokens(self, form: Mapping[str, str], authentication: ClientAuthentication) -> Tokens:
        """Request tokens from the token endpoint.

        Args:
            form: The parameters of the grant. `resource` is added, and `scope` if it is missing. An empty `scope` is
                left out.
            authentication: The client authentication.

        Returns:
            The tokens.

        Raises:
            TokenRefusedError: The token endpoint responded with an error.
            AuthorizationFailedError: The token endpoint did not respond, or its response has no tokens.
            MetadataError: There is no token endpoint, or its URL may not be requested.
        """
        issuer = self.server.issuer
        request = TokenRequest(self.server.endpoint("token_endpoint"), {"resource": self.resource, **form})
        if "scope" not in request.form and self.scopes:
            request.form["scope"] = " ".join(self.scopes)
        request.form = {name: value for name, value in request.form.items() if value}
        await authentication.sign(request, self.server)
        answer = await self._ask(request)
        refused = refusal(answer, f"the token endpoint of {shortened(issuer)}", request.secrets)
        if refused is not None:
            raise refused
        granted = Granted(answer, issuer, self.scopes or (), time.time())
        if granted.token_type == "DPoP" and self.prover is None:
            raise AuthorizationFailedError(
                f"the token endpoint of {shortened(issuer)} issued a DPoP-bound token, but the client sent no DPoP"
                " proof. Set dpop=True"
            )
        return Tokens(
            canonical(self.url),
            issuer,
            authentication.client_id,
            granted.access_token,
            granted.refresh_token,
            granted.token_type,
            granted.expires,
            granted.scopes,
            self.prover.key if self.prover is not None and granted.token_type == "DPoP" else None,
        )

    async def _ask(self, request: TokenRequest) -> Answer:
        what = f"the token endpoint of {shortened(self.server.issuer)}"
        answer = await self._sent(request, what)
        if self.prover is not None and answer.nonce is not None:
            self.prover.set_nonce(request.url, answer.nonce)
            if answer.members.get("error") == _NEEDS_NONCE:
                answer = await self._sent(request, what)
        if answer.status >= 500 and "error" not in answer.members:
            raise AuthorizationFailedError(f"{what} responded with HTTP {answer.status}", may_pass=True)
        return answer

    async def _sent(self, request: TokenRequest, what: str) -> Answer:
        headers = dict(request.headers)
        if self.prover is not None:
            headers["DPoP"] = self.prover.proof("POST", request.url)
        return await self.web.post(request.url, what, form=request.form, headers=headers)
