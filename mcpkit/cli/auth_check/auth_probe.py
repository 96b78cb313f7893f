"""Requests of a login check, which change nothing at the servers, and those of web pages (CORS)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ...auth.http_client import FetchError, send
from ...auth.urls import MetadataError, check_url, leads_here, origin
from ...auth.verifier import auth_library
from ...client.http.request_authorization import Challenge, read_challenges
from ...protocol.jsonrpc import is_array
from .auth_findings import Finding, make_finding

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
        exposed = _header_items(response, "access-control-expose-headers")
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
        allowed = _header_items(response, "access-control-allow-headers")
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


def _header_items(response: ProbeResponse, name: str) -> set[str]:
    return {each.strip().lower() for each in response.headers.get(name, "").split(",")}
