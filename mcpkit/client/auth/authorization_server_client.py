"""HTTP client for authorization servers, limited in size and time and without redirects, and discovery by it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from ..._utils.package import __version__
from ...auth.oauth_http_client import DEFAULT_TIMEOUT, FetchError, HttpResponse, send
from ...auth.urls_and_discovery import (
    AuthorizationServerMetadata,
    MetadataError,
    ResourceMetadata,
    authorization_server_urls,
    canonical,
    check_url,
    leads_here,
    origin,
    origin_urls,
    protected_resource_urls,
    shortened,
)

if TYPE_CHECKING:
    import httpx2

_JSON: Final = "application/json"


# Errors. Their messages contain no token, code or secret.


class AuthorizationFailedError(Exception):
    """No token could be obtained. The caller of the request gets an `AuthorizationError` with the same message.

    Args:
        message: The reason, and what to do about it.
        may_pass: Whether another attempt may succeed, for example because the server did not respond.
    """

    def __init__(self, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.may_pass = may_pass


class TokenRefusedError(AuthorizationFailedError):
    """A token or authorization endpoint responded with an error (OAuth 2.1, 3.2.4 and 4.1.2.1).

    Args:
        message: The error in words.
        error: The error code, such as `invalid_grant`.
        may_pass: Whether another attempt may succeed.
    """

    def __init__(self, message: str, error: str, *, may_pass: bool = False) -> None:
        super().__init__(message, may_pass=may_pass)
        self.error = error


class UnreachableError(AuthorizationFailedError):
    """A server cannot be connected to, so none of its documents can be retrieved."""


class DocumentMissingError(Exception):
    """There is no document at a URL. The message describes the response."""


# Requests


@dataclass(frozen=True)
class EndpointResponse:
    """The response of an endpoint.

    Attributes:
        status: The HTTP status.
        members: The JSON object; empty if the body is not one.
        nonce: The nonce for further DPoP proofs; None if there is none (RFC 9449, 8).
    """

    status: int
    members: Mapping[str, object]
    nonce: str | None = None


class AuthorizationServerClient:
    """Sends requests to authorization servers.

    Default headers and cookies of the user's HTTP client are sent to the origin of the MCP server only, where a gateway
    may require them.

    Args:
        client: The HTTP client, with its settings for TLS, proxies and connections.
        url: The URL of the MCP server. If it is on another machine, URLs that it names must not lead to this machine,
            so that it cannot reach local programs.
        headers: The headers for its origin.
        accepts_http: As in `check_url`.

    Attributes:
        accepts_http: As in `check_url`.
    """

    def __init__(
        self, client: httpx2.AsyncClient, url: str, headers: Mapping[str, str], *, accepts_http: bool = False
    ) -> None:
        self.accepts_http = accepts_http
        self._client = client
        self._headers = headers
        self._origin = origin(url)

    def check(self, url: object, what: str) -> str:
        """Return a URL that may be requested.

        Raises:
            MetadataError: The URL is not encrypted, or invalid.
            AuthorizationFailedError: The URL leads to this machine, though the server is on another one.
        """
        checked = check_url(url, what, accepts_http=self.accepts_http)
        if leads_here(urlsplit(checked).hostname) and not leads_here(urlsplit(self._origin).hostname):
            raise AuthorizationFailedError(
                f"{what} is on this machine ({shortened(checked)}), but {self._origin} is not. The client does not "
                "send the request. Correct the URL in the metadata of the server"
            )
        return checked

    async def document(
        self, url: str, what: str, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, object]:
        """Retrieve a JSON object.

        Args:
            url: Its URL.
            what: Its name in messages.
            headers: Additional headers.

        Raises:
            DocumentMissingError: The server responded with an error status or with another document, as web servers do
                for any path.
            AuthorizationFailedError: The document cannot be retrieved.
            MetadataError: The URL may not be requested.
        """
        response = await self._send("GET", self.check(url, f"the URL of {what}"), what, headers or {})
        _check_redirect(response)
        status = response.status
        if status >= 500 or status in {408, 425, 429}:
            raise AuthorizationFailedError(f"{what}: {url} responded with HTTP {status}", may_pass=True)
        if status != 200:
            raise DocumentMissingError(f"{url} responded with HTTP {status}")
        try:
            return response.members()
        except FetchError as error:
            raise DocumentMissingError(str(error)) from None

    async def page_status(self, url: str, what: str) -> int:
        """Return the HTTP status of a page.

        Raises:
            AuthorizationFailedError: The server did not respond.
            MetadataError: The URL may not be requested.
        """
        return (await self._send("GET", self.check(url, what), what, {"Accept": "text/html"})).status

    async def post(
        self,
        url: str,
        what: str,
        *,
        form: Mapping[str, str] | None = None,
        content: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> EndpointResponse:
        """Post to an endpoint.

        Args:
            url: The URL of the endpoint.
            what: Its name in messages.
            form: The form parameters.
            content: A JSON object to send in place of a form.
            headers: Additional headers.

        Raises:
            AuthorizationFailedError: The endpoint did not respond, or responded with a redirect.
            MetadataError: The URL may not be requested.
        """
        body = urlencode(form or {}).encode() if content is None else json.dumps(content).encode()
        media_type = "application/x-www-form-urlencoded" if content is None else _JSON
        all_headers = {"Content-Type": media_type, **(headers or {})}
        response = await self._send("POST", self.check(url, what), what, all_headers, body)
        _check_redirect(response)
        try:
            members: Mapping[str, object] = response.members()
        except FetchError:
            members = {}
        return EndpointResponse(response.status, members, response.headers.get("dpop-nonce"))

    async def _send(
        self, method: str, url: str, what: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpResponse:
        import httpx2

        own: Mapping[str, str] = self._headers if origin(url) == self._origin else {}
        fixed = {"Accept": _JSON, "Accept-Encoding": "gzip, deflate", "User-Agent": f"mcpkit/{__version__}"}
        # A new request object, without the default headers and cookies of the client.
        request = httpx2.Request(
            method,
            url,
            headers={**fixed, **own, **headers},
            content=body or None,
            extensions={"timeout": dict.fromkeys(("connect", "pool", "read", "write"), DEFAULT_TIMEOUT)},
        )
        # The status of a page needs no body, and documents are those of successful responses.
        statuses = (200,) if method == "GET" else range(1000)
        try:
            return await send(
                self._client, request, what, DEFAULT_TIMEOUT, body_statuses=statuses, is_anonymous=True
            )
        except FetchError as error:
            kind = UnreachableError if error.is_unreachable else AuthorizationFailedError
            raise kind(str(error), may_pass=error.may_pass) from error.__cause__


def _check_redirect(response: HttpResponse) -> None:
    if 300 <= response.status < 400:
        raise AuthorizationFailedError(
            f"{response.name}: {response.url} redirects (HTTP {response.status}), and the client does not follow"
            " redirects. The server must answer at this URL itself"
        )


# Discovery

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
