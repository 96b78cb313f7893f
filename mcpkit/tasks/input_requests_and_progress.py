"""Requests of a task to its client, steps that run once, and progress: all stored in the record of the task."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .._utils.concurrency import call_in_loop
from .._utils.exceptions import (
    INTERNAL_ERROR,
    CallEndedError,
    CallTimeoutError,
    ChallengeError,
    ClientResponseError,
    InputRequired,
    InvalidAnswerError,
    ProtocolError,
    exception_text,
)
from ..execution.coroutines import within
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json
from ..requests.request_record import Dialogue
from ..requests.requests_to_client import OpenQuestions, Question, StandaloneChannel, repeat_form
from .task_records import LostError, TaskRecord, TaskWriter, TooLargeError

if TYPE_CHECKING:
    from ..components.tool import Tool
    from ..requests.request_record import Call

logger = logging.getLogger(__name__)

# Seconds between two polls for a response without a notification
_POLL_INTERVAL = 5.0

# Seconds until the record is read again while the storage does not answer
_RETRY_PAUSE = 0.5

# Seconds between two writes of the progress
_PROGRESS_INTERVAL = 1.0


class TaskDialogue(Dialogue):
    """Requests of one run of a task to its client, and its side effects with `once`.

    If the function may run again, a request ends the run, and the next run has the responses. Otherwise the function
    waits for them.

    Args:
        call: The call of the run.
        writer: Writer of the task record.
        changed: Set when another process or request has changed the record.
        limit_lease: Sets the remaining duration of the lease in seconds.
    """

    has_rounds = True

    def __init__(
        self, call: Call, writer: TaskWriter, changed: asyncio.Event, limit_lease: Callable[[float], None]
    ) -> None:
        super().__init__(call)
        record = writer.record
        self.task_id = record.id
        self.call_id = record.call_id
        self.attempt = writer.fence
        self._task_call = call
        self._writer = writer
        self._changed = changed
        self._limit_lease = limit_lease
        self._once = dict(record.once)
        self._until = dict(record.page_deadlines)
        self._waits = record.rerun == "never"
        self._earlier_responses = list(record.earlier_responses)
        self._used_responses: dict[str, Json] = {}  # of `_earlier_responses`, by name of the request
        self._requests: dict[str, Json] = {}  # of this run, not stored yet
        self._repeats: dict[str, int] = {}  # of requests whose response was invalid
        self._steps: set[str] = set()  # keys of `ctx.once` that run, or whose results are not stored
        self._deadlines: dict[object, float] = {}  # of each wait for responses, by the monotonic clock
        self._is_settled = asyncio.Event()
        self._is_settled.set()
        self._loop = asyncio.get_running_loop()

    async def run(self, tool: Tool, arguments: Json) -> Json:
        """Call the tool within the remaining time.

        Raises:
            ProtocolError: The call timed out.
            BaseException: Any exception of the tool.
        """
        call = self._task_call
        try:
            result: Json = await tool.call(arguments, call, self._writer.record.time_left)
        except CallTimeoutError as error:
            explained = call.runtime.explain(call, error)
            message = f"The task {error}"
            if explained is not error:
                message = exception_text(explained) or message
            raise ProtocolError(INTERNAL_ERROR, message) from None
        return result

    # Steps that run once

    def use(self, what: str, key: str) -> None:
        """Record that a key is used."""
        super().use(what, key)
        if what == "ctx.once" and key not in self._once:
            self._steps.add(key)
            self._is_settled.clear()

    def release(self, what: str, key: str) -> None:
        """Release a key that was not used after all; from any thread."""
        super().release(what, key)
        self._steps.discard(key)
        call_in_loop(self._loop, self._check_steps)

    def _check_steps(self) -> None:
        if not self._steps:
            self._is_settled.set()

    async def settled(self) -> None:
        """Wait until all steps of `ctx.once` that have run are stored."""
        await self._is_settled.wait()

    async def keep(self) -> None:
        """Store the results of `ctx.once`.

        Raises:
            CallEndedError: The task has another run, or has ended.
            TooLargeError: The record would be too large.
        """
        once = dict(self._once)

        def note(record: TaskRecord) -> None:
            record.once = {**record.once, **once}

        try:
            await self._writer.write(note)
        except LostError:
            raise CallEndedError(self._call.method) from None
        except TooLargeError:
            for key in once.keys() - self._writer.record.once.keys():
                del self._once[key]
            raise
        finally:
            self._steps -= once.keys()
            self._check_steps()

    # Requests to the client

    @property
    def has_open_requests(self) -> bool:
        """True if the run has ended to send requests."""
        return bool(self._requests)

    def check_settled(self) -> None:
        """End the run even though the handler has returned in spite of an open request."""
        if self._requests:
            logger.warning(
                "the tool %r returned a result although a request to the client is still open; mcpkit "
                "sends the request. Do not catch InputRequired, and await every request to the client",
                self._writer.record.tool,
            )
            raise InputRequired

    def result(self) -> Json:
        """Return the result of a run that ended with requests."""
        return {"resultType": "input_required"}

    def store_requests(self, record: TaskRecord) -> None:
        """Add the requests that ended this run to a record."""
        self._store(record, self._requests, self._repeats)

    def _store(self, record: TaskRecord, requests: Mapping[str, Json], repeats: Mapping[str, int]) -> None:
        record.status = "input_required"
        record.message = None
        record.page_deadlines = dict(self._until)
        for name, count in repeats.items():
            record.repeats[name] = count
            record.responses.pop(name, None)
        for name, request in requests.items():
            count = record.repeats.get(name, 0)
            record.requests[name if count == 0 else f"{name}~{count}"] = request

    def forget(self, key: str) -> None:
        """Discard a response, so that the request is sent again, under a new key."""
        self._repeats[key] = self._writer.record.repeats.get(key, 0) + 1

    async def ask(
        self, questions: Sequence[Question[Any]], requests: Sequence[Json], names: Sequence[str]
    ) -> list[Any]:
        """Return the responses. If some are missing, end the run, or wait for them."""

        def read() -> list[object] | None:
            values = [self._read(*each) for each in zip(names, questions, requests, strict=True)]
            complete: list[object] = [each[0] for each in values if each is not None]
            return complete if len(complete) == len(values) else None

        if (answers := read()) is not None:
            return answers
        if not self._waits:
            raise InputRequired
        return await self._wait(read, names)

    def _read(self, name: str, question: Question[Any], request: Json) -> tuple[Any] | None:
        """Return the value of a response, as a tuple of one; None if it is missing, and the request is to be sent."""
        from ..requests.multi_round_trip import digest, not_deterministic

        request_digest = digest(request)
        record = self._writer.record
        result = None
        if name not in self._repeats:
            response = record.responses.get(name)
            if response is not None and response["digest"] != request_digest:
                digests = {each: other["digest"] for each, other in record.responses.items()}
                raise not_deterministic(self._call, name, request, digests)
            result = response["result"] if response is not None else self._earlier(name, request_digest)
        if result is None and name in record.errors:
            raise ClientResponseError(record.errors[name])
        if result is None and name in record.timed_out:
            seconds = self._call.runtime.timeouts.client_request
            raise ClientResponseError(f"The client did not answer within {seconds:g} s")
        if result is not None:
            try:
                return (question.read(result),)
            except InvalidAnswerError as error:
                if not error.is_form:
                    raise
                self.forget(name)
                request = repeat_form(request, error.problem)
        self._requests[name] = {"name": name, "digest": request_digest, "request": request}
        return None

    def _earlier(self, name: str, request_digest: str) -> Json | None:
        """Return a response from before the task was created. Each one answers one request."""
        if name not in self._used_responses:
            for index, response in enumerate(self._earlier_responses):
                if response["digest"] == request_digest:
                    del self._earlier_responses[index]
                    self._used_responses[name] = response["result"]
                    break
        return self._used_responses.get(name)

    async def _wait(self, read: Callable[[], list[object] | None], names: Sequence[str]) -> list[object]:
        """Send the requests and return all responses. The timeout of the call is paused."""
        seconds = self._call.runtime.timeouts.client_request
        answers: list[object] | None = None
        key = object()

        def give_up(record: TaskRecord) -> None:
            record.timed_out += [name for name in names if not record.has_response(name)]
            record.requests = {k: each for k, each in record.requests.items() if each["name"] not in names}
            record.status = "input_required" if record.requests else "working"

        try:
            async with self._call.paused():
                self._deadlines[key] = end = time.monotonic() + seconds
                self._extend_lease()
                try:
                    while answers is None:
                        requests = {
                            each: self._requests.pop(each) for each in names if each in self._requests
                        }
                        repeats = {each: self._repeats.pop(each) for each in names if each in self._repeats}
                        await self._writer.write(partial(self._store, requests=requests, repeats=repeats))
                        while not all(map(self._writer.record.has_response, names)):
                            await self._wait_for_change(end - time.monotonic())
                        answers = read()
                except TimeoutError:
                    await self._writer.write(give_up)
                    answers = read()  # which raises the error
        except LostError:
            raise CallEndedError(self._call.method) from None
        finally:
            self._deadlines.pop(key, None)
            self._extend_lease()
        assert answers is not None, "all answers must be there, or one must be known to be missing"
        return answers

    def _extend_lease(self) -> None:
        """Extend the lease until the timeout of the last request, or otherwise of the function."""
        until = max(self._deadlines.values(), default=self._task_call.deadline)
        assert until is not None, "a task must have a timeout"
        self._limit_lease(max(0.0, until - time.monotonic()))

    async def _wait_for_change(self, seconds: float) -> None:
        """Wait until the record has changed, and read it.

        Raises:
            TimeoutError: The timeout has passed.
            LostError: The task has another run, or has ended.
        """
        if seconds <= 0:
            raise TimeoutError
        try:
            await within(min(seconds, _POLL_INTERVAL), self._changed.wait())
        except TimeoutError:
            if seconds <= _POLL_INTERVAL:
                raise
        self._changed.clear()
        before = self._writer.record
        try:
            await self._writer.refresh()
        except OSError as error:
            logger.debug(
                "the task record cannot be read for answers of the client; mcpkit tries again: %s", error
            )
            self._loop.call_later(_RETRY_PAUSE, self._changed.set)
        if len(self._deadlines) > 1 and self._writer.record != before:
            self._changed.set()  # for the other waits, whose responses may be in the record


# Progress


class TaskChannel:
    """Channel of one run. The latest progress is stored once a second, and other messages are dropped.

    Args:
        writer: Writer of the task record.
    """

    standalone: StandaloneChannel | None = None
    questions: OpenQuestions | None = None
    caller: str | None = None
    is_local = False

    def __init__(self, writer: TaskWriter) -> None:
        self.principal = writer.record.principal
        self.request_headers: Mapping[bytes, bytes] = {
            name.encode("latin-1"): value.encode("latin-1") for name, value in writer.record.headers.items()
        }
        self._writer = writer
        self._latest: Json | None = None
        self._writing: asyncio.Task[None] | None = None

    def send(self, message: bytes) -> None:
        """Handle a message, in the event loop's thread."""
        notification = jsonrpc.decode(message)
        if notification.get("method") == "notifications/progress":
            progress: Json = notification["params"]
            self._latest = {name: value for name, value in progress.items() if name != "progressToken"}
            if self._writing is None:
                self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while (progress := self._latest) is not None:
                await self._writer.write(self.store_progress, retry=False)
                if self._latest is progress:
                    self._latest = None
                await asyncio.sleep(_PROGRESS_INTERVAL)
        except (OSError, TooLargeError) as error:
            logger.debug(
                "the progress of a task was not saved, so clients receive it later or not at all: %s", error
            )
        except LostError:
            return
        finally:
            self._writing = None

    def store_progress(self, record: TaskRecord) -> None:
        """Set progress that was not written yet in a record.

        The status message repeats it as a sentence, because the protocol of 2026-07-28 has no numbers for it.
        """
        progress = self._latest
        if progress is None:
            return
        record.progress = progress
        total, message = progress.get("total"), progress.get("message")
        counted = _number(progress["progress"])
        if total is not None:
            counted = f"{counted} of {_number(total)}"
        record.message = counted if message is None else f"{message} ({counted})"

    async def end(self) -> None:
        """Stop the writes of progress."""
        if (writing := self._writing) is not None:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing

    async def ready(self) -> None:
        """Return at once: there is no receiver."""

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return None: the client is not connected."""
        return None

    def defer_response(self) -> None:
        """Do nothing: there is no response."""

    def close(self) -> Awaitable[None]:
        """Do nothing: there is no connection."""
        return self.ready()


def _number(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6g}"
