"""What a POST may hold, and what may be answered: Content-Type, Content-Encoding and Accept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from .unread import UnreadError

_known: dict[tuple[bytes, bytes, bytes], bool] = {}
"""What has been found fine, so that it is read once: clients send the same at each call."""

_MANY: Final = 64
_LONG: Final = 512
"""Headers, and bytes of them, beyond which nothing is remembered: the memory would be the sender's to fill."""


def may_stream(headers: Mapping[bytes, bytes]) -> bool:
    """Check what a POST holds, and say whether its answer may be an event stream; it may be JSON in any case.

    Raises:
        UnreadError: 415 for what is not one JSON text, 406 for a client that does not take one.
    """
    accept = headers.get(b"accept", b"*/*")
    key = (headers.get(b"content-type", b""), headers.get(b"content-encoding", b""), accept)
    known = _known.get(key)
    if known is not None:
        return known
    check_content(headers)
    if not accepts(accept, b"application/json"):
        raise UnreadError(406, "an answer is application/json or text/event-stream: accept both")
    is_streamable = accepts(accept, b"text/event-stream")
    if len(_known) < _MANY and sum(map(len, key)) <= _LONG:
        _known[key] = is_streamable
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
