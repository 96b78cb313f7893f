"""Redirect URIs: validation, and comparison with the registered ones."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlencode, urlsplit

from ..urls import is_loopback, split_url

MAX_LENGTH = 1024
_VISIBLE = re.compile(r"[!-~]+")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
"""A host as it is displayed. Escaped characters would make it another host for a browser than for a reader."""
_FORBIDDEN = frozenset(
    {
        "about", "afp", "android-app", "blob", "chrome", "chrome-extension", "content", "data",
        "facetime", "file", "filesystem", "ftp", "ftps", "geo", "gopher", "help", "intent", "itms",
        "jar", "javascript", "ldap", "ldaps", "livescript", "mailto", "market", "mhtml", "mocha",
        "nfs", "res", "resource", "rtsp", "search", "sftp", "shell", "sip", "sips", "smb", "sms",
        "ssh", "steam", "tel", "telnet", "vbscript", "view-source", "ws", "wss", "wyciwyg",
        "x-apple.systempreferences",
    }
)  # fmt: skip
"""Schemes by which a browser runs or displays the URI itself, or starts a program that is not an OAuth client."""
_FORBIDDEN_BEGINNINGS = ("ms-", "search-", "web+")
"""Prefixes of schemes of Windows components, and of sites registered as protocol handlers."""


def check_redirect_uri(uri: object) -> str:
    """Check a redirect URI, and return it: `https`, `http` to a loopback host, or a private-use scheme.

    Raises:
        ValueError: The URI is not allowed. The message contains the reason.
    """
    if not isinstance(uri, str) or len(uri) > MAX_LENGTH or not _VISIBLE.fullmatch(uri):
        raise ValueError(f"a redirect URI must be a string of at most {MAX_LENGTH} visible ASCII characters")
    parts = split_url(uri)
    if parts is None or not _SCHEME.fullmatch(parts.scheme):
        raise ValueError("a redirect URI must be an absolute URI")
    if "#" in uri:
        raise ValueError("a redirect URI must not have a fragment")
    if "\\" in uri or parts.username is not None or parts.password is not None:
        raise ValueError("a redirect URI must not contain a user name, a password or a backslash")
    if parts.scheme in _FORBIDDEN or parts.scheme.startswith(_FORBIDDEN_BEGINNINGS):
        raise ValueError(
            f"the scheme {parts.scheme} is not allowed in a redirect URI. Use https, or a private-use scheme such as "
            "com.example.app:/callback"
        )
    if parts.scheme in {"http", "https"}:
        if not parts.hostname:
            raise ValueError("a redirect URI must have a host")
        if not _HOST.fullmatch(parts.hostname):
            raise ValueError(
                "the host of a redirect URI must be an ASCII name; write others in Punycode (xn--)"
            )
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise ValueError("a redirect URI with http must have a loopback host; use https for other hosts")
    elif not uri[len(parts.scheme) + 1 :].startswith("/"):
        raise ValueError(
            "a redirect URI with a private-use scheme must have a slash after the colon, as app.example:/callback"
        )
    return uri


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Return True if a redirect URI is registered.

    It must be equal to a registered one, except for the port of a loopback URI (RFC 8252, 7.3).
    """
    try:
        check_redirect_uri(uri)
    except ValueError:
        return False
    wanted = _without_port(uri)
    return any(uri == each or (wanted is not None and wanted == _without_port(each)) for each in registered)


def is_web(uri: str) -> bool:
    """Return True if a browser opens the redirect URI itself: it has no private-use scheme."""
    return urlsplit(uri).scheme in {"http", "https"}


def is_local(uri: str) -> bool:
    """Return True if a redirect URI leads to a program on the machine of the user, which is not verified."""
    return not is_web(uri) or is_loopback(urlsplit(uri).hostname)


def host_of(uri: str) -> str:
    """Return the part of a redirect URI for display: its host and port, or its private-use scheme.

    It is in lower case, because a capital I looks like an l.
    """
    parts = urlsplit(uri)
    return parts.netloc.lower() if parts.scheme in {"http", "https"} else f"{parts.scheme}:"


def with_parameters(uri: str, parameters: Iterable[tuple[str, str]]) -> str:
    """Return a redirect URI with additional query parameters (RFC 6749, 3.1.2)."""
    separator = "&" if "?" in uri else "?"
    return f"{uri}{separator}{urlencode(list(parameters))}"


def _without_port(uri: str) -> tuple[str, str, str, str] | None:
    """Return a loopback redirect URI without its port; None for any other."""
    parts = urlsplit(uri)
    if parts.scheme != "http" or not is_loopback(parts.hostname):
        return None
    return parts.hostname or "", parts.path, parts.query, parts.fragment
