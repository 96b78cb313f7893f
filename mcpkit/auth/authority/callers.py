"""Where a request comes from, as far as that can be told."""

from __future__ import annotations

import ipaddress

from starlette.datastructures import Headers
from starlette.types import Scope

from ...common.addresses import caller_at

_INSIDE = tuple(
    map(
        ipaddress.ip_network,
        ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "fe80::/10"),
    )
)
"""Private networks, from which proxies send requests and internet clients do not (RFC 1918, 6598, 4193)."""
_FORWARDING = ("x-forwarded-for", "forwarded")


def caller_of(scope: Scope) -> str | None:
    """Return what tells who sends a request from others.

    Args:
        scope: The request.

    Returns:
        The address, of IPv6 the network; None where that is a proxy's, which the ASGI server does not believe: all of
        its clients would be one.
    """
    peer = scope.get("client")
    if peer is None or is_unbelieved_proxy(scope):
        return None
    return caller_at(peer[0])


def is_unbelieved_proxy(scope: Scope) -> bool:
    """Say whether a request has come by way of a proxy of the same network that says for whom, and is not believed."""
    headers, peer = Headers(scope=scope), scope.get("client")
    if peer is None or not any(name in headers for name in _FORWARDING):
        return False
    try:
        address = ipaddress.ip_address(peer[0])
    except ValueError:
        return False
    return any(address in network for network in _INSIDE)
