"""Runs of tasks, from the moment that a task is taken until it ends or is handed back, and notifications of changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

from pydantic_core import from_json

from .._utils.concurrency import Listeners, call_in_loop
from .._utils.exceptions import BusyError, OutputError
from ..components.tool import Tool
from ..engine.subscription_filters_and_delivery import SubscriptionHub
from ..execution.coroutines import see_through
from ..identity.principals_and_scopes import Audience, Change, Principal
from ..protocol.jsonrpc import Outcome
from ..protocol.jsonrpc_validation import Request
from ..protocol.revisions import HANDSHAKE, Client, Handshake, Stateless
from ..requests.access_and_error_responses import tool_error
from ..requests.request_record import Call
from ..requests.running_requests import Calls
from ..storage.jobs_and_heartbeats import Job
from .input_requests_and_progress import TaskChannel, TaskDialogue
from .queue_polling_and_leases import DRAINED, Lease, Runner
from .task_records import LostError, TaskRecord, TaskStore, TaskWriter, TooLargeError, UnreadableTaskError

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..identity.audit_and_revocation import Revocation

logger = logging.getLogger(__name__)

# Seconds until a task is taken again after the server had no capacity for another call
_BUSY_PAUSE = 1.0

_PROCESS_ENDED = (
    "The process that ran the task ended before the task was done. Check whether its work was done before you "
    "call it again"
)


class TaskRuns:
    """Runs the tasks of one event loop: the `Work` of its `Runner`.

    Its methods are called in that event loop.

    Args:
        store: The task records.
        engine: The engine of the server, which answers the calls.
        lease: Lease in seconds.

    Attributes:
        server: Name of the server in the names of queues.
        abandoned_after: Seconds after which a task fails if no process has its tool.
    """

    def __init__(self, store: TaskStore, engine: Engine, lease: float) -> None:
        self.server = store.server
        self.abandoned_after = 3600.0
        self._store = store
        self._engine = engine
        self._lease = lease
        self._running: dict[str, _Run] = {}  # by id of the task
        self._cancelling: set[asyncio.Task[None]] = set()

    def queues(self) -> Sequence[str]:
        """Return the queues of the current tools."""
        tools = self._engine.catalog.tools
        runnable = [tool for tool in tools if isinstance(tool, Tool) and tool.task is not None]
        return [self._store.queue_name(tool) for tool in runnable]

    async def give_up(self, job: Job, now: float) -> None:
        """End a task as failed because no process has its tool any more."""
        try:
            writer = TaskWriter(self._store, self._store.decode(job), now)
            tool = writer.record.tool
            await _give_up(writer, f"No running worker or server has this version of the tool {tool!r}")
        except (LostError, UnreadableTaskError):
            return

    async def run(self, job: Job, now: float, lease: Lease) -> None:
        """Run a task that was taken."""
        try:
            task = self._store.decode(job)
        except UnreadableTaskError as error:
            logger.error("a task cannot be run, as its record cannot be read: %s", error)  # noqa: TRY400 - where it happened says nothing
            return
        record = task.record
        if not isinstance(self._engine.catalog.tools.get(record.tool), Tool):
            return
        writer = TaskWriter(self._store, task, now)
        run = self._running[record.id] = _Run(self._engine, writer, lease, self._lease / 2)
        meters = self._engine.runtime.task_meters
        for meter in meters:
            meter.run_began(record.tool, max(0.0, writer.now() - record.updated))
        began = perf_counter()
        outcome: str | None = "failed"
        try:
            if await self._is_revoked(writer) or not await run.begin():
                outcome = "given_up"
            else:
                outcome = await run.work()
        except asyncio.CancelledError as cancelled:
            is_drained = DRAINED in cancelled.args
            outcome = "drained" if is_drained else "lost"
            if is_drained and not lease.is_lost:
                with suppress(LostError):  # it has ended meanwhile, or was cancelled
                    await run.return_to_queue()
            raise
        except LostError:
            outcome = "lost"
            logger.info(
                "this run of the task %s was stopped: another run has taken it over, or the task has ended",
                record.id,
            )
        except TooLargeError as error:
            with suppress(LostError):
                await writer.fail(f"The task failed: {error}")
        finally:
            # Another run is there if the lease was lost, and the task was taken here again.
            if self._running.get(record.id) is run:
                del self._running[record.id]
            outcome = outcome or writer.record.status
            for meter in meters:
                meter.run_ended(record.tool, outcome, writer.fence, perf_counter() - began)

    # Changes of other processes

    def on_change(self, id_: str, status: str) -> None:
        """Notify the run of a task, if the task runs here, that its record has changed."""
        if (run := self._running.get(id_)) is not None:
            run.changed.set()
            if status == "cancelled":
                run.stop()

    def on_gap(self) -> None:
        """Make all runs read their tasks again, because a notification may have been missed."""
        for run in self._running.values():
            run.changed.set()

    def watch_revocations(self) -> Callable[[], None]:
        """Cancel tasks here when their owners' access is revoked. Return a function that ends it."""
        revocations = self._engine.revocations
        if revocations is None:
            return lambda: None
        loop = asyncio.get_running_loop()

        def cancel(revocation: Revocation) -> None:
            for run in tuple(self._running.values()):
                record = run.writer.record
                if revocation.covers(record.principal, record.created):
                    cancelling = loop.create_task(_cancel(run.writer))
                    self._cancelling.add(cancelling)
                    cancelling.add_done_callback(self._cancelling.discard)

        return revocations.listen(partial(call_in_loop, loop, cancel))

    async def _is_revoked(self, writer: TaskWriter) -> bool:
        """Cancel a task that is about to run, if its owner's access was revoked. Return True if it was.

        Raises:
            OSError: The storage does not respond.
        """
        revocations, record = self._engine.revocations, writer.record
        id_ = record.principal.id
        if revocations is None or id_ is None or await revocations.latest(id_) < record.created:
            return False
        await _cancel(writer)
        return True


class _Run:
    """One run of a function.

    Args:
        engine: The engine of the server, which answers the call.
        writer: Writer of the task record.
        lease: Lease of the task.
        slack: Seconds that the lease lasts longer than the function may run, to stop it and to write the outcome.

    Attributes:
        writer: Writer of the task record.
        changed: Set when the record has been changed.
    """

    def __init__(self, engine: Engine, writer: TaskWriter, lease: Lease, slack: float) -> None:
        self.writer = writer
        self.changed = asyncio.Event()
        self._engine = engine
        self._lease = lease
        self._slack = slack
        self._calls = Calls()  # of which it has one
        self._has_begun = False

    async def begin(self) -> bool:
        """Write the start of the run. Return False if the task must not run again, and has failed.

        Raises:
            LostError: Another run has the task.
        """
        writer = self.writer
        record = writer.record
        time_left, failed_runs = record.time_left, record.failed_runs
        if record.run_deadline is not None:
            time_left = record.run_deadline - writer.now()
            failed_runs += 1
            failure = None
            if record.rerun == "never":
                failure = _PROCESS_ENDED
            elif time_left <= 0:
                failure = "The task timed out"
            elif failed_runs >= record.attempts:
                failure = f"The process that ran the task ended before the task was done, {failed_runs} times"
            if failure is not None:
                await _give_up(writer, failure)
                return False

        def begin(record: TaskRecord) -> None:
            record.run_deadline = writer.now() + time_left
            record.time_left = time_left
            record.failed_runs = failed_runs
            if record.status == "input_required":  # the time for responses is over
                record.timed_out += [request["name"] for request in record.requests.values()]
                record.requests = {}
            record.status = "working"

        await writer.write(begin)
        self._has_begun = True
        return True

    async def work(self) -> str | None:
        """Run the function, and return the outcome; None for the status of the record."""
        record = self.writer.record
        channel = TaskChannel(self.writer)
        call = Call(self._engine.runtime, _request(record), channel)

        def limit_lease(seconds: float) -> None:
            self._lease.limit_to(seconds + self._slack)

        limit_lease(record.time_left)
        dialogue = call.dialogue = TaskDialogue(call, self.writer, self.changed, limit_lease)
        try:
            message = await self._answer(call, dialogue)
        except BusyError:
            await self._suspend(due=_BUSY_PAUSE)
            return "put_off"
        finally:
            await channel.end()
        if message is not None:
            await self._end(call, dialogue, channel, message)
            return None
        return "cancelled"

    def stop(self) -> None:
        """Cancel the function, without a response."""
        self._calls.cancel(self)

    async def _answer(self, call: Call, dialogue: TaskDialogue) -> bytes | None:
        """Run the function, and return its response; None if it was cancelled.

        When the process shuts down, a function that must not run again continues until the end of the grace period. Any
        other is stopped, after the steps of `ctx.once` that have run are stored.

        Raises:
            BusyError: Too many requests are running.
            CancelledError: The run was cancelled, and the function has been stopped.
        """
        answered: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

        def reply(message: bytes | None, _: BaseException | None) -> None:
            if not answered.done():
                answered.set_result(message)

        async def dispatch() -> Outcome:
            outcome = self._engine.dispatch(call)
            return outcome if isinstance(outcome, dict | bytes) else await outcome

        self._calls.start(self, call, dispatch(), reply)
        continues = self.writer.record.rerun == "never" and self._engine.runtime.storage.is_persistent
        while True:
            try:
                return await asyncio.shield(answered)
            except asyncio.CancelledError as cancelled:
                is_drained = DRAINED in cancelled.args
                if is_drained and continues:
                    continue
                try:
                    if is_drained:
                        await dialogue.settled()
                finally:
                    await self._calls.aclose()
                raise

    async def return_to_queue(self) -> None:
        """Let other processes run the task after its run was stopped here, if it may run again."""
        record = self.writer.record
        if self._has_begun and record.run_deadline is None:  # the run has ended, with requests or to wait
            return
        if self._has_begun and record.rerun == "never":
            await _give_up(self.writer, _PROCESS_ENDED)
            return
        await self._suspend(due=0.0)

    async def _end(self, call: Call, dialogue: TaskDialogue, channel: TaskChannel, message: bytes) -> None:
        """Write the outcome of the run, with retries until it succeeds, because the work is done."""
        response = from_json(message)
        has_requests = dialogue.has_open_requests and "result" in response
        if has_requests:
            await dialogue.settled()  # a request may have ended the run while a step of `ctx.once` runs

        def store_requests(record: TaskRecord) -> None:
            channel.store_progress(record)
            dialogue.store_requests(record)

        def end(record: TaskRecord) -> None:
            channel.store_progress(record)
            if "error" in response:
                record.fail(response["error"])
            else:
                record.end("completed")
                record.message = None
                record.result = response["result"]

        async def write() -> None:
            try:
                if has_requests:
                    await self._suspend(self._engine.runtime.timeouts.client_request, store_requests)
                else:
                    await self.writer.write(end)
            except TooLargeError as error:
                await self.writer.fail(tool_error(call, OutputError(str(error)))["content"][0]["text"])

        # No other process knows the outcome, so it is written even if this run is cancelled meanwhile.
        writing = asyncio.get_running_loop().create_task(write())
        try:
            await see_through(writing)
        finally:
            writing.result()

    async def _suspend(self, due: float, change: Callable[[TaskRecord], None] | None = None) -> None:
        """End the run and not its task, which another run can take after some seconds."""
        time_left = self.writer.record.time_left
        if (deadline := self.writer.record.run_deadline) is not None:
            time_left = max(0.001, deadline - self.writer.now())

        def suspend(record: TaskRecord) -> None:
            record.run_deadline = None
            record.time_left = time_left
            if change is not None:
                change(record)

        await self.writer.write(suspend, due=due)


async def _give_up(writer: TaskWriter, reason: str) -> None:
    """End a task as failed, without a result of its function."""
    await writer.fail(reason)
    # The log does not contain the id of the task, which is enough to read the task of an anonymous client.
    record = writer.record
    logger.warning("a task of the tool %r (call_id %s) has failed: %s", record.tool, record.call_id, reason)


async def _cancel(writer: TaskWriter) -> None:
    with suppress(LostError):  # it has ended before
        await writer.write(lambda record: record.end("cancelled"))


def _request(record: TaskRecord) -> Request:
    """Return the request that created a task, as the client sent it."""
    request = Request()
    client, revision = Client(record.client_info, record.capabilities), record.revision
    is_old = revision in HANDSHAKE
    request.envelope = Handshake(revision, client) if is_old else Stateless(revision, client, None)
    request.id, request.method = record.call_id, "tools/call"
    request.meta = {"progressToken": record.id, **record.meta}
    request.params = {"name": record.tool, "arguments": record.arguments, "_meta": request.meta}
    return request


# Notifications

NOTIFICATION = "notifications/tasks"

# Seconds until a task is read again while the storage does not answer
_RETRY_PAUSE = 1.0


class LoopTasks:
    """The tasks of one event loop, with the notifications of their changes, which come from all processes.

    Its methods are called in that event loop. It subscribes when it is created, and its runs to revocations.

    Args:
        store: The task records.
        changes: Notifies clients in this event loop.
        runs: Runs of tasks in this event loop, which receive changes too.
        scopes: Returns the scopes that a client needs today to receive notifications of a task.

    Attributes:
        runs: Runs of tasks in this event loop.
        users: Number of open contexts of `TaskService.running`.
        runner: Takes tasks; None if this process runs none.
    """

    runner: Runner | None = None
    users = 0

    def __init__(
        self,
        store: TaskStore,
        changes: SubscriptionHub,
        runs: TaskRuns,
        scopes: Callable[[TaskRecord], Sequence[str]],
    ) -> None:
        self._store = store
        self._changes = changes
        self.runs = runs
        self._scopes = scopes
        self._loop = asyncio.get_running_loop()
        self._watchers: dict[str, Listeners[[]]] = {}
        self._unpublished: dict[str, None] = {}  # ids of tasks
        self._publishing: asyncio.Task[None] | None = None
        changes.recovered.add(NOTIFICATION)
        self._subscriptions = (
            store.storage.subscribe(
                store.topic, self._on_message, partial(call_in_loop, self._loop, self._on_gap)
            ),
            runs.watch_revocations(),
        )

    def close(self) -> None:
        """Unsubscribe."""
        for unsubscribe in self._subscriptions:
            unsubscribe()
        if self._publishing is not None:
            self._publishing.cancel()

    def watch(self, id_: str, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function whenever a task may have changed. Return a function that ends it."""
        watchers = self._watchers.setdefault(id_, Listeners())
        remove = watchers.add(changed)

        def end() -> None:
            remove()
            if not watchers and self._watchers.get(id_) is watchers:
                del self._watchers[id_]

        return end

    def schedule(self, ids: Iterable[str]) -> None:
        """Publish the current state of tasks to their subscribers, soon."""
        self._unpublished.update(dict.fromkeys(ids))
        if self._unpublished and self._publishing is None:
            self._publishing = self._loop.create_task(self._publish())

    # Messages of all processes

    def _on_message(self, message: str) -> None:
        """Receive a change, in any thread."""
        try:
            change = from_json(message)
            id_, status = str(change["id"]), str(change["status"])
        except (ValueError, KeyError, TypeError):
            logger.warning(
                "the shared store delivered a message that is not a task status; it is ignored. "
                "Check that no other program writes to the store: %.200r",
                message,
            )
            return
        call_in_loop(self._loop, self._on_change, id_, status)

    def _on_change(self, id_: str, status: str) -> None:
        self.runs.on_change(id_, status)
        if (watchers := self._watchers.get(id_)) is not None:
            watchers.notify()
        if self._changes.has_subscribers(Change(NOTIFICATION, id_)):
            self.schedule([id_])

    def _on_gap(self) -> None:
        """Read all watched tasks again, because a notification may have been missed."""
        self.runs.on_gap()
        for watchers in tuple(self._watchers.values()):
            watchers.notify()
        subscribed = self._changes.subscribed(NOTIFICATION)
        self.schedule(change.key for change in subscribed if change.key is not None)

    async def _publish(self) -> None:
        """Read the tasks of `schedule`, and publish their state."""
        is_failing = False
        try:
            while self._unpublished:
                id_ = next(iter(self._unpublished))
                del self._unpublished[id_]
                try:
                    task = await self._store.get(id_)
                    is_failing = False
                except OSError as error:
                    if not is_failing:
                        logger.error(  # noqa: TRY400
                            "the task records cannot be read, so clients are notified of task changes later: %s",
                            error,
                        )
                    is_failing = True
                    self._unpublished[id_] = None
                    await asyncio.sleep(_RETRY_PAUSE)
                    continue
                except UnreadableTaskError as error:
                    logger.warning(
                        "clients are not notified of a task change, as the task record cannot be read: %s",
                        error,
                    )
                    continue
                if task is not None:
                    scopes = self._scopes(task.record)
                    audience = Audience.of(partial(_has_scopes, scopes)) if scopes else None
                    params = task.record.to_detailed_task()
                    self._changes.deliver(Change(NOTIFICATION, id_, audience, params))
        finally:
            self._publishing = None


def _has_scopes(scopes: Sequence[str], principal: Principal) -> bool:
    return principal.scopes.issuperset(scopes)
