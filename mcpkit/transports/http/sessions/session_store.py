"""Signed session ids, the record of each session in the storage, and messages between processes about its changes.

A session id is a signed token with the negotiated values, which every process with the same secret can read. If there
is a shared store that outlives the processes, the token is in the record of the session, and the session id is only
`SessionToken.id`: gateways reject ids of more than 128 or 255 characters, or with characters other than letters, digits
and hyphens (microsoft/mcp-gateway#79, maximhq/bifrost#3565).
"""

from __future__ import annotations

import asyncio
import binascii
import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from pydantic_core import from_json, to_json

from ...._utils.exceptions import BusyError
from ....identity.principals_and_scopes import ListName
from ....protocol.jsonrpc import Json
from ....protocol.revisions import Client
from ....storage.encryption_keys import Keys

if TYPE_CHECKING:
    from ....storage.base import Storage

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Session ids
#
# The text of a token is base64url of the signature and a JSON array. It is visible ASCII, as the specification requires
# (basic/transports, "Session Management"). Each content has exactly one text: the number of bytes is a multiple of
# three, so that all bits of the last character are used.

# The longest id, in characters: proxies and servers commonly bound a header line at 4 to 8 KiB.
MAX_LENGTH = 1024

_PURPOSE = "session id 1"  # the number is raised with the format
_MAC_SIZE = 32  # bytes of the signature
_MAX_PAYLOAD = MAX_LENGTH // 4 * 3 - _MAC_SIZE
# Bytes of all but the client, so that it does not depend on the client whether a principal fits.
_MAX_HEAD = 400

_TO_BASE64 = bytes.maketrans(b"-_+/", b"+/  ")
_FROM_BASE64 = bytes.maketrans(b"+/", b"-_")

_TASK_REQUESTS: Json = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}

# The client capabilities that a handshake revision defines: they are kept, whatever else is dropped.
_STANDARD: Json = {
    "roots": {"listChanged": {}},
    "sampling": {"context": {}, "tools": {}},
    "elicitation": {"form": {}, "url": {}},
    "tasks": {"list": {}, "cancel": {}, "requests": _TASK_REQUESTS},
}


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


# Messages between processes

# Seconds until the client is answered although other processes may not know of its action yet.
_ECHO_TIMEOUT = 1.0
_CONFIRM_TIMEOUT = 5.0


class RecordField:
    """Names of the fields of a record. Each process writes only those that it changes."""

    OPEN = "open"  # the session is open
    ENDED = "ended"  # it has ended, if its record was in another storage before
    TOKEN = "token"  # the signed token, if the session id is short
    OWNER = "owner"  # owner of a session that was opened without authentication; see `owner_of`
    LEVEL = "level"  # the log level
    NOTIFIER = "notifier"  # the process with the newest standalone stream, which sends notifications
    URI = "uri:"  # prefix of subscribed URIs
    QUESTION = "question:"  # prefix of the ids of open requests to the client


class MessageKind:
    """Kinds of messages about a session between processes."""

    CHANGED = "changed"  # its record has changed
    CONFIRM = "confirm"  # the same; the notifier must confirm that it has read the record
    CONFIRMED = "confirmed"  # it has: the text of the `CONFIRM` message
    ENDED = "ended"  # the session has ended
    RESPONSE = "response"  # the client has responded to a request of another process: its message
    CANCELLED = "cancelled"  # the client has cancelled a request: the id as JSON
    STANDALONE_MESSAGE = "message"  # a message to send on the newest standalone stream
    STREAM_RESUMED = "resumed"  # the client has resumed a stream at the sender: the name of the stream
    EVENTS_STORED = "events"  # the event store has more events of a stream: its name


class SessionBus:
    """Messages between processes about the sessions of one server, under one topic of the storage.

    It receives messages while there are sessions in this process.

    Args:
        storage: Publishes the messages.
        name: Name of the server.
        process: Id of this process.
    """

    def __init__(self, storage: Storage, name: str, process: str) -> None:
        self.process = process
        self._storage, self._topic = storage, f"{name}/sessions"
        self._loop = asyncio.get_running_loop()
        self._receivers: dict[str, Callable[[str, str], None]] = {}
        self._confirmations: dict[int, asyncio.Future[None]] = {}
        self._count = 0
        self._unsubscribe: Callable[[], None] | None = None

    def add(self, id_: str, receiver: Callable[[str, str], None]) -> None:
        """Call a function with kind and text of each message of other processes about a session, in the loop's thread.

        After lost messages, it is called with `CHANGED`.
        """
        self._receivers[id_] = receiver
        if self._unsubscribe is None:
            self._unsubscribe = self._storage.subscribe(self._topic, self._receive, self._missed)

    def remove(self, id_: str, receiver: Callable[[str, str], None]) -> None:
        """Stop calling a function that was passed to `add`."""
        if self._receivers.get(id_) == receiver:
            del self._receivers[id_]
        if not self._receivers and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None

    # Sending

    async def publish(self, id_: str, kind: str, text: str = "") -> None:
        """Send a message about a session to the other processes.

        Raises:
            OSError: The storage does not answer.
        """
        self._count += 1
        await self._storage.publish(self._topic, f"{self.process} {self._count} {id_} {kind} {text}")

    async def publish_and_wait(self, id_: str, kind: str) -> None:
        """Send a message, and wait with a timeout until it has arrived.

        `CONFIRM` waits for the confirmation. Other messages wait until they have come back to this process, because
        others usually receive them at the same time.

        Raises:
            OSError: The storage does not answer.
        """
        number = self._count + 1  # of this message
        confirmed = self._confirmations[number] = self._loop.create_future()
        try:
            await self.publish(id_, kind, f"{self.process}-{number}")
            if self._unsubscribe is not None:
                timeout = _CONFIRM_TIMEOUT if kind == MessageKind.CONFIRM else _ECHO_TIMEOUT
                await asyncio.wait([confirmed], timeout=timeout)
                if not confirmed.done():
                    text = "other processes did not confirm a change of a session in time, so they may apply it late"
                    logger.debug(text)
        finally:
            del self._confirmations[number]

    # Receiving, in any thread

    def _receive(self, message: str) -> None:
        try:
            process, number, id_, kind, text = message.split(" ", 4)
            if process == self.process:
                if kind != MessageKind.CONFIRM:
                    self._call_soon(self._confirm, int(number))
            elif kind == MessageKind.CONFIRMED:
                sender, _, number = text.partition("-")
                if sender == self.process:
                    self._call_soon(self._confirm, int(number))
            elif id_ in self._receivers:
                self._call_soon(self._deliver, id_, kind, text)
        except ValueError:
            logger.warning(
                "the shared store delivered a message that is not a change of a session; it is ignored. "
                "Check that no other program writes to the store: %.200r",
                message,
            )

    def _missed(self) -> None:
        for id_ in tuple(self._receivers):
            self._call_soon(self._deliver, id_, MessageKind.CHANGED, "")

    def _call_soon(self, function: Callable[..., None], *args: object) -> None:
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            logger.debug("ignored a change of a session, as its event loop is closed")

    # In the event loop

    def _confirm(self, number: int) -> None:
        confirmed = self._confirmations.get(number)
        if confirmed is not None and not confirmed.done():
            confirmed.set_result(None)

    def _deliver(self, id_: str, kind: str, text: str) -> None:
        if (receiver := self._receivers.get(id_)) is not None:
            receiver(kind, text)


# Records


class SessionStore:
    """Records of the sessions of one server.

    Args:
        storage: The storage.
        keys: Keys that sign the tokens.
        bus: Sends messages to other processes.
        ttl: Seconds for which a record lives after a write.
    """

    def __init__(self, storage: Storage, keys: Keys, bus: SessionBus, ttl: float) -> None:
        self.storage, self.bus, self.ttl = storage, bus, ttl
        self._keys = keys

    def new_id(self, token: SessionToken) -> NewSessionId:
        """Return the id of a session that will be opened."""
        text = sign_token(self._keys, token)
        return NewSessionId(token.id if self.storage.is_persistent else text, text)

    async def open(self, id_: NewSessionId, seconds: float) -> SessionRecord:
        """Create the record of a new session. After a failure, there is no record.

        Args:
            id_: Its id.
            seconds: Lifetime in seconds, unless a request follows.

        Raises:
            BusyError: The storage does not answer.
        """
        token = read_token(self._keys, id_.token_text, -math.inf)
        assert token is not None, "the token must be valid, as it was just signed"
        record = SessionRecord(self, token)
        fields = {RecordField.OPEN: "1"}
        if id_.id != id_.token_text:
            fields[RecordField.TOKEN] = id_.token_text
        try:
            await or_busy(self.storage.write(record.key, fields, seconds))
            record.fields = await or_busy(self.storage.read(record.key))
        except BaseException:
            with suppress(OSError):  # then it expires unused
                await self.storage.erase(record.key)
            raise
        return record

    async def find(self, id_: str) -> SessionRecord | None:
        """Return the record of a session, without its fields; None if the id is invalid or has expired.

        Raises:
            BusyError: The storage does not answer.
        """
        text, is_short = id_, self.storage.is_persistent and is_short_id(id_)
        if is_short:
            text = (await or_busy(self.storage.read(self.key(id_)))).get(RecordField.TOKEN, "")
        token = read_token(self._keys, text, time.time())
        if token is None or (is_short and token.id != id_):  # the content of the storage is not trusted
            return None
        record = SessionRecord(self, token)
        if is_short and (newest := sign_token(self._keys, token)) != text:
            # A client keeps its id, so the token is signed again after the secret was replaced.
            await or_busy(self.storage.write(record.key, {RecordField.TOKEN: newest}, self.ttl))
        return record

    def key(self, id_: str) -> str:
        """Return the key of a session's record; see `SessionToken.id`."""
        return f"{self._keys.name}/session/{id_}"


class SessionRecord:
    """The record of one session, as known to one process.

    If the storage does not answer, the methods log that and raise a BusyError, except `read` and `try_save`.

    Args:
        store: Records of the server.
        token: Content of the session id.

    Attributes:
        token: Content of the session id.
        key: Key in the storage.
        fields: Latest known fields, including the changes of this process; a new object after each change.
        changes: Unsaved changes of this process: fields to set, and None for fields to remove.
        extended: Time when the lifetime was last extended, by the event loop's clock.
        read_at: Time when the latest read began, by the same clock.
        is_stale: Whether the record has changed since then.
        writes: Number of starts and ends of writes.
    """

    def __init__(self, store: SessionStore, token: SessionToken) -> None:
        self.token = token
        self.key = store.key(token.id)
        self.fields: Mapping[str, str] = {}
        self.changes: dict[str, str | None] = {}
        self.extended = self.read_at = -math.inf
        self.is_stale, self.writes = False, 0
        self._store = store
        self._recent: dict[str, str | None] = {}  # saved changes that a read in progress may lack

    async def read(self) -> bool:
        """Read the record again; see `update`.

        Raises:
            OSError: The storage does not answer.
        """
        writes, began = self.writes, asyncio.get_running_loop().time()
        self.is_stale = False
        try:
            stored = await self._store.storage.read(self.key)
        except BaseException:
            self.is_stale = True
            raise
        if began < self.read_at:  # a later read has been faster
            return True
        self.read_at = began
        return self.update(stored, writes)

    def update(self, stored: Mapping[str, str], writes: int) -> bool:
        """Process the fields in the storage, without losing changes that are being saved.

        Args:
            stored: The fields.
            writes: The value of `writes` before they were read.

        Returns:
            False if the session has ended.
        """
        if self._recent and writes == self.writes:
            self._recent.clear()
        if self._recent or self.changes:
            stored = _merged(stored, {**self._recent, **self.changes})
        token = self.token
        if token.expires <= time.time():
            return False
        if not (stored is self.fields or (stored and stored == self.fields)):
            must_be_stored = token.home == self._store.storage.store_id
            if RecordField.ENDED in stored or (must_be_stored and RecordField.OPEN not in stored):
                return False
            self.fields = stored
        return True

    async def save(self, announcement: str = MessageKind.CHANGED) -> None:
        """Save the changes of this process, and notify others. After a failure, the changes remain."""
        await or_busy(self.try_save())
        await self.announce(announcement)

    async def try_save(self) -> None:
        """Save the changes of this process.

        Raises:
            OSError: The storage does not answer.
        """
        changes, self.changes = self.changes, {}
        self._recent.update(changes)
        self.writes += 1
        try:
            await self._store.storage.write(self.key, changes, self._store.ttl)
        except BaseException:
            self.changes = {**changes, **self.changes}
            raise
        finally:
            self.writes += 1
        self.fields = _merged(self.fields, changes)

    async def extend(self, now: float) -> None:
        """Extend the lifetime of the record."""
        await or_busy(self._store.storage.write(self.key, {}, self._store.ttl))
        self.extended = now

    async def end(self) -> None:
        """End the session for all processes."""
        token, storage = self.token, self._store.storage
        if token.home == storage.store_id:
            await or_busy(storage.erase(self.key))
        else:  # without a record it would count as one with its state in another storage
            ttl = token.expires - time.time()
            await or_busy(storage.write(self.key, {RecordField.ENDED: "1"}, ttl))
        await self.announce(MessageKind.ENDED)

    async def publish(self, kind: str, text: str = "") -> None:
        """Send a message about the session to other processes."""
        await or_busy(self._store.bus.publish(self.token.id, kind, text))

    async def announce(self, kind: str) -> None:
        """Notify other processes of a change, and wait until they know it. A failure is only logged."""
        try:
            await self._store.bus.publish_and_wait(self.token.id, kind)
        except OSError:  # they notice it at the next request
            logger.exception(
                "the shared store does not answer: other processes were not notified of a change of a session. "
                "They notice it at its next request"
            )


def _merged(fields: Mapping[str, str], changes: Mapping[str, str | None]) -> Mapping[str, str]:
    return {name: text for name, text in {**fields, **changes}.items() if text is not None}


async def or_busy(operation: Awaitable[T]) -> T:
    """Await an operation of the storage.

    Raises:
        BusyError: The storage does not answer, which is logged.
    """
    try:
        return await operation
    except OSError:
        logger.exception(
            "the shared store does not answer, so the state of a session cannot be read or written. The "
            "client must repeat its request later"
        )
        raise BusyError("The state of sessions is not available. Try again later") from None
