"""What tells clients apart of whom nothing but the address is known."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

_SITE = 64
"""Bits of an IPv6 address that identify a network. One client can use all addresses of its network."""

_PORT = re.compile(r"\[([^\[\]]+)\](?::\d*)?|([^:\[\]]+):\d*")
"""An address with a port, as some proxies send it. The port differs for each connection."""


def caller_at(host: str) -> str | None:
    """Return what tells the client at an address from others.

    Args:
        host: The address, as text. Where it is that of a proxy, as the ASGI server believes none of its headers, all
            of its clients are one.

    Returns:
        The address, of IPv6 the network; None for one of this machine, where a proxy may stand for any number of
        clients, and for none at all.
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
