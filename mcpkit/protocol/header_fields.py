"""Values of HTTP header fields, parsed by their grammars (RFC 9110, RFC 3986, RFC 6454).

Every part that reads one of these fields reads it here, so that all take the same values. A field with another form
than its grammar has no value: it matches nothing, rather than a part of it matching something.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# Patterns are compiled on first use, by `re` itself: they would cost every server's start.
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_QUOTED = r'"(?:[\t !\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t -\x7e\x80-\xff])*"'
_ELEMENT = rf'(?:[^,"]|{_QUOTED})*'
_MEDIA_RANGE = rf"({_TOKEN}/{_TOKEN})"
_PARAMETER = rf"[ \t]*;[ \t]*(?:({_TOKEN})=({_TOKEN}|{_QUOTED}))?"
_WEIGHT = (
    r"0?\.[0-9]+|0\.?|1(?:\.0*)?"  # Java's HttpURLConnection sends .2, and others more than three decimals
)
_CONTENT_TYPE = rf"(?s)[ \t]*({_TOKEN}/{_TOKEN})[ \t]*(?:;.*)?"
_SCHEME = rf"{_TOKEN}(?=[ \t]|\Z)"
_TOKEN68 = r"[A-Za-z0-9\-._~+/]+=*"
_HOST = r"(\[[0-9A-Fa-f:.]+\]|(?:[A-Za-z0-9\-._~!$&'()*+,;=]|%[0-9A-Fa-f]{2})+)(?::([0-9]*))?"
_ORIGIN = r"(?s)([A-Za-z][A-Za-z0-9+.-]*)://(.+)"

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Host(NamedTuple):
    """A host.

    Attributes:
        name: Its name or address in lower case; IPv6 in brackets, in its shortest form.
        port: Its port; None where there is none.
    """

    name: str
    port: int | None


class Origin(NamedTuple):
    """The origin of a web page or an application.

    Attributes:
        scheme: Its scheme in lower case.
        name: The name of its host, as `Host` has it.
        port: Its port; None where it is the default one of the scheme, or there is none.
    """

    scheme: str
    name: str
    port: int | None


def media_type(value: str) -> str | None:
    """Return the type and subtype of a `Content-Type` field in lower case (RFC 9110, 8.3.1).

    Parameters are ignored: bodies are UTF-8 in any case, and some clients send invalid parameters.

    Returns:
        For example "application/json"; None if the field is invalid.
    """
    found = re.fullmatch(_CONTENT_TYPE, value)
    return None if found is None else found[1].lower()


def accepts(value: str, wanted: str) -> bool:
    """Return whether an `Accept` field allows a media type, with a weight other than 0 (RFC 9110, 12.5.1).

    The most specific range decides. One with parameters counts too, since the types sent here have none, but less than
    one without. Invalid elements are ignored. A field without any element counts as absent.

    Args:
        value: Value of the field.
        wanted: Type and subtype in lower case.
    """
    ranges = (wanted, f"{wanted};", f"{wanted.partition('/')[0]}/*", "*/*")  # the most specific first
    best, weight, is_empty = len(ranges), 0.0, True
    for element in _elements(value):
        is_empty = False
        parsed = _weighted_range(element)
        if parsed is not None and parsed[0] in ranges:
            place = ranges.index(parsed[0])
            if place < best or (place == best and parsed[1] > weight):
                best, weight = place, parsed[1]
    return is_empty or weight > 0


def _elements(value: str) -> Iterator[str]:
    """Go through the elements of a list that are not empty; a quote that is not closed makes the rest one element."""
    pattern = re.compile(_ELEMENT)
    place = 0
    while place < len(value):
        found = pattern.match(value, place)
        end = place if found is None else found.end()
        if end < len(value) and value[end] != ",":
            end = len(value)
        if element := value[place:end].strip(" \t"):
            yield element
        place = end + 1


def _weighted_range(element: str) -> tuple[str, float] | None:
    """Return a media range in lower case, with a semicolon behind it if it has parameters, and its weight."""
    found = re.match(_MEDIA_RANGE, element)
    if found is None:
        return None
    kind, end = found[1].lower(), found.end()
    weight: float | None = None
    pattern = re.compile(_PARAMETER)
    while end < len(element):
        parameter = pattern.match(element, end)
        if parameter is None:
            return None
        name, text = parameter.groups()
        end = parameter.end()
        if name is not None and name.lower() == "q" and weight is None:
            if not re.fullmatch(_WEIGHT, text):
                return None
            weight = float(text)
        elif name is not None and weight is None:  # behind the weight they are no part of the range
            kind = kind.rstrip(";") + ";"
    return kind, 1.0 if weight is None else weight


def token68(value: str, scheme: str) -> str | None:
    """Return the credentials in an `Authorization` field of a scheme that has them as one token (RFC 9110, 11.4).

    Args:
        value: The value of the field.
        scheme: The scheme in lower case, such as "bearer".

    Returns:
        The token; None where the field is of another scheme.

    Raises:
        ValueError: The field is of this scheme, and its credentials have another form.
    """
    value = value.strip(" \t")
    found = re.match(_SCHEME, value)
    if found is None or found[0].lower() != scheme:
        return None
    rest = value[found.end() :]
    token = rest.lstrip(" ")
    if rest == token or not re.fullmatch(_TOKEN68, token):
        raise ValueError(f"Authorization: the credentials of the scheme {scheme} are not a single token")
    return token


def host(value: str) -> Host | None:
    """Return the host of a `Host` field (RFC 9110, 7.2; RFC 3986, 3.2.2); None where it has another form."""
    found = re.fullmatch(_HOST, value)
    if found is None:
        return None
    name, port = found[1].lower(), found[2]
    if name.startswith("["):
        from ipaddress import IPv6Address  # here, as few hosts need it

        try:
            name = f"[{IPv6Address(name[1:-1])}]"
        except ValueError:
            return None
    if not port:
        return Host(name, None)
    number = int(port) if len(port) < 10 else 65536
    return Host(name, number) if number < 65536 else None


def origin(value: str) -> Origin | None:
    """Return the origin of an `Origin` field (RFC 6454, 7.1); None for "null" and where it has another form."""
    found = re.fullmatch(_ORIGIN, value)
    parsed = None if found is None else host(found[2])
    if found is None or parsed is None:
        return None
    scheme = found[1].lower()
    return Origin(scheme, parsed.name, None if parsed.port == _DEFAULT_PORTS.get(scheme) else parsed.port)


def is_same_origin(page: str, named: str) -> bool:
    """Return whether the `Origin` field and the `Host` field of a request have the same host.

    Args:
        page: Value of `Origin`.
        named: Value of `Host`.
    """
    of_page, of_request = origin(page), host(named)
    if of_page is None or of_request is None:
        return False
    port = None if of_request.port == _DEFAULT_PORTS.get(of_page.scheme) else of_request.port
    return (of_page.name, of_page.port) == (of_request.name, port)


# Client addresses

_NETWORK_BITS = 64
"""Bits of an IPv6 address that identify a network. One client can use all addresses of its network."""

_ADDRESS_WITH_PORT = r"\[([^\[\]]+)\](?::\d*)?|([^:\[\]]+):\d*"
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
        from ipaddress import AddressValueError, IPv6Address

        try:
            address = IPv6Address(host)
        except AddressValueError:
            without_port = re.fullmatch(_ADDRESS_WITH_PORT, host)
            return (
                f"address {host}" if without_port is None else caller_at(without_port[1] or without_port[2])
            )
        if address.ipv4_mapped is None:
            network = IPv6Address(int(address) >> _NETWORK_BITS << _NETWORK_BITS)
            return None if address.is_loopback else f"address {network}/{_NETWORK_BITS}"
        host = str(address.ipv4_mapped)
    return None if not host or host.startswith("127.") else f"address {host}"
