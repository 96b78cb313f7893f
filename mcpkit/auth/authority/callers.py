"""Client addresses of requests, as far as proxies allow."""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.types import Scope

from ...protocol.http_headers import caller_at

_INSIDE = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10"),
    )
)
"""Private networks, from which proxies send requests and internet clients do not (RFC 1918, 6598, 4193)."""
_FORWARDING = ("x-forwarded-for", "forwarded")


def caller_of(scope: Scope) -> str | None:
    """Return the address that identifies the sender of a request.

    Args:
        scope: The request.

    Returns:
        The address, for IPv6 its network. None if it is that of a proxy that the ASGI server does not trust, because
        all its clients would share it.
    """
    peer = scope.get("client")
    if peer is None or is_unbelieved_proxy(scope):
        return None
    return caller_at(peer[0])


def is_unbelieved_proxy(scope: Scope) -> bool:
    """Return True if a private network sends forwarding headers that the ASGI server does not trust."""
    headers, peer = Headers(scope=scope), scope.get("client")
    if peer is None or not any(name in headers for name in _FORWARDING):
        return False
    try:
        address = ipaddress.ip_address(peer[0])
    except ValueError:
        return False
    return any(address in network for network in _INSIDE)
