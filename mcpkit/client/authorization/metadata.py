"""Requests and checks the metadata of a protected server and its authorization server."""

from __future__ import annotations

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
from .errors import AuthorizationFailedError
from .web import NotThereError, UnreachableError, Web

_OLDEST: Final = "2025-03-26"
"""The revision without metadata of protected resources."""

_NEEDED: Final = ("authorization_endpoint", "token_endpoint", "code_challenge_methods_supported")
_DOCUMENTS: Final = "client_id_metadata_document_supported"
"""Members that clients need. If one is missing, or the client cannot register, further documents are requested."""


@dataclass(frozen=True)
class Found:
    """The metadata of a protected server.

    Attributes:
        resource: The resource identifier, as published.
        server: The metadata of its authorization server.
        scopes: The scopes for basic use; None if the server names none.
    """

    resource: str
    server: AuthorizationServerMetadata
    scopes: tuple[str, ...] | None


async def find(web: Web, url: str, named: str | None, issuer: str | None, before: str | None) -> Found:
    """Discover the authorization server of a server, and the metadata of both.

    Args:
        web: Sends requests.
        url: The URL of the server.
        named: The URL of its metadata in the challenge (`resource_metadata`); None if there is none.
        issuer: The only acceptable authorization server; None for any.
        before: The authorization server of earlier tokens, which is preferred.

    Raises:
        AuthorizationFailedError: The metadata cannot be retrieved.
        MetadataError: The metadata is invalid.
    """
    resource = await _resource(web, url, named)
    if resource is None:
        return await _of_the_oldest(web, url, issuer)
    issuers = resource.authorization_servers
    if issuer is not None and issuer not in issuers:
        raise AuthorizationFailedError(
            f"{origin(url)} names the authorization server {', '.join(map(shortened, issuers))}, not "
            f"{shortened(issuer)} (issuer=). The client sends its credentials only to the latter"
        )
    if issuer is not None or before in issuers:
        issuers = (issuer or str(before),)
    problems: list[AuthorizationFailedError | MetadataError] = []
    for each in issuers:
        try:
            what = f"the authorization server metadata of {shortened(each)}"
            server = await authorization_server(web, each, what)
        except (AuthorizationFailedError, MetadataError) as error:
            problems.append(error)
        else:
            return Found(resource.resource, server, resource.scopes)
    raise problems[0]


async def _resource(web: Web, url: str, named: str | None) -> ResourceMetadata | None:
    """Return the metadata of a server; None if it has none, as in 2025-03-26."""
    what = f"the protected resource metadata of {shortened(canonical(url))}"
    if named is not None:
        web.check(named, what)
        if origin(named) != origin(url):
            raise AuthorizationFailedError(
                f"{what}: the challenge names {shortened(named)} (resource_metadata), which is on another origin. "
                "The client does not fetch it. Correct the WWW-Authenticate header of the server"
            )
        try:
            return ResourceMetadata.read(await web.document(named, what), url)
        except NotThereError as error:
            raise AuthorizationFailedError(
                f"{what} is missing at the URL in the challenge (resource_metadata): {error}"
            ) from None
    problems: list[AuthorizationFailedError | MetadataError] = []
    for place in protected_resource_urls(url):
        try:
            return ResourceMetadata.read(await web.document(place, what), url)
        except NotThereError:
            continue
        except UnreachableError:
            raise
        except (AuthorizationFailedError, MetadataError) as error:
            problems.append(error)
    if problems:
        raise problems[0]
    return None


async def authorization_server(web: Web, issuer: str, what: str) -> AuthorizationServerMetadata:
    """Return the metadata of an authorization server, merged from its documents.

    It may have one document by RFC 8414 and one by OpenID Connect, each with different members. If a member that
    clients need is missing, the other documents are requested, too. Missing or broken ones are ignored.

    Args:
        web: Sends requests.
        issuer: The issuer of the authorization server.
        what: The name of the metadata in messages.

    Raises:
        AuthorizationFailedError: The metadata cannot be retrieved.
        MetadataError: The metadata is invalid.
    """
    found: AuthorizationServerMetadata | None = None
    misread: list[MetadataError] = []
    failed: list[AuthorizationFailedError] = []
    said = ""
    for place in authorization_server_urls(issuer, accepts_http=web.accepts_http):
        try:
            document = await web.document(place, what)
            read = AuthorizationServerMetadata.read(document, issuer, accepts_http=web.accepts_http)
        except NotThereError as error:
            said = said or str(error)
        except MetadataError as error:
            misread.append(error)
        except UnreachableError:
            if found is None:
                raise
        except AuthorizationFailedError as error:
            failed.append(error)
        else:
            found = read if found is None else found.completed(read)
            if all(map(found.has, _NEEDED)) and (
                found.has("registration_endpoint") or found.is_true(_DOCUMENTS)
            ):
                break
    if found is not None:
        return found
    raise (*misread, *failed, AuthorizationFailedError(f"{what} was not found: {said}"))[0]


async def _of_the_oldest(web: Web, url: str, issuer: str | None) -> Found:
    """Return the metadata for a server without any: it is its own authorization server.

    This applies to 2025-03-26 (basic/authorization, "Server Metadata Discovery").
    """
    places, names = origin_urls(url)
    what = f"the authorization server metadata of {names[0]}"
    try:
        document = await web.document(places[0], what, {"MCP-Protocol-Version": _OLDEST})
    except NotThereError:
        server = AuthorizationServerMetadata.of_origin(url, accepts_http=web.accepts_http)
    else:
        named = document.get("issuer")
        expected: tuple[str, ...] = names
        # Nobody has named an issuer by which one could know it: whoever speaks for the origin is believed of it.
        if isinstance(named, str) and named.startswith(f"{names[0]}/"):
            expected = (named,)
        server = AuthorizationServerMetadata.read(document, *expected, accepts_http=web.accepts_http)
    if issuer not in {None, server.issuer}:
        raise AuthorizationFailedError(
            f"{origin(url)} has no protected resource metadata and is its own authorization server, "
            f"{shortened(server.issuer)}. That is not {shortened(str(issuer))} (issuer=), the only one to which the "
            "client sends its credentials"
        )
    return Found(canonical(url), server, None)
