"""How a client says to a token endpoint who it is, by a secret or without one (OAuth 2.1, 2.4)."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from ...auth.discovery import AuthorizationServerMetadata
from ...auth.urls import shortened
from .errors import AuthorizationFailedError
from .roles import ClientAuthentication, TokenRequest


@dataclass(frozen=True)
class PublicClient:
    """A client that has no secret says its id."""

    client_id: str

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add the id to the form."""
        request.form["client_id"] = self.client_id


@dataclass(frozen=True)
class SecretInHeader:
    """A client that says its id and its secret in the header `Authorization` (`client_secret_basic`)."""

    client_id: str
    secret: str = field(repr=False)

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add both to the headers."""
        pair = f"{quote(self.client_id, safe='')}:{quote(self.secret, safe='')}"
        encoded = b64encode(pair.encode()).decode("ascii")
        request.headers["Authorization"] = f"Basic {encoded}"
        request.encoded += (self.secret, encoded)


@dataclass(frozen=True)
class SecretInForm:
    """A client that says its id and its secret in the form (`client_secret_post`)."""

    client_id: str
    secret: str = field(repr=False)

    async def sign(self, request: TokenRequest, server: AuthorizationServerMetadata) -> None:
        """Add both to the form."""
        request.form["client_id"] = self.client_id
        request.form["client_secret"] = self.secret


_BASIC: Final = "client_secret_basic"
_POST: Final = "client_secret_post"
_NONE: Final = "none"


def supported(server: AuthorizationServerMetadata) -> tuple[str, ...]:
    """Return the methods that a token endpoint knows; `client_secret_basic` where it does not say (RFC 8414, 2)."""
    return server.strings("token_endpoint_auth_methods_supported") or (_BASIC,)


def method_to_register(server: AuthorizationServerMetadata) -> str:
    """Return the method that a client on a user's machine registers: it can keep no secret, and has one if it must."""
    methods = server.strings("token_endpoint_auth_methods_supported") or (_NONE,)
    return next((method for method in (_NONE, _BASIC, _POST) if method in methods), _NONE)


def method_for(secret: str | None, server: AuthorizationServerMetadata) -> str:
    """Return the method for a client of which it was not said."""
    methods = supported(server)
    if secret is None or (methods == (_NONE,)):
        return _NONE
    return _POST if _POST in methods and _BASIC not in methods else _BASIC


def by_method(method: str, client_id: str, secret: str | None) -> ClientAuthentication:
    """Return what says who the client is.

    Raises:
        AuthorizationFailedError: The method is not known, or needs a secret that is not there.
    """
    if method == _NONE:
        return PublicClient(client_id)
    if method not in {_BASIC, _POST}:
        raise AuthorizationFailedError(
            f"the authorization server requires the client authentication method {shortened(method)},"
            " which this client does not support"
        )
    if secret is None:
        raise AuthorizationFailedError(
            f"the authorization server requires a client secret ({method}) but did not issue one at registration"
        )
    return SecretInHeader(client_id, secret) if method == _BASIC else SecretInForm(client_id, secret)
