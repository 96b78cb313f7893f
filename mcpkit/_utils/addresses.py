"""Identification of clients by their address."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

_SITE = 64
"""Bits of an IPv6 address that identify a network. One client can use all addresses of its network."""

_PORT = re.compile(r"\[([^\[\]]+)\](?::\d*)?|([^:\[\]]+):\d*")
"""An address with a port, as some proxies send it. The port differs for each connection."""


def caller_at(host: str) -> str | None:
    """Return the identifier of the client at an address.

    Args:
        host: The address, as text. All clients of a proxy count as one, if the ASGI server does not trust its headers.

    Returns:
        The IPv4 address or the IPv6 network. None for an address of this machine, where a proxy may serve any number of
        clients, and for an empty one.
    """
    if ":" in host:
        try:
            address = IPv6Address(host)
        except AddressValueError:
            without_port = _PORT.fullmatch(host)
            return (
                f"address {host}" if without_port is None else caller_at(without_port[1] or without_port[2])
            )
        if address.ipv4_mapped is None:
            network = IPv6Address(int(address) >> _SITE << _SITE)
            return None if address.is_loopback else f"address {network}/{_SITE}"
        host = str(address.ipv4_mapped)
    return None if not host or host.startswith("127.") else f"address {host}"
