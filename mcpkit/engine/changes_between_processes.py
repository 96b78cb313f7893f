"""Queues of changes, and the exchange of changes between the processes that share a storage."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from .._utils.concurrency import Listeners, call_in_loop
from .._utils.exceptions import ProtocolError
from ..identity.principals_and_scopes import LIST_NAMES, Audience, Change, Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json, is_object

if TYPE_CHECKING:
    from ..storage.base import PubSub

logger = logging.getLogger(__name__)

# Maximum number of updates that wait for a broker that does not answer. Later ones are not published.
MAX_WAITING = 10_000

# Maximum number of updates for which other processes may report subscribers. The oldest are dropped beyond it.
MAX_QUESTIONS = 1_000

# Kind of a message that requests the subscribers of a URI.
_WHO = "who"

# Principals in one message.
_BATCH = 50

# Exceptions of parsing an invalid message.
_MALFORMED = (ProtocolError, TypeError, KeyError, ValueError, AttributeError)


# Queues


class ChangeQueue:
    """A queue of distinct changes, in the order of their first occurrence.

    Args:
        limit: Maximum number of changes; the three lists are accepted beyond it.
        is_for_all: Whether the queue has changes for several audiences. Then events of a topic for different audiences
            are separate entries, in the order of their last occurrence, so that each client gets the latest one last.
    """

    LIMIT = 256
    """Maximum number of changes that wait for one client."""

    def __init__(self, limit: float = LIMIT, *, is_for_all: bool = False) -> None:
        self._changes: dict[tuple[object, ...], Change] = {}
        self._limit = limit
        self._is_for_all = is_for_all

    def add(self, change: Change) -> bool:
        """Add a change, or merge it with an equal one in the queue; False if the queue is full."""
        slot: tuple[object, ...] = (change.kind, change.key)
        if self._is_for_all and change.params is not None:
            slot = (*slot, change.audience)
            waiting = self._changes.pop(slot, None)
        else:
            waiting = self._changes.get(slot)
        if waiting is None and change.key is not None and len(self._changes) >= self._limit:
            return False
        self._changes[slot] = change if waiting is None else waiting | change
        return True

    def replace_oldest(self, change: Change) -> Change:
        """Replace the oldest update of a resource by another one, and return the oldest."""
        oldest = next(slot for slot, waiting in self._changes.items() if waiting.uri is not None)
        lost = self._changes.pop(oldest)
        self._changes[change.kind, change.key] = change
        return lost

    def pop(self) -> Change:
        """Remove and return the oldest change."""
        return self._changes.pop(next(iter(self._changes)))

    def take(self, limit: int | None = None) -> list[Change]:
        """Remove and return all changes, or at most that many of the oldest."""
        return [self._changes.pop(slot) for slot in tuple(islice(self._changes, limit))]

    def __len__(self) -> int:
        """Return the number of changes."""
        return len(self._changes)


class LoopQueue:
    """A queue that moves changes from any thread into the running event loop.

    Args:
        begin: Called in the loop when the queue is no longer empty, once until `take` has returned nothing.
        limit: See `ChangeQueue`.
    """

    def __init__(self, begin: Callable[[], object], limit: float = float("inf")) -> None:
        self._begin = begin
        self._loop = weakref.ref(asyncio.get_running_loop())
        self._lock = threading.Lock()
        self._queue = ChangeQueue(limit, is_for_all=True)
        self._has_begun = False

    def put(self, change: Change) -> bool:
        """Add a change, from any thread and without blocking; False if the loop has ended."""
        with self._lock:
            self._queue.add(change)
            if self._has_begun:
                return True
            self._has_begun = True
        with suppress(RuntimeError):  # the loop is closed
            if (loop := self._loop()) is not None:
                loop.call_soon_threadsafe(self._begin)
                return True
        logger.debug(
            "discarded a change, as the event loop of its clients is closed. Nothing needs to be done"
        )
        return False

    def take(self, limit: int | None = None) -> list[Change]:
        """Remove and return all changes, or at most that many of the oldest."""
        with self._lock:
            changes = self._queue.take(limit)
            self._has_begun = bool(changes)
        return changes


# Messages of processes


class Publisher:
    """Publishes changes to a broker from the running event loop, from construction until `close`.

    It does not block and does not raise: changes that cannot be published are logged and lost.

    A change for an audience with predicates is published in two steps, as a predicate cannot leave its process: a
    question about the subscribers, which other processes answer, and the change for those in the audience.

    Args:
        changes: Listeners of the changes.
        broker: The broker.
        topic: Topic of the messages.
        origin: Identifier of this object in messages, by which it ignores its own.
    """

    def __init__(self, changes: Listeners[[Change]], broker: PubSub, topic: str, origin: str) -> None:
        self._broker = broker
        self._topic = topic
        self._origin = origin
        self._loop = asyncio.get_running_loop()
        self._queue = LoopQueue(self._begin, MAX_WAITING)
        self._questions: dict[int, _Question] = {}
        self._count = 0
        self._is_failing = False
        self._publishing: asyncio.Task[None] | None = None
        self._repeating: asyncio.Task[None] | None = None
        self._has_replies = False
        self._unsubscribe = [changes.add(self._queue.put)]

    def close(self) -> None:
        """Stop publishing; queued changes are discarded."""
        for unsubscribe in self._unsubscribe:
            unsubscribe()
        for task in (self._publishing, self._repeating):
            if task is not None:
                task.cancel()

    def _begin(self) -> None:
        self._publishing = self._loop.create_task(self._publish_all())

    async def _publish_all(self) -> None:
        while changes := self._queue.take():
            for change in changes:
                for message in self._messages(change):
                    await self._publish(message)
            await asyncio.sleep(0)  # a broker in memory never suspends, and changes may come without end

    def _messages(self, change: Change) -> Iterator[Json]:
        """Yield the messages for a change; if its audience has predicates, the last one is a question."""
        key, audience = change.key, change.audience
        if isinstance(change, _Answer):
            assert audience is not None, "answers have an audience"
            audience = Audience(principals=change.question.not_superseded(audience.principals))
        elif change.params is not None:
            for question in self._questions.values():
                question.note_later(change)
        message: Json = {"origin": self._origin, "what": change.kind, "uri": key}
        if change.params is not None:
            message["params"] = change.params
        if audience is None or key is None:
            yield message
            return
        if audience.ids or audience.principals:
            yield {**message, "to": {"ids": list(audience.ids), "principals": _encode(audience.principals)}}
        if audience.predicates:
            if not self._has_replies:
                self._has_replies = True
                replies = _replies(self._topic, self._origin)
                self._unsubscribe.append(self._broker.subscribe(replies, self._receive, self._missed))
            self._count += 1
            question = self._questions[self._count] = _Question(self._count, change, audience)
            if len(self._questions) > MAX_QUESTIONS:
                del self._questions[next(iter(self._questions))]
            yield question.message(self._origin)

    def _receive(self, message: str) -> None:
        """Receive subscribers of another process, and publish the change for those in its audience."""
        try:
            answer = jsonrpc.decode(message.encode())
            question = self._questions.get(answer["number"])
            principals = _decode(answer["principals"])
        except _MALFORMED:
            logger.warning(
                "ignored a message in the shared store that is not a list of principals: %.200r. Run the same version "
                "of mcpkit in all processes",
                message,
            )
            return
        if question is not None and (recipients := question.new_recipients(principals)):
            self._queue.put(_Answer(question, recipients))

    def _missed(self) -> None:
        """Repeat the questions, as answers were lost; from any thread."""

        async def repeat() -> None:
            for question in tuple(self._questions.values()):
                await self._publish(question.message(self._origin))
            self._repeating = None

        def begin() -> None:
            if self._repeating is None:
                self._repeating = self._loop.create_task(repeat())

        call_in_loop(self._loop, begin)

    async def _publish(self, message: Json) -> None:
        try:
            if message["what"] == _WHO:
                await self._broker.listening()  # to the answers
            await self._broker.publish(self._topic, jsonrpc.encode(message).decode())
        except Exception:
            if not self._is_failing:
                logger.exception(
                    "the shared store does not answer: other processes miss changes of this one until it does. "
                    "Check the store"
                )
            self._is_failing = True
        else:
            self._is_failing = False


class _Question:
    """A change with predicates in its audience, for which other processes report their subscribers.

    Args:
        number: Number of the question.
        change: The change.
        audience: Audience of the change.
    """

    def __init__(self, number: int, change: Change, audience: Audience) -> None:
        self.number = number
        self.change = change
        self._audience = audience
        self._recipients: frozenset[Principal] = frozenset()
        self._later: Audience | None = Audience()

    def message(self, origin: str) -> Json:
        """Return the message that requests the subscribers."""
        kind, key = self.change.kind, self.change.key
        return {"origin": origin, "what": _WHO, "uri": key, "of": kind, "number": self.number}

    def new_recipients(self, principals: Iterable[Principal]) -> frozenset[Principal]:
        """Return the principals that are in the audience and were not returned before."""
        found = frozenset(filter(self._audience.holds, principals)) - self._recipients
        self._recipients |= found
        return found

    def note_later(self, change: Change) -> None:
        """Record a later change of the same key; its audience must not get this change after it."""
        if change == self.change and self._later is not None:
            self._later = None if change.audience is None else self._later | change.audience

    def not_superseded(self, principals: Iterable[Principal]) -> frozenset[Principal]:
        """Return the principals that are in no audience of a later change."""
        later = self._later
        return frozenset(() if later is None else (each for each in principals if not later.holds(each)))


class _Answer(Change):
    """A change for subscribers that another process reported."""

    def __init__(self, question: _Question, recipients: frozenset[Principal]) -> None:
        change = question.change
        super().__init__(change.kind, change.key, Audience(principals=recipients), change.params)
        self.question = question

    def __or__(self, other: Change) -> Change:
        """Merge two changes. For topics, the later one for the same principals replaces the other."""
        if self.params is None:
            return super().__or__(other)
        is_older = isinstance(other, _Answer) and other.question.number < self.question.number
        return self if is_older else other


class Receiver:
    """Receives the changes of other processes for the running event loop.

    Args:
        broker: The broker.
        topic: Topic of the messages.
        origin: Identifier of this process in messages, by which it ignores its own.
        deliver: Takes the changes, in any thread.
        principals: Returns the users that would be notified of a change here, if its audience were everyone; called in
            the loop.
    """

    def __init__(
        self,
        broker: PubSub,
        topic: str,
        origin: str,
        deliver: Callable[[Change], object],
        principals: Callable[[Change], Collection[Principal]],
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._origin = origin
        self._deliver = deliver
        self._principals = principals
        self._loop = asyncio.get_running_loop()
        self._answering: set[asyncio.Task[None]] = set()

    def receive(self, message: str) -> None:
        """Receive a message, in any thread."""
        try:
            fields = jsonrpc.decode(message.encode())
            origin, what, uri = fields["origin"], fields["what"], fields["uri"]
            params, to, audience = fields.get("params"), fields.get("to"), None
            if to is not None:
                audience = Audience(frozenset(to["ids"]), frozenset(_decode(to["principals"])))
            kind, number = (fields["of"], fields["number"]) if what == _WHO else (what, 0)
        except _MALFORMED:
            logger.warning(
                "ignored a message in the shared store that is not a change: %.200r. Run the same version of mcpkit in "
                "all processes",
                message,
            )
            return
        if origin == self._origin:
            return
        if uri is None:
            is_change = what in LIST_NAMES
        elif isinstance(kind, str) and kind.startswith("notifications/"):
            is_change = isinstance(uri, str) and (what == _WHO or is_object(params))
        else:
            is_change, params = isinstance(uri, str) and kind == "resource", None
        if is_change and what == _WHO:
            call_in_loop(self._loop, self._answer, origin, number, Change(kind, uri))
        elif is_change:
            self._deliver(Change(kind, uri, audience, params))

    def _answer(self, origin: str, number: int, change: Change) -> None:
        principals = list(self._principals(change))

        async def publish() -> None:
            for start in range(0, len(principals), _BATCH):
                answer = {"number": number, "principals": _encode(principals[start : start + _BATCH])}
                try:
                    await self._broker.publish(_replies(self._topic, origin), jsonrpc.encode(answer).decode())
                except Exception:
                    logger.exception(
                        "the shared store does not answer: clients of this process miss an update of another "
                        "process. Check the store"
                    )
                    return

        if principals:
            task = self._loop.create_task(publish())
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)


def _encode(principals: Iterable[Principal]) -> list[list[Any]]:
    """Return principals in the form of messages, without the claims of their tokens, which may be large."""
    return [[each.id, sorted(each.scopes), each.client_id, each.issuer, each.subject] for each in principals]


def _decode(principals: Any) -> list[Principal]:
    return [
        Principal(id_, scopes, client_id=client_id, issuer=issuer, subject=subject)
        for id_, scopes, client_id, issuer, subject in principals
    ]


def _replies(topic: str, origin: str) -> str:
    """Return the topic of the answers to a process."""
    return f"{topic}/{origin}"
