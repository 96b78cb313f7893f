"""What a POST may hold, and what may be answered: Content-Type, Content-Encoding and Accept."""

from __future__ import annotations

from collections.abc import Mapping

from ....protocol import header_fields
from .refused_body import UnreadError

_USUAL = frozenset(
    b"application/json" + parameter
    for parameter in (b"; charset=utf-8", b";charset=utf-8", b"; charset=UTF-8", b";charset=UTF-8")
)
"""Values of Content-Type other than `application/json` that need no parsing."""

_known: dict[bytes, bool] = {}
"""Which values of Accept have been found fine, so that each is read once: clients send the same at each call."""

_MANY = 64
_LONG = 512
"""Values, and bytes of one, beyond which nothing is remembered: the memory would be the sender's to fill."""


def may_stream(headers: Mapping[bytes, bytes]) -> bool:
    """Check what a POST holds, and say whether its answer may be an event stream; it may be JSON in any case.

    Raises:
        UnreadError: 415 for what is not one JSON text, 406 for a client that does not take one.
    """
    content_type = headers.get(b"content-type")
    if (content_type != b"application/json" and content_type not in _USUAL) or b"content-encoding" in headers:
        check_content(headers)
    accept = headers.get(b"accept", b"*/*")
    known = _known.get(accept)
    if known is not None:
        return known
    text = accept.decode("latin-1")
    if not header_fields.accepts(text, "application/json"):
        raise UnreadError(406, "the Accept header must include application/json and text/event-stream")
    is_streamable = header_fields.accepts(text, "text/event-stream")
    if len(_known) < _MANY and len(accept) <= _LONG:
        _known[accept] = is_streamable
    return is_streamable


def accepts_events(headers: Mapping[bytes, bytes]) -> bool:
    """Say whether a client takes an event stream."""
    return header_fields.accepts(headers.get(b"accept", b"*/*").decode("latin-1"), "text/event-stream")


def check_content(headers: Mapping[bytes, bytes]) -> None:
    """Refuse what is not one JSON text.

    Raises:
        UnreadError: 415.
    """
    if header_fields.media_type(headers.get(b"content-type", b"").decode("latin-1")) != "application/json":
        raise UnreadError(415, "the Content-Type header must be application/json")
    codings = headers.get(b"content-encoding", b"").lower().split(b",")
    if not {coding.strip(b" \t") for coding in codings} <= {b"", b"identity"}:
        raise UnreadError(
            415, "compressed request bodies are not supported. Send the message without Content-Encoding"
        )
