"""Check of the Host and Origin headers of HTTP requests.

A web page can make its own name resolve to 127.0.0.1, and so send requests to a server on the machine of its reader
(DNS rebinding). The name in `Host` and the page in `Origin` reveal it. Revision 2026-07-28, "Streamable HTTP",
"Security & Endpoint"; revision 2025-11-25, "Transports", "Security Warning".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from ....protocol import http_headers

_ANY = "*"
_Ports = frozenset[int | str | None]
"""The ports of an entry: numbers, None for the default one, `_ANY` for each."""

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_PORTS = frozenset({None, 80, 443})
_ENTRY = (
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?"
    r"(?P<name>\[[0-9a-f:.]+\]|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\*)(?::(?P<port>[0-9]{1,5}|\*))?"
)
"""Syntax of an entry of either list, and of a suggestion in a message."""
_ADDRESS = r"\*\.(?:.*\.)?[0-9]+\.?"
_LABELS = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?"
_LONGEST_HOST = 255
"""Maximum length of names in DNS. Matching a name with thousands of labels would take seconds."""

_WEB = ("http", "https", "ws", "wss")
_BARE_ORIGINS = ("null", "file://")
"""Origins without a host: of sandboxed frames, and of pages of a desktop application."""

_MAX_REMEMBERED = 1024
_MAX_REMEMBERED_LENGTH = 512
"""Together they limit the cache of the guard, which any client can fill, to half a megabyte."""


class Guard:
    """Check of the Host and Origin headers of requests.

    Localhost, 127.0.0.1 and [::1] are always allowed on any port, as hosts and as origins of pages.

    Args:
        public_url: Public URL of the server, such as "https://example.com/mcp". Its host and origin are allowed too.
        allowed_hosts: Additional hosts: "example.com" (on the default ports), "example.com:8000", "example.com:*" (on
            any port), "*.example.com" (its subdomains, at any depth), or "*" for all.
        allowed_origins: Additional origins of web pages: "https://example.com", "https://example.com:8000",
            "https://example.com:*", "https://*.example.com", "moz-extension://*", "null", or "*" for all.

    Attributes:
        allows_all_origins: Whether "*" is among the origins.

    Raises:
        ValueError: An entry is not valid. The message contains the fix.
    """

    def __init__(
        self,
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
    ) -> None:
        everywhere: _Ports = frozenset({_ANY})
        self._hosts: dict[str, _Ports] = dict.fromkeys(_LOOPBACK, everywhere)
        self._origins = {(scheme, name): everywhere for scheme in ("http", "https") for name in _LOOPBACK}
        self._bare_origins = frozenset(allowed_origins).intersection(_BARE_ORIGINS)
        self.allows_all_hosts, self.allows_all_origins = "*" in allowed_hosts, "*" in allowed_origins
        if public_url is not None:
            public = _public_origin(public_url)
            allowed_hosts = [*allowed_hosts, public.partition("://")[2]]
            allowed_origins = [*allowed_origins, public]
        for each in allowed_hosts:
            if each != "*":
                name, ports = _host_entry(each)
                self._hosts[name] = self._hosts.get(name, frozenset()) | ports
        for each in allowed_origins:
            if each != "*" and each not in _BARE_ORIGINS:
                key, ports = _origin_entry(each)
                self._origins[key] = self._origins.get(key, frozenset()) | ports
        self._passed: set[tuple[bytes | None, bytes | None]] = set()

    def refuse(self, host: bytes | None, origin: bytes | None) -> tuple[int, str] | None:
        """Check the headers of a request.

        Args:
            host: Value of `Host`; None if missing.
            origin: Value of `Origin`; None if missing.

        Returns:
            None for an allowed request, else the HTTP status (421 for the host, 403 for the origin) and a text for the
            body that names the option.
        """
        if (host, origin) in self._passed:
            return None
        if not (self.allows_all_hosts or (host is not None and self._allows_host(_text(host)))):
            return 421, _misdirected(host)
        if origin is not None and not self.allows_origin(_text(origin)):
            return 403, _foreign(origin)
        if len(host or b"") + len(origin or b"") <= _MAX_REMEMBERED_LENGTH:
            if len(self._passed) >= _MAX_REMEMBERED:
                self._passed.clear()
            self._passed.add((host, origin))
        return None

    def allows_origin(self, origin: str) -> bool:
        """Return True if pages of an origin are allowed.

        Args:
            origin: Value of `Origin`.
        """
        if self.allows_all_origins or origin in self._bare_origins:
            return True
        parsed = http_headers.origin(origin)
        if parsed is None:
            return False
        scheme, host, port = parsed
        names = (*_names(host), "*")
        return any(_fits(self._origins.get((scheme, name)), port) for name in names)

    def _allows_host(self, host: str) -> bool:
        parsed = http_headers.host(host)
        return parsed is not None and any(
            _fits(self._hosts.get(name), parsed.port) for name in _names(parsed.name)
        )


def _text(value: bytes) -> str:
    return value.decode("latin-1")


def _names(name: str) -> Iterator[str]:
    """Iterate over the entries that can match a host: its own name, and wildcards for one or more labels."""
    if "*" not in name:
        yield name
    if len(name) <= _LONGEST_HOST and re.fullmatch(_LABELS, name):
        while "." in name:
            name = name.partition(".")[2]
            yield f"*.{name}"


def _fits(ports: _Ports | None, port: int | None) -> bool:
    return ports is not None and (_ANY in ports or port in ports)


def _host_entry(text: str) -> tuple[str, _Ports]:
    """Return name and ports of a host entry. Without a port, both 80 and 443 are meant."""
    found = re.fullmatch(_ENTRY, text.lower())
    parsed = None if found is None else _parsed_entry(found)
    if found is None or parsed is None or found["scheme"] is not None or found["name"] == "*":
        raise ValueError(
            f"allowed_hosts: {text!r} is not a host. Write it like 'example.com' or '[2001:db8::1]' (a "
            "name with non-ASCII letters as 'xn--...'), with a port other than 80 and 443 or with ':*' "
            "for any port, '*.example.com' for all subdomains, or '*' for all hosts"
        )
    name, port = parsed
    return name, _DEFAULT_PORTS if port in _DEFAULT_PORTS else frozenset({port})


def _origin_entry(text: str) -> tuple[tuple[str, str], _Ports]:
    """Return scheme, host and port of an origin entry."""
    found = re.fullmatch(_ENTRY, text.lower())
    if found is not None and found["name"] == "*" and found["port"] is None and found["scheme"] is not None:
        if found["scheme"] in _WEB:
            raise ValueError(
                f"allowed_origins: {text!r} would allow the pages of all sites. Name a domain, as in "
                "'https://*.example.com', or write '*' for all origins"
            )
        return (found["scheme"], "*"), frozenset({None})
    parsed = None if found is None else _parsed_entry(found)
    if found is None or parsed is None or found["scheme"] is None or found["name"] == "*":
        raise ValueError(
            f"allowed_origins: {text!r} is not an origin. Write it like 'https://example.com', without a "
            "path, with ':*' for any port, 'https://*.example.com' for all subdomains, "
            "'moz-extension://*' for all extensions, or '*' for all origins"
        )
    name, port = parsed
    if port is not _ANY and (read := http_headers.origin(f"{found['scheme']}://{name}:{port or ''}")):
        port = read.port
    return (found["scheme"], name), frozenset({port})


def _parsed_entry(found: re.Match[str]) -> tuple[str, int | str | None] | None:
    """Return the name, in the form of `Host`, and the port of an entry; None if they are not those of a host."""
    name, port = found["name"], found["port"]
    if name.startswith("*") and (name == "*" or re.fullmatch(_ADDRESS, name)):
        return None
    parsed = http_headers.host(f"{name}:{'' if port in {None, _ANY} else port}")
    if parsed is None:
        return None
    return parsed.name, _ANY if port == _ANY else parsed.port


def _public_origin(url: str) -> str:
    """Return the origin of the public URL of the server."""
    found = re.match(r"https?://[^/?#]+", url, re.IGNORECASE)
    entry = None if found is None else re.fullmatch(_ENTRY, found[0].lower())
    if (
        found is None
        or entry is None
        or entry["port"] == _ANY
        or "*" in entry["name"]
        or not _parsed_entry(entry)
    ):
        raise ValueError(
            f"public_url: {url!r} is not the URL of a server. Write it like 'https://example.com/mcp'"
        )
    return found[0].lower()


def _misdirected(host: bytes | None) -> str:
    if host is None:
        return 'The request has no Host header. To allow such requests: server.asgi(allowed_hosts=["*"])'
    text = _text(host).lower()
    found = re.fullmatch(_ENTRY, text) if len(text) <= 255 else None
    named = text if found is not None and found["scheme"] is None and "*" not in text else "example.com"
    return (
        f"This server does not accept the Host header of this request. If {named} is its host: "
        f'server.asgi(allowed_hosts=["{named}"])'
    )


def _foreign(origin: bytes) -> str:
    text = _text(origin).lower()
    found = re.fullmatch(_ENTRY, text) if len(text) <= 255 else None
    is_plausible = found is not None and found["scheme"] is not None and "*" not in text
    named = text if is_plausible or text in _BARE_ORIGINS else "https://example.com"
    return (
        f"This server does not accept the Origin header of this request. To allow web pages of {named}: "
        f'server.asgi(allowed_origins=["{named}"])'
    )
