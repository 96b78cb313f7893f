"""Checks the HTTP request of a redirect, and writes the pages in response."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hmac import compare_digest
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

MOST: Final = 32 * 1024
"""The most bytes of the head of a request. Some servers have long codes."""
_MOST_FIELDS: Final = 50
_LINE: Final = re.compile(rb"([A-Za-z]{1,20}) (/[!-~]*) HTTP/1\.[01]")
_FIELD: Final = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\r\n\0]*)")
_ONCE: Final = frozenset({"code", "error", "iss", "state"})


class Expected(NamedTuple):
    """The expected redirect.

    Attributes:
        host: Its host and port.
        path: Its path.
        state: The `state` of the authorization request, which only its recipients know. Empty before that request.
    """

    host: str
    path: str
    state: str


class RefusedError(Exception):
    """A request is not the expected redirect.

    Args:
        status: The HTTP status of the response.
        message: The text of the response.
    """

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def redirected(head: bytes, expected: Expected) -> Mapping[str, str]:
    """Return the query parameters of the expected redirect.

    Args:
        head: The request up to the empty line.
        expected: The expected redirect.

    Raises:
        RefusedError: It is another request.
    """
    line, *fields = head.rstrip(b"\r\n").split(b"\r\n")
    read = _LINE.fullmatch(line)
    pairs = [_FIELD.fullmatch(field) for field in fields]
    if read is None or not all(pairs):
        raise RefusedError("400 Bad Request", "This is not a valid HTTP request.")
    hosts = [pair[2].strip().lower() for pair in pairs if pair is not None and pair[1].lower() == b"host"]
    if hosts != [expected.host.lower().encode()]:
        # A page of the web that has its name resolve to this machine says that name.
        raise RefusedError("421 Misdirected Request", "The Host header is not that of the redirect URI.")
    path, _, query = read[2].decode("ascii").partition("?")
    if path != expected.path:
        raise RefusedError("404 Not Found", "There is no page at this path.")
    if read[1] != b"GET":
        raise RefusedError("405 Method Not Allowed", "This page only supports GET.")
    return _parameters(query, expected.state)


def _parameters(query: str, state: str) -> Mapping[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise RefusedError("400 Bad Request", "The query of the URL is malformed.") from None
    found = dict(pairs)
    is_one = all([name for name, _ in pairs].count(name) <= 1 for name in _ONCE)
    if not is_one or ("code" in found) == ("error" in found):
        raise RefusedError("400 Bad Request", "This is not an authorization response.")
    if not state or not compare_digest(found.get("state", "").encode(), state.encode()):
        raise RefusedError(
            "400 Bad Request", "This authorization response belongs to another login. Start the login again."
        )
    return found


_PAGE: Final = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body><h1>{title}</h1><p>{text}</p></body></html>
"""


def page(status: str, title: str, text: str) -> bytes:
    """Return a response with a page for the user that loads and links nothing.

    Args:
        status: The HTTP status with its phrase.
        title: The title, a fixed text without any part of the request.
        text: Instructions for the user, also a fixed text.
    """
    body = _PAGE.format(title=title, text=text).encode()
    allow = "Allow: GET\r\n" if status.startswith("405") else ""
    head = (
        f"HTTP/1.1 {status}\r\n"
        f"{allow}"
        "Content-Type: text/html; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Cache-Control: no-store\r\n"
        "Referrer-Policy: no-referrer\r\n"
        "Content-Security-Policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "X-Frame-Options: DENY\r\n"
        "Cross-Origin-Opener-Policy: same-origin\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode() + body
