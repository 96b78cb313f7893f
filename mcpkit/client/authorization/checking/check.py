"""Checks a URL in the way of clients that log in there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ...._utils.option_checks import check_seconds
from ....auth.http_client import create_client
from ....auth.urls import MetadataError, canonical, shortened
from .catalogue import SEVERITIES
from .cors import Pages
from .endpoint import Endpoint
from .finding import Finding
from .issuer import Issuer
from .looking import Looker
from .resource import Resource, of_march, of_sse

if TYPE_CHECKING:
    import httpx2

_MOST_ISSUERS: Final = 5


async def check_authorization(
    url: str,
    *,
    page: str = "http://localhost:6274",
    timeout: float = 10.0,
    http_client: httpx2.AsyncClient | None = None,
) -> list[Finding]:
    """Check which clients cannot log in at a server, and why.

        for finding in await check_authorization("https://mcp.example.com/mcp"):
            print(finding)

    No login takes place, and no token is needed. The check sends requests without a token and with an invalid one, and
    requests the metadata of the server and its authorization server as clients do. It ends a session that the server
    opens.

    Args:
        url: The URL of the server, as users enter it in their clients.
        page: The origin of web pages that clients run in. The default is that of MCP Inspector.
        timeout: The time limit of each response in seconds.
        http_client: An HTTP client to use, with its settings for TLS and proxies. It is not closed.

    Returns:
        The findings, the worst first; empty if every client can log in.

    Raises:
        ValueError: The URL is not an HTTP URL.
        ImportError: The extra `mcpkit[auth]` is not installed.
    """
    check_seconds("timeout", timeout)
    try:
        canonical(url)
    except MetadataError as error:
        raise ValueError(str(error)) from None
    url = url.partition("#")[0]
    if urlsplit(url).username is not None:
        raise ValueError(
            "the URL to check must not contain a user name or password:"
            f" host {shortened(urlsplit(url).hostname or '')}"
        )
    client = create_client(url) if http_client is None else http_client
    try:
        findings = await _found(Looker(client, url, timeout), url, page)
    finally:
        if client is not http_client:
            await client.aclose()
    return sorted(findings, key=lambda each: SEVERITIES.index(each.severity))


async def _found(looker: Looker, url: str, page: str) -> list[Finding]:
    endpoint = await Endpoint.seen(looker, url)
    if not endpoint.first.status:
        return list(endpoint.findings(has_metadata=False))
    resource = await Resource.seen(looker, url, endpoint.challenge)
    # Where the server says that nothing is there, the document of another one at its origin does not count.
    has_metadata = resource.found is not None and (endpoint.first.status != 404 or resource.is_about_server)
    findings = list(endpoint.findings(resource.scopes, has_metadata=has_metadata))
    if resource.found is None and endpoint.first.status != 401:
        return findings  # nobody has to log in, or it is no server
    findings += resource.findings()
    pages = Pages(looker, page)
    await pages.at_server(url)
    if resource.found is not None:
        await pages.at_document("the server's metadata", resource.found.url)
        for name in resource.issuers[:_MOST_ISSUERS]:
            issuer = await Issuer.seen(looker, name, resource.found.url)
            findings += issuer.findings(resource.scopes)
            if issuer.is_found:
                await pages.at_document("the metadata of the authorization server", issuer.url)
            for what, where in issuer.endpoints():
                await pages.at_endpoint(f"the {what}", where)
    findings += pages.findings(url)
    findings += await of_sse(looker, url)
    findings += await of_march(looker, url)
    return findings
