"""Content negotiation of POSTs: Content-Type, Content-Encoding and Accept."""

from __future__ import annotations

from collections.abc import Mapping

from ....protocol import http_headers
from .refused_body import UnreadError

_USUAL = frozenset(
    b"application/json" + parameter
    for parameter in (b"; charset=utf-8", b";charset=utf-8", b"; charset=UTF-8", b";charset=UTF-8")
)
"""Values of Content-Type other than `application/json` that need no parsing."""

_known: dict[bytes, bool] = {}
"""Accepted values of Accept, parsed once each because clients send the same value with each request."""

_MANY = 64
_LONG = 512
"""Maximum number and length of cached values, which clients choose."""


def may_stream(headers: Mapping[bytes, bytes]) -> bool:
    """Check the content type of a POST, and return True if its response may be an event stream.

    Raises:
        UnreadError: 415 for a body that is not one JSON text, 406 for a client that does not accept JSON.
    """
    content_type = headers.get(b"content-type")
    if (content_type != b"application/json" and content_type not in _USUAL) or b"content-encoding" in headers:
        check_content(headers)
    accept = headers.get(b"accept", b"*/*")
    known = _known.get(accept)
    if known is not None:
        return known
    text = accept.decode("latin-1")
    if not http_headers.accepts(text, "application/json"):
        raise UnreadError(406, "the Accept header must include application/json and text/event-stream")
    is_streamable = http_headers.accepts(text, "text/event-stream")
    if len(_known) < _MANY and len(accept) <= _LONG:
        _known[accept] = is_streamable
    return is_streamable


def accepts_events(headers: Mapping[bytes, bytes]) -> bool:
    """Return True if a client accepts an event stream."""
    return http_headers.accepts(headers.get(b"accept", b"*/*").decode("latin-1"), "text/event-stream")


def check_content(headers: Mapping[bytes, bytes]) -> None:
    """Check that a body is one JSON text, without compression.

    Raises:
        UnreadError: 415.
    """
    if http_headers.media_type(headers.get(b"content-type", b"").decode("latin-1")) != "application/json":
        raise UnreadError(415, "the Content-Type header must be application/json")
    codings = headers.get(b"content-encoding", b"").lower().split(b",")
    if not {coding.strip(b" \t") for coding in codings} <= {b"", b"identity"}:
        raise UnreadError(
            415, "compressed request bodies are not supported. Send the message without Content-Encoding"
        )
