"""Messages that are not JSON: which request they belong to, and what can be read all the same."""

from __future__ import annotations

import re

from pydantic_core import from_json

from .jsonrpc import MAX_ID_LENGTH, RequestId, is_id

_BEGINNING = 64 * 1024
"""Bytes that are looked at, which takes some milliseconds; of a longer message those at its end as well."""

_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)'
"""A string of JSON; one without an end goes up to the end of the message, so that nothing is looked at twice."""

_TOKEN = re.compile(rb"(?P<open>[\[{]+)|(?P<close>[\]}]+)|" + _STRING, re.DOTALL)
_ID = rb'"id"\s*:\s*(-?[0-9]{1,19}|"(?:[^"\\]|\\.){0,%d}")\s*' % (6 * MAX_ID_LENGTH)
_ID_MEMBER = re.compile(_ID + rb"[,}]")
_METHOD_MEMBER = re.compile(rb'"method"\s*:\s*"')
_LAST_MEMBERS = re.compile(_ID + rb'(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*\Z')
_END = 8 * MAX_ID_LENGTH
_COLOUR = rb"\x1b\[[0-9;]*m"
_MESSAGE = re.compile(rb'(?:\s|%b)*(?:\{(?:\s|%b)*(?:["}]|\Z)|\[\s*\{)' % (_COLOUR, _COLOUR))
_REPAIRED = re.compile(
    rb"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|(?P<other>\\.)|(?P<colour>%b)" % _COLOUR
)


def looks_like_message(line: bytes) -> bool:
    """Return whether a line begins as a message, or a batch of them, does; `[INFO] ready` and `{'a': 1}` do not."""
    return _MESSAGE.match(line) is not None


def repaired(line: bytes) -> bytes:
    """Return a line with U+FFFD for each half of a surrogate pair, and without the escape sequences of colours.

    Servers in JavaScript that cut a text at a number of UTF-16 units send such halves, which the grammar of JSON has
    (RFC 8259, 8.2). Colours are added around and between the parts of a message; inside a string they are not JSON.
    """
    return _REPAIRED.sub(_repair, line)


def _repair(match: re.Match[bytes]) -> bytes:
    if match["half"] is not None:
        return b"\\ufffd"
    return b"" if match["colour"] is not None else match[0]


def id_of_unreadable(data: bytes) -> RequestId | None:
    """Return the request id of a message that cannot be parsed, if it can be found.

    Args:
        data: A message that is nested too deeply, or is not JSON.

    Returns:
        Member `id` of the outermost object if it has a member `method` too; else None.
    """
    id_, has_method = _outermost(data)
    if id_ is not None:
        return id_ if has_method else None
    is_whole = len(data) <= _BEGINNING
    return None if is_whole or not has_method else _last_id(data)


def id_of_answer(beginning: bytes, ending: bytes) -> RequestId | None:
    """Return the request id of a response that is too long, if it can be found.

    Args:
        beginning: First bytes of the message, which was not stored.
        ending: Last bytes of the message.
    """
    id_, _ = _outermost(beginning)
    return id_ if id_ is not None or not beginning.startswith(b"{") else _last_id(ending)


def is_call(beginning: bytes) -> bool:
    """Return whether a message is a request or a notification, by its first bytes."""
    return _outermost(beginning)[1]


def _outermost(data: bytes) -> tuple[RequestId | None, bool]:
    """Find the member `id` of the outermost object, and whether there is a member `method`, near the beginning."""
    id_: RequestId | None = None
    has_method = False
    depth = 0
    if not data.startswith(b"{"):
        return None, False
    for token in _TOKEN.finditer(data, 0, _BEGINNING):
        if (opened := token["open"]) is not None:
            depth += len(opened)
        elif (closed := token["close"]) is not None:
            depth -= len(closed)
        elif depth == 1 and token[0] == b'"id"':
            member = _ID_MEMBER.match(data, token.start(), _BEGINNING)
            id_ = id_ if member is None else _read(member[1])
        elif depth == 1 and token[0] == b'"method"':
            has_method = has_method or _METHOD_MEMBER.match(data, token.start(), _BEGINNING) is not None
        if depth <= 0 or (has_method and id_ is not None):
            break
    return id_, has_method


def _last_id(data: bytes) -> RequestId | None:
    """Find the member `id` among the last members of the outermost object."""
    last = _LAST_MEMBERS.search(data, max(0, len(data) - _END))
    return None if last is None else _read(last[1])


def _read(text: bytes) -> RequestId | None:
    try:
        value = from_json(text)
    except ValueError:
        return None
    return value if is_id(value) else None
