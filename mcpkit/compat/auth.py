"""Access tokens over HTTP, as `mcp` 1.x takes them: a verifier of the author's, and what is required of tokens."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from pydantic import AnyHttpUrl, BaseModel, model_validator
from typing_extensions import Self

from ..protocol.types import Json


class AuthSettings(BaseModel, defer_build=True):
    """Who issues the tokens, for which URL, and what they must grant."""

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
    """What a token says."""

    token: str
    client_id: str
    scopes: list[str]
    expires_at: int | None = None
    resource: str | None = None
    subject: str | None = None
    claims: Json | None = None


class TokenVerifier(Protocol):
    """Says what a token is worth."""

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return what a token says; None where it is not good."""


access_token = ContextVar[AccessToken | None]("access_token", default=None)


def get_access_token() -> AccessToken | None:
    """Return the token of the request that is served; None where it has none."""
    return access_token.get()
