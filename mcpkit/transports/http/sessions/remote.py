"""What processes tell each other of the sessions of one server, under one topic for all of them."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Protocol

from ....calls.coroutines import within

if TYPE_CHECKING:
    from ....state.broker import PubSub

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

_PATIENCE = 1.0
"""Seconds to notify other processes of an action of the client before it is answered anyway."""


class Followed(Protocol):
    """A session, as far as it hears of others."""

    def hear(self, verb: str, text: str) -> None:
        """Take what another process says of it; in the event loop's thread."""
        ...


class Remote:
    """Tells the other processes of sessions, and hears from them while there are sessions here.

    Args:
        broker: Where they say it.
        name: The name of the server.
        process: What this process is called.

    Attributes:
        since: What was said after this time, by the event loop's clock, has been heard up to `until`; infinite while
            nobody knows.
        until: When the latest of what has been heard was said, of what this process says.
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
        """Have a session hear what others say of it."""
        self._followed[id_] = session
        if self._unsubscribe is None:
            self._unsubscribe = self._broker.subscribe(self._topic, self._heard, self._missed)

    def leave(self, id_: str, session: Followed) -> None:
        """Have it hear no more."""
        if self._followed.get(id_) is session:
            del self._followed[id_]
        if not self._followed and self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
            self.since = math.inf
            self._said.clear()

    async def tell(self, id_: str, verb: str, text: str = "") -> int:
        """Tell the others something of a session.

        Args:
            id_: Its id, as its token has it.
            verb: What has happened.
            text: More of that.

        Returns:
            The number of what has been said.

        Raises:
            OSError: The shared store does not answer.
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
        """Wait until something has been heard here, as others hear it then, too; or until it takes too long."""
        if number in self._said:
            echo = self._echoes[number] = self._loop.create_future()
            try:
                await within(_PATIENCE, echo)
            except TimeoutError:
                logger.debug("a change of a session was not received back from the shared store in time")
            finally:
                self._echoes.pop(number, None)

    async def tick(self) -> None:
        """Say something, so that it is known how much has been heard.

        Raises:
            OSError: The shared store does not answer.
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
                "the shared store delivered a message that is not a change of a session; it is ignored: "
                "%.200r",
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
    """Looks at the record of a session when it has changed, one look after the other.

    Args:
        refresh: Looks; it may end this.
    """

    __slots__ = ("_is_behind", "_is_over", "_refresh", "_task")

    def __init__(self, refresh: Callable[[], Awaitable[None]]) -> None:
        self._refresh = refresh
        self._is_behind = False
        self._is_over = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Look, at once or when the look that is under way is over: an old one must not come after a new one."""
        self._is_behind = True
        if self._task is None and not self._is_over:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def end(self) -> None:
        """Look no more."""
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
                "the shared store does not answer: changes of a session by other processes are not received"
            )
        finally:
            self._task = None
