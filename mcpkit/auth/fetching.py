"""Fetching of JSON documents of providers: metadata and keys. httpx2 is imported on use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from .._utils.package import __version__
from ..protocol import http_headers
from ..protocol.jsonrpc import BYTE_ORDER_MARK
from .libraries import http_library
from .strict_json import read_object
from .urls import check_url, is_loopback, origin

if TYPE_CHECKING:
    import httpx2

MAX_DOCUMENT = 512 * 1024
"""Maximum bytes of a document after decompression. Keys of large providers have 20 KiB."""
DEFAULT_TIMEOUT = 10.0
"""Default seconds in which a document must be received."""

_CODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Content codings that httpx2 decodes in bounded pieces."""


class FetchError(Exception):
    """A document could not be fetched. The message contains the cause and the URL.

    Args:
        message: The cause.
        status: HTTP status of the response, if there was one.
        may_pass: Whether a later retry can succeed: no response, or the server is busy or broken.
        is_unreachable: Whether the connection to the server failed, so that its other documents are unavailable too.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        may_pass: bool = True,
        is_unreachable: bool = False,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.may_pass = may_pass
        self.is_unreachable = is_unreachable


class Document(NamedTuple):
    """A fetched JSON object.

    Attributes:
        members: The object.
        max_age: Seconds for which it may be cached (RFC 9111, section 4.2.1); None if the headers do not set it.
    """

    members: dict[str, object]
    max_age: float | None


async def fetch_document(
    url: str,
    what: str,
    *,
    http_client: httpx2.AsyncClient | None = None,
    patience: float = DEFAULT_TIMEOUT,
    accepts_http: bool | None = None,
    is_typed: bool = False,
) -> Document:
    """Fetch a JSON object. Redirects are not followed, because another URL is another document.

    Args:
        url: URL of the document: `https`, or `http` on a loopback address.
        what: Name of the document for messages, such as "the metadata of https://id.example.com".
        http_client: Client to use, with its TLS and proxy settings. It is not closed. None makes one.
        patience: Seconds in which the document must be received.
        accepts_http: Allow plain http; see `check_url`.
        is_typed: Refuse media types other than JSON, for URLs that any client can choose.

    Raises:
        MetadataError: The URL is not allowed.
        FetchError: The document is missing or not valid.
        ImportError: httpx2 is not installed.
    """
    check_url(url, f"the URL of {what}", accepts_http=accepts_http)
    httpx2 = http_library()
    try:
        return await asyncio.wait_for(_fetched(url, what, http_client, is_typed), patience)
    except asyncio.TimeoutError:
        raise FetchError(f"{what}: {url} did not respond within {patience:g} s") from None
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        unreachable = isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError))
        raise FetchError(f"{what}: {failure(error, url)}", is_unreachable=unreachable) from error


def own_client(url: str, *, keeps_connections: bool = True) -> httpx2.AsyncClient:
    """Create a client for requests to one URL. The caller closes it. It stores no cookies.

    Args:
        url: The URL. Loopback URLs are requested without the proxies of the environment.
        keeps_connections: Reuse connections, which can be broken by then.
    """
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    import httpx2

    from .._utils import http_proxies as proxies

    parts = urlsplit(url)
    return proxies.client(
        parts.scheme == "https",  # what is not encrypted needs no authorities, whose reading takes 20 ms
        trust_env=not is_loopback(parts.hostname),
        limits=httpx2.Limits(max_keepalive_connections=20 if keeps_connections else 0),
        headers={"User-Agent": f"mcpkit/{__version__}"},
        timeout=DEFAULT_TIMEOUT,
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


async def body_of(response: httpx2.Response, url: str, what: str) -> bytes:
    """Read the body of a streamed response.

    Raises:
        FetchError: The body is too large, or has a content coding that was not requested.
    """
    if response.headers.get("content-encoding", "").strip().lower() not in _CODINGS:
        raise FetchError(
            f"{what}: {url} sent a response with a Content-Encoding that was not requested", may_pass=False
        )
    parts: list[bytes] = []
    size = 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > MAX_DOCUMENT:
            raise FetchError(
                f"{what}: {url} sent more than the maximum of {MAX_DOCUMENT:,} bytes",
                may_pass=False,
            )
        parts.append(part)
    return b"".join(parts)


def members_of(response: httpx2.Response, body: bytes, url: str, what: str) -> dict[str, object]:
    """Return the JSON object of a response, regardless of its media type: storage buckets send any.

    Raises:
        FetchError: The body is not a JSON object.
    """
    try:
        return read_object(body.removeprefix(BYTE_ORDER_MARK))
    except ValueError as error:
        media_type = _media_type(response) or "no media type"
        sent = "" if media_type == "application/json" else f" ({media_type[:60]})"
        raise FetchError(
            f"{what}: the response of {url} is not usable: {error}{sent}", may_pass=False
        ) from None


def _media_type(response: httpx2.Response) -> str | None:
    field = response.headers.get("content-type", "")
    return None if not field else http_headers.media_type(field) or "another media type"


def failure(error: Exception, url: str) -> str:
    """Describe an exception of httpx2 for a request to a URL."""
    import httpx2

    place = origin(url)
    if isinstance(error, (httpx2.ConnectTimeout, httpx2.ReadTimeout, httpx2.WriteTimeout)):
        return f"{place} did not respond in time"
    if isinstance(error, httpx2.PoolTimeout):
        return "http_client= has no free connection. Allow it more connections (limits=)"
    if isinstance(error, httpx2.ProxyError):
        return f"the HTTP proxy refused the connection to {place}"
    if isinstance(error, (httpx2.ConnectError, httpx2.UnsupportedProtocol)):
        # The latter is of a proxy that cannot be used, and says which.
        reason = str(error) if isinstance(error, httpx2.UnsupportedProtocol) else _reason(error)
        return f"cannot connect to {place}" + (f": {reason}" if reason else "")
    if isinstance(error, httpx2.DecodingError):
        return f"{place} sent a response that cannot be decompressed"
    return f"the connection to {place} broke before the response was complete"


async def _fetched(url: str, what: str, http_client: httpx2.AsyncClient | None, is_typed: bool) -> Document:
    if http_client is not None:
        if http_client.is_closed:
            raise FetchError(f"{what}: http_client= is closed. Pass an open client")
        return await _asked(url, what, http_client, is_typed)
    client = own_client(url)
    try:
        return await _asked(url, what, client, is_typed)
    finally:
        await client.aclose()


async def _asked(url: str, what: str, client: httpx2.AsyncClient, is_typed: bool) -> Document:
    headers = {"Accept": "application/json", "Accept-Encoding": "gzip, deflate"}
    async with client.stream("GET", url, headers=headers, follow_redirects=False) as response:
        status = response.status_code
        if 300 <= status < 400:
            raise FetchError(
                f"{what}: {url} redirects (HTTP {status}), and redirects are not followed. Use the document's final"
                " URL",
                status=status,
                may_pass=False,
            )
        if status != 200:
            may_pass = status >= 500 or status in {408, 425, 429}
            raise FetchError(f"{what}: {url} responded with HTTP {status}", status=status, may_pass=may_pass)
        media_type = _media_type(response)
        if (
            is_typed
            and media_type not in {None, "application/json"}
            and not str(media_type).endswith("+json")
        ):
            raise FetchError(f"{what}: {url} sent {media_type} instead of application/json", may_pass=False)
        members = members_of(response, await body_of(response, url, what), url, what)
        return Document(members, max_age_of(response.headers))


def max_age_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds for which a response may be cached; None if its headers do not set it (RFC 9111, 4.2.1)."""
    told = headers.get("cache-control", "").lower()
    directives = dict(_directive(part) for part in told.split(",") if part.strip())
    if "no-store" in directives or "no-cache" in directives:
        return 0.0
    seconds = _whole(directives.get("max-age"))
    if seconds is None:
        seconds = _until_expiry(headers)
    return None if seconds is None else max(0.0, seconds - (_whole(headers.get("age")) or 0.0))


def _directive(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return name.strip(), value.strip().strip('"')


def _whole(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 12 else None


def _until_expiry(headers: Mapping[str, str]) -> float | None:
    try:
        expires, date = (parsedate_to_datetime(headers[name]) for name in ("expires", "date"))
        return (expires - date).total_seconds()
    except KeyError:
        return None
    except (TypeError, ValueError):
        return 0.0  # "Expires: 0" and other dates that are none have passed


def _reason(error: BaseException | None) -> str | None:
    """Return the operating system's reason for a failed connection, from the causes of an exception."""
    while error is not None:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return "its certificate is not trusted"
        if "WRONG_VERSION_NUMBER" in str(error):
            return "it does not support TLS on this port"
        if isinstance(error, OSError) and error.errno and error.errno > 0:
            return os.strerror(error.errno)
        error = error.__cause__ or error.__context__
    return None
