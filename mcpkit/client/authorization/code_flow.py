"""The authorization code flow: the authorization request and the validation of its response."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.jws import base64url_encode
from ...auth.urls import shortened
from .errors import AuthorizationFailedError
from .scopes import OFFLINE_ACCESS
from .token_endpoint import refusal
from .web import Answer


@dataclass(frozen=True)
class AuthorizationRequest:
    """An authorization request, stored until its response arrives.

    Attributes:
        server: The authorization server, the only one that may respond.
        client_id: The client id.
        redirect_uri: The redirect URI of the response.
        resource: The resource identifier of the server that the tokens are for.
        scopes: The scopes to request; None leaves them to the authorization server.
        state: The `state` that the response must repeat.
        verifier: The PKCE code verifier.
    """

    server: AuthorizationServerMetadata
    client_id: str
    redirect_uri: str
    resource: str
    scopes: tuple[str, ...] | None
    state: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48), repr=False)

    def url(self) -> str:
        """Return the URL of the authorization page.

        Raises:
            MetadataError: There is no such endpoint, or its URL may not be shown.
        """
        parameters = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": base64url_encode(sha256(self.verifier.encode("ascii")).digest()),
            "code_challenge_method": "S256",
            "resource": self.resource,
        }
        if self.scopes:
            parameters["scope"] = " ".join(self.scopes)
            if OFFLINE_ACCESS in self.scopes:
                parameters["prompt"] = "consent"  # or it is not granted (OpenID Connect Core 1.0, 11)
        parts = urlsplit(self.server.endpoint("authorization_endpoint"))
        own = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] not in parameters]
        return urlunsplit(
            (parts.scheme, parts.netloc, parts.path, urlencode([*own, *parameters.items()]), "")
        )

    def code(self, answer: Mapping[str, str]) -> str:
        """Return the authorization code of a response to this request from this authorization server.

        An error is read only after these checks, since it may come from another server, too (RFC 9207, 2.4).

        Args:
            answer: The query parameters of the redirect.

        Raises:
            AuthorizationFailedError: The response belongs to another request or server, or has no code.
            TokenRefusedError: The authorization server refused the request.
        """
        issuer = self.server.issuer
        if not hmac.compare_digest(answer.get("state", "").encode(), self.state.encode()):
            raise AuthorizationFailedError(
                "the authorization response has the wrong `state`: it belongs to another login or is forged. Log in"
                " again"
            )
        named = answer.get("iss")
        if named is None and self.server.is_true("authorization_response_iss_parameter_supported"):
            raise AuthorizationFailedError(
                f"the authorization response has no `iss`, although the metadata of {shortened(issuer)} announces it: "
                "the response may come from another authorization server. Log in again"
            )
        if named is not None and named != issuer:
            raise AuthorizationFailedError(
                f"the authorization response has `iss` {shortened(named)}, but the login was at {shortened(issuer)}: "
                "the client discards its code. Log in again"
            )
        refused = refusal(Answer(400, answer, None), f"the authorization server {shortened(issuer)}", ())
        if refused is not None:
            raise refused
        code = answer.get("code")
        if not code:
            raise AuthorizationFailedError(
                f"the authorization response of {shortened(issuer)} has no `code`. Log in again"
            )
        return code
