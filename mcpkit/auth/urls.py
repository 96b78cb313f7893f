"""URLs of servers: validation, comparison, and display of untrusted ones."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection
from typing import Final
from urllib.parse import SplitResult, urlsplit, urlunsplit

_PORTS: Final = {"http": 80, "https": 443}
_URL: Final = re.compile(r"[!-~]+")
_MAX_SHOWN: Final = 200


class MetadataError(ValueError):
    """A URL or metadata document is not valid. The message contains the reason."""


def is_loopback(host: str | None) -> bool:
    """Return True if the host of a URL is a loopback name or address."""
    if not host:
        return False
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def leads_here(host: str | None) -> bool:
    """Return True if the host of a URL is this machine in any spelling, without a DNS lookup.

    It includes more than `is_loopback`: spellings that systems accept as its address, such as `127.1`, `0` and
    `::ffff:127.0.0.1`.
    """
    try:
        address = ipaddress.ip_address(host or "")
    except ValueError:
        try:
            address = ipaddress.IPv4Address(socket.inet_aton((host or "").rstrip(".")))
        except (OSError, UnicodeError):
            return is_loopback(host)
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


def check_url(url: object, what: str, *, accepts_http: bool | None = None) -> str:
    """Check that a URL is safe for secrets (`https`, or `http` to a loopback address), and return it.

    Args:
        url: The URL.
        what: Name of the URL for the message, such as "the token_endpoint of https://id.example.com".
        accepts_http: Value of the option `accept_plain_http`, which allows `http` to other machines; None if there is
            no such option, so that the message does not mention it.

    Raises:
        MetadataError: The URL is malformed, is not encrypted, or has a user, a password or a fragment.
    """
    if not isinstance(url, str):
        raise MetadataError(f"{what} must be a string, got {shortened(repr(url))}")
    shown = shortened(url)
    parts = split_url(url)
    if parts is None or not parts.hostname or parts.scheme not in _PORTS:
        raise MetadataError(f"{what} is not a valid https URL: {shown}")
    if parts.username is not None or parts.password is not None:
        raise MetadataError(f"{what} must not contain a user name or password")
    if "#" in url:
        raise MetadataError(f"{what} must not have a fragment: {shown}")
    if parts.scheme == "http" and not accepts_http and not is_loopback(parts.hostname):
        way_out = "" if accepts_http is None else ". In a private network, set accept_plain_http=True"
        raise MetadataError(
            f"{what} is not encrypted: {shown}. Use https; http is only allowed to loopback addresses{way_out}"
        )
    return url


def canonical(url: str) -> str:
    """Return the canonical URL of a server: lower-case scheme and host, no default port, fragment or path `/` alone.

    Query and path are unchanged, because they can distinguish servers.

    Raises:
        MetadataError: The URL is not an HTTP URL.
    """
    parts = split_url(url)
    if parts is None or not parts.hostname or parts.scheme not in _PORTS:
        raise MetadataError(
            f"the URL of a server must be an https or http URL with a host, got {shortened(url)}"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    is_default_port = parts.port is None or parts.port == _PORTS[parts.scheme]
    netloc = host if is_default_port else f"{host}:{parts.port}"
    path = "" if parts.path == "/" and not parts.query else parts.path
    return urlunsplit((parts.scheme, netloc, path, parts.query, ""))


def origin(url: str) -> str:
    """Return scheme, host and port of a URL, in canonical form."""
    parts = urlsplit(canonical(url))
    return f"{parts.scheme}://{parts.netloc}"


def covers(resource: str, url: str) -> bool:
    """Return True if a protected resource is the server at a URL, or a path above it at the same origin.

    Raises:
        MetadataError: One of them is not an HTTP URL.
    """
    wide, narrow = urlsplit(canonical(resource)), urlsplit(canonical(url))
    if (wide.scheme, wide.netloc) != (narrow.scheme, narrow.netloc):
        return False
    if wide.query and wide.query != narrow.query:
        return False
    above = wide.path.rstrip("/")
    return narrow.path.rstrip("/") == above or narrow.path.startswith(above + "/")


def audience_matches(audiences: Collection[str], accepted: Collection[str]) -> bool:
    """Return True if one of the audiences of a token is accepted (RFC 8707, section 2).

    Audiences match if they are equal, or are URLs that differ only in the case of scheme and host, a default port, or a
    trailing slash.
    """

    def canonical_url(text: str) -> str | None:
        if "#" in text or "@" in text:
            return None
        try:
            return canonical(text).rstrip("/")
        except MetadataError:
            return None

    if not set(audiences).isdisjoint(accepted):
        return True
    urls = {canonical_url(each) for each in accepted} - {None}
    return bool(urls) and any(canonical_url(each) in urls for each in audiences)


def shortened(text: str) -> str:
    """Return an untrusted text for a message: short, printable, in quotes."""
    return repr("".join(char if char.isprintable() else " " for char in text[:_MAX_SHOWN]))


def split_url(url: str) -> SplitResult | None:
    """Split a URL; None if it is malformed, has characters outside visible ASCII, or an impossible host."""
    if not _URL.fullmatch(url):
        return None
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - read for its error
    except ValueError:
        return None
    labels = (parts.hostname or "x").removesuffix(".").split(".")
    return parts if all(0 < len(label) < 64 for label in labels) else None  # RFC 1035, 2.3.4
