"""Transport for the public internet only, against server-side request forgery (SSRF) by URLs that clients choose."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import cache
from typing import Final

import httpx2

from .._utils.package import __version__
from .oauth_http_client import DEFAULT_TIMEOUT, FetchError

_MAX_ADDRESSES_TRIED = 3
_MAX_LOOKUPS = 128
"""Maximum concurrent DNS lookups. A silent name server blocks each for half a minute."""
_lookups = threading.BoundedSemaphore(_MAX_LOOKUPS)


class PublicTransport(httpx2.AsyncBaseTransport):
    """Transport that connects to the address it has checked, so that the name cannot resolve to another one meanwhile.

    Args:
        inner: Transport that sends; None creates one with the default certificate authorities and without proxies.
        resolve: Resolves a host to addresses.
        is_allowed: Checks an address. A host with any other address is refused.
    """

    def __init__(
        self,
        inner: httpx2.AsyncBaseTransport | None = None,
        *,
        resolve: Callable[[str, int], Awaitable[Sequence[str]]] | None = None,
        is_allowed: Callable[[str], bool] | None = None,
    ) -> None:
        self._inner = inner or httpx2.AsyncHTTPTransport(verify=_default_authorities(), trust_env=False)
        self._resolve = resolve or resolve_host
        self._is_allowed = is_allowed or is_public

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            FetchError: The host is not on the public internet, or has no address.
            httpx2.HTTPError: The request failed.
        """
        url = request.url
        if url.scheme != "https":
            raise FetchError(f"the URL on {url.host} must begin with https://", may_pass=False)
        try:
            addresses = await self._resolve(url.host, url.port or 443)
        except OSError as error:
            if error.errno == socket.EAI_AGAIN:
                raise FetchError(f"the name {url.host} cannot be resolved now. Try again later") from None
            addresses = ()
        # One text for unknown and internal names, so that clients cannot find out which names the internal network has.
        if not addresses or not all(map(self._is_allowed, addresses)):
            raise FetchError(
                f"{url.host} is not on the public internet. Use a URL with a public host", may_pass=False
            )
        *others, last = addresses[:_MAX_ADDRESSES_TRIED]
        for address in others:
            with suppress(httpx2.ConnectError):
                return await self._inner.handle_async_request(_pin(request, address))
        return await self._inner.handle_async_request(_pin(request, last))

    async def aclose(self) -> None:
        """Close the connections."""
        await self._inner.aclose()


def public_client() -> httpx2.AsyncClient:
    """Create a client for the public internet only. The caller closes it."""
    return httpx2.AsyncClient(
        transport=PublicTransport(),
        timeout=DEFAULT_TIMEOUT,
        trust_env=False,
        headers={"User-Agent": f"mcpkit/{__version__}"},
    )


@cache
def _default_authorities() -> ssl.SSLContext:
    """Return an SSL context with the default authorities, cached because loading it takes 20 ms."""
    return httpx2.create_ssl_context(trust_env=False)


def _pin(request: httpx2.Request, address: str) -> httpx2.Request:
    """Return a request to one address, with the name and the certificate check of the original host."""
    return httpx2.Request(
        request.method,
        request.url.copy_with(host=address),
        headers=request.headers,
        stream=request.stream,
        extensions={**request.extensions, "sni_hostname": request.url.host},
    )


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolve a host in a thread of its own.

    Clients choose the name, and so the duration of the lookup. The threads of the event loop, which resolve all other
    names, must not be filled by that.

    Raises:
        OSError: The host has no address; `EAI_AGAIN` if the lookup is not possible now.
    """
    if not _lookups.acquire(blocking=False):
        raise socket.gaierror(socket.EAI_AGAIN, "too many DNS lookups are running")
    future: Future[Sequence[str]] = Future()
    future.set_running_or_notify_cancel()  # so that a caller that stops waiting does not cancel it

    def resolve() -> None:
        try:
            try:
                infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            finally:
                _lookups.release()
            future.set_result(tuple(dict.fromkeys(str(info[4][0]) for info in infos)))
        except OSError as error:
            future.set_exception(error)
        except ValueError:
            future.set_exception(OSError("the name cannot be resolved"))

    try:
        threading.Thread(target=resolve, name="mcpkit-lookup", daemon=True).start()
    except RuntimeError:  # the system gives no more threads
        _lookups.release()
        raise socket.gaierror(socket.EAI_AGAIN, "no thread is available for a DNS lookup") from None
    return await asyncio.wrap_future(future)


# Addresses: networks for protocols, tunnels and examples that some Python versions do not know (IANA's special-purpose
# registries), and IPv4 addresses in IPv6-only networks (RFC 6052).
_GLOBAL: Final = ipaddress.IPv6Network("2000::/3")
_RESERVED_4: Final = tuple(map(ipaddress.IPv4Network, ("192.0.0.0/24", "192.88.99.0/24")))
_RESERVED_6: Final = tuple(map(ipaddress.IPv6Network, ("2001::/23", "2002::/16", "3fff::/20")))
_TRANSLATED: Final = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(text: str) -> bool:
    """Return True if an address is on the public internet and does not map to an internal one."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        is_reserved = address.is_reserved or any(address in each for each in _RESERVED_4)
        return address.is_global and not (address.is_multicast or is_reserved)
    if address in _TRANSLATED:
        return is_public(str(ipaddress.IPv4Address(address.packed[-4:])))
    return address in _GLOBAL and address.is_global and not any(address in each for each in _RESERVED_6)
