"""State of sessions that processes share: a record of each session in the storage, and messages about its changes."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from ...._utils.exceptions import BusyError
from .session_id import NewSessionId, SessionToken, is_short_id, read_token, sign_token

if TYPE_CHECKING:
    from ....storage.base import Storage
    from ....storage.encryption_keys import Keys

logger = logging.getLogger(__name__)

T = TypeVar("T")

_ECHO_TIMEOUT = (
    1.0  # seconds until the client is answered although other processes may not know of its action yet
)
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
        self._storage = storage
        self._topic = f"{name}/sessions"
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
                    logger.debug(
                        "other processes did not confirm a change of a session in time, so they may apply it late"
                    )
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


class SessionStore:
    """Records of the sessions of one server.

    Args:
        storage: The storage.
        keys: Keys that sign the tokens.
        bus: Sends messages to other processes.
        ttl: Seconds for which a record lives after a write.
    """

    def __init__(self, storage: Storage, keys: Keys, bus: SessionBus, ttl: float) -> None:
        self.storage = storage
        self.bus = bus
        self.ttl = ttl
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
            await busy_without_storage(self.storage.write(record.key, fields, seconds))
            record.fields = await busy_without_storage(self.storage.read(record.key))
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
            text = (await busy_without_storage(self.storage.read(self.key(id_)))).get(RecordField.TOKEN, "")
        token = read_token(self._keys, text, time.time())
        if token is None or (is_short and token.id != id_):  # the content of the storage is not trusted
            return None
        record = SessionRecord(self, token)
        if is_short and (newest := sign_token(self._keys, token)) != text:
            # A client keeps its id, so the token is signed again after the secret was replaced.
            await busy_without_storage(self.storage.write(record.key, {RecordField.TOKEN: newest}, self.ttl))
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
        self.is_stale = False
        self.writes = 0
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
        if stored is self.fields or (stored and stored == self.fields):
            return True
        if RecordField.ENDED in stored or (
            RecordField.OPEN not in stored and token.home == self._store.storage.store_id
        ):
            return False
        self.fields = stored
        return True

    async def save(self, announcement: str = MessageKind.CHANGED) -> None:
        """Save the changes of this process, and notify others. After a failure, the changes remain."""
        await busy_without_storage(self.try_save())
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
        await busy_without_storage(self._store.storage.write(self.key, {}, self._store.ttl))
        self.extended = now

    async def end(self) -> None:
        """End the session for all processes."""
        token, storage = self.token, self._store.storage
        if token.home == storage.store_id:
            await busy_without_storage(storage.erase(self.key))
        else:  # without a record it would count as one with its state in another storage
            ttl = token.expires - time.time()
            await busy_without_storage(storage.write(self.key, {RecordField.ENDED: "1"}, ttl))
        await self.announce(MessageKind.ENDED)

    async def publish(self, kind: str, text: str = "") -> None:
        """Send a message about the session to other processes."""
        await busy_without_storage(self._store.bus.publish(self.token.id, kind, text))

    async def try_publish(self, kind: str, text: str) -> None:
        """Send a message about the session to other processes; a failure is only logged."""
        with suppress(BusyError):
            await self.publish(kind, text)

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


async def busy_without_storage(operation: Awaitable[T]) -> T:
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
