"""Endpoints of a provider, from its metadata or from options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..client_secret import Authentication
from ..discovery import AuthorizationServerMetadata
from ..issuer_metadata import IssuerMetadata
from ..urls import check_url


@dataclass(frozen=True)
class Endpoints:
    """Endpoints and capabilities of a provider.

    Attributes:
        authorization: Authorization endpoint.
        token: Token endpoint.
        userinfo: Userinfo endpoint; None if there is none.
        revocation: Revocation endpoint (RFC 7009); None if there is none.
        says_issuer: Whether authorization responses contain `iss` (RFC 9207).
        offers_offline_access: Whether the metadata lists the scope `offline_access`.
        authentication: Client authentication method for clients with a secret.
    """

    authorization: str
    token: str
    userinfo: str | None = None
    revocation: str | None = None
    says_issuer: bool = False
    offers_offline_access: bool = False
    authentication: Authentication = "basic"

    def checked(self) -> Endpoints:
        """Check the URLs, and return the endpoints.

        Raises:
            MetadataError: A URL is not https.
        """
        for name in ("authorization", "token", "userinfo", "revocation"):
            url = getattr(self, name)
            if url is not None:
                check_url(url, f"{name}_endpoint")
        return self


class EndpointSource(Protocol):
    """Source of the endpoints of a provider."""

    async def endpoints(self) -> Endpoints:
        """Return the endpoints.

        Raises:
            FetchError: The metadata is not available now.
            MetadataError: The metadata is not valid.
        """
        ...


class GivenEndpoints:
    """Endpoints given as options.

    Args:
        endpoints: The endpoints.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints.checked()

    async def endpoints(self) -> Endpoints:
        """Return the endpoints."""
        return self._endpoints


class PublishedEndpoints:
    """Endpoints from the metadata of a provider.

    Args:
        metadata: The metadata.
    """

    def __init__(self, metadata: IssuerMetadata) -> None:
        self._metadata = metadata

    async def endpoints(self) -> Endpoints:
        """Return the endpoints.

        Raises:
            FetchError: No metadata can be fetched.
            MetadataError: The metadata has another issuer, or is not valid.
        """
        metadata = await self._metadata.read("authorization_endpoint", "token_endpoint")
        return Endpoints(
            metadata.endpoint("authorization_endpoint"),
            metadata.endpoint("token_endpoint"),
            _optional(metadata, "userinfo_endpoint"),
            _optional(metadata, "revocation_endpoint"),
            metadata.says("authorization_response_iss_parameter_supported"),
            "offline_access" in (metadata.strings("scopes_supported") or ()),
            _authentication(metadata),
        )


def _optional(metadata: AuthorizationServerMetadata, name: str) -> str | None:
    return metadata.endpoint(name) if metadata.has(name) else None


def _authentication(metadata: AuthorizationServerMetadata) -> Authentication:
    """Return the client authentication method. Clients without a secret do not use it, so other methods are ignored."""
    known = metadata.strings("token_endpoint_auth_methods_supported")
    if known is None or "client_secret_basic" in known or "client_secret_post" not in known:
        return "basic"  # what holds where nothing is said (RFC 8414, section 2)
    return "post"
