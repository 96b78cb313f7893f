"""Runs of tasks: from the moment that a job is taken until the task ends, sends requests, or is handed back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakKeyDictionary

from pydantic_core import from_json

from .._utils.errors import INTERNAL_ERROR, BusyError, OutputError
from ..components.task import digest_of
from ..components.tools import Tool
from ..engine.methods import Handler
from ..engine.registry import CompositeCatalog
from ..protocol.eras import Client, Envelope, Handshake, Stateless
from ..protocol.jsonrpc import Outcome
from ..protocol.messages import Request
from ..protocol.revisions import HANDSHAKE
from ..requests.call import Call
from ..requests.failures import tool_error
from ..requests.running import Calls
from ..requests.runtime import Runtime
from ..storage.queue import Job
from .channel import TaskChannel
from .dialogue import TaskDialogue
from .leases import Hold
from .ledger import Held, Ledger, TooLargeError, UnreadableTaskError
from .measuring import Measured
from .pen import LostError, Pen
from .record import Record, Run, read
from .runner import DRAINED
from .sent_away import SentAway

if TYPE_CHECKING:
    from ..identity.revocation import Revocations

logger = logging.getLogger(__name__)

_BUSY_PAUSE = 1.0
"""Seconds for which a task waits that came while the server had no place for another call."""

_GONE = (
    "The process that ran the task ended before the task was done. Check whether its work was done before you "
    "call it again"
)


class Serving(Protocol):
    """Parts of a server that answer calls."""

    @property
    def dispatch(self) -> Handler:
        """Handler that answers a call, through the middleware."""
        ...

    @property
    def revocations(self) -> Revocations | None:
        """Revocations of users' access; None if the server has none."""
        ...

    async def entered(self) -> bool:
        """Wait until the lifespan has started in the running event loop. Return False if it failed."""
        ...


class Runs:
    """Runs the tasks that a runner takes: the `Work` of a `Runner`.

    Args:
        ledger: Storage of task records.
        catalog: The tools.
        runtime: Shared objects of the server.
        serving: Parts of the server that answer calls.
        lease: Lease in seconds.

    Attributes:
        server: Name of the server.
        patience: Seconds after which a task fails if no process has its tool.
        sent_away: Cancels tasks after a revocation of their owner's access.
    """

    def __init__(
        self, ledger: Ledger, catalog: CompositeCatalog, runtime: Runtime, serving: Serving, lease: float
    ) -> None:
        self.server = ledger.server
        self._slack = lease / 2
        self.patience = 3600.0
        self._ledger = ledger
        self._catalog = catalog
        self._runtime = runtime
        self._serving = serving
        self._digests: WeakKeyDictionary[Tool, str] = WeakKeyDictionary()
        self._running: dict[str, _Running] = {}
        self.sent_away = SentAway(serving.revocations)

    def digest(self, tool: Tool) -> str:
        """Return a digest that identifies this version of a tool."""
        if tool not in self._digests:
            self._digests[tool] = digest_of(tool.schemas("2026-07-28")[0])
        return self._digests[tool]

    def queues(self) -> Sequence[str]:
        """Return the queues of the current tools."""
        tools = [tool for tool in self._catalog.tools if isinstance(tool, Tool) and tool.task is not None]
        return [self._ledger.queue_of(tool.name, self.digest(tool)) for tool in tools]

    def heard(self, id_: str, status: str) -> None:
        """Notify the run of a task, if it runs here, that the task has changed; in the event loop."""
        if (running := self._running.get(id_)) is not None:
            running.changed.set()
            if status == "cancelled":
                running.stop()

    def look_again(self) -> None:
        """Make all runs read their tasks again, because a notification may have been missed."""
        for running in self._running.values():
            running.changed.set()

    async def give_up(self, job: Job, now: float) -> None:
        """End a task as failed because no process has its tool any more."""
        try:
            pen = Pen(self._ledger, self._ledger.opened(job), now)
            await _give_up(
                pen, f"No running worker or server has this version of the tool {pen.record.tool!r}"
            )
        except (LostError, UnreadableTaskError):
            return

    async def run(self, job: Job, now: float, hold: Hold) -> None:
        """Run a task that was taken."""
        try:
            held = self._ledger.opened(job)
        except UnreadableTaskError as error:
            logger.error("a task cannot be run, as its record cannot be read: %s", error)  # noqa: TRY400 - where it happened says nothing
            return
        pen = Pen(self._ledger, held, now)
        tool = self._catalog.tools.get(held.record.tool)
        has_begun = False
        try:
            if isinstance(tool, Tool):
                with Measured(self._runtime, pen) as run, self.sent_away.watching(pen):
                    has_begun = not await self.sent_away.has_ended(pen) and await self._begin(pen, held)
                    run.outcome = await self._work(pen, hold) if has_begun else "given_up"
        except asyncio.CancelledError as cancelled:
            if not hold.is_lost and DRAINED in cancelled.args:
                with suppress(LostError):  # it has ended meanwhile, or was cancelled
                    await self._hand_back(pen, has_begun=has_begun)
            raise
        except LostError:
            logger.info(
                "this run of the task %s was stopped: another run has taken it over, or the task has ended",
                held.record.id,
            )
        except TooLargeError as error:
            with suppress(LostError):
                await pen.fail(INTERNAL_ERROR, f"The task failed: {error}")

    async def _begin(self, pen: Pen, held: Held) -> bool:
        """Write the start of a run, or the failure of the task if it must not run again. Return True if the run starts.

        Raises:
            LostError: Another run has the task.
        """
        record = held.record
        if record.run is not None:
            left = record.run.until - pen.now()
            runs = record.runs + 1
            if record.rerun == "never":
                await _give_up(pen, _GONE)
                return False
            if left <= 0:
                await _give_up(pen, "The task timed out")
                return False
            if runs >= record.attempts:
                await _give_up(
                    pen, f"The process that ran the task ended before the task was done, {runs} times"
                )
                return False
        else:
            left, runs = record.left, record.runs

        def begin(record: Record) -> None:
            now = pen.now()
            record.run = Run(pen.fence, now + left, now)
            record.left = left
            record.runs = runs
            if record.status == "input_required":  # for so long nobody has answered
                record.unanswered += [asked["name"] for asked in record.asked.values()]
                record.asked = {}
            record.status = "working"

        await pen.write_surely(begin)
        return True

    async def _work(self, pen: Pen, hold: Hold) -> str | None:
        """Run the function, and return the outcome; None for the outcome in the record."""
        record = pen.record
        channel = TaskChannel(pen, read(record.principal))
        call = Call(self._runtime, _request(record), channel)
        running = _Running(call)

        def until(seconds: float) -> None:
            hold.until(seconds + self._slack)  # in which the function can be stopped, and that be written

        until(record.left)
        dialogue = call.dialogue = TaskDialogue(call, pen, running.changed, until)
        self._running[record.id] = running
        try:
            running.start(_outcome(self._serving, call))
            message = await running.answered(
                dialogue.settled, goes_on=record.rerun == "never" and self._ledger.engine.is_persistent
            )
        except BusyError:
            await pen.write_surely(_put_off, due=_BUSY_PAUSE)
            return "put_off"
        finally:
            if self._running.get(record.id) is running:  # else it was lost, and has come here again
                del self._running[record.id]
            await channel.end()
        if message is None:
            return "cancelled"
        await self._end(pen, call, dialogue, channel, message)
        return None

    async def _hand_back(self, pen: Pen, *, has_begun: bool) -> None:
        """Let other processes run a task after its run was stopped here, if it may run again."""
        if has_begun and pen.record.run is None:  # its run has ended, to ask or to wait
            return
        if has_begun and pen.record.rerun == "never":
            await _give_up(pen, _GONE)
            return
        left = _left(pen)

        def hand_back(record: Record) -> None:
            record.run = None
            record.left = left

        await pen.write_surely(hand_back, due=0.0)

    async def _end(
        self, pen: Pen, call: Call, dialogue: TaskDialogue, channel: TaskChannel, message: bytes
    ) -> None:
        """Write the outcome of a run, with retries until it succeeds, because the work is done."""
        answer = from_json(message)
        if dialogue.is_asking and "result" in answer:
            await dialogue.settled()  # a question may have ended the run beside what is being done once
            left = _left(pen)

            def ask(record: Record) -> None:
                record.run = None
                record.left = left
                channel.note(record)
                dialogue.ask_now(record)

            await _surely(pen, call, ask, self._runtime.timeouts.client_request)
            return

        def end(record: Record) -> None:
            channel.note(record)
            if "error" in answer:
                record.fail(answer["error"], pen.now())
            else:
                record.end("completed", pen.now())
                record.message = None
                record.result = answer["result"]

        await _surely(pen, call, end, None)


async def _give_up(pen: Pen, why: str) -> None:
    """End a task as failed, without a result of its function."""
    await pen.fail(INTERNAL_ERROR, why)
    record = pen.record  # whose id may be all that it takes to ask for it
    logger.warning("a task of the tool %r (call_id %s) has failed: %s", record.tool, record.call_id, why)


async def _surely(pen: Pen, call: Call, change: Callable[[Record], None], due: float | None) -> None:
    """Write the outcome of a run, also if this task is cancelled meanwhile: no other process knows it."""

    async def write() -> None:
        try:
            await pen.write_surely(change, due=due)
        except TooLargeError as error:
            told = tool_error(call, OutputError(str(error)))
            await pen.fail(INTERNAL_ERROR, told["content"][0]["text"])

    writing = asyncio.get_running_loop().create_task(write())
    cancelled: asyncio.CancelledError | None = None
    while not writing.done():
        try:
            await asyncio.wait((writing,))
        except asyncio.CancelledError as error:
            cancelled = error
    writing.result()
    if cancelled is not None:
        raise cancelled


class _Running:
    """One run of a function.

    Args:
        call: Its call.

    Attributes:
        changed: Set when the task has been changed.
    """

    def __init__(self, call: Call) -> None:
        self.changed = asyncio.Event()
        self._call = call
        self._calls = Calls()
        self._answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def start(self, outcome: Coroutine[Any, Any, Outcome]) -> None:
        """Start the call.

        Raises:
            BusyError: Too many requests are running.
        """
        self._calls.start(self, self._call, outcome, self._settle)

    def _settle(self, message: bytes | None, _: BaseException | None) -> None:
        if not self._answered.done():
            self._answered.set_result(message)

    def stop(self) -> None:
        """Cancel the call, without a response."""
        self._calls.cancel(self)

    async def answered(
        self, settled: Callable[[], Coroutine[Any, Any, None]], *, goes_on: bool
    ) -> bytes | None:
        """Wait for the response of the call; None if it was cancelled.

        Args:
            settled: Waits until completed steps of `ctx.once` are stored, before the call is cancelled.
            goes_on: Whether the call continues after `drained`, until the end of the grace period.

        Raises:
            CancelledError: The call was cancelled, because this task was.
        """
        while True:
            try:
                return await asyncio.shield(self._answered)
            except asyncio.CancelledError as cancelled:
                if DRAINED in cancelled.args and goes_on:
                    continue
                try:
                    if DRAINED in cancelled.args:
                        await settled()
                finally:
                    await self._calls.aclose()
                raise


def _left(pen: Pen) -> float:
    """Return the seconds for which the function may still work."""
    run = pen.record.run
    return pen.record.left if run is None else max(0.001, run.until - pen.now())


async def _outcome(serving: Serving, call: Call) -> Outcome:
    answered = serving.dispatch(call)
    return answered if isinstance(answered, dict | bytes) else await answered


def _put_off(record: Record) -> None:
    record.run = None


def _request(record: Record) -> Request:
    """Return the request that created a task, as the client sent it."""
    request = Request()
    client = Client(record.info, record.capabilities)
    envelope: Envelope
    if record.revision in HANDSHAKE:
        envelope = Handshake(record.revision, client)
    else:
        envelope = Stateless(record.revision, record.info, record.capabilities, None)
    request.envelope, request.id, request.method = envelope, record.call_id, "tools/call"
    meta = {"progressToken": record.id, **record.meta}
    request.params = {"name": record.tool, "arguments": record.arguments, "_meta": meta}
    request.meta = meta
    return request
