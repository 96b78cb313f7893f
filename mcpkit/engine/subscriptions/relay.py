"""Exchange of changes between the processes that share a storage."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..._utils.concurrency import Listeners
from ..._utils.exceptions import ProtocolError
from ...identity.audience import Audience
from ...identity.change import LIST_NAMES, Change
from ...identity.principal import Principal
from ...protocol import jsonrpc
from ...protocol.jsonrpc import is_object
from ...protocol.types import Json
from .mailbox import Mailbox

if TYPE_CHECKING:
    from ...storage.base import PubSub

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000
"""Maximum number of updates that wait for a broker that does not answer. Later ones are not published."""

MOST_ASKED = 1_000
"""Maximum number of updates for which other processes may still report listeners. The oldest are dropped beyond it."""

_WHO = "who"
"""Kind of a message that requests the subscribers of a URI."""

_AT_A_TIME = 50
"""Principals in one message."""


class Publisher:
    """Publishes changes to a broker from the running event loop, from construction until `close`.

    It does not block and does not raise: changes that cannot be published are logged and lost.

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
        self._mailbox = Mailbox(self._begin, MOST_WAITING)
        self._asked: dict[int, _Asked] = {}
        self._count = 0
        self._is_failing = False
        self._task: asyncio.Task[None] | None = None
        self._asking: asyncio.Task[None] | None = None
        self._ends = [changes.add(self._mailbox.put)]
        self._hears_replies = False

    def close(self) -> None:
        """Stop publishing; queued changes are discarded."""
        for end in self._ends:
            end()
        for task in (self._task, self._asking):
            if task is not None:
                task.cancel()

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._publish())

    async def _publish(self) -> None:
        while changes := self._mailbox.take():
            for change in changes:
                for message in self._messages(change):
                    await self._publish_one(message)
            await asyncio.sleep(0)  # a broker in memory never suspends, and changes may come without end

    def _messages(self, change: Change) -> Iterator[Json]:
        """Return the messages for a change.

        If its audience has predicates, one message requests the subscribers of other processes.
        """
        key, audience = change.key, change.audience
        if isinstance(change, _Late):
            assert audience is not None, "late changes have an audience"
            audience = Audience(principals=change.asked.left_of(audience.principals))
        elif change.params is not None:
            for asked in self._asked.values():
                asked.is_followed_by(change)
        message: Json = {"origin": self._origin, "what": change.kind, "uri": key}
        told = message if change.params is None else {**message, "params": change.params}
        if audience is None or key is None:
            yield told
            return
        if audience.ids or audience.principals:
            yield {**told, "to": {"ids": list(audience.ids), "principals": _written(audience.principals)}}
        if audience.predicates:
            if not self._hears_replies:
                self._hears_replies = True
                replies = _replies(self._topic, self._origin)
                self._ends.append(self._broker.subscribe(replies, self._told, self._missed))
            self._count += 1
            asked = self._asked[self._count] = _Asked(self._count, change, audience)
            if len(self._asked) > MOST_ASKED:
                del self._asked[next(iter(self._asked))]
            yield self._question(asked)

    def _question(self, asked: _Asked) -> Json:
        kind, key = asked.change.kind, asked.change.key
        return {"origin": self._origin, "what": _WHO, "uri": key, "of": kind, "number": asked.number}

    def _told(self, message: str) -> None:
        """Read a list of subscribers of another process, and send the change to those in its audience."""
        try:
            told = jsonrpc.decode(message.encode())
            asked = self._asked.get(told["number"])
            principals = _read(told["principals"])
        except _MALFORMED:
            logger.warning(
                "ignored a message in the shared store that is not a list of principals: %.200r. Run the same version "
                "of mcpkit in all processes",
                message,
            )
            return
        if asked is not None:
            meant = asked.meant_of(principals)
            if meant:
                self._mailbox.put(_Late(asked, meant))

    def _missed(self) -> None:
        """Repeat the questions, as responses were lost; from any thread."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ask_again)

    def _ask_again(self) -> None:
        if self._asking is None:
            self._asking = self._loop.create_task(self._ask_all())

    async def _ask_all(self) -> None:
        for asked in tuple(self._asked.values()):
            await self._publish_one(self._question(asked))
        self._asking = None

    async def _publish_one(self, message: Json) -> None:
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


class _Asked:
    """A change with predicates in its audience, for which other processes report their subscribers.

    Args:
        number: Number of the question.
        change: The change.
        audience: Audience of the change.
    """

    def __init__(self, number: int, change: Change, audience: Audience) -> None:
        self.number = number
        self.change = change
        self.audience = audience
        self._later: Audience | None = Audience()
        self._meant: frozenset[Principal] = frozenset()

    def meant_of(self, principals: Iterable[Principal]) -> frozenset[Principal]:
        """Return the principals that are in the audience and were not returned before."""
        found = frozenset(filter(self.audience.holds, principals)) - self._meant
        self._meant |= found
        return found

    def is_followed_by(self, change: Change) -> None:
        """Record a later change of the same key; its audience must not get this change after it."""
        if change == self.change and self._later is not None:
            self._later = None if change.audience is None else self._later | change.audience

    def left_of(self, principals: Iterable[Principal]) -> frozenset[Principal]:
        """Return the principals that are in no audience of a later change."""
        later = self._later
        return frozenset(() if later is None else (each for each in principals if not later.holds(each)))


class _Late(Change):
    """A change for subscribers that other processes reported."""

    def __init__(self, asked: _Asked, meant: frozenset[Principal]) -> None:
        change = asked.change
        super().__init__(change.kind, change.key, Audience(principals=meant), change.params)
        self.asked = asked

    def __or__(self, other: Change) -> Change:
        """Merge two changes. For topics, the later one for the same principals replaces the other."""
        if self.params is None:
            return super().__or__(other)
        return self if isinstance(other, _Late) and other.asked.number < self.asked.number else other


class Hearing:
    """Receives the changes of other processes for the running event loop.

    Args:
        broker: The broker.
        topic: Topic of the messages.
        origin: Identifier of this process in messages, by which it ignores its own.
        tell: Takes the changes, in any thread.
        principals: Returns the users that would be notified of a change here, if its audience were everyone; called in
            the loop.
    """

    def __init__(
        self,
        broker: PubSub,
        topic: str,
        origin: str,
        tell: Callable[[Change], None],
        principals: Callable[[Change], Collection[Principal]],
    ) -> None:
        self._broker = broker
        self._topic = topic
        self._origin = origin
        self._tell = tell
        self._principals = principals
        self._loop = asyncio.get_running_loop()
        self._answering: set[asyncio.Task[None]] = set()

    def heard(self, message: str) -> None:
        """Receive a message, in any thread."""
        try:
            published = jsonrpc.decode(message.encode())
            origin, what, uri = published["origin"], published["what"], published["uri"]
            to = published.get("to")
            audience = (
                None if to is None else Audience(frozenset(to["ids"]), frozenset(_read(to["principals"])))
            )
            params = published.get("params")
            kind, number = (published["of"], published["number"]) if what == _WHO else (what, 0)
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
            with suppress(RuntimeError):  # the loop is closed, so nobody listens in it
                self._loop.call_soon_threadsafe(self._say_who, origin, number, Change(kind, uri))
        elif is_change:
            self._tell(Change(kind, uri, audience, params))

    def _say_who(self, origin: str, number: int, change: Change) -> None:
        principals = self._principals(change)
        if principals:
            task = self._loop.create_task(self._publish(origin, number, list(principals)))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _publish(self, origin: str, number: int, principals: list[Principal]) -> None:
        for start in range(0, len(principals), _AT_A_TIME):
            said = {"number": number, "principals": _written(principals[start : start + _AT_A_TIME])}
            try:
                await self._broker.publish(_replies(self._topic, origin), jsonrpc.encode(said).decode())
            except Exception:
                logger.exception(
                    "the shared store does not answer: clients of this process miss an update of another "
                    "process. Check the store"
                )
                return


_MALFORMED = (ProtocolError, TypeError, KeyError, ValueError, AttributeError)
"""Exceptions of parsing an invalid message."""


def _written(principals: Iterable[Principal]) -> list[list[Any]]:
    """Return principals in the form of messages, without the claims of their tokens, which may be large."""
    return [[each.id, sorted(each.scopes), each.client_id, each.issuer, each.subject] for each in principals]


def _read(written: Any) -> list[Principal]:
    return [
        Principal(id_, scopes, client_id=client_id, issuer=issuer, subject=subject)
        for id_, scopes, client_id, issuer, subject in written
    ]


def _replies(topic: str, origin: str) -> str:
    return f"{topic}/{origin}"
