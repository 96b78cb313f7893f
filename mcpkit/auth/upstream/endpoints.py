"""A provider's endpoints: as its metadata says, or as an author does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from ..client_secret import Authentication
from ..discovery import AuthorizationServerMetadata
from ..issuer_metadata import IssuerMetadata
from ..urls import check_url


@dataclass(frozen=True)
class Endpoints:
    """Where a provider is asked for what, and how.

    Attributes:
        authorization: Where browsers are sent.
        token: Where codes and refresh tokens are redeemed.
        userinfo: Where it says who a user is; None where it does not.
        revocation: Where tokens are revoked (RFC 7009); None where they cannot be.
        says_issuer: Whether it says in its answers who it is (RFC 9207).
        offers_offline_access: Whether it says that it knows the scope `offline_access`.
        authentication: How a client with a secret says who it is.
    """

    authorization: str
    token: str
    userinfo: str | None = None
    revocation: str | None = None
    says_issuer: bool = False
    offers_offline_access: bool = False
    authentication: Authentication = "basic"

    def checked(self) -> Endpoints:
        """Return the same, of which each may be asked.

        Raises:
            MetadataError: One is no URL of https.
        """
        for name in ("authorization", "token", "userinfo", "revocation"):
            url = getattr(self, name)
            if url is not None:
                check_url(url, f"{name}_endpoint")
        return self


class EndpointSource(Protocol):
    """Says where a provider's endpoints are."""

    async def endpoints(self) -> Endpoints:
        """Return them.

        Raises:
            FetchError: Nobody says so now.
            MetadataError: What is said cannot be used.
        """
        ...


class GivenEndpoints:
    """Endpoints that an author gives.

    Args:
        endpoints: The endpoints.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints.checked()

    async def endpoints(self) -> Endpoints:
        """Return them."""
        return self._endpoints


class PublishedEndpoints:
    """Endpoints of which a provider's metadata says where they are.

    Args:
        metadata: The metadata.
    """

    def __init__(self, metadata: IssuerMetadata) -> None:
        self._metadata = metadata

    async def endpoints(self) -> Endpoints:
        """Return them.

        Raises:
            FetchError: There is no metadata.
            MetadataError: It is of somebody else, or says something that cannot be used.
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
    """Return how a client says who it is; one without a secret need not, so that other methods do no harm."""
    known = metadata.strings("token_endpoint_auth_methods_supported")
    if known is None or "client_secret_basic" in known or "client_secret_post" not in known:
        return "basic"  # what holds where nothing is said (RFC 8414, section 2)
    return "post"
