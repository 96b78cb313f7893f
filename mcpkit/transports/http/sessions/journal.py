"""Event streams of this process in the shared store, for other processes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pydantic_core import from_json, to_json

from ....protocol.jsonrpc import RequestId
from ....protocol.types import Json
from .events import Kept

if TYPE_CHECKING:
    from ....storage.base import Storage
    from ....storage.encryption_keys import Keys

logger = logging.getLogger(__name__)

_DELAY = 0.02
"""Seconds for which events are collected, so that a short response is one write."""

_PAUSE = 1.0
"""Seconds until it is tried again where the store does not answer."""

_TRIES = 3

_AT_A_TIME = 16
"""Streams that are written at the same time."""

_PART = 16 * 1024
"""Bytes of messages from which on they are written apart, and not again with the next one."""


class Part(NamedTuple):
    """Events of a stream that are written apart from the others: the numbers of the first and the last."""

    first: int
    last: int


class Page(NamedTuple):
    """Stored state of a stream.

    Attributes:
        sent: Number of the latest event.
        is_over: Whether the stream has ended.
        id: Id of the request that the stream answers.
        parts: Events that are stored separately.
        events: Numbers and messages of the other events, as far as they are kept.
        version: Version of this state in the store.
    """

    sent: int
    is_over: bool
    id: RequestId | None
    parts: tuple[Part, ...]
    events: tuple[tuple[int, bytes], ...]
    version: str


class Written(Protocol):
    """A stream in the journal."""

    entry: Entry
    request_id: RequestId | None
    is_finished: bool

    @property
    def name(self) -> str:
        """Prefix of its event ids."""
        ...

    @property
    def session(self) -> str:
        """Id of its session, as in the token."""
        ...

    @property
    def sent(self) -> int:
        """The number of its latest event."""
        ...

    @property
    def is_awaited(self) -> bool:
        """True if other processes may wait for it, because it has no connection here."""
        ...

    def kept_after(self, number: int) -> list[Kept]:
        """Return its stored events after one of them."""
        ...

    async def tell(self) -> None:
        """Notify other processes of new events."""
        ...


class Entry:
    """Progress of writing a stream to the store.

    Attributes:
        version: The stored version; None before the first.
        parts: Events that were stored separately, with versions.
        is_lost: Whether another process has ended the stream, so that no more is written.
    """

    __slots__ = ("is_lost", "parts", "version")

    def __init__(self) -> None:
        self.version: str | None = None
        self.parts: dict[Part, str] = {}
        self.is_lost = False

    @property
    def last(self) -> int:
        """Number of the last event that was stored separately."""
        return max((part.last for part in self.parts), default=0)


class _Records(Protocol):
    async def get(self, key: str) -> tuple[Json, str] | None: ...
    async def put(self, key: str, value: Json, *, version: str | None, ttl: float) -> str | None: ...
    async def delete(self, key: str, *, version: str) -> bool: ...


class Journal:
    """Writes events of streams to the shared store, with a short delay, and reads those of other processes.

    It writes the events that this process keeps, so the same limits apply. A process that ends the stream of another
    one writes a version of its own. The next write of the other process is rejected, so that the stream ends once.

    Args:
        shared: The store.
        keys: Keys for encryption, if the store outlives the process.
        ttl: Seconds for which data is kept after the latest change.
    """

    def __init__(self, shared: Storage, keys: Keys, ttl: float) -> None:
        self._records: _Records
        if shared.is_persistent:
            from ....storage.encryption_keys import EncryptedRecords

            self._records = EncryptedRecords(shared, keys, "events")
        else:
            self._records = _Plain(shared, f"{keys.name}/events/")
        self._ttl = ttl
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[Written, None] = {}
        self._open: dict[Written, None] = {}  # those that go on
        self._removed: list[Written] = []
        self._task: asyncio.Task[None] | None = None
        self._starting: asyncio.TimerHandle | None = None
        self._renewing: asyncio.TimerHandle | None = None
        self._is_off = False
        self._is_failing = False

    # Writing

    def note(self, stream: Written) -> None:
        """Write a changed stream soon."""
        if self._is_off or stream.entry.is_lost:
            return
        self._dirty[stream] = None
        if stream.is_finished:
            self._open.pop(stream, None)
        elif stream.request_id is not None:  # a call may say nothing for long
            self._open[stream] = None
            if self._renewing is None:
                self._renewing = self._loop.call_later(self._ttl / 3, self._renew)
        self._begin()

    def remove(self, stream: Written) -> None:
        """Remove a stream from the store, because no client may reconnect to it."""
        self._dirty.pop(stream, None)
        self._open.pop(stream, None)
        if not (self._is_off or stream.entry.is_lost):
            self._removed.append(stream)
            self._begin()

    async def flush(self) -> None:
        """Wait until everything has been written, or cannot be."""
        while (self._dirty or self._removed or self._task is not None) and not self._is_failing:
            if self._task is None:
                self._start()
            if self._task is not None:
                await asyncio.wait([self._task])

    def close(self) -> None:
        """Stop writing."""
        self._is_off = True
        if self._task is not None:
            self._task.cancel()
        for timer in (self._starting, self._renewing):
            if timer is not None:
                timer.cancel()

    def _begin(self) -> None:
        if self._task is None and self._starting is None:
            self._starting = self._loop.call_later(_PAUSE if self._is_failing else _DELAY, self._start)

    def _start(self) -> None:
        if self._starting is not None:
            self._starting.cancel()
            self._starting = None
        if self._task is None and not self._is_off:
            self._task = self._loop.create_task(self._run())

    def _renew(self) -> None:
        self._renewing = None
        for stream in tuple(self._open):
            self.note(stream)

    async def _run(self) -> None:
        self._is_failing = False
        try:
            while (self._dirty or self._removed) and not self._is_failing:
                dirty, removed = list(self._dirty)[:_AT_A_TIME], self._removed[:_AT_A_TIME]
                del self._removed[: len(removed)]
                for stream in dirty:
                    del self._dirty[stream]
                await asyncio.gather(*map(self._write, dirty), *map(self._erase, removed))
        except ImportError as error:
            self._is_off = True
            self._dirty.clear()
            logger.warning(
                "events are not stored for other processes, so clients can only resume a stream at the "
                "process that served it: %s",
                error,
            )
        finally:
            self._task = None
        if self._dirty or self._removed:
            self._begin()

    async def _write(self, stream: Written) -> None:
        try:
            await self._put(stream)
            if stream.is_awaited:
                await stream.tell()
        except OSError:
            if not self._is_failing:
                logger.exception(
                    "the shared store does not answer: events are stored later, and until then other "
                    "processes cannot resume the streams of this one"
                )
            self._is_failing = True
            if not stream.entry.is_lost:
                self._dirty[stream] = None

    async def _put(self, stream: Written) -> None:
        entry, key = stream.entry, f"{stream.session}/{stream.name}"
        kept = stream.kept_after(entry.last)
        if sum(len(each.message) for each in kept) > _PART:
            part = Part(kept[0].number, kept[-1].number)
            version = await self._records.put(
                f"{key}/{part.first}", {"events": _said(kept)}, version=None, ttl=self._ttl
            )
            if version is None:  # it was written before, and the answer to that was lost
                found = await self._get(f"{key}/{part.first}")
                if found is not None and not await self._records.delete(
                    f"{key}/{part.first}", version=found[1]
                ):
                    logger.debug("another process has stored the same part of a stream; it is stored again")
                raise ConnectionError("a part of a stream is stored already. mcpkit tries again")
            entry.parts[part] = version
            kept = []
        oldest = min((each.number for each in stream.kept_after(0)), default=stream.sent + 1)
        for part in [part for part in entry.parts if part.last < oldest]:
            await self._records.delete(f"{key}/{part.first}", version=entry.parts.pop(part))
        page: Json = {
            "sent": stream.sent,
            "over": stream.is_finished,
            "id": stream.request_id,
            "parts": [list(part) for part in entry.parts],
            "events": _said(kept),
        }
        for _ in range(_TRIES):
            version = await self._records.put(key, page, version=entry.version, ttl=self._ttl)
            if version is not None:
                entry.version = version
                return
            found = await self._get(key)
            if found is not None and "by" in found[0]:
                entry.is_lost = True
                self._open.pop(stream, None)
                return
            entry.version = None if found is None else found[1]  # the answer to an earlier one was lost
        raise ConnectionError(
            "the record of a stream could not be replaced, as it was changed meanwhile. mcpkit tries again"
        )

    async def _erase(self, stream: Written) -> None:
        entry, key = stream.entry, f"{stream.session}/{stream.name}"
        try:
            for part, version in entry.parts.items():
                await self._records.delete(f"{key}/{part.first}", version=version)
            if entry.version is not None:
                await self._records.delete(key, version=entry.version)
        except OSError:  # then it expires
            logger.debug(
                "the events of a stream could not be deleted; they expire by themselves", exc_info=True
            )

    # Reading

    async def read(self, session: str, name: str) -> Page | None:
        """Return the stored state of a stream; None if there is none, or it is unreadable.

        Raises:
            OSError: The store does not respond.
        """
        found = await self._get(f"{session}/{name}")
        if found is None:
            return None
        page, version = found
        return Page(
            page["sent"],
            page["over"],
            page["id"],
            tuple(Part(*part) for part in page["parts"]),
            _read(page["events"]),
            version,
        )

    async def events(self, session: str, name: str, page: Page, after: int) -> list[tuple[int, bytes]]:
        """Return the stored numbers and messages of a stream after one of its events.

        Raises:
            OSError: The store does not respond.
        """
        events: list[tuple[int, bytes]] = []
        for part in page.parts:
            if part.last > after and (found := await self._get(f"{session}/{name}/{part.first}")) is not None:
                events += _read(found[0]["events"])
        return [each for each in (*events, *page.events) if each[0] > after]

    async def end(self, session: str, name: str, page: Page, message: bytes | None, by: str) -> str | None:
        """End the stream of another process, unless that has sent more meanwhile.

        Args:
            session: Its session.
            name: Its name.
            page: Its state as read.
            message: The last message; None for none.
            by: Name of this process.

        Returns:
            The new version; None if the other process has sent more.

        Raises:
            OSError: The store does not respond.
        """
        sent = page.sent + (message is not None)
        last = [] if message is None else [(sent, message)]
        value: Json = {
            "sent": sent,
            "over": True,
            "id": page.id,
            "parts": [list(part) for part in page.parts],
            "events": [[number, text.decode()] for number, text in (*page.events, *last)],
            "by": by,
        }
        key = f"{session}/{name}"
        return await self._records.put(key, value, version=page.version, ttl=self._ttl)

    async def _get(self, key: str) -> tuple[Json, str] | None:
        from ....storage.encryption_keys import UnreadableRecordError

        try:
            return await self._records.get(key)
        except (UnreadableRecordError, ImportError) as error:
            logger.warning(
                "the events of a stream of another process cannot be read, so a client cannot resume "
                "it here: %s",
                error,
            )
            return None


class _Plain:
    """Records of JSON in a store that ends with the process."""

    def __init__(self, shared: Storage, prefix: str) -> None:
        self._shared = shared
        self._prefix = prefix

    async def get(self, key: str) -> tuple[Json, str] | None:
        stored = await self._shared.get(self._prefix + key)
        return None if stored is None else (from_json(stored.value, cache_strings="none"), stored.version)

    async def put(self, key: str, value: Json, *, version: str | None, ttl: float) -> str | None:
        return await self._shared.put(self._prefix + key, to_json(value), version=version, ttl=ttl)

    async def delete(self, key: str, *, version: str) -> bool:
        return await self._shared.delete(self._prefix + key, version=version)


def _said(kept: list[Kept]) -> list[list[object]]:
    return [[each.number, each.message.decode()] for each in kept]


def _read(events: list[tuple[int, str]]) -> tuple[tuple[int, bytes], ...]:
    return tuple((number, text.encode()) for number, text in events)
