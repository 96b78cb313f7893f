"""Requests for a check, which change nothing at the servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from ....auth.http_client import FetchError, send
from ....auth.urls import MetadataError, check_url, leads_here, origin
from ....auth.verifier import auth_library
from ....protocol.jsonrpc import is_array
from ...http.request_authorization import Challenge, read_challenges

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
        self._httpx2 = auth_library("httpx2")

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
            request = self._client.build_request(
                method, url, headers={"Accept-Encoding": "gzip, deflate", **headers}, content=content or None
            )
            response = await send(
                self._client, request, "it", self._timeout, body_statuses=(200,) if is_document else ()
            )
        except FetchError as error:
            return Answer(url, error.status or 0, problem=str(error).removeprefix("it: "))
        except self._httpx2.InvalidURL as error:
            return Answer(url, 0, problem=f"the URL is not valid: {error}")
        document: Mapping[str, object] | None = None
        if is_document and response.status != 200:
            problem = f"the response is HTTP {response.status}"
        elif is_document:
            try:
                document = response.members()
            except FetchError as error:
                problem = str(error)
        found = {name.lower(): value for name, value in response.headers.items()}
        return Answer(url, response.status, found, problem, document)

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


def strings(value: object) -> tuple[str, ...]:
    """Return the strings of a list in a document; empty if it is not a list."""
    return tuple(each for each in value if isinstance(each, str)) if is_array(value) else ()
