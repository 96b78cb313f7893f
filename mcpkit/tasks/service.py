"""Tasks on request: calls become tasks, and what clients ask of them is answered."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from ..calls.access import Guarded, check_access
from ..calls.call import Call, call_of
from ..calls.runtime import Runtime
from ..common.errors import BusyError, MalformedError, MissingCapabilityError
from ..components.tools import AnyTool, Tool
from ..engine.registry import CompositeCatalog, Extension
from ..engine.subscriptions.hub import Hubs
from ..protocol.capabilities import tree
from ..protocol.jsonrpc import Outcome, is_object
from ..protocol.revisions import TASKS
from ..protocol.types import Json
from ..state.change import Change
from ..state.owner import digest_of, owner_of
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
    from ..components.context import Context

logger = logging.getLogger(__name__)

_TRIES = 50
"""How often a change is tried that others get ahead of."""

_CAPABILITY = f"extensions.{TASKS}"


class TaskService:
    """The tasks of one server.

    Args:
        catalog: What the server offers.
        runtime: What its calls run with.
        serving: What answers calls.
        hubs: What tells clients of changes, in each event loop.
        options: Who runs tasks, and how many there may be.

    Attributes:
        slots: How many tasks run in each event loop at a time.
        catalog: What the server offers.
        runtime: What its calls run with.
        polls: How many look for their tasks.
        extension: What clients of 2026-07-28 declare, and what they listen to of it.
        ledger: Where tasks are.
        runs: Those that run here.

    Raises:
        TypeError: The server's engine lacks what tasks need.
        ImportError: Tasks outlive the process, and what encrypts them is not installed.
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
        """Have tasks run in this event loop, and those who wait for them hear, for as long as the block lasts."""
        async with AsyncExitStack() as stack:
            stack.callback(self.telling.begin(self.runs))
            stack.callback(self.runs.sent_away.listen())
            for each in self.runtime.task_meters:
                each.attach_tasks(self._watched)
            if self._is_working_here:
                await stack.enter_async_context(self._working.running())
            yield

    def drain(self, grace: float | None) -> None:
        """Hand back the tasks that run in this event loop, as whoever has entered `running` is about to leave."""
        self._working.drain(grace)

    def work_here(self, slots: int | None) -> None:
        """Have tasks run in this process, whoever runs them elsewhere; to be called before `running`.

        Args:
            slots: How many at a time; None for as many as the options say.
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
        """Make a task of a call, where its client knows tasks, or call its tool; see `TaskKeeper`."""
        assert isinstance(tool, Tool), "the tool must be a Tool"
        if isinstance(call.dialogue, TaskDialogue):
            return await call.dialogue.run(tool, arguments)
        begun = await self.begin(call, tool, arguments)
        return await tool.call(arguments, call) if begun is None else begun

    async def begin(self, call: Call, tool: Tool, arguments: Json) -> bytes | None:
        """Make a task of a call, and return what its client gets; None where it is to be served as any other.

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
        """Make a task of a call, or find the one that was made of it under the same idempotency key.

        Args:
            call: The call.
            tool: Its tool, which may be a task.
            before: What the client has been asked before: digests of questions, and answers.
            keep: For how many seconds its end is kept; None for as many as its author says.

        Raises:
            BusyError: There are too many, or the engine does not answer.
            MalformedError: The idempotency key is none, or the arguments are too large.
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
        """Return the task that a request is about, where whoever asks may know of it.

        Raises:
            MalformedError: There is no such task of theirs.
            ChallengeError: They have to be granted more.
            InsufficientScopeError: They have to be granted more.
            BusyError: The engine does not answer.
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
        """Refuse whoever may not do today what the task was made for.

        Raises:
            ChallengeError: They have to be granted more.
            InsufficientScopeError: They have to be granted more.
        """
        check_access(call, self.needs(record))

    def needs(self, record: Record) -> Guarded:
        """Return what it takes today to do what a task was made for."""
        return self.catalog.tools.get(record.tool) or _Needs(record.needs)

    async def answer(self, held: Held, responses: Json) -> Held:
        """Give a task what its client has answered, and return it as it is then; other keys are ignored.

        Raises:
            MalformedError: An answer is no object.
            BusyError: The engine does not answer.
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
        """Have a task know that its client will not answer a question, and return it as it is then.

        Raises:
            BusyError: The engine does not answer.
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
        """Have a task cancelled, and return it as it is then; one that has ended stays as it is.

        Raises:
            BusyError: The engine does not answer.
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
        """Change a task that may be changed by others meanwhile; one that has ended is left as it is."""
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
        """Return the ids that are whoever listens'; they are told at once how those tasks are."""
        owner = owner_of_call(call_of(ctx))
        accepted = [key for key in keys if is_of(self.runtime.keys, owner, key)]
        self.telling.tell_soon(accepted)
        return accepted


class _Needs:
    """What a task needs whose tool there is no more."""

    optional_scopes: tuple[str, ...] = ()
    is_anonymous = True

    def __init__(self, scopes: list[str]) -> None:
        self.scopes = tuple(scopes)


_PROTOCOL = "io.modelcontextprotocol/"


def _engine(runtime: Runtime) -> Engine:
    engine: object = runtime.storage
    if not isinstance(engine, Engine):
        raise TypeError(f"tasks need an engine with all methods of mcpkit.storage.Queue, got {engine!r}")
    if engine.is_persistent:
        from ..state.keys import aes_gcm

        try:
            aes_gcm()
        except ImportError as error:
            raise ImportError(f"tasks in {type(engine).__name__}(...) are encrypted: {error}") from None
    return engine


def owner_of_call(call: Call) -> str:
    """Return what stands for whoever asks; empty for nobody."""
    return owner_of(call.principal) or ""


def _stranger(call: Call) -> str:
    """Return among whose tasks one counts of somebody who has not said who they are; empty where nobody can tell."""
    caller = call.channel.caller
    return "" if caller is None else f"~{digest_of(caller)[:31]}"


async def _asked_before(call: Call, tool: Tool) -> list[Json]:
    """Ask by rounds what the parameters of the function ask, and return the answers.

    Raises:
        InputRequired: The client has to answer first.
        Exception: Whatever the answers lead to.
    """
    questions = tool.questions
    if not questions:
        return []
    from ..calls.asking.api import dialogue_of
    from ..calls.asking.multi_round import Rounds

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
    """Return when a task may be run that has been given answers: at once where nothing waits for them."""
    return 0.0 if record.run is None and not record.asked else None


def unknown(id_: str) -> MalformedError:
    """Return what is raised where there is no such task of whoever asks."""
    return MalformedError(f"Unknown task: {id_[:100]}. It has expired, or it is not a task of this client")


def unreachable_by(error: Exception) -> BusyError:
    """Log why tasks cannot be reached, and return what a client is told."""
    logger.error("the state of tasks is not available: %s", error)
    return unreachable()
