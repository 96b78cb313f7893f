"""What other processes may need of the event streams of this one, written down in the shared store."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from pydantic_core import from_json, to_json

from ....protocol.jsonrpc import RequestId
from ....protocol.types import Json
from .events import Kept

if TYPE_CHECKING:
    from ....state.keys import Keys
    from ....state.shared import Storage

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
    """What is written of a stream.

    Attributes:
        sent: The number of the latest event.
        is_over: Whether nothing follows.
        id: Of the request that the stream answers.
        parts: What is written apart.
        events: The numbers and messages of the rest, as far as they are kept.
        version: What tells it from what is written next.
    """

    sent: int
    is_over: bool
    id: RequestId | None
    parts: tuple[Part, ...]
    events: tuple[tuple[int, bytes], ...]
    version: str


class Written(Protocol):
    """A stream that is written down."""

    entry: Entry
    request_id: RequestId | None
    is_finished: bool

    @property
    def name(self) -> str:
        """What its ids begin with."""
        ...

    @property
    def session(self) -> str:
        """Of which session it is, as the token has it."""
        ...

    @property
    def sent(self) -> int:
        """The number of its latest event."""
        ...

    @property
    def is_awaited(self) -> bool:
        """Whether others may wait for it, as nobody takes it here."""
        ...

    def kept_after(self, number: int) -> list[Kept]:
        """Return its events after one, as far as they are kept."""
        ...

    async def tell(self) -> None:
        """Tell the others that there is more."""
        ...


class Entry:
    """How far a stream has been written down.

    Attributes:
        version: The version that was written; None before the first one.
        parts: What was written apart, with versions.
        is_lost: Whether another process has ended it, so that nothing more is written.
    """

    __slots__ = ("is_lost", "parts", "version")

    def __init__(self) -> None:
        self.version: str | None = None
        self.parts: dict[Part, str] = {}
        self.is_lost = False

    @property
    def last(self) -> int:
        """The number of the last event that was written apart."""
        return max((part.last for part in self.parts), default=0)


class _Records(Protocol):
    async def get(self, key: str) -> tuple[Json, str] | None: ...
    async def put(self, key: str, value: Json, *, version: str | None, ttl: float) -> str | None: ...
    async def delete(self, key: str, *, version: str) -> bool: ...


class Journal:
    """Writes what streams say into the shared store a moment later, and reads what others have written.

    What is written is what is kept here, so it has the same bounds. Who ends the stream of another one writes a version
    of their own: the other's next one is refused, so that there is one end.

    Args:
        shared: The store.
        keys: What it is sealed with, where the store outlives the process.
        ttl: Seconds for which it is kept after the latest change.
    """

    def __init__(self, shared: Storage, keys: Keys, ttl: float) -> None:
        self._records: _Records
        if shared.is_persistent:
            from ....state.sealed import Sealed

            self._records = Sealed(shared, keys, "events")
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
        """Write a stream down soon, as it has changed."""
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
        """Remove what has been written of a stream, as nobody may come back for it."""
        self._dirty.pop(stream, None)
        self._open.pop(stream, None)
        if not (self._is_off or stream.entry.is_lost):
            self._removed.append(stream)
            self._begin()

    async def flush(self) -> None:
        """Return once all has been written, or cannot be."""
        while (self._dirty or self._removed or self._task is not None) and not self._is_failing:
            if self._task is None:
                self._start()
            if self._task is not None:
                await asyncio.wait([self._task])

    def close(self) -> None:
        """Write nothing more."""
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
                    logger.debug("a part of a stream was written by two processes")
                raise ConnectionError("a part of a stream was written twice")
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
        raise ConnectionError("the record of a stream could not be replaced")

    async def _erase(self, stream: Written) -> None:
        entry, key = stream.entry, f"{stream.session}/{stream.name}"
        try:
            for part, version in entry.parts.items():
                await self._records.delete(f"{key}/{part.first}", version=version)
            if entry.version is not None:
                await self._records.delete(key, version=entry.version)
        except OSError:  # then it expires
            logger.debug("the events of a stream could not be deleted", exc_info=True)

    # Reading

    async def read(self, session: str, name: str) -> Page | None:
        """Return what is written of a stream; None where nothing is, or nothing that can be read.

        Raises:
            OSError: The store does not answer.
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
        """Return the numbers and messages of a stream after one of them, as far as they are kept.

        Raises:
            OSError: The store does not answer.
        """
        events: list[tuple[int, bytes]] = []
        for part in page.parts:
            if part.last > after and (found := await self._get(f"{session}/{name}/{part.first}")) is not None:
                events += _read(found[0]["events"])
        return [each for each in (*events, *page.events) if each[0] > after]

    async def end(self, session: str, name: str, page: Page, message: bytes | None, by: str) -> str | None:
        """End the stream of another process, unless that has said more meanwhile.

        Args:
            session: Its session.
            name: Its name.
            page: What was read of it.
            message: The last that it says; None for nothing.
            by: What this process is called.

        Returns:
            None where it has said more.

        Raises:
            OSError: The store does not answer.
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
        from ....state.sealed import UnreadableRecordError

        try:
            return await self._records.get(key)
        except (UnreadableRecordError, ImportError) as error:
            logger.warning("the events of a stream of another process cannot be read: %s", error)
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
