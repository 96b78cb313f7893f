"""Session ids: signed tokens with the negotiated values, which every process with the same secret can read.

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

from ....identity.principals_and_scopes import ListName
from ....protocol.jsonrpc import Json
from ....protocol.revisions import Client
from ....storage.encryption_keys import Keys

MAX_LENGTH = 1024
"""The longest id, in characters: proxies and servers commonly bound a header line at 4 to 8 KiB."""

_PURPOSE = "session id 1"  # the number is raised with the format
_MAC_SIZE = 32  # bytes of the signature
_MAX_PAYLOAD = MAX_LENGTH // 4 * 3 - _MAC_SIZE
_MAX_HEAD = (
    400  # bytes of all but the client, so that it does not depend on the client whether a principal fits
)

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


class NewSessionId(NamedTuple):
    """Id of a session that will be opened.

    Attributes:
        id: The id that the client gets.
        token_text: The signed token: the id itself, or the content of the record for a short id.
    """

    id: str
    token_text: str


def sign_token(keys: Keys, token: SessionToken) -> str:
    """Return a token as text, at most 1024 characters of visible ASCII.

    Content that does not fit is left out in this order: information about the client other than name and version,
    capabilities that no protocol version defines, the end of the version and of the name.

    Raises:
        ValueError: `home` and `principal` are too long, about 300 bytes of UTF-8 together.
    """
    payload = _payload(token)
    payload += b" " * (-(len(payload) + _MAC_SIZE) % 3)
    signed = keys.sign(_PURPOSE, payload) + payload
    return binascii.b2a_base64(signed, newline=False).translate(_FROM_BASE64).decode("ascii")


def read_token(keys: Keys, text: str, now: float) -> SessionToken | None:
    """Return the token in a text; None if this server did not sign it, or it has expired.

    Args:
        keys: The keys of the server.
        text: Any text, such as the session id that a client sent.
        now: The time, in Unix seconds.
    """
    if len(text) > MAX_LENGTH or not text.isascii():
        return None
    try:
        signed = binascii.a2b_base64(text.encode("ascii").translate(_TO_BASE64))
    except binascii.Error:
        return None
    # The decoder skips characters that are not of its alphabet: then there are fewer bytes.
    if len(signed) * 4 != len(text) * 3 or not keys.verify(_PURPOSE, signed[_MAC_SIZE:], signed[:_MAC_SIZE]):
        return None
    # Strings of tokens do not repeat: in the cache of the parser they would only hold memory.
    parts = from_json(signed[_MAC_SIZE:], cache_strings="none")
    id_, home, revision, lists, expires, principal, info, capabilities = parts
    if now >= expires:
        return None
    return SessionToken(id_, home, revision, Client(info, capabilities), frozenset(lists), expires, principal)


def is_short_id(text: str) -> bool:
    """Return True if a text has the form of `SessionToken.id`, which no signed token has."""
    return re.fullmatch("[0-9a-f]{32}", text) is not None


def _payload(token: SessionToken) -> bytes:
    head = [token.id, token.home, token.revision, sorted(token.lists), token.expires, token.principal]
    if len(to_json(head)) > _MAX_HEAD:
        raise ValueError(
            "the session id would be too long: home and principal together may have about 300 bytes "
            "of UTF-8. Shorten them"
        )
    info, capabilities = token.client.info, token.client.capabilities
    name, version = info["name"], info["version"]
    standard = _without_unknown(capabilities, _STANDARD)
    names = {"name": name, "version": version}
    for client in ([info, capabilities], [names, capabilities], [names, standard]):
        payload = to_json(head + client)
        if len(payload) <= _MAX_PAYLOAD:
            return payload
    room = _MAX_PAYLOAD - len(to_json([*head, {"name": "", "version": ""}, standard]))
    version = _shorten(version, max(room // 3, room - _json_length(name)))
    name = _shorten(name, room - _json_length(version))
    return to_json([*head, {"name": name, "version": version}, standard])


def _without_unknown(declared: Json, known: Json) -> Json:
    """Return the declared capabilities that are known, with their known settings."""
    found: Json = {}
    for name, settings in known.items():
        value: Json | bool | None = declared.get(name)
        if isinstance(value, dict):
            found[name] = _without_unknown(value, settings)
        elif isinstance(value, bool):
            found[name] = value
    return found


def _shorten(text: str, room: int) -> str:
    """Return the beginning of a text that takes at most `room` bytes in JSON."""
    text = text[:room]
    while (excess := _json_length(text) - room) > 0:
        text = text[: -max(1, excess // 6)]  # a character takes six bytes at most, so this is never too much
    return text


def _json_length(text: str) -> int:
    return len(to_json(text)) - 2
