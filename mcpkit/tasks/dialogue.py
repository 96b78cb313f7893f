"""Requests of a task to its client, and steps that run once, both kept in the record for later runs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .._utils.errors import (
    INTERNAL_ERROR,
    CallEndedError,
    CallTimeoutError,
    ClientResponseError,
    InputRequired,
    InvalidAnswerError,
    ProtocolError,
    said_by,
)
from ..execution.coroutines import within
from ..protocol.types import Json
from ..requests.elicitation import Question, asked_again
from ..requests.elicitation_state import Dialogue
from .ledger import TooLargeError
from .pen import LostError, Pen
from .record import Record

if TYPE_CHECKING:
    from ..components.tools import Tool
    from ..requests.call import Call

logger = logging.getLogger(__name__)

_LOOK = 5.0
"""Seconds between two polls for an answer without a notification."""

_AGAIN = 0.5
"""Seconds until the record is read again while the storage does not answer."""


class TaskDialogue(Dialogue):
    """Requests of one task to its client.

    If the function may run again, a request ends the run, and the next run has the responses. Otherwise the function
    waits for them.

    Args:
        call: The call of this run.
        pen: Writer of the task record.
        changed: Set when another process or request has changed the record.
        lease: Sets the remaining duration of the lease in seconds.
    """

    has_rounds = True

    def __init__(self, call: Call, pen: Pen, changed: asyncio.Event, lease: Callable[[float], None]) -> None:
        super().__init__(call, call.paused)
        self._timed = call
        record = pen.record
        self.task_id = record.id
        self.call_id = record.call_id
        self.attempt = pen.fence
        self._pen = pen
        self._changed = changed
        self._lease = lease
        self._once = dict(record.once)
        self._until = dict(record.until)
        self._waits = record.rerun == "never"
        self._before = list(record.before)
        self._given: dict[str, Json] = {}  # name: an answer that came before the task was made
        self._asked: dict[str, Json] = {}  # name: what is open of this run
        self._again: dict[str, int] = {}
        self._doing: set[str] = set()
        self._ends: dict[
            object, float
        ] = {}  # when the questions are over that are waited for, by the monotonic clock
        self._is_settled = asyncio.Event()
        self._is_settled.set()
        self._loop = asyncio.get_running_loop()

    @property
    def is_asking(self) -> bool:
        """True if the run has ended to send requests."""
        return bool(self._asked)

    async def settled(self) -> None:
        """Wait until all steps of `ctx.once` that have run are stored."""
        await self._is_settled.wait()

    def _look(self) -> None:
        if not self._doing:
            self._is_settled.set()

    def use(self, what: str, key: str) -> None:
        """Note that a key is used."""
        super().use(what, key)
        if what == "ctx.once" and key not in self._once:
            self._doing.add(key)
            self._is_settled.clear()

    def release(self, what: str, key: str) -> None:
        """Note that a key was not used after all; from any thread."""
        super().release(what, key)
        self._doing.discard(key)
        with suppress(RuntimeError):  # the loop has been closed
            self._loop.call_soon_threadsafe(self._look)

    def check_settled(self) -> None:
        """End the run even though the handler has returned in spite of an open request."""
        if self._asked:
            logger.warning(
                "the tool %r returned a result although a request to the client is still open; mcpkit "
                "sends the request. Do not catch InputRequired, and await every request to the client",
                self._pen.record.tool,
            )
            raise InputRequired

    async def run(self, tool: Tool, arguments: Json) -> Json:
        """Call the tool within the remaining time.

        Raises:
            ProtocolError: The call timed out.
            BaseException: Any exception of the tool.
        """
        try:
            result: Json = await tool.call_within(arguments, self._timed, self._pen.record.left)
        except CallTimeoutError as error:
            told = self._timed.runtime.explain(self._timed, error)
            said = f"The task {error}" if told is error else said_by(told) or f"The task {error}"
            raise ProtocolError(INTERNAL_ERROR, said) from None
        return result

    async def keep(self) -> None:
        """Store the results of `ctx.once`.

        Raises:
            CallEndedError: The task has another run, or has ended.
            TooLargeError: The record would be too large.
        """
        once = dict(self._once)

        def note(record: Record) -> None:
            record.once = {**record.once, **once}

        try:
            await self._pen.write_surely(note)
        except LostError:
            raise CallEndedError(self._call.method) from None
        except TooLargeError:
            for key in once.keys() - self._pen.record.once.keys():
                del self._once[key]
            raise
        finally:
            self._doing -= once.keys()
            self._look()

    def ask_now(self, record: Record) -> None:
        """Add the requests that ended this run to a record."""
        self._ask(record, self._asked, self._again)

    def _ask(self, record: Record, questions: Mapping[str, Json], again: Mapping[str, int]) -> None:
        record.status = "input_required"
        record.message = None
        record.until = dict(self._until)
        for name, count in again.items():
            record.tries[name] = count
            record.answered.pop(name, None)
        for name, asked in questions.items():
            count = record.tries.get(name, 0)
            record.asked[name if count == 0 else f"{name}~{count}"] = asked

    def forget(self, key: str) -> None:
        """Send a request again that was answered, under a new key."""
        self._again[key] = self._pen.record.tries.get(key, 0) + 1

    async def ask(
        self, questions: Sequence[Question[Any]], requests: Sequence[Json], names: Sequence[str]
    ) -> list[Any]:
        """Return the responses. If some are missing, end the run, or wait for them."""

        def find() -> list[object] | None:
            found = [self._find(*each) for each in zip(names, questions, requests, strict=True)]
            answers: list[object] = [each[0] for each in found if each is not None]
            return answers if len(answers) == len(found) else None

        answers = find()
        if answers is None:
            if not self._waits:
                raise InputRequired
            answers = await self._wait(find, names)
        return answers

    def _find(self, name: str, question: Question[Any], request: Json) -> tuple[Any] | None:
        from ..requests.multi_round_trip import digest, not_deterministic

        asked = digest(request)
        record = self._pen.record
        result = None
        if name not in self._again:
            known = record.answered.get(name)
            if known is not None and known["digest"] != asked:
                digests = {each: before["digest"] for each, before in record.answered.items()}
                raise not_deterministic(self._call, name, request, digests)
            result = known["result"] if known is not None else self._answered_before(name, asked)
        if result is None and name in record.refused:
            raise ClientResponseError(record.refused[name])
        if result is None and name in record.unanswered:
            seconds = self._call.runtime.timeouts.client_request
            raise ClientResponseError(f"The client did not answer within {seconds:g} s")
        if result is not None:
            try:
                return (question.read(result),)
            except InvalidAnswerError as error:
                if not error.is_form:
                    raise
                self.forget(name)
                request = asked_again(request, error.problem)
        self._asked[name] = {"name": name, "digest": asked, "request": request}
        return None

    def _answered_before(self, name: str, asked: str) -> Json | None:
        if name not in self._given:
            for index, known in enumerate(self._before):
                if known["digest"] == asked:
                    del self._before[index]
                    self._given[name] = known["result"]
                    break
        return self._given.get(name)

    async def _wait(self, find: Callable[[], list[object] | None], names: Sequence[str]) -> list[object]:
        """Send the requests and return all responses. The timeout of the call is paused."""
        seconds = self._call.runtime.timeouts.client_request
        answers: list[object] | None = None
        waiting = object()
        try:
            async with self._paused():
                self._ends[waiting] = end = time.monotonic() + seconds
                self._prolong()
                try:
                    while answers is None:
                        asked = {name: self._asked.pop(name) for name in names if name in self._asked}
                        again = {name: self._again.pop(name) for name in names if name in self._again}
                        await self._pen.write_surely(partial(self._ask, questions=asked, again=again))
                        while not self._has_all(names):
                            await self._heard(end - time.monotonic())
                        answers = find()
                except TimeoutError:
                    await self._pen.write_surely(lambda record: _give_up(record, names))
                    answers = find()  # which says so
        except LostError:
            raise CallEndedError(self._call.method) from None
        finally:
            self._ends.pop(waiting, None)
            self._prolong()
        assert answers is not None, "all answers must be there, or one must be known to be missing"
        return answers

    def _has_all(self, names: Sequence[str]) -> bool:
        record = self._pen.record
        return all(name in record.answered or name in record.refused for name in names)

    def _prolong(self) -> None:
        """Extend the lease until the timeout of the last request, or otherwise of the function."""
        until = max(self._ends.values(), default=self._timed.deadline)
        assert until is not None, "a task must have a timeout"
        self._lease(max(0.0, until - time.monotonic()))

    async def _heard(self, seconds: float) -> None:
        """Wait until the record has changed, and read it.

        Raises:
            TimeoutError: The timeout has passed.
            LostError: The task has another run, or has ended.
        """
        if seconds <= 0:
            raise TimeoutError
        try:
            await within(min(seconds, _LOOK), self._changed.wait())
        except TimeoutError:
            if seconds <= _LOOK:
                raise
        self._changed.clear()
        before = self._pen.record
        try:
            await self._pen.refresh()
        except OSError as error:
            logger.debug(
                "the task record cannot be read for answers of the client; mcpkit tries again: %s", error
            )
            self._loop.call_later(_AGAIN, self._changed.set)
        if len(self._ends) > 1 and self._pen.record != before:  # what the others wait for may be in it
            self._changed.set()

    def result(self) -> Json:
        """Return the result of a run that ended with requests."""
        return {"resultType": "input_required"}


def _give_up(record: Record, names: Sequence[str]) -> None:
    record.unanswered += [
        name for name in names if name not in record.answered and name not in record.refused
    ]
    record.asked = {key: each for key, each in record.asked.items() if each["name"] not in names}
    record.status = "input_required" if record.asked else "working"
