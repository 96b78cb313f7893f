"""Requests to authorization servers: bounded in size and time, without redirects, by the settings of the client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlencode, urlsplit

from ...auth.fetching import PATIENCE, FetchError, body_of, failure, members_of
from ...auth.urls import check_url, leads_here, origin, shortened
from ...calls.coroutines import within
from ...common.version import __version__
from .errors import AuthorizationFailedError

if TYPE_CHECKING:
    import httpx2

_FORM: Final = "application/x-www-form-urlencoded"
_JSON: Final = "application/json"


class NotThereError(Exception):
    """There is no document at a URL; the message says what is there."""


class UnreachableError(AuthorizationFailedError):
    """There is no connection to a server, so that none of its documents can be had."""


@dataclass(frozen=True)
class Answer:
    """What an endpoint has answered.

    Attributes:
        status: The HTTP status.
        members: The JSON object; empty where it is none.
        nonce: The nonce that proofs need from now on; None where there is none (RFC 9449, 8).
    """

    status: int
    members: Mapping[str, object]
    nonce: str | None


class Web:
    """Sends requests to authorization servers.

    Nothing goes along of what a user's client sends by default, such as headers and cookies, but to the server's own
    origin, where they may be what a gateway wants.

    Args:
        client: What sends them: it says all about TLS, proxies and connections.
        url: The server that tokens are wanted for. Where it is another machine, what is named in its name may not
            be this one: else it could have this machine's programs asked.
        headers: What goes along to its origin.
        accepts_http: As `check_url` has it.

    Attributes:
        accepts_http: As given.
    """

    def __init__(
        self, client: httpx2.AsyncClient, url: str, headers: Mapping[str, str], *, accepts_http: bool = False
    ) -> None:
        self.accepts_http = accepts_http
        self._client = client
        self._headers = headers
        self._origin = origin(url)

    def check(self, url: object, what: str) -> str:
        """Return a URL that may be asked.

        Raises:
            MetadataError: It is not encrypted, or of this machine, though the server is not.
            AuthorizationFailedError: It is of this machine, though the server is not.
        """
        checked = check_url(url, what, accepts_http=self.accepts_http)
        if leads_here(urlsplit(checked).hostname) and not leads_here(urlsplit(self._origin).hostname):
            raise AuthorizationFailedError(
                f"{what} is on this machine ({shortened(checked)}), but {self._origin} is not. The client does not "
                "send the request"
            )
        return checked

    async def document(
        self, url: str, what: str, headers: Mapping[str, str] | None = None
    ) -> Mapping[str, object]:
        """Return a JSON object.

        Args:
            url: Where it is.
            what: What it is, for messages.
            headers: What goes along.

        Raises:
            NotThereError: The server says that it is not there, or answers with something else, as servers of web pages
                do for any path.
            AuthorizationFailedError: It cannot be had.
            MetadataError: The URL cannot be asked.
        """
        response, body = await self._ask(
            "GET", self.check(url, f"the URL of {what}"), what, b"", headers or {}
        )
        status = response.status_code
        if 300 <= status < 400:
            raise AuthorizationFailedError(
                f"{what}: {url} redirects (HTTP {status}), and the client does not follow redirects"
            )
        if status >= 500 or status in {408, 425, 429}:
            raise AuthorizationFailedError(f"{what}: {url} responded with HTTP {status}", may_pass=True)
        if status != 200:
            raise NotThereError(f"{url} responded with HTTP {status}")
        try:
            return members_of(response, body, url, what)
        except FetchError as error:
            raise NotThereError(str(error)) from None

    async def status(self, url: str, what: str) -> int:
        """Return how a page answers, which is not looked at.

        Raises:
            AuthorizationFailedError: It does not.
            MetadataError: The URL cannot be asked.
        """
        response, _ = await self._ask("GET", self.check(url, what), what, b"", {"Accept": "text/html"})
        return response.status_code

    async def post(
        self,
        url: str,
        what: str,
        *,
        form: Mapping[str, str] | None = None,
        content: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Post to an endpoint.

        Args:
            url: The endpoint.
            what: What it is, for messages.
            form: What is sent as a form.
            content: What is sent as JSON in the place of a form.
            headers: What goes along.

        Raises:
            AuthorizationFailedError: There is no answer, or it redirects elsewhere.
            MetadataError: The URL cannot be asked.
        """
        body = urlencode(form or {}).encode() if content is None else json.dumps(content).encode()
        kind = _FORM if content is None else _JSON
        sent = {"Content-Type": kind, **(headers or {})}
        response, answered = await self._ask("POST", self.check(url, what), what, body, sent)
        status = response.status_code
        if 300 <= status < 400:
            raise AuthorizationFailedError(
                f"{what}: {url} redirects (HTTP {status}), and the client does not follow redirects"
            )
        try:
            members: Mapping[str, object] = members_of(response, answered, url, what)
        except FetchError:
            members = {}
        return Answer(status, members, response.headers.get("dpop-nonce"))

    async def _ask(
        self, method: str, url: str, what: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[httpx2.Response, bytes]:
        import httpx2

        own: Mapping[str, str] = self._headers if origin(url) == self._origin else {}
        request = httpx2.Request(
            method,
            url,
            headers={
                "Accept": _JSON,
                "Accept-Encoding": "gzip, deflate",
                "User-Agent": f"mcpkit/{__version__}",
                **own,
                **headers,
            },
            content=body or None,
            extensions={
                "timeout": {"connect": PATIENCE, "pool": PATIENCE, "read": PATIENCE, "write": PATIENCE}
            },
        )

        async def exchange() -> tuple[httpx2.Response, bytes]:
            response = await self._client.send(request, stream=True, auth=None, follow_redirects=False)
            try:
                return response, await body_of(response, url, what)
            finally:
                await response.aclose()

        try:
            return await within(PATIENCE, exchange())
        except TimeoutError:
            raise AuthorizationFailedError(
                f"{what}: {url} did not respond within {PATIENCE:g} s", may_pass=True
            ) from None
        except FetchError as error:
            raise AuthorizationFailedError(str(error)) from None
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError) as error:
            raise UnreachableError(f"{what}: {failure(error, url)}", may_pass=True) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise AuthorizationFailedError(f"{what}: {failure(error, url)}", may_pass=True) from error
