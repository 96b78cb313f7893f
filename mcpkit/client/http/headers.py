"""Headers of requests, checked before they are sent, and of answers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx2

Pairs = list[tuple[bytes, bytes]]
"""Headers, names in any case."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"(?![ \t])[ -~\t\x80-\xff]*(?<![ \t])")
_SHORTEST_SECRET = 6
"""Characters of a secret that is left out of messages: shorter ones stand in many words."""
_OURS = frozenset({
    "accept", "accept-encoding", "connection", "content-length", "content-type", "last-event-id", "mcp-method",
    "mcp-name", "mcp-protocol-version", "mcp-session-id", "transfer-encoding",
})  # fmt: skip
"""Headers that are the transport's to set."""


def checked(headers: Mapping[str, object]) -> Pairs:
    """Return headers of a user's as they are sent.

    Raises:
        TypeError: A value is no string.
        ValueError: One of them cannot be sent, or is not the user's to set; no value is repeated, which may be secret.
    """
    pairs: Pairs = []
    for name, value in headers.items():
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a valid header name")
        if name.lower() in _OURS:
            raise ValueError(f"the header {name} is set by the transport. Leave it out")
        if not isinstance(value, str):
            raise TypeError(f"the value of the header {name} must be a string, got {type(value).__name__}")
        if not _VALUE.fullmatch(value):
            raise ValueError(
                f"the value of the header {name} contains characters, or leading or trailing blanks, that "
                "are not allowed in a header"
            )
        pairs.append((name.encode("ascii"), value.encode("latin-1")))
    return pairs


def bearer(token: str) -> tuple[bytes, bytes]:
    """Return the header that sends a token.

    Raises:
        ValueError: It cannot be sent.
    """
    if not _VALUE.fullmatch(token):
        raise ValueError(
            "the token contains characters, or leading or trailing blanks, that are not allowed in a header"
        )
    return b"Authorization", b"Bearer " + token.encode("latin-1")


def without_credentials(text: str, response: httpx2.Response) -> str:
    """Return a text of a response without the credentials of its request, which the server may have repeated."""
    secret = response.request.headers.get("authorization", "").partition(" ")[2].strip()
    return text.replace(secret, "...") if len(secret) >= _SHORTEST_SECRET else text


def header(response: httpx2.Response, name: bytes) -> bytes:
    """Return the value of a header, of which the name is given in lower case; empty where there is none."""
    for each, value in response.headers.raw:
        if each.lower() == name:
            return value
    return b""
