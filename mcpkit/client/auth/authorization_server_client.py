"""HTTP client for authorization servers, limited in size and time and without redirects, and errors of a grant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from ..._utils.package import __version__
from ...auth.http_client import DEFAULT_TIMEOUT, FetchError, HttpResponse, send
from ...auth.urls import check_url, leads_here, origin, shortened

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
