"""What a POST may hold, and what may be answered: Content-Type, Content-Encoding and Accept."""

from __future__ import annotations

from collections.abc import Mapping

from .refused_body import UnreadError

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
    if headers.get(b"content-type") != b"application/json" or b"content-encoding" in headers:
        check_content(headers)
    accept = headers.get(b"accept", b"*/*")
    known = _known.get(accept)
    if known is not None:
        return known
    if not accepts(accept, b"application/json"):
        raise UnreadError(406, "an answer is application/json or text/event-stream: accept both")
    is_streamable = accepts(accept, b"text/event-stream")
    if len(_known) < _MANY and len(accept) <= _LONG:
        _known[accept] = is_streamable
    return is_streamable


def accepts(accept: bytes, media_type: bytes) -> bool:
    """Say whether the value of an Accept header allows a media type."""
    accept = accept.lower()
    return media_type in accept or b"*/*" in accept or media_type.partition(b"/")[0] + b"/*" in accept


def check_content(headers: Mapping[bytes, bytes]) -> None:
    """Refuse what is not one JSON text.

    Raises:
        UnreadError: 415.
    """
    media_type = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != b"application/json":
        raise UnreadError(415, "a message is sent as Content-Type: application/json")
    if headers.get(b"content-encoding", b"identity") != b"identity":
        raise UnreadError(415, "a message is sent without Content-Encoding")
