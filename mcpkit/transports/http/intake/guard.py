"""Which hosts and origins the HTTP app answers.

A web page may make its own name resolve to 127.0.0.1 and so talk to a server on the reader's machine
(DNS rebinding): the name in `Host` and the page in `Origin` give it away. Revision 2026-07-28,
"Streamable HTTP", "Security & Endpoint"; revision 2025-11-25, "Transports", "Security Warning".
"""

from __future__ import annotations

import re
from collections.abc import Collection

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_PORTS = {"http": "80", "https": "443"}
_NAME = r"(?P<name>\[[0-9a-f:.]+\]|[a-z0-9._-]+)(?::(?P<port>[0-9]{1,5}|\*))?"
_HOST = re.compile(_NAME)
_ORIGIN = re.compile(rf"(?P<scheme>[a-z][a-z0-9+.-]*)://{_NAME}")
_BARE_ORIGINS = ("null", "file://")
"""Origins without a host: of sandboxed frames, and of pages of a desktop application."""

_MAX_REMEMBERED = 1024
_MAX_REMEMBERED_LENGTH = 512
"""Together they bound what strangers can make the guard remember to half a megabyte."""


class Guard:
    """Decides by `Host` and `Origin` whether a request is answered.

    Localhost, 127.0.0.1 and [::1], on any port, are always answered, and so are pages that come from there.

    Args:
        public_url: Where clients reach the server, such as "https://example.com/mcp": its host and its
            origin are answered too.
        allowed_hosts: Further hosts: "example.com" (on the default ports), "example.com:8000",
            "example.com:*" (on any port), or "*" for all.
        allowed_origins: Further origins of web pages: "https://example.com", "https://example.com:8000",
            "https://example.com:*", "null", or "*" for all.

    Attributes:
        allows_all_origins: Whether "*" is among the origins.

    Raises:
        ValueError: One of them has another form; the message says what to write.
    """

    def __init__(
        self,
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
    ) -> None:
        self._hosts = {f"{name}:" for name in _LOOPBACK}
        self._origins = {f"{scheme}://{name}:" for scheme in _DEFAULT_PORTS for name in _LOOPBACK}
        if public_url is not None:
            scheme, host = _split_public_url(public_url)
            self._hosts |= _host_forms(host)
            self._origins |= _origin_forms(f"{scheme}://{host}")
        for host in allowed_hosts:
            self._hosts |= _host_forms(host)
        for origin in allowed_origins:
            self._origins |= _origin_forms(origin)
        self.allows_all_hosts = "*" in self._hosts
        self.allows_all_origins = "*" in self._origins
        self._passed: set[tuple[bytes | None, bytes | None]] = set()

    def refuse(self, host: bytes | None, origin: bytes | None) -> tuple[int, str] | None:
        """Check the headers of a request.

        Args:
            host: The value of `Host`, None where there is none.
            origin: The value of `Origin`, None where there is none.

        Returns:
            None for a request to answer, else the HTTP status (421 for the host, 403 for the origin) and a
            text for its body that names the setting.
        """
        if (host, origin) in self._passed:
            return None
        if not (self.allows_all_hosts or (host is not None and _is_among(self._hosts, _text(host)))):
            return 421, _misdirected(host)
        if origin is not None and not self.allows_origin(_text(origin)):
            return 403, _foreign(origin)
        if len(host or b"") + len(origin or b"") <= _MAX_REMEMBERED_LENGTH:
            if len(self._passed) >= _MAX_REMEMBERED:
                self._passed.clear()
            self._passed.add((host, origin))
        return None

    def allows_origin(self, origin: str) -> bool:
        """Whether pages of an origin are answered.

        Args:
            origin: The value of `Origin`.
        """
        return self.allows_all_origins or _is_among(self._origins, origin.lower())


def _text(value: bytes) -> str:
    return value.decode("latin-1").lower()


def _is_among(allowed: set[str], value: str) -> bool:
    # What ends with ":" stands for any port; as a header it is the default port, left empty.
    if value in allowed:
        return True
    name, colon, port = value.rpartition(":")
    if not (colon and port.isascii() and port.isdigit()):
        name = value
    return f"{name}:" in allowed


def _host_forms(host: str) -> set[str]:
    """Return what a `Host` header that means this entry may look like."""
    if host == "*":
        return {host}
    found = _HOST.fullmatch(host.lower())
    if found is None:
        raise ValueError(
            f"allowed_hosts: {host!r} is not a host; write it like 'example.com' or '[2001:db8::1]' (a name with other "
            "letters as 'xn--...'), with a port other than 80 and 443 or with ':*' for any port, or '*' for all hosts"
        )
    return _forms(found["name"], found["port"], {None, *_DEFAULT_PORTS.values()})


def _origin_forms(origin: str) -> set[str]:
    """Return what an `Origin` header that means this entry may look like."""
    if origin == "*" or origin in _BARE_ORIGINS:
        return {origin}
    found = _ORIGIN.fullmatch(origin.lower())
    if found is None:
        raise ValueError(
            f"allowed_origins: {origin!r} is not an origin; write it like 'https://example.com', "
            "without a path, with ':*' for any port, or '*' for all origins"
        )
    scheme = found["scheme"]
    return _forms(f"{scheme}://{found['name']}", found["port"], {None, _DEFAULT_PORTS.get(scheme)})


def _forms(name: str, port: str | None, defaults: set[str | None]) -> set[str]:
    """Return a name with its port, in each way to write that; "name:" stands for any port."""
    if port in defaults:
        return {name, *(f"{name}:{default}" for default in defaults if default is not None)}
    return {f"{name}:{'' if port == '*' else port}"}


def _split_public_url(url: str) -> tuple[str, str]:
    found = re.match(r"(https?)://([^/?#]+)", url, re.IGNORECASE)
    host = _HOST.fullmatch(found[2].lower()) if found else None
    if found is None or host is None or host["port"] == "*":
        raise ValueError(
            f"public_url: {url!r} is not where clients can reach a server; "
            "write it like 'https://example.com/mcp'"
        )
    return found[1].lower(), host[0]


def _misdirected(host: bytes | None) -> str:
    if host is None:
        return (
            "The request has no Host header, so it cannot be checked. If it may come without one: "
            'server.asgi(allowed_hosts=["*"])'
        )
    text = _text(host)
    named = text if len(text) <= 255 and _HOST.fullmatch(text) else "example.com"
    return (
        f"This server does not answer to the host that the request names. If {named} is the server: "
        f'server.asgi(allowed_hosts=["{named}"])'
    )


def _foreign(origin: bytes) -> str:
    text = _text(origin)
    is_plausible = len(text) <= 255 and (text in _BARE_ORIGINS or _ORIGIN.fullmatch(text))
    named = text if is_plausible else "https://example.com"
    return (
        f"This server does not answer web pages of the origin that the request names. If pages of {named} "
        f'may use it: server.asgi(allowed_origins=["{named}"])'
    )
