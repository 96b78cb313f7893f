"""Requests to the token endpoint, and their responses (OAuth 2.1, 3.2)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.token_requests import TokenResponse, remove_secrets
from ...auth.urls import canonical, shortened
from .authorization_server_client import (
    AuthorizationFailedError,
    AuthorizationServerClient,
    EndpointResponse,
    TokenRefusedError,
)
from .client_authentication import ClientAuthentication, TokenRequest
from .dpop import Prover
from .token_storage import Tokens

_TOKEN_TYPES: Final = {"bearer": "Bearer", "dpop": "DPoP"}


@dataclass(frozen=True)
class GrantContext:
    """The server and authorization server that tokens are obtained for and from.

    Attributes:
        url: The URL of the server.
        resource: The resource identifier of the server, as it publishes it. The tokens are issued for it.
        server: The metadata of the authorization server.
        scopes: The scopes to request; None leaves `scope` out.
        http: Sends requests to the authorization server.
        published: The scopes in the metadata of the server.
        prover: The DPoP prover; None for bearer tokens.
    """

    url: str
    resource: str
    server: AuthorizationServerMetadata
    scopes: tuple[str, ...] | None
    http: AuthorizationServerClient = field(repr=False)
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
        issuer, prover = self.server.issuer, self.prover
        what = f"the token endpoint of {shortened(issuer)}"
        parameters = {"resource": self.resource, "scope": " ".join(self.scopes or ()), **form}
        request = TokenRequest(
            self.server.endpoint("token_endpoint"),
            {name: value for name, value in parameters.items() if value},
        )
        await authentication.sign(request, self.server)
        response = await self._post(request, what)
        if prover is not None and response.nonce is not None:
            prover.set_nonce(request.url, response.nonce)
            if response.members.get("error") == "use_dpop_nonce":
                response = await self._post(request, what)
        if response.status >= 500 and "error" not in response.members:
            raise AuthorizationFailedError(f"{what} responded with HTTP {response.status}", may_pass=True)
        refused = refusal(response, what, request.secrets)
        if refused is not None:
            raise refused
        try:
            if response.status != 200:
                raise ValueError
            tokens = TokenResponse.read(response.members)
        except ValueError:
            raise AuthorizationFailedError(
                f"{what} responded with HTTP {response.status} without a valid access token"
            ) from None
        if tokens.token_type not in _TOKEN_TYPES:
            raise AuthorizationFailedError(
                f"{what} issued a token of type {shortened(tokens.token_type)}, which this client does not support"
            )
        is_bound = tokens.token_type == "dpop"
        if is_bound and prover is None:
            raise AuthorizationFailedError(
                f"{what} issued a DPoP-bound token, but the client sent no DPoP proof. Set dpop=True"
            )
        return Tokens(
            canonical(self.url),
            issuer,
            authentication.client_id,
            tokens.access_token,
            tokens.refresh_token,
            _TOKEN_TYPES[tokens.token_type],
            None if tokens.lifetime is None else time.time() + tokens.lifetime,
            frozenset(tokens.scopes or self.scopes or ()),
            prover.key if prover is not None and is_bound else None,
        )

    async def _post(self, request: TokenRequest, what: str) -> EndpointResponse:
        headers = dict(request.headers)
        if self.prover is not None:
            headers["DPoP"] = self.prover.proof("POST", request.url)
        return await self.http.post(request.url, what, form=request.form, headers=headers)


def refusal(response: EndpointResponse, what: str, secrets: Iterable[str] = ()) -> TokenRefusedError | None:
    """Return the error of an error response; None for other responses.

    Args:
        response: The response.
        what: The name of the endpoint in messages.
        secrets: Secrets of the request, which are removed from the message.
    """
    error = response.members.get("error")
    if not isinstance(error, str):
        return None
    may_pass = error in {"temporarily_unavailable", "server_error", "slow_down"}
    secrets = tuple(secrets)
    message = f"{what} sent an error: {error_words(response.members, secrets)}"
    return TokenRefusedError(message, remove_secrets(error, secrets), may_pass=may_pass)


def error_words(members: Mapping[str, object], secrets: Iterable[str] = ()) -> str:
    """Return the error of a response as a short text without secrets."""
    error, description = members.get("error"), members.get("error_description")
    text = f"{error} ({description})" if isinstance(description, str) and description else str(error)
    return shortened(remove_secrets(text, secrets))
