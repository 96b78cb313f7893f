"""Messages between processes about the sessions of one server, under one topic."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from ....execution.coroutines import within

if TYPE_CHECKING:
    from ....storage.base import PubSub

logger = logging.getLogger(__name__)

CHANGED = "changed"
"""The record of the session is another one now."""

ENDED = "ended"
"""There is no such session any more."""

ANSWERED = "answered"
"""The client has answered a question: its message."""

CANCELLED = "cancelled"
"""The client has cancelled a request: the id, as JSON."""

CHECK = "check"
"""The process that sends notifications must confirm that it has the latest record: the sender."""

CHECKED = "checked"
"""The process has it: the sender of `check`."""

TAKEN = "taken"
"""The client has come back for a stream: its name."""

TOLD = "told"
"""More of a stream is in the store: its name."""

SAID = "said"
"""A message for the client, on the newest listening stream: the message."""

_TICK = "tick"
"""No content: a process that receives its own tick has received all earlier messages of others."""

_NOBODY = "-"

_TIMEOUT = 1.0
"""Seconds to notify other processes of an action of the client before it is answered anyway."""


class Followed(Protocol):
    """A session that receives messages of other processes."""

    def hear(self, verb: str, text: str) -> None:
        """Handle a message of another process; in the event loop's thread."""
        ...


class Remote:
    """Sends messages about sessions to other processes, and receives theirs while there are sessions here.

    Args:
        broker: Publishes the messages.
        name: Name of the server.
        process: Name of this process.

    Attributes:
        since: All messages that were sent between this time and `until`, by the event loop's clock, have been received;
            infinite while that is unknown.
        until: Time when this process sent the latest of its own messages that it has received back.
    """

    def __init__(self, broker: PubSub, name: str, process: str) -> None:
        self.since = math.inf
        self.until = -math.inf
        self._broker = broker
        self._topic = f"{name}/sessions"
        self._process = process
        self._loop = asyncio.get_running_loop()
        self._followed: dict[str, Followed] = {}
        self._said: dict[int, float] = {}  # when, by number, while it has not been heard
        self._echoes: dict[int, asyncio.Future[None]] = {}
        self._count = 0
        self._unsubscribe: Callable[[], None] | None = None

    def follow(self, id_: str, session: Followed) -> None:
        """Deliver the messages about a session to it."""
        self._followed[id_] = session
        if self._unsubscribe is None:
            self._unsubscribe = self._broker.subscribe(self._topic, self._heard, self._missed)

    def leave(self, id_: str, session: Followed) -> None:
        """Stop delivering messages to a session."""
        if self._followed.get(id_) is session:
            del self._followed[id_]
        if not self._followed and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
            self.since = math.inf
            self._said.clear()

    async def tell(self, id_: str, verb: str, text: str = "") -> int:
        """Send a message about a session to other processes.

        Args:
            id_: Id of the session, as in its token.
            verb: Kind of the message.
            text: Content of the message.

        Returns:
            The number of the message.

        Raises:
            OSError: The shared store does not respond.
        """
        self._count += 1
        number = self._count
        if self._unsubscribe is not None:
            self._said[number] = self._loop.time()
        try:
            await self._broker.publish(self._topic, f"{self._process} {number} {id_} {verb} {text}")
        except BaseException:
            self._said.pop(number, None)
            raise
        return number

    async def told(self, number: int) -> None:
        """Wait until a message has been received back here, because others receive it then, too; with a timeout."""
        if number in self._said:
            echo = self._echoes[number] = self._loop.create_future()
            try:
                await within(_TIMEOUT, echo)
            except TimeoutError:
                logger.debug(
                    "a change of a session was not received back from the shared store in time; "
                    "other processes may apply it late"
                )
            finally:
                self._echoes.pop(number, None)

    async def tick(self) -> None:
        """Send a message without content, to learn which messages have been received.

        Raises:
            OSError: The shared store does not respond.
        """
        await self.tell(_NOBODY, _TICK)

    # In any thread

    def _heard(self, message: str) -> None:
        try:
            process, number, id_, verb, text = message.split(" ", 4)
            if process == self._process:
                self._loop.call_soon_threadsafe(self._hear_myself, int(number))
            elif id_ in self._followed:
                self._loop.call_soon_threadsafe(self._hear, id_, verb, text)
        except ValueError:
            logger.warning(
                "the shared store delivered a message that is not a change of a session; it is ignored. "
                "Check that no other program writes to the store: %.200r",
                message,
            )
        except RuntimeError:
            logger.debug("ignored a change of a session, as its event loop is closed")

    def _missed(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._hear_of_gap)
        except RuntimeError:
            logger.debug("ignored a gap in the messages of other processes, as the event loop is closed")

    # In the event loop

    def _hear_myself(self, number: int) -> None:
        said = self._said.pop(number, None)
        if said is not None:
            self.since = min(self.since, said)
            self.until = max(self.until, said)
        if (echo := self._echoes.get(number)) is not None and not echo.done():
            echo.set_result(None)

    def _hear(self, id_: str, verb: str, text: str) -> None:
        session = self._followed.get(id_)
        if session is not None:
            session.hear(verb, text)

    def _hear_of_gap(self) -> None:
        self.since = math.inf
        self._said.clear()
        for session in tuple(self._followed.values()):
            session.hear(CHANGED, "")


class Refreshing:
    """Reads the record of a session after changes, one read after the other.

    Args:
        refresh: Reads the record; it may call `end`.
    """

    __slots__ = ("_is_behind", "_is_over", "_refresh", "_task")

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._is_behind = False
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Read, at once or after a read in progress: an old read must not end after a new one."""
        self._is_behind = True
        if self._task is None and not self._is_over:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        """Stop reading."""
        self._is_over = True
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._is_behind:
                self._is_behind = False
                await self._refresh()
        except OSError:
            logger.exception(
                "the shared store does not answer: changes of a session by other processes take effect late"
            )
        finally:
            self._task = None
