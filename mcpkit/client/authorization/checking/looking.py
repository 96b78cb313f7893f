"""Requests for a check, which change nothing at the servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ....auth.fetching import FetchError, body_of, failure, members_of
from ....auth.libraries import http_library
from ....auth.urls import MetadataError, check_url, leads_here, origin
from ....execution.coroutines import within
from ....protocol.jsonrpc import is_array
from ...transports.http.challenge import Challenge, read_challenges

if TYPE_CHECKING:
    import httpx2

_MOST: Final = 100
"""The most requests of one check, since metadata may name thousands of servers."""


@dataclass(frozen=True)
class Answer:
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


class Looker:
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
        self._asked = 0
        self._httpx2 = http_library()

    async def document(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """Return a metadata document."""
        return await self.ask("GET", url, {"Accept": "application/json", **(headers or {})}, is_document=True)

    async def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes = b"",
        *,
        is_document: bool = False,
    ) -> Answer:
        """Send a request. The body of the response is read only for documents.

        Args:
            method: The HTTP method.
            url: The URL.
            headers: The headers.
            content: The body.
            is_document: Whether to read the body as a JSON object.
        """
        problem = self._problem(url)
        if problem:
            return Answer(url, 0, problem=problem)
        self._asked += 1
        try:
            return await within(self._timeout, self._answered(method, url, headers, content, is_document))
        except TimeoutError:
            return Answer(url, 0, problem=f"no response within {self._timeout:g} s")
        except (self._httpx2.HTTPError, self._httpx2.InvalidURL, OSError) as error:
            return Answer(url, 0, problem=failure(error, url))

    def _problem(self, url: str) -> str:
        """Return the reason why no request is sent to a URL; empty if it is."""
        if self._asked >= _MOST:
            return f"the check stops after {_MOST} requests"
        try:
            parts = urlsplit(url)
            if parts.scheme == "http":
                origin(url)  # the checked server itself may be unencrypted, which is found elsewhere
            else:
                check_url(url, "the URL")
        except (MetadataError, ValueError) as error:
            return str(error)
        if leads_here(parts.hostname) and not self._is_local:
            return "the URL is a loopback address, but the MCP server is on another machine"
        return ""

    async def _answered(
        self, method: str, url: str, headers: Mapping[str, str], content: bytes, is_document: bool
    ) -> Answer:
        request = self._client.build_request(
            method, url, headers={"Accept-Encoding": "gzip, deflate", **headers}, content=content or None
        )
        response = await self._client.send(request, stream=True, follow_redirects=False)
        try:
            found = {name.lower(): value for name, value in response.headers.items()}
            answer = Answer(url, response.status_code, found)
            if not is_document:
                return answer
            if response.status_code != 200:
                return Answer(
                    url, response.status_code, found, f"the response is HTTP {response.status_code}"
                )
            try:
                members = members_of(response, await body_of(response, url, "it"), url, "it")
            except FetchError as error:
                return Answer(url, response.status_code, found, str(error))
            return Answer(url, response.status_code, found, document=members)
        finally:
            await response.aclose()


def strings(value: object) -> tuple[str, ...]:
    """Return the strings of a list in a document; empty if it is not a list."""
    return tuple(each for each in value if isinstance(each, str)) if is_array(value) else ()
