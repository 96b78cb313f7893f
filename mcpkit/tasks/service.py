"""Creation of tasks from calls, and the requests of clients about tasks."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from .._utils.errors import BusyError, MalformedError, MissingCapabilityError
from ..components.tools import AnyTool, Tool
from ..engine.registry import CompositeCatalog, Extension
from ..engine.subscriptions.hub import Hubs
from ..identity.change import Change
from ..identity.owner import digest_of, owner_of
from ..protocol.capabilities import tree
from ..protocol.jsonrpc import Outcome, is_object
from ..protocol.revisions import TASKS
from ..protocol.types import Json
from ..requests.access import Guarded, check_access
from ..requests.call import Call, call_of
from ..requests.runtime import Runtime
from .dialogue import TaskDialogue
from .ids import IDEMPOTENCY_KEY, MAX_KEY, is_of, new_id, same_id
from .ledger import Engine, Held, Ledger, TooLargeError, UnreadableTaskError, unreachable
from .measuring import Watched
from .options import TaskOptions
from .polls import Polls
from .record import Record, read, written
from .run import Runs, Serving
from .runner import Runner
from .telling import Telling
from .wire import detailed, handle
from .working import Working

if TYPE_CHECKING:
    from ..context import Context

logger = logging.getLogger(__name__)

_TRIES = 50
"""How often a change is tried that others get ahead of."""

_CAPABILITY = f"extensions.{TASKS}"


class TaskService:
    """The tasks of one server.

    Args:
        catalog: Components of the server.
        runtime: Shared objects of the server.
        serving: Parts of the server that answer calls.
        hubs: Notify clients of changes, in each event loop.
        options: Options of tasks.

    Attributes:
        slots: Number of tasks that run at a time in each event loop.
        catalog: Components of the server.
        runtime: Shared objects of the server.
        polls: Counter of polls.
        extension: The tasks extension of 2026-07-28, with its subscription topic.
        ledger: Storage of task records.
        runs: Runs of tasks in this process.

    Raises:
        TypeError: The engine of the server lacks methods that tasks need.
        ImportError: Tasks outlive the process, and the package for their encryption is not installed.
    """

    def __init__(
        self,
        catalog: CompositeCatalog,
        runtime: Runtime,
        serving: Serving,
        hubs: Hubs,
        options: TaskOptions,
    ) -> None:
        self.options = options
        self.ledger = Ledger(
            _engine(runtime),
            runtime.keys,
            max_open=options.max_open,
            max_open_per_owner=options.max_open_per_owner,
        )
        self.runs = Runs(self.ledger, catalog, runtime, serving, options.lease)
        self.extension = Extension(TASKS)
        self.telling = Telling(self.ledger, hubs, lambda record: self.needs(record).scopes)
        self.slots = options.slots
        self._is_working_here = options.by == "replicas"
        self._working = Working(self._runner, serving.entered)
        catalog.listeners.add(self._changed)
        self._topic = self.extension.topic("taskIds", "notifications/tasks", accept=self._accepted)
        self.catalog = catalog
        self.runtime = runtime
        self.polls = Polls()
        self._watched = Watched(self.ledger.engine, self.ledger.server, self.ledger.tool_of)

    # Life

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run tasks and send notifications in this event loop while the context is active."""
        async with AsyncExitStack() as stack:
            stack.callback(self.telling.begin(self.runs))
            stack.callback(self.runs.sent_away.listen())
            for each in self.runtime.task_meters:
                each.attach_tasks(self._watched)
            if self._is_working_here:
                await stack.enter_async_context(self._working.running())
            yield

    def drain(self, grace: float | None) -> None:
        """Hand back the tasks that run in this event loop, before a context of `running` ends."""
        self._working.drain(grace)

    def work_here(self, slots: int | None) -> None:
        """Run tasks in this process, whatever `TaskOptions.by` is. Call it before `running`.

        Args:
            slots: Number of tasks that run at a time; None for the options' number.
        """
        self._is_working_here = True
        self.slots = slots or self.slots

    def _changed(self, change: Change) -> None:
        if change.kind == "tools":  # there may be tasks of one that nobody has run yet
            self._working.wake()

    def _runner(self) -> Runner:
        engine = self.ledger.engine
        return Runner(engine, engine, self.runs, slots=self.slots, lease=self.options.lease)

    # Making tasks

    async def call(self, call: Call, tool: AnyTool, arguments: Json) -> Json | bytes:
        """Create a task, if the client supports it, or call the tool; see `TaskKeeper`."""
        assert isinstance(tool, Tool), "the tool must be a Tool"
        if isinstance(call.dialogue, TaskDialogue):
            return await call.dialogue.run(tool, arguments)
        begun = await self.begin(call, tool, arguments)
        return await tool.call(arguments, call) if begun is None else begun

    async def begin(self, call: Call, tool: Tool, arguments: Json) -> bytes | None:
        """Create a task for a call, and return the result for the client; None if the tool is to be called instead.

        Raises:
            Exception: See `TaskKeeper.call`.
        """
        assert tool.task is not None, "the tool must have task="
        if not call.client.supports(_CAPABILITY):
            if tool.task.required:
                raise MissingCapabilityError([_CAPABILITY], tree([_CAPABILITY]))
            return None
        tool.arguments.validate(arguments)
        record = await self.create(call, tool, await _asked_before(call, tool))
        return call.render({"resultType": "task", **handle(record, self.polls.load)})

    async def create(self, call: Call, tool: Tool, before: list[Json], keep: float | None = None) -> Record:
        """Create a task for a call, or return the existing one with the same idempotency key.

        Args:
            call: The call.
            tool: Its tool, with `task=`.
            before: Requests that the client has answered before: digests and results.
            keep: Seconds for which its result is kept; None for the tool's number.

        Raises:
            BusyError: Too many tasks are open, or the engine does not respond.
            MalformedError: The idempotency key is invalid, or the arguments are too large.
        """
        task = tool.task
        assert task is not None, "the tool must have task="
        owner = owner_of_call(call)
        whose = owner or _stranger(call)
        keys = self.runtime.keys
        sent = call.params if call.sent is None else call.sent  # as a run passes the middleware again
        arguments: Json = sent.get("arguments") or {}
        meta: Json = sent.get("_meta") or {}
        key = _idempotency_key(meta)
        now = time.time()
        record = Record(
            id=new_id(keys, owner) if key is None else same_id(keys, owner, whose, tool.name, arguments, key),
            tool=tool.name,
            arguments=arguments,
            owner=owner,
            needs=list(tool.scopes),
            principal=written(call.principal),
            call_id=os.urandom(12).hex() if call.dialogue is None else call.dialogue.call_id,
            revision=call.revision,
            info=call.client.info,
            capabilities=call.client.capabilities,
            meta={name: value for name, value in meta.items() if not name.startswith(_PROTOCOL)},
            headers={name: call.headers[name] for name in tool.headers if name in call.headers},
            created=now,
            updated=now,
            keep=task.result_ttl if keep is None else keep,
            left=task.timeout,
            rerun=task.reruns(tool.annotations),
            attempts=task.attempts,
            before=before,
        )
        try:
            added = await self.ledger.add(record, self.runs.digest(tool), whose)
            if added == "exists":
                held = await self.ledger.look(record.id)
                if held is not None:
                    return held.record
                added = await self.ledger.add(record, self.runs.digest(tool), whose)  # it has just expired
        except OSError as error:
            raise unreachable_by(error) from None
        except TooLargeError as error:
            raise MalformedError(f"arguments: {error}") from None
        except UnreadableTaskError as error:
            raise unreachable_by(error) from None
        if added == "owner_full":
            raise BusyError(
                f"You have {self.options.max_open_per_owner:,} open tasks, the limit. Wait until one ends, or "
                "cancel one",
                retry_after=10,
            )
        if added == "full":
            raise BusyError("The server has too many open tasks. Try again later", retry_after=10)
        return record

    # What is asked of them

    async def serve(self, call: Call) -> Outcome:
        """Answer `tasks/get`, `tasks/update` or `tasks/cancel` (ext-tasks)."""
        call.client.require(_CAPABILITY)
        if call.method == "tasks/get":
            self.polls.count()
            held = await self.find(call)
            return call.render(detailed(held.record, self.polls.load))
        if call.method == "tasks/update":
            responses: object = call.params.get("inputResponses")
            if not is_object(responses):
                raise MalformedError("inputResponses: expected an object")
            held = await self.find(call)
            await self.answer(held, responses)
        else:
            await self.cancel(await self.find(call))
        return call.render({})

    async def find(self, call: Call) -> Held:
        """Return the task of a request, if its client may access it.

        Raises:
            MalformedError: The client has no such task.
            ChallengeError: The client needs more scopes.
            InsufficientScopeError: The client needs more scopes.
            BusyError: The engine does not respond.
        """
        id_: object = call.params.get("taskId")
        if not isinstance(id_, str):
            raise MalformedError("taskId: expected a string")
        if not is_of(self.runtime.keys, owner_of_call(call), id_):
            raise unknown(id_)
        try:
            held = await self.ledger.look(id_)
        except (OSError, UnreadableTaskError) as error:
            raise unreachable_by(error) from None
        if held is None:
            raise unknown(id_)
        self.check(call, held.record)
        return held

    def check(self, call: Call, record: Record) -> None:
        """Reject a client that lacks the scopes that the task needs today.

        Raises:
            ChallengeError: The client needs more scopes.
            InsufficientScopeError: The client needs more scopes.
        """
        check_access(call, self.needs(record))

    def needs(self, record: Record) -> Guarded:
        """Return the access rules that apply to a task today."""
        return self.catalog.tools.get(record.tool) or _Needs(record.needs)

    async def answer(self, held: Held, responses: Json) -> Held:
        """Store the client's responses in a task, and return it afterwards. Unknown keys are ignored.

        Raises:
            MalformedError: A response is not an object.
            BusyError: The engine does not respond.
        """

        def take(record: Record) -> bool:
            known = [key for key in responses if key in record.asked]
            for key in known:
                if not is_object(responses[key]):
                    raise MalformedError(f"inputResponses.{key[:100]}: expected an object")
            for key in known:
                asked = record.asked.pop(key)
                record.answered[asked["name"]] = {"digest": asked["digest"], "result": responses[key]}
            if known and not record.asked:
                record.status = "working"
            return bool(known)

        try:
            return await self._change(held, take, _due_when_answered)
        except TooLargeError as error:
            raise MalformedError(f"inputResponses: {error}") from None

    async def refuse(self, held: Held, key: str, why: str) -> Held:
        """Store in a task that its client will not respond to a request, and return it afterwards.

        Raises:
            BusyError: The engine does not respond.
        """

        def take(record: Record) -> bool:
            asked = record.asked.pop(key, None)
            if asked is None:
                return False
            record.refused[asked["name"]] = why
            if not record.asked:
                record.status = "working"
            return True

        return await self._change(held, take, _due_when_answered)

    async def cancel(self, held: Held) -> Held:
        """Cancel a task, unless it has ended, and return it afterwards.

        Raises:
            BusyError: The engine does not respond.
        """

        def cancel(record: Record) -> bool:
            record.end("cancelled", time.time())
            ended.append(record)
            return True

        ended: list[Record] = []
        now = await self._change(held, cancel, lambda _: None)
        if any(now.record is each for each in ended):
            who = read(now.record.principal)
            self.runtime.audit.emit("cancellation", who, detail=f"a task of {now.record.tool}")
        return now

    async def _change(
        self, held: Held, change: Callable[[Record], bool], due: Callable[[Record], float | None]
    ) -> Held:
        """Change a task, with retries after concurrent changes. A task that has ended stays unchanged."""
        try:
            for _ in range(_TRIES):
                record = held.record.copy()
                if record.is_over or not change(record):
                    return held
                record.updated = max(record.updated, time.time())
                changed = await self.ledger.change(held, record, due=due(record))
                if changed is not None:
                    return changed
                seen = await self.ledger.look(record.id)
                if seen is None:
                    raise unknown(record.id)
                held = seen
        except (OSError, UnreadableTaskError) as error:
            raise unreachable_by(error) from None
        raise BusyError("The task was changed by other requests at the same time. Try again")

    def _accepted(self, keys: list[str], ctx: Context) -> list[str]:
        """Return the ids of the subscriber's own tasks. Their current state is sent soon."""
        owner = owner_of_call(call_of(ctx))
        accepted = [key for key in keys if is_of(self.runtime.keys, owner, key)]
        self.telling.tell_soon(accepted)
        return accepted


class _Needs:
    """Access rules of a task when its tool does not exist any more."""

    optional_scopes: tuple[str, ...] = ()
    is_anonymous = True

    def __init__(self, scopes: list[str]) -> None:
        self.scopes = tuple(scopes)


_PROTOCOL = "io.modelcontextprotocol/"


def _engine(runtime: Runtime) -> Engine:
    engine: object = runtime.storage
    if not isinstance(engine, Engine):
        raise TypeError(
            f"tasks need an engine with all methods of mcpkit.storage.Queue, got {engine!r}. "
            "Implement them, or use Memory(), Sqlite(...) or Redis(...)"
        )
    if engine.is_persistent:
        from ..storage.keys import aes_gcm

        try:
            aes_gcm()
        except ImportError as error:
            raise ImportError(f"tasks in {type(engine).__name__}(...) are encrypted: {error}") from None
    return engine


def owner_of_call(call: Call) -> str:
    """Return the owner of a call's tasks; empty for an anonymous client."""
    return owner_of(call.principal) or ""


def _stranger(call: Call) -> str:
    """Return the owner of an anonymous client's tasks, for limits; empty if clients cannot be distinguished."""
    caller = call.channel.caller
    return "" if caller is None else f"~{digest_of(caller)[:31]}"


async def _asked_before(call: Call, tool: Tool) -> list[Json]:
    """Send the requests of the function's parameters, in rounds, and return the answers.

    Raises:
        InputRequired: The client has to answer first.
        Exception: Errors of the answers.
    """
    questions = tool.questions
    if not questions:
        return []
    from ..requests.client_requests_api import dialogue_of
    from ..requests.multi_round_trip import Rounds

    for ask in questions:
        await ask(call)
    dialogue = dialogue_of(call)
    return dialogue.answers if isinstance(dialogue, Rounds) else []


def _idempotency_key(meta: Json) -> str | None:
    key: object = meta.get(IDEMPOTENCY_KEY)
    if key is None:
        return None
    if not isinstance(key, str) or not 0 < len(key) <= MAX_KEY:
        raise MalformedError(f"_meta.{IDEMPOTENCY_KEY}: expected a string of 1 to {MAX_KEY} characters")
    return key


def _due_when_answered(record: Record) -> float | None:
    """Return the time when an answered task may run: 0, at once, if no run waits for the answers; else None."""
    return 0.0 if record.run is None and not record.asked else None


def unknown(id_: str) -> MalformedError:
    """Return the error for a task that the client does not have."""
    return MalformedError(f"Unknown task: {id_[:100]}. It has expired, or it is not a task of this client")


def unreachable_by(error: Exception) -> BusyError:
    """Log why tasks are unavailable, and return the error for the client."""
    logger.error("the state of tasks is not available, so a client must repeat its request later: %s", error)
    return unreachable()
