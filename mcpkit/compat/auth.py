"""Access tokens over HTTP in the form of `mcp` 1.x: a verifier of the author, and requirements on tokens."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from pydantic import AnyHttpUrl, BaseModel, model_validator
from typing_extensions import Self

from ..protocol.jsonrpc import Json


class AuthSettings(BaseModel, defer_build=True):
    """The authorization server, the resource URL, and the scopes that tokens need."""

    issuer_url: AnyHttpUrl
    service_documentation_url: AnyHttpUrl | None = None
    client_registration_options: object = None
    revocation_options: object = None
    required_scopes: list[str] | None = None
    resource_server_url: AnyHttpUrl | None
    validate_token_resource: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.validate_token_resource and self.resource_server_url is None:
            raise ValueError("validate_token_resource requires resource_server_url")
        return self


class AccessToken(BaseModel, defer_build=True):
    """A verified access token."""

    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None
    claims: Json | None = None


class TokenVerifier(Protocol):
    """Verifier of access tokens."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the verified token; None if it is invalid."""


access_token = ContextVar[AccessToken | None]("access_token", default=None)


def get_access_token() -> AccessToken | None:
    """Return the access token of the current request; None if it has none."""
    return access_token.get()
