"""Requests of the check of logins, CORS for web pages, and the metadata of a server and its authorization server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ...auth.oauth_http_client import FetchError, send
from ...auth.urls_and_discovery import (
    AuthorizationServerMetadata,
    MetadataError,
    authorization_server_urls,
    canonical,
    check_url,
    covers,
    leads_here,
    origin,
    origin_urls,
    protected_resource_urls,
    shortened,
)
from ...auth.verifier import auth_library
from ...client.http.headers_and_errors import Challenge, read_challenges
from ...protocol.jsonrpc import is_array
from .finding_catalogue import Finding, make_finding

if TYPE_CHECKING:
    import httpx2

_MAX_REQUESTS: Final = 100
"""The most requests of one check, since metadata may name thousands of servers."""


@dataclass(frozen=True)
class ProbeResponse:
    """A response.

    Attributes:
        url: The URL of the request.
        status: The HTTP status; 0 if there was no response.
        headers: The headers, by name in lower case.
        problem: The reason why there is no response, or no JSON object in it; empty if there is one.
        document: The JSON object; None if there is none, or it was not requested.
    """

    url: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    problem: str = ""
    document: Mapping[str, object] | None = None

    @property
    def challenges(self) -> list[Challenge]:
        """The challenges of `WWW-Authenticate`."""
        return read_challenges([self.headers.get("www-authenticate", "")])

    @property
    def token_challenge(self) -> Challenge | None:
        """The challenge for bearer or DPoP tokens; None if there is none."""
        return next((each for each in self.challenges if each.scheme.lower() in {"bearer", "dpop"}), None)


class AuthProbe:
    """Sends requests without following redirects.

    Args:
        client: The HTTP client.
        url: The URL of the checked server. If it is on another machine, no requests are sent to this one.
        timeout: The time limit of a response in seconds.
    """

    def __init__(self, client: httpx2.AsyncClient, url: str, timeout: float) -> None:
        self._client = client
        self._is_local = leads_here(urlsplit(url).hostname)
        self._timeout = timeout
        self._count = 0
        self._httpx2 = auth_library("httpx2")

    async def document(self, url: str) -> ProbeResponse:
        """Request a metadata document."""
        return await self.request("GET", url, {"Accept": "application/json"}, is_document=True)

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        is_document: bool = False,
    ) -> ProbeResponse:
        """Send a request. The body of the response is read only for documents.

        Args:
            method: The HTTP method.
            url: The URL.
            headers: The headers.
            content: The body.
            is_document: Whether to read the body as a JSON object.
        """
        if problem := self._check(url):
            return ProbeResponse(url, 0, problem=problem)
        self._count += 1
        try:
            request = self._client.build_request(
                method, url, headers={"Accept-Encoding": "gzip, deflate", **headers}, content=content or None
            )
            response = await send(
                self._client, request, "it", self._timeout, body_statuses=(200,) if is_document else ()
            )
        except FetchError as error:
            return ProbeResponse(url, error.status or 0, problem=str(error).removeprefix("it: "))
        except self._httpx2.InvalidURL as error:
            return ProbeResponse(url, 0, problem=f"the URL is not valid: {error}")
        document: Mapping[str, object] | None = None
        if is_document and response.status != 200:
            problem = f"the response is HTTP {response.status}"
        elif is_document:
            try:
                document = response.members()
            except FetchError as error:
                problem = str(error)
        found = {name.lower(): value for name, value in response.headers.items()}
        return ProbeResponse(url, response.status, found, problem, document)

    def _check(self, url: str) -> str:
        """Return the reason why no request is sent to a URL; empty if it is."""
        if self._count >= _MAX_REQUESTS:
            return f"the check stops after {_MAX_REQUESTS} requests"
        try:
            parts = urlsplit(url)
            if parts.scheme == "http":
                origin(url)  # the checked server itself may be unencrypted, which is a finding of its own
            else:
                check_url(url, "the URL")
        except (MetadataError, ValueError) as error:
            return str(error)
        if leads_here(parts.hostname) and not self._is_local:
            return "the URL is a loopback address, but the MCP server is on another machine"
        return ""


def string_items(value: object) -> tuple[str, ...]:
    """Return the strings of a list in a document; empty if it is not a list."""
    return tuple(each for each in value if isinstance(each, str)) if is_array(value) else ()


class PageProbe:
    """Checks whether web pages of one origin may read the responses that a login needs (CORS).

    Args:
        probe: Sends the requests.
        origin: The origin of the pages.
    """

    def __init__(self, probe: AuthProbe, origin: str) -> None:
        self._probe = probe
        self._origin = origin
        self._blocked: list[str] = []

    async def check_server(self, url: str) -> None:
        """Check whether pages may send requests to a server, and read its challenge."""
        await self.check_endpoint("the server", url, "authorization,content-type,mcp-protocol-version")
        headers = {"Origin": self._origin, "Content-Type": "application/json"}
        response = await self._probe.request("POST", url, headers, b"{}")
        exposed = header_items(response.headers, "access-control-expose-headers")
        is_readable = self._is_readable(response) and exposed & {"www-authenticate", "*"}
        if response.status == 401 and not is_readable:
            self._blocked.append("the WWW-Authenticate header of its 401 response")

    async def check_document(self, what: str, url: str) -> None:
        """Check whether pages may read a document."""
        headers = {"Origin": self._origin, "Accept": "application/json"}
        if not self._is_readable(await self._probe.request("GET", url, headers)):
            self._blocked.append(what)

    async def check_endpoint(self, what: str, url: str, headers: str = "content-type") -> None:
        """Check whether pages may post to an endpoint, for which browsers send a preflight request."""
        preflight = {
            "Origin": self._origin,
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": headers,
        }
        response = await self._probe.request("OPTIONS", url, preflight)
        allowed = header_items(response.headers, "access-control-allow-headers")
        is_allowed = set(headers.split(",")) <= allowed or ("*" in allowed and "authorization" not in headers)
        if not (200 <= response.status < 300 and self._is_readable(response) and is_allowed):
            self._blocked.append(what)

    def findings(self, url: str) -> list[Finding]:
        """Return the findings about responses that pages cannot read."""
        if not self._blocked:
            return []
        return [make_finding("cors", url, origin=self._origin, places="; ".join(self._blocked))]

    def _is_readable(self, response: ProbeResponse) -> bool:
        return response.headers.get("access-control-allow-origin") in {"*", self._origin}


def header_items(headers: Mapping[str, str], name: str) -> set[str]:
    """Return the items of a header in lower case."""
    return {each.strip().lower() for each in headers.get(name, "").split(",")}


# The protected server


class ResourceCheck:
    """Check whether clients find the protected resource metadata, and whether it is about the server.

    Args:
        url: The URL of the server.
        named: The document at the URL in the challenge; None if there is none.
        at_path: The document at the path of the server.
        at_root: The document at the root; the same one for a server without a path.

    Attributes:
        found: The document that clients use; None if they find none.
        issuers: The authorization servers that it names.
        scopes: The scopes that it names.
    """

    def __init__(
        self, url: str, named: ProbeResponse | None, at_path: ProbeResponse, at_root: ProbeResponse
    ) -> None:
        self._url = url
        self._named = named
        self._at_path = at_path
        self._at_root = at_root
        responses = [each for each in (named, at_path, at_root) if each is not None]
        self.found = next((each for each in responses if each.document is not None), None)
        self._document: Mapping[str, object] = (self.found.document or {}) if self.found is not None else {}
        self.issuers = string_items(self._document.get("authorization_servers"))
        self.scopes = string_items(self._document.get("scopes_supported"))

    @classmethod
    async def run(cls, probe: AuthProbe, url: str, challenge: Challenge | None) -> ResourceCheck:
        """Request the metadata at all URLs that clients use."""
        documents = {each: await probe.document(each) for each in protected_resource_urls(url)}
        at_path, *_, at_root = (*documents.values(), *documents.values())
        named = None
        metadata_url = "" if challenge is None else challenge.parameters.get("resource_metadata", "")
        if _is_url(metadata_url):
            named = documents.get(metadata_url) or await probe.document(metadata_url)
        return cls(url, named, at_path, at_root)

    @property
    def is_about_server(self) -> bool:
        """True if there is a document about the server, or about a URL above it."""
        resource = self._document.get("resource")
        accepted = {"", "resource-slash", "resource-wide"}
        return isinstance(resource, str) and self._mismatch(resource) in accepted

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about it."""
        tried = [self._at_path, self._at_root] if self._named is None else [self._named]
        unusable = {each.url: each for each in tried if each.document is None}
        for each in unusable.values():
            if each is self._named or (self.found is None and each.status not in {0, 404, 405}):
                if each.status in {401, 403}:
                    yield make_finding("metadata-protected", each.url, status=each.status)
                else:
                    yield make_finding("metadata-unusable", each.url, problem=each.problem)
        if self.found is None:
            places = " or ".join(dict.fromkeys((self._at_path.url, self._at_root.url)))
            yield make_finding("no-metadata", self._url, places=places)
            return
        where, server = self.found.url, shortened(self._url)
        resource = self._document.get("resource")
        if not isinstance(resource, str) or not resource:
            yield make_finding("no-resource", where, server=server)
        elif code := self._mismatch(resource):
            yield make_finding(code, where, resource=shortened(resource), server=server)
        if not self.issuers:
            yield make_finding("no-issuer", where)
        methods = string_items(self._document.get("bearer_methods_supported"))
        if methods and "header" not in methods:
            yield make_finding("token-not-in-header", where, methods=shortened(", ".join(methods)))
        if "query" in methods:
            yield make_finding("token-in-query", where)
        yield from check_offline_access(self.scopes, "The metadata (scopes_supported)", where)

    def _mismatch(self, resource: str) -> str:
        """Return the code of a finding about the resource identifier; empty if it is correct."""
        try:
            if canonical(resource) == canonical(self._url):
                return ""
            is_above, is_elsewhere = covers(resource, self._url), origin(resource) != origin(self._url)
        except MetadataError:
            return "resource-mismatch"
        if is_above:
            return "resource-slash" if resource.rstrip("/") == self._url.rstrip("/") else "resource-wide"
        if is_elsewhere and urlsplit(resource).hostname == urlsplit(self._url).hostname:
            return "resource-http" if resource.startswith("http:") else "resource-origin"
        return "resource-origin" if is_elsewhere else "resource-mismatch"


def check_offline_access(scopes: Iterable[str], what: str, url: str) -> Iterator[Finding]:
    """Yield a finding if the server names the scope `offline_access`, which is up to the authorization server."""
    if "offline_access" in scopes:
        yield make_finding("offline-access", url, what=what)


async def check_sse(probe: AuthProbe, url: str) -> list[Finding]:
    """Return the findings for HTTP+SSE clients, if the server supports that transport beside its endpoint."""
    head, _, last = urlsplit(url).path.rstrip("/").rpartition("/")
    if not last or last == "sse":
        return []
    sse = f"{origin(url)}{head}/sse"
    response = await probe.request("GET", sse, {"Accept": "text/event-stream"})
    if response.status != 401:
        return []
    resource = await ResourceCheck.run(probe, sse, response.token_challenge)
    errors = [each.why for each in resource.findings() if each.severity == "error"]
    return [make_finding("sse-metadata", sse, server=shortened(sse), why=errors[0])] if errors else []


async def check_origin(probe: AuthProbe, url: str) -> list[Finding]:
    """Return the findings for clients of 2025-03-26, which know the origin of the server only."""
    [where], _ = origin_urls(url)
    response = await probe.document(where)
    if response.document is not None:
        return []
    return [make_finding("march-foreign-issuer", where, own=origin(url))]


def _is_url(text: str) -> bool:
    try:
        origin(text)
    except MetadataError:
        return False
    return True


# The authorization server


class IssuerCheck:
    """Check whether clients find an authorization server and can log in there.

    Args:
        issuer: The issuer, as the server names it.
        document: Its metadata; None if there is none.
        url: The URL of the metadata, or where it was expected.
        problem: The finding if there is none.

    Attributes:
        url: The URL of the metadata, or where it was expected.
        is_found: Whether there is metadata.
    """

    def __init__(
        self, issuer: str, document: Mapping[str, object] | None, url: str, problem: Finding | None = None
    ) -> None:
        self.url = url
        self.is_found = document is not None
        self._issuer = issuer
        self._document = document or {}
        self._metadata = AuthorizationServerMetadata(issuer, self._document)
        self._problem = problem

    @classmethod
    async def run(cls, probe: AuthProbe, issuer: str, where: str) -> IssuerCheck:
        """Request its metadata at all URLs that clients use.

        Args:
            probe: Sends the requests.
            issuer: The issuer.
            where: The URL of the document that names the issuer.
        """
        name = shortened(issuer)
        try:
            urls = authorization_server_urls(issuer)
        except MetadataError as error:
            problem = make_finding("issuer-unusable", where, issuer=name, problem=error)
            return cls(issuer, None, where, problem)
        responses: list[ProbeResponse] = []
        for url in urls:
            response = await probe.document(url)
            if response.document is not None:
                return cls(issuer, response.document, url)
            responses.append(response)
        tried = " ".join(f"{each.url}: {each.problem}." for each in responses)
        code = "issuer-metadata" if any(each.status > 0 for each in responses) else "issuer-unreachable"
        return cls(issuer, None, where, make_finding(code, where, issuer=name, tried=tried))

    def endpoints(self) -> Iterator[tuple[str, str]]:
        """Yield the endpoints that clients send requests to, by name."""
        for name in ("token_endpoint", "registration_endpoint"):
            try:
                yield name, self._metadata.endpoint(name)
            except MetadataError:
                continue

    def findings(self, scopes: Iterable[str]) -> Iterator[Finding]:
        """Yield the findings about it.

        Args:
            scopes: The scopes that the server names.
        """
        if self._problem is not None:
            yield self._problem
            return
        document = self._document
        issuer = str(document.get("issuer"))
        if issuer != self._issuer:
            is_slash = issuer.rstrip("/") == self._issuer.rstrip("/")
            yield self._finding("issuer-slash" if is_slash else "issuer-mismatch", named=shortened(issuer))
        for name in ("authorization_endpoint", "token_endpoint", "registration_endpoint"):
            if name == "registration_endpoint" and not self._metadata.has(name):
                continue
            try:
                self._metadata.endpoint(name)
            except MetadataError as error:
                yield self._finding("no-endpoint", endpoint=name, problem=error)
        yield from self._login_findings()
        can_register = document.get("registration_endpoint") is not None
        if document.get("client_id_metadata_document_supported") is not True:
            yield self._finding("no-client-documents" if can_register else "no-registration")
        else:
            if not can_register:
                yield self._finding("documents-alone")
            if "none" not in string_items(document.get("token_endpoint_auth_methods_supported")):
                yield self._finding("no-public-clients")
        known = string_items(document.get("scopes_supported"))
        unknown = [scope for scope in scopes if known and scope not in known]
        if unknown:
            yield self._finding("unknown-scopes", scopes=shortened(" ".join(unknown)))

    def _login_findings(self) -> Iterator[Finding]:
        document = self._document
        types = string_items(document.get("response_types_supported"))
        grants = string_items(document.get("grant_types_supported"))
        if types and "code" not in types:
            yield self._finding("no-code", what="response_types_supported")
        elif grants and "authorization_code" not in grants:
            yield self._finding("no-code", what="grant_types_supported")
        if "S256" not in string_items(document.get("code_challenge_methods_supported")):
            yield self._finding("no-pkce")
        if "authorization_code" in grants and "refresh_token" not in grants:
            yield self._finding("no-refresh")
        if document.get("authorization_response_iss_parameter_supported") is not True:
            yield self._finding("no-iss")

    def _finding(self, code: str, **facts: object) -> Finding:
        return make_finding(code, self.url, issuer=shortened(self._issuer), **facts)
