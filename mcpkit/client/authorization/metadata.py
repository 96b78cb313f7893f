"""What a protected server, and the authorization server that it names, say of themselves, asked for and checked."""

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
from .web import NotThereError, Web

_OLDEST: Final = "2025-03-26"
"""The revision of servers that have no metadata as protected resources."""


@dataclass(frozen=True)
class Found:
    """What is known of a protected server.

    Attributes:
        resource: Its identifier, as published.
        server: Its authorization server.
        scopes: The scopes that basic use needs; None where nobody says.
    """

    resource: str
    server: AuthorizationServerMetadata
    scopes: tuple[str, ...] | None


async def find(web: Web, url: str, named: str | None, issuer: str | None, before: str | None) -> Found:
    """Find out who issues tokens for a server, and what both say of themselves.

    Args:
        web: Sends requests.
        url: The server.
        named: Where its challenge says that its metadata is; None where it does not say.
        issuer: The authorization server that alone will do; None for any.
        before: The one that has issued tokens before, which is taken again where it still may be.

    Raises:
        AuthorizationFailedError: What they say cannot be had.
        MetadataError: It cannot be believed.
    """
    resource = await _resource(web, url, named)
    if resource is None:
        return await _of_the_oldest(web, url, issuer)
    issuers = resource.authorization_servers
    if issuer is not None and issuer not in issuers:
        raise AuthorizationFailedError(
            f"{origin(url)} takes tokens of {', '.join(map(shortened, issuers))}, and not of {shortened(issuer)} "
            "(issuer=), whose credentials go nowhere else"
        )
    chosen = issuer or (before if before in issuers else None) or issuers[0]
    return Found(resource.resource, await _server(web, chosen), resource.scopes)


async def _resource(web: Web, url: str, named: str | None) -> ResourceMetadata | None:
    """Return what a server says of itself; None where it says nothing, as those of 2025-03-26 do."""
    what = f"the protected resource metadata of {shortened(canonical(url))}"
    if named is not None:
        web.check(named, what)
        if origin(named) != origin(url):
            raise AuthorizationFailedError(
                f"{what} is said to be at another origin, {shortened(named)} (resource_metadata): it is not asked, as "
                "what is said there would be of somebody else"
            )
        try:
            return ResourceMetadata.read(await web.document(named, what), url)
        except NotThereError as error:
            raise AuthorizationFailedError(
                f"{what} is not where the server says that it is: {error}"
            ) from None
    for place in protected_resource_urls(url):
        try:
            return ResourceMetadata.read(await web.document(place, what), url)
        except NotThereError:
            continue
    return None


async def _server(web: Web, issuer: str) -> AuthorizationServerMetadata:
    what = f"the authorization server metadata of {shortened(issuer)}"
    problem: MetadataError | None = None
    said = ""
    for place in authorization_server_urls(issuer):
        try:
            return AuthorizationServerMetadata.read(await web.document(place, what), issuer)
        except NotThereError as error:
            said = said or str(error)
        except MetadataError as error:
            problem = problem or error
    raise problem or AuthorizationFailedError(f"{what} is not there: {said}")


async def _of_the_oldest(web: Web, url: str, issuer: str | None) -> Found:
    """Return what holds of a server that has no metadata as a protected resource: it is its own authorization server.

    That is how it was in 2025-03-26 (basic/authorization, "Server Metadata Discovery").
    """
    places, names = origin_urls(url)
    what = f"the authorization server metadata of {names[0]}"
    try:
        document = await web.document(places[0], what, {"MCP-Protocol-Version": _OLDEST})
    except NotThereError:
        server = AuthorizationServerMetadata.of_origin(url)
    else:
        named = document.get("issuer")
        expected: tuple[str, ...] = names
        # Nobody has named an issuer by which one could know it: whoever speaks for the origin is believed of it.
        if isinstance(named, str) and named.startswith(f"{names[0]}/"):
            expected = (named,)
        server = AuthorizationServerMetadata.read(document, *expected)
    if issuer not in {None, server.issuer}:
        raise AuthorizationFailedError(
            f"{origin(url)} has no protected resource metadata, and so is its own authorization server, "
            f"{shortened(server.issuer)}, and not {shortened(str(issuer))} (issuer=), whose credentials go nowhere else"
        )
    return Found(canonical(url), server, None)
