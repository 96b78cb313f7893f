"""Token of a session with the negotiated values, signed, so that any process with the same secret can read it.

The token is the session id, unless there is a shared store that outlives the processes. Then the token is in the record
of the session, and the session id is only `SessionToken.id`: gateways reject ids of more than 128 or 255 characters, or
with characters other than letters, digits and hyphens (microsoft/mcp-gateway#79, maximhq/bifrost#3565).

The text is base64url of the signature and a JSON array. It is visible ASCII, as the specification requires
(basic/transports, "Session Management"). Each content has exactly one text: the number of bytes is a multiple of three,
so that all bits of the last character are used.
"""

from __future__ import annotations

import binascii
import re
from typing import NamedTuple

from pydantic_core import from_json, to_json

from ....identity.principal import ListName
from ....protocol.eras import Client
from ....protocol.types import Json
from ....storage.encryption_keys import Keys

MAX_LENGTH = 1024
"""The longest id, in characters: proxies and servers commonly bound a header line at 4 to 8 KiB."""

_PURPOSE = "session id 1"  # the number goes up with the format
_MAC = 32
_ROOM = MAX_LENGTH // 4 * 3 - _MAC
_HEAD = 400  # bytes for all but the client, so that a principal fits or not whoever the client is

_TO_BASE64 = bytes.maketrans(b"-_+/", b"+/  ")
_FROM_BASE64 = bytes.maketrans(b"+/", b"-_")

_STANDARD: Json = {
    "roots": {"listChanged": {}},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {
        "list": {},
        "cancel": {},
        "requests": {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}},
    },
}
"""The client capabilities that a handshake revision defines: they are kept, whatever else is dropped."""


class SessionToken(NamedTuple):
    """Content of a session id.

    Attributes:
        id: Unguessable identifier: 16 random bytes as 32 hexadecimal digits.
        home: The `PubSub.store_id` of the store with the other state of the session.
        revision: The negotiated protocol version.
        client: The client: its name and version, and as much of its information and capabilities as fits.
        lists: Capabilities lists, of `tools`, `prompts`, `resources`.
        expires: End of the session, in Unix seconds.
        principal: Owner of the session, if requests are authenticated; not a name, because a reader of the id can see
            it.
    """

    id: str
    home: str
    revision: str
    client: Client
    lists: frozenset[ListName]
    expires: float
    principal: str | None = None


class Minted(NamedTuple):
    """The id of a session to come.

    Attributes:
        id: The id, as the client gets it.
        text: The signed token, which is the id itself unless a lasting store is shared.
    """

    id: str
    text: str


def issue(keys: Keys, token: SessionToken) -> str:
    """Return the session id, at most 1024 characters of visible ASCII.

    Content that does not fit is left out in this order: information about the client other than name and version,
    capabilities that no protocol version defines, the end of the version and of the name.

    Raises:
        ValueError: `home` and `principal` are too long, about 300 bytes of UTF-8 together.
    """
    payload = _payload(token)
    payload += b" " * (-(len(payload) + _MAC) % 3)
    signed = keys.sign(_PURPOSE, payload) + payload
    return binascii.b2a_base64(signed, newline=False).translate(_FROM_BASE64).decode("ascii")


def read(keys: Keys, text: str, now: float) -> SessionToken | None:
    """Return the token of a session id; None if it was not signed by this server, or has expired.

    Args:
        keys: The keys of the server.
        text: The session id that a client sent; any text.
        now: The time, in Unix seconds.
    """
    signed = _signed(text)
    if signed is None or not keys.verify(_PURPOSE, signed[_MAC:], signed[:_MAC]):
        return None
    return _said(signed, now)


def is_short(text: str) -> bool:
    """Return True if a text has the form of `SessionToken.id`, which no signed token has."""
    return re.fullmatch("[0-9a-f]{32}", text) is not None


def read_known(text: str, now: float) -> SessionToken | None:
    """Return the token of an id with a signature that was verified before; None if it has expired."""
    signed = _signed(text)
    return None if signed is None else _said(signed, now)


def is_newest(keys: Keys, text: str) -> bool:
    """Return True if a valid id was signed under the newest secret."""
    signed = _signed(text)
    return signed is not None and keys.sign(_PURPOSE, signed[_MAC:]) == signed[:_MAC]


def _signed(text: str) -> bytes | None:
    """Return the signature and the signed content; None for a text of another form."""
    if len(text) > MAX_LENGTH or not text.isascii():
        return None
    try:
        signed = binascii.a2b_base64(text.encode("ascii").translate(_TO_BASE64))
    except binascii.Error:
        return None
    # The decoder skips characters that are not of its alphabet: then there are fewer bytes.
    return signed if len(signed) * 4 == len(text) * 3 else None


def _said(signed: bytes, now: float) -> SessionToken | None:
    # Strings of tokens do not come again: kept in the parser's cache, they would hold memory all over the heap.
    parts = from_json(signed[_MAC:], cache_strings="none")
    id_, home, revision, lists, expires, principal, info, capabilities = parts
    if now >= expires:
        return None
    return SessionToken(id_, home, revision, Client(info, capabilities), frozenset(lists), expires, principal)


def _payload(token: SessionToken) -> bytes:
    head = [token.id, token.home, token.revision, sorted(token.lists), token.expires, token.principal]
    if len(to_json(head)) > _HEAD:
        raise ValueError(
            "the session id would be too long: home and principal together may have about 300 bytes "
            "of UTF-8. Shorten them"
        )
    info, capabilities = token.client.info, token.client.capabilities
    name, version = info["name"], info["version"]
    identity = {"name": name, "version": version}
    standard = _standard(capabilities, _STANDARD)
    for client in ([info, capabilities], [identity, capabilities], [identity, standard]):
        payload = to_json(head + client)
        if len(payload) <= _ROOM:
            return payload
    room = _ROOM - len(to_json([*head, {"name": "", "version": ""}, standard]))
    version = _cut(version, max(room // 3, room - _size(name)))
    name = _cut(name, room - _size(version))
    return to_json([*head, {"name": name, "version": version}, standard])


def _standard(declared: Json, known: Json) -> Json:
    kept: Json = {}
    for name, below in known.items():
        value: Json | bool | None = declared.get(name)
        if isinstance(value, dict):
            kept[name] = _standard(value, below)
        elif isinstance(value, bool):
            kept[name] = value
    return kept


def _cut(text: str, room: int) -> str:
    text = text[:room]
    while (excess := _size(text) - room) > 0:
        text = text[: -max(1, excess // 6)]  # a character takes six bytes at most, so this is never too much
    return text


def _size(text: str) -> int:
    return len(to_json(text)) - 2
