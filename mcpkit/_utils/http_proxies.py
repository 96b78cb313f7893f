"""Proxies for clients of httpx2: those of the environment, and one of an option.

httpx2 connects to all proxies of the environment when a client is created, and fails if one is unusable, even if no
request goes through it. Here, a proxy is only checked when a request goes through it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from ipaddress import ip_network
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2

if TYPE_CHECKING:
    import ssl

_SCHEMES: Final = ("http", "https", "socks5", "socks5h")


class ProxyTransport(httpx2.AsyncBaseTransport):
    """Transport that sends requests through a proxy. The first request opens the connection to it.

    Args:
        setting: Name of the environment variable or option with the proxy, for errors.
        url: URL of the proxy; without a scheme, `http`.
        cure: Text with the correction of an unusable proxy.
        verify: TLS verification.
        limits: Limits of the connection pool.
    """

    def __init__(
        self, setting: str, url: str, cure: str, verify: ssl.SSLContext | bool, limits: httpx2.Limits
    ) -> None:
        self._setting = setting
        self._url = url if "://" in url else f"http://{url}"
        self._cure = cure
        self._verify = verify
        self._limits = limits
        self._transport: httpx2.AsyncHTTPTransport | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request.

        Raises:
            UnsupportedProtocol: The proxy cannot be used; the message names the setting and the cure.
        """
        if self._transport is None:
            self._transport = self._connected()
        return await self._transport.handle_async_request(request)

    def _connected(self) -> httpx2.AsyncHTTPTransport:
        scheme = self._url.partition("://")[0].lower()
        try:
            if scheme not in _SCHEMES:
                problem = f"its scheme {scheme!r:.40} must be {', '.join(_SCHEMES[:-1])} or {_SCHEMES[-1]}"
            elif not (host := urlsplit(self._url).hostname) or any(map(str.isspace, host)):
                problem = "its URL has no host"
            else:
                proxy = httpx2.Proxy(url=self._url)
                return httpx2.AsyncHTTPTransport(verify=self._verify, limits=self._limits, proxy=proxy)
        except ImportError:
            problem = f"{scheme}:// needs the package socksio (pip install socksio)"
        except (ValueError, httpx2.InvalidURL):  # of which the message may hold a password
            problem = "its URL cannot be read"
        raise httpx2.UnsupportedProtocol(
            f"the proxy of {self._setting} cannot be used: {problem}. {self._cure}"
        )

    async def aclose(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            await self._transport.aclose()


def client(
    verify: ssl.SSLContext | bool,
    *,
    proxy: str | None = None,
    trust_env: bool,
    limits: httpx2.Limits,
    mounts: Mapping[str, httpx2.AsyncBaseTransport] | None = None,
    **options: object,
) -> httpx2.AsyncClient:
    """Return a client that checks its proxies on first use. The caller must close it.

    Args:
        verify: TLS verification; False for none.
        proxy: URL of a proxy; None for those of the environment.
        trust_env: Whether the environment may configure proxies and certificate authorities.
        limits: Limits of the connection pool.
        mounts: Transports in place of the network, by URL prefix.
        options: Other arguments of `httpx2.AsyncClient`.
    """
    proxies: dict[str, httpx2.AsyncBaseTransport | None] = {}
    if proxy is not None:
        proxies["all://"] = ProxyTransport("proxy=", proxy, "Give another URL.", verify, limits)
    elif trust_env:
        proxies = _of_environment(verify, limits)
    return httpx2.AsyncClient(
        # A transport keeps httpx2 from looking at the proxies itself.
        transport=httpx2.AsyncHTTPTransport(verify=verify, trust_env=trust_env, limits=limits),
        mounts={**proxies, **(mounts or {})},
        trust_env=trust_env,
        **options,  # type: ignore[arg-type]  # the caller's, as AsyncClient takes them
    )


def proxy_variable(scheme: str) -> str:
    """Return the environment variable that names the proxy of a scheme, `http`, `https` or `all`."""
    names = [name for name in os.environ if name.lower() == f"{scheme}_proxy" and os.environ[name]]
    return next(iter(sorted(names, reverse=True)), "the system's settings")  # urllib prefers small letters


def _of_environment(
    verify: ssl.SSLContext | bool, limits: httpx2.Limits
) -> dict[str, httpx2.AsyncBaseTransport | None]:
    """Return transports for the proxies of the environment, by URL pattern; None for URLs that bypass them."""
    found = getproxies()
    exempt = [entry.strip() for entry in found.get("no", "").split(",")]
    if "*" in exempt:
        return {}
    cure = "Correct or unset the variable, add the host to NO_PROXY, or set trust_env=False."
    mounts: dict[str, httpx2.AsyncBaseTransport | None] = {
        f"{scheme}://": ProxyTransport(proxy_variable(scheme), found[scheme], cure, verify, limits)
        for scheme in ("http", "https", "all")
        if found.get(scheme)
    }
    if mounts:
        mounts |= dict.fromkeys(pattern for entry in exempt if (pattern := _pattern(entry)))
    return mounts


def _pattern(entry: str) -> str | None:
    """Return the URL pattern of an entry of `NO_PROXY`; None for one that cannot be read, which is ignored."""
    try:
        network = ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        is_exact = "://" in entry or entry.lower() == "localhost" or entry.startswith(("*.", "["))
        pattern = entry if "://" in entry else f"all://{'' if is_exact else '*'}{entry}"
        if not entry or "/" in pattern.partition("://")[2]:
            return None
    else:
        address, _, size = entry.strip("[]").partition("/")
        pattern = f"all://[{address}]" if network.version == 6 else f"all://{address}"
        pattern += f"/{size}" if size else ""
    try:
        httpx2.URL(pattern)
    except httpx2.InvalidURL:
        return None
    return pattern
