"""What one call has asked its client and done once, and how it asks: most simply by requests of the server's."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from ...protocol.types import Json
from .questions import DERIVED

if TYPE_CHECKING:
    from ..runtime import BaseCall
    from .questions import Question


class Dialogue:
    """What one call has asked its client, and what it has done once.

    The questions are requests to the client, on the channel of the call; it has one round, and what a client may have
    brought as from an earlier round means nothing. `Rounds` are another way.

    Args:
        call: The call.
        paused: Keeps its clock still in a block.

    Attributes:
        attempt: Which run of the function this is, in order; 1 where it is no task.
        has_done: Whether something has been done once in this round.
        has_rounds: Whether the call is answered with its questions, and made again with the answers.
        call_id: The same in all rounds of a request.
        task_id: The id of the task whose run it is; None where it is none.
    """

    has_rounds: ClassVar[bool] = False
    attempt: int = 1
    task_id: str | None = None

    def __init__(
        self, call: BaseCall, paused: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    ) -> None:
        self._call = call
        self._paused = paused
        self.call_id = os.urandom(12).hex()
        self._once: Json = {}
        self._until: dict[str, float] = {}  # key: when the time for what a page is for is over
        self._used: set[tuple[str, str]] = set()
        self._count = 0
        self.has_done = False

    # The run of the handler

    def begin(self) -> None:
        """Take note that the handler begins; it begins again where a middleware has it run twice."""
        self._used.clear()

    def use(self, what: str, key: str) -> None:
        """Take note that a key is used.

        Args:
            what: What has it, `question` or `ctx.once`; a question may have the key of what is done once.
            key: The key.

        Raises:
            ValueError: Another one of this run has it.
        """
        if (what, key) in self._used:
            raise ValueError(
                f"this call already has a {what} with the key {key!r}. Give each its own key, "
                f'in a loop for example f"{key}-{{number}}"'
            )
        self._used.add((what, key))

    def release(self, what: str, key: str) -> None:
        """Take note that a key has not been used after all."""
        self._used.discard((what, key))

    def name(self, key: str | None) -> str:
        """Return the name of a question: its key, or else its place in the order of asking.

        Raises:
            ValueError: Another one of this run has the key.
        """
        if key is None:
            self._count += 1
            return f"{DERIVED}{self._count}"
        self.use("question", key)
        return key

    def page_id(self, name: str) -> str:
        """Return what tells the page of a question from all others: the same in all runs, and no other request's."""
        import hashlib

        return hashlib.sha256(f"{self.call_id} {name}".encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def remembered(self, key: str) -> tuple[Any] | None:
        """Return what a side effect has returned in an earlier round; None where there was none."""
        return (self._once[key],) if key in self._once else None

    def remember(self, key: str, value: Any) -> None:
        """Keep what a side effect has returned, a JSON value, for the rounds to come."""
        self._once[key] = value
        self.has_done = True

    async def keep(self) -> None:
        """Have what is remembered outlive this run, where it may be run again elsewhere."""

    def until(self, key: str, seconds: float) -> float:
        """Return when the time for what a page is for is over, which begins with the first call of this."""
        return self._until.setdefault(key, time.time() + seconds)

    def settle(self, key: str) -> None:
        """Take note that what a page is for has been done."""
        self._until.pop(key, None)

    def check_settled(self) -> None:
        """End the round all the same where the handler has returned in spite of a question of its own.

        Raises:
            InputRequired: The client has still to answer.
        """

    # Asking

    async def ask(
        self, questions: Sequence[Question[Any]], requests: Sequence[Json], names: Sequence[str]
    ) -> list[Any]:
        """Return the answers to all the questions, asked at once; meanwhile the call's clock stands still.

        Args:
            questions: What to ask.
            requests: How they are said.
            names: What tells them apart.

        Raises:
            InputRequired: Some answers are not there yet, and come with the next round.
            ClientResponseError: The client does not answer, refuses, or answers with something else.
            ProtocolError: An answer is malformed, or the handler asks something else under a name than before; or
                the client has too many questions to answer.
        """
        channel = self._call.channel
        assert channel.questions is not None, "there is a way to the client"
        seconds = self._call.runtime.timeouts.client_request
        async with self._paused():
            return await channel.questions.ask(questions, requests, channel, seconds)

    def forget(self, key: str) -> None:
        """Have a question asked again that was answered."""

    async def redeem(self) -> None:
        """Use up what the client has brought from the round before: nobody else may go on from it.

        Raises:
            MalformedError: It has been used, or that cannot be known here.
            BusyError: The shared store does not answer.
        """

    def result(self) -> Json | None:
        """Return the result that ends a round; None where there are no rounds.

        Raises:
            ValueError: The state has become too large.
        """
        return None
