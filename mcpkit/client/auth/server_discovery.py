"""Discovery of the authorization server of an MCP server, and selection of the scopes to request."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ...auth.discovery import (
    AuthorizationServerMetadata,
    ResourceMetadata,
    authorization_server_urls,
    origin_urls,
    protected_resource_urls,
)
from ...auth.urls import MetadataError, canonical, origin, shortened
from .authorization_server_client import (
    AuthorizationFailedError,
    AuthorizationServerClient,
    DocumentMissingError,
    UnreachableError,
)

OFFLINE_ACCESS: Final = "offline_access"
"""The scope that requests a refresh token (OpenID Connect Core 1.0, 11)."""

_NEEDED: Final = ("authorization_endpoint", "token_endpoint", "code_challenge_methods_supported")
_DOCUMENTS: Final = "client_id_metadata_document_supported"
"""Members that clients need. If one is missing, or the client cannot register, further documents are requested."""


@dataclass(frozen=True)
class DiscoveredServer:
    """The metadata of a protected server.

    Attributes:
        resource: The resource identifier, as published.
        server: The metadata of its authorization server.
        scopes: The scopes for basic use; None if the server names none.
    """

    resource: str
    server: AuthorizationServerMetadata
    scopes: tuple[str, ...] | None


async def discover(
    http: AuthorizationServerClient,
    url: str,
    metadata_url: str | None = None,
    issuer: str | None = None,
    preferred_issuer: str | None = None,
) -> DiscoveredServer:
    """Discover the authorization server of a server, and the metadata of both.

    Args:
        http: Sends requests.
        url: The URL of the server.
        metadata_url: The URL of its metadata in the challenge (`resource_metadata`); None if there is none.
        issuer: The only acceptable authorization server; None for any.
        preferred_issuer: The authorization server of earlier tokens, which is preferred.

    Raises:
        AuthorizationFailedError: The metadata cannot be retrieved.
        MetadataError: The metadata is invalid.
    """
    resource = await _resource_metadata(http, url, metadata_url)
    if resource is None:
        return await _discover_at_origin(http, url, issuer)
    issuers = resource.authorization_servers
    if issuer is not None and issuer not in issuers:
        raise AuthorizationFailedError(
            f"{origin(url)} names the authorization server {', '.join(map(shortened, issuers))}, not "
            f"{shortened(issuer)} (issuer=). The client sends its credentials only to the latter"
        )
    if issuer is not None or preferred_issuer in issuers:
        issuers = (issuer or str(preferred_issuer),)
    problems: list[AuthorizationFailedError | MetadataError] = []
    for each in issuers:
        what = f"the authorization server metadata of {shortened(each)}"
        try:
            server = await authorization_server_metadata(http, each, what)
        except (AuthorizationFailedError, MetadataError) as error:
            problems.append(error)
        else:
            return DiscoveredServer(resource.resource, server, resource.scopes)
    raise problems[0]


async def _resource_metadata(
    http: AuthorizationServerClient, url: str, metadata_url: str | None
) -> ResourceMetadata | None:
    """Return the metadata of a server; None if it has none, as in 2025-03-26."""
    what = f"the protected resource metadata of {shortened(canonical(url))}"
    if metadata_url is not None:
        http.check(metadata_url, what)
        if origin(metadata_url) != origin(url):
            raise AuthorizationFailedError(
                f"{what}: the challenge names {shortened(metadata_url)} (resource_metadata), which is on another "
                "origin. The client does not fetch it. Correct the WWW-Authenticate header of the server"
            )
        try:
            return ResourceMetadata.read(await http.document(metadata_url, what), url)
        except DocumentMissingError as error:
            raise AuthorizationFailedError(
                f"{what} is missing at the URL in the challenge (resource_metadata): {error}"
            ) from None
    problems: list[AuthorizationFailedError | MetadataError] = []
    for each in protected_resource_urls(url):
        try:
            return ResourceMetadata.read(await http.document(each, what), url)
        except DocumentMissingError:
            continue
        except UnreachableError:
            raise
        except (AuthorizationFailedError, MetadataError) as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return None


async def authorization_server_metadata(
    http: AuthorizationServerClient, issuer: str, what: str
) -> AuthorizationServerMetadata:
    """Return the metadata of an authorization server, merged from its documents.

    It may have one document by RFC 8414 and one by OpenID Connect, each with different members. If a member that
    clients need is missing, the other documents are requested, too. Missing or broken ones are ignored.

    Args:
        http: Sends requests.
        issuer: The issuer of the authorization server.
        what: The name of the metadata in messages.

    Raises:
        AuthorizationFailedError: The metadata cannot be retrieved.
        MetadataError: The metadata is invalid.
    """
    metadata: AuthorizationServerMetadata | None = None
    invalid: list[MetadataError] = []
    failed: list[AuthorizationFailedError] = []
    missing = ""
    for url in authorization_server_urls(issuer, accepts_http=http.accepts_http):
        try:
            document = await http.document(url, what)
            found = AuthorizationServerMetadata.read(document, issuer, accepts_http=http.accepts_http)
        except DocumentMissingError as error:
            missing = missing or str(error)
        except MetadataError as error:
            invalid.append(error)
        except UnreachableError:
            if metadata is None:
                raise
        except AuthorizationFailedError as error:
            failed.append(error)
        else:
            metadata = found if metadata is None else metadata.completed(found)
            can_register = metadata.has("registration_endpoint") or metadata.is_true(_DOCUMENTS)
            if can_register and all(map(metadata.has, _NEEDED)):
                break
    if metadata is not None:
        return metadata
    raise (*invalid, *failed, AuthorizationFailedError(f"{what} was not found: {missing}"))[0]


async def _discover_at_origin(
    http: AuthorizationServerClient, url: str, issuer: str | None
) -> DiscoveredServer:
    """Return the metadata for a server without any: it is its own authorization server.

    This applies to 2025-03-26 (basic/authorization, "Server Metadata Discovery"), the revision without metadata of
    protected resources.
    """
    [metadata_url], issuers = origin_urls(url)
    what = f"the authorization server metadata of {issuers[0]}"
    try:
        document = await http.document(metadata_url, what, {"MCP-Protocol-Version": "2025-03-26"})
    except DocumentMissingError:
        server = AuthorizationServerMetadata.of_origin(url, accepts_http=http.accepts_http)
    else:
        named = document.get("issuer")
        # No other document names an issuer that it could be compared with, so any issuer at the origin is accepted.
        expected = (named,) if isinstance(named, str) and named.startswith(f"{issuers[0]}/") else issuers
        server = AuthorizationServerMetadata.read(document, *expected, accepts_http=http.accepts_http)
    if issuer not in {None, server.issuer}:
        raise AuthorizationFailedError(
            f"{origin(url)} has no protected resource metadata and is its own authorization server, "
            f"{shortened(server.issuer)}. That is not {shortened(str(issuer))} (issuer=), the only one to which the "
            "client sends its credentials"
        )
    return DiscoveredServer(canonical(url), server, None)


# Scopes (basic/authorization, "Scope Selection Strategy", "Step-Up Authorization Flow")


def select_scopes(
    server: AuthorizationServerMetadata,
    *,
    chosen: Iterable[str] | None,
    challenged: Iterable[str],
    published: Iterable[str] | None,
    earlier: Iterable[str],
    wants_refresh: bool,
) -> tuple[str, ...] | None:
    """Return the scopes to request; None leaves them to the authorization server.

    Args:
        server: The authorization server. Its `scopes_supported` decides about `offline_access` only.
        chosen: The scopes that the user chose; None for those that the server names.
        challenged: The scopes of the challenge.
        published: The scopes in the server's metadata; None if there are none.
        earlier: The scopes that were requested or granted before.
        wants_refresh: Whether the client can use a refresh token.
    """
    needed = [*earlier, *challenged]
    base = needed or list(published or ()) if chosen is None else [*chosen, *needed]
    scopes = dict.fromkeys(base)
    known = server.strings("scopes_supported")
    if known is not None and OFFLINE_ACCESS not in known:
        scopes.pop(OFFLINE_ACCESS, None)
    elif known is not None and scopes and wants_refresh:
        scopes[OFFLINE_ACCESS] = None
    return tuple(scopes) or None


def parse_scopes(text: object) -> tuple[str, ...]:
    """Return the scopes of a `scope` parameter; none if it is not a string."""
    return tuple(dict.fromkeys(text.split())) if isinstance(text, str) else ()
