"""Limits of idle connections and their lifetime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

    import httpx2

_KEPT_CONNECTIONS = 20
"""Number of idle connections that are kept. httpcore2 looks at each of them twice for every request: with a
hundred a call takes twice the time of the processor, also in bursts, which open new ones for less."""
_KEPT_SECONDS = 4.0
"""Seconds for which an idle connection is kept. Many servers close theirs after five seconds: a request that is sent
in that moment is lost, and the client cannot know whether the server read it."""


def connected(
    verify: ssl.SSLContext | bool,
    proxy: str | None,
    *,
    trust_env: bool,
    mounts: Mapping[str, httpx2.AsyncBaseTransport] | None = None,
) -> httpx2.AsyncClient:
    """Return a client of httpx2, which has to be closed; nothing is connected yet.

    Args:
        verify: How servers are known over TLS; False where nothing is encrypted.
        proxy: The URL of a proxy; None for that of the environment.
        trust_env: Whether the environment names proxies.
        mounts: What answers in the place of the network, by the beginning of URLs.
    """
    import httpx2

    from ..._utils import http_proxies as proxies

    limits = httpx2.Limits(
        max_connections=None,  # streams that stay open never keep calls waiting
        max_keepalive_connections=_KEPT_CONNECTIONS,
        keepalive_expiry=_KEPT_SECONDS,
    )
    return proxies.client(verify, proxy=proxy, trust_env=trust_env, limits=limits, mounts=mounts)
