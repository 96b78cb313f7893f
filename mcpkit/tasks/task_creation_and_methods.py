"""Creation of tasks from calls, and requests of clients about tasks (ext-tasks, 2026-07-28; 2025-11-25)."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from .._utils.exceptions import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    BusyError,
    MalformedError,
    MissingCapabilityError,
    ProtocolError,
)
from ..components.tool import AnyTool, Tool
from ..engine.included_providers_and_extensions import Extension
from ..identity.principals_and_scopes import Change, digest_of, owner_of
from ..options import TaskOptions
from ..protocol.jsonrpc import Json, Outcome, is_object
from ..protocol.revisions import TASKS, TASKS_IN_CORE, narrow_tool_result, tree
from ..requests.access_and_error_responses import Guarded, check_access
from ..requests.request_record import Call, call_of
from .input_requests_and_progress import TaskDialogue
from .queue_polling_and_leases import Runner
from .task_execution_and_notifications import LoopTasks, TaskRuns
from .task_records import (
    StoredTask,
    TaskRecord,
    TaskStore,
    TooLargeError,
    UnreadableTaskError,
    is_task_id,
    new_task_id,
    unavailable,
    unknown_task,
)
from .tasks_2025_11_25 import TaskConnection, ask_first, legacy_task, related_task

if TYPE_CHECKING:
    from ..context import Context
    from ..engine.engine import Engine

logger = logging.getLogger(__name__)

# Member of a request's `_meta`; a client that repeats a request with the same key gets the same task.
IDEMPOTENCY_KEY = "mcpkit/idempotencyKey"

# Characters of an idempotency key.
MAX_KEY = 200

# Minimum seconds for which a result is stored, whatever `ttl` the client requests
_MIN_TTL = 10.0

# Maximum milliseconds of a requested `ttl` that can be represented
_MAX_TTL = 10**15

# Tasks in one page of a list
_PAGE_SIZE = 50

_CAPABILITY = f"extensions.{TASKS}"

_PROTOCOL_META = "io.modelcontextprotocol/"


class TaskService:
    """The tasks of one server.

    Args:
        engine: The engine of the server.
        options: Options of tasks.

    Attributes:
        slots: Number of tasks that run at a time in each event loop.
        catalog: Components of the server.
        runtime: Shared objects of the server.
        extension: The tasks extension of 2026-07-28, with its subscription topic.
        store: The task records.

    Raises:
        TypeError: The storage of the server lacks methods that tasks need.
        ImportError: Tasks outlive the process, and the package for their encryption is not installed.
    """

    def __init__(self, engine: Engine, options: TaskOptions) -> None:
        self.slots = options.slots
        self.catalog = engine.catalog
        self.runtime = runtime = engine.runtime
        self.store = TaskStore(runtime.storage, runtime.keys, options)
        self.extension = Extension(TASKS)
        self.extension.topic("taskIds", "notifications/tasks", accept=self._accept)
        self._engine = engine
        self._options = options
        self._runs_here = options.by == "replicas"
        self._loops: dict[asyncio.AbstractEventLoop, LoopTasks] = {}
        # Clients of 2025-11-25, by event loop, and by session and id of the task
        self._connections: dict[asyncio.AbstractEventLoop, dict[object, TaskConnection]] = {}
        self.catalog.listeners.add(self._on_catalog_change)

    # Event loops

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run tasks and send notifications in this event loop while the context is active."""
        loop = asyncio.get_running_loop()
        here = self._loops.get(loop)
        if here is None:
            runs = TaskRuns(self.store, self._engine, self._options.lease)
            here = self._loops[loop] = LoopTasks(
                self.store, self._engine.hub(), runs, lambda record: self.access_rules(record).scopes
            )
        for meter in self.runtime.task_meters:
            meter.attach_tasks(self.store)
        here.users += 1
        try:
            async with AsyncExitStack() as stack:
                if self._runs_here:
                    if here.runner is None or here.runner.is_draining:
                        here.runner = Runner(
                            self.store.storage,
                            here.runs,
                            slots=self.slots,
                            lease=self._options.lease,
                            ready=self._engine.wait_started,
                        )
                    await stack.enter_async_context(here.runner.running())
                try:
                    yield
                finally:
                    if here.users == 1:
                        tasks = [each.task for each in self._connections.pop(loop, {}).values()]
                        for task in tasks:
                            task.cancel()
                        await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            here.users -= 1
            if here.users == 0:
                del self._loops[loop]
                here.close()

    @property
    def here(self) -> LoopTasks:
        """The tasks of the running event loop.

        Raises:
            RuntimeError: `running` has not been entered in this event loop.
        """
        here = self._loops.get(asyncio.get_running_loop())
        if here is None:
            raise RuntimeError("this event loop does not serve tasks. Enter server.running() in it first")
        return here

    def drain(self, grace: float | None) -> None:
        """Release the tasks that run in this event loop, before a context of `running` ends.

        Args:
            grace: Seconds that running tasks may take to end; None for no limit.
        """
        here = self._loops.get(asyncio.get_running_loop())
        if here is not None and here.runner is not None:
            here.runner.drain(grace)

    def work_here(self, slots: int | None) -> None:
        """Run tasks in this process, whatever `TaskOptions.by` is. Call it before `running`.

        Args:
            slots: Number of tasks that run at a time; None for the options' number.
        """
        self._runs_here = True
        self.slots = slots or self.slots

    def _on_catalog_change(self, change: Change) -> None:
        if change.kind == "tools":  # there may be tasks of a new tool
            for here in tuple(self._loops.values()):
                if here.runner is not None:
                    here.runner.wake()

    # Creation

    async def call(self, call: Call, tool: AnyTool, arguments: Json) -> Json | bytes:
        """Create a task, if the client supports it, or call the tool; see `TaskKeeper`."""
        if tool.task is None and call.revision == TASKS_IN_CORE:
            raise ProtocolError(
                METHOD_NOT_FOUND, f"{tool.key} does not support calls as a task. Call it without `task`"
            )
        if tool.task is None:  # other revisions ignore `task`
            result: Json = await tool.call(arguments, call)
            return result
        assert isinstance(tool, Tool), "the tool must be a Tool"
        if isinstance(call.dialogue, TaskDialogue):
            return await call.dialogue.run(tool, arguments)
        if call.era == "stateless":
            created = await self._begin(call, tool, arguments)
        else:
            created = await self._begin_2025_11_25(call, tool)
        return await tool.call(arguments, call) if created is None else created

    async def _begin(self, call: Call, tool: Tool, arguments: Json) -> bytes | None:
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
        responses: list[Json] = []
        if tool.questions:  # the client answers the requests of the function's parameters first
            from ..requests.elicitation_and_sampling import dialogue_of
            from ..requests.multi_round_trip import Rounds

            for ask in tool.questions:
                await ask(call)
            dialogue = dialogue_of(call)
            responses = dialogue.answers if isinstance(dialogue, Rounds) else []
        record = await self.create(call, tool, responses)
        return call.render({"resultType": "task", **record.to_task()})

    async def _begin_2025_11_25(self, call: Call, tool: Tool) -> bytes | None:
        """Create a task, if the client requests it, and return the result; None if the tool is to be called instead."""
        assert tool.task is not None, "the tool must have task="
        if call.revision != TASKS_IN_CORE or "task" not in call.params:
            if tool.task.required:
                raise ProtocolError(
                    METHOD_NOT_FOUND, f"{tool.name} only supports calls as a task. Call it with `task`"
                )
            return None
        options: object = call.params["task"]
        if not is_object(options):
            raise MalformedError("task: expected an object")
        ttl: object = options.get("ttl")
        result_ttl = tool.task.result_ttl
        if ttl is not None:
            if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not ttl >= 0:
                raise MalformedError("task.ttl: expected a number of milliseconds, 0 or more")
            result_ttl = min(result_ttl, max(_MIN_TTL, min(ttl, _MAX_TTL) / 1000))
        record = await self.create(call, tool, await ask_first(call, tool), result_ttl)
        if call.channel.standalone is not None and not record.is_over:
            self._connect(call, record.id)
        return call.render({"task": legacy_task(record)})

    async def create(
        self, call: Call, tool: Tool, earlier_responses: list[Json], result_ttl: float | None = None
    ) -> TaskRecord:
        """Create a task for a call, or return the existing one with the same idempotency key.

        Args:
            call: The call.
            tool: Its tool, with `task=`.
            earlier_responses: Responses of the client: digests of the requests, and results.
            result_ttl: Seconds for which its result is stored; None for the tool's number.

        Raises:
            BusyError: Too many tasks are open, or the storage does not respond.
            MalformedError: The idempotency key is invalid, or the arguments are too large.
        """
        task = tool.task
        assert task is not None, "the tool must have task="
        params = call.params if call.sent is None else call.sent  # as a run passes the middleware again
        arguments: Json = params.get("arguments") or {}
        meta: Json = params.get("_meta") or {}
        key: object = meta.get(IDEMPOTENCY_KEY)
        if key is not None and not (isinstance(key, str) and 0 < len(key) <= MAX_KEY):
            raise MalformedError(f"_meta.{IDEMPOTENCY_KEY}: expected a string of 1 to {MAX_KEY} characters")
        owner = owner_of_call(call)
        # Limits and idempotency keys of anonymous clients are separate for each address.
        address = call.channel.caller
        client = owner or ("" if address is None else f"~{digest_of(address)[:31]}")
        request = None if key is None else [client, tool.name, arguments, key]
        now = time.time()
        record = TaskRecord(
            id=new_task_id(self.runtime.keys, owner, request),
            tool=tool.name,
            arguments=arguments,
            owner=owner,
            scopes=list(tool.scopes),
            principal=call.principal,
            call_id=os.urandom(12).hex() if call.dialogue is None else call.dialogue.call_id,
            revision=call.revision,
            client_info=call.client.info,
            capabilities=call.client.capabilities,
            meta={name: value for name, value in meta.items() if not name.startswith(_PROTOCOL_META)},
            headers={name: call.headers[name] for name in tool.headers if name in call.headers},
            created=now,
            updated=now,
            result_ttl=task.result_ttl if result_ttl is None else result_ttl,
            time_left=task.timeout,
            rerun=task.reruns(tool.annotations),
            attempts=task.attempts,
            earlier_responses=earlier_responses,
        )
        try:
            added = await self.store.add(record, tool, client)
            if added == "exists":
                existing = await self.store.get(record.id)
                if existing is not None:
                    return existing.record
                added = await self.store.add(record, tool, client)  # the task has just expired
        except (OSError, UnreadableTaskError) as error:
            raise unavailable(error) from None
        except TooLargeError as error:
            raise MalformedError(f"arguments: {error}") from None
        if added == "owner_full":
            raise BusyError(
                f"You have {self._options.max_open_per_owner:,} open tasks, the limit. Wait until one ends, or "
                "cancel one",
                retry_after=10,
            )
        if added == "full":
            raise BusyError("The server has too many open tasks. Try again later", retry_after=10)
        return record

    # Requests about tasks

    async def serve(self, call: Call) -> Outcome:
        """Serve a request about tasks."""
        if call.era == "handshake":
            return await self._serve_2025_11_25(call)
        call.client.require(_CAPABILITY)
        if call.method == "tasks/get":
            return call.render((await self.find(call)).record.to_detailed_task())
        if call.method == "tasks/update":
            responses: object = call.params.get("inputResponses")
            if not is_object(responses):
                raise MalformedError("inputResponses: expected an object")
            await self.store.respond(await self.find(call), responses)
        else:
            await self.cancel(await self.find(call))
        return call.render({})

    async def _serve_2025_11_25(self, call: Call) -> Outcome:
        if call.method == "tasks/list":
            return call.render(await self._list(call))
        task = await self.find(call)
        if call.method == "tasks/get":
            connections = self._connections.get(asyncio.get_running_loop(), {})
            if connection := connections.get((call.channel.standalone, task.record.id)):
                connection.on_poll(task)
        elif call.method == "tasks/cancel":
            was_over = task.record.is_over
            if not was_over:
                task = await self.cancel(task)
            if was_over or task.record.status != "cancelled":
                status = legacy_task(task.record)["status"]
                problem = f"Cannot cancel task: it has already ended with status {status!r}"
                raise ProtocolError(INVALID_PARAMS, problem)
        else:
            if not task.record.is_over:
                task = await self._connect(call, task.record.id).wait(call)
            return call.render(self._result(call, task.record))
        return call.render(legacy_task(task.record))

    async def _list(self, call: Call) -> Json:
        """Return a page of the client's tasks, without those that its scopes do not allow today.

        Raises:
            ProtocolError: The client is anonymous, or the cursor is invalid.
            BusyError: The storage does not answer.
        """
        owner = owner_of_call(call)
        if not owner:
            raise ProtocolError(
                METHOD_NOT_FOUND,
                "Method not found: tasks/list (this server does not authenticate clients, so it cannot "
                "list the tasks of one client)",
            )
        cursor: object = call.params.get("cursor")
        bad_cursor = MalformedError("Invalid cursor. Send the nextCursor of a previous page, or no cursor")
        if cursor is not None and not (
            isinstance(cursor, str) and is_task_id(self.runtime.keys, owner, cursor)
        ):
            raise bad_cursor
        try:
            records, next_cursor = await self.store.list_owned(owner, cursor or "", _PAGE_SIZE)
            if cursor and not records and await self.store.get(cursor) is None:
                raise bad_cursor  # its task has expired, so the position in the list is unknown
        except (OSError, UnreadableTaskError) as error:
            raise unavailable(error) from None
        scopes = call.principal.scopes
        visible = [each for each in records if scopes.issuperset(self.access_rules(each).scopes)]
        page: Json = {"tasks": [*map(legacy_task, visible)]}
        return page if next_cursor is None else {**page, "nextCursor": next_cursor}

    def _result(self, call: Call, record: TaskRecord) -> Json:
        """Return the result of an ended task.

        Raises:
            ProtocolError: It has ended without a result.
        """
        if record.error is not None:
            raise ProtocolError(record.error["code"], record.error["message"], record.error.get("data"))
        if record.result is None:
            raise ProtocolError(INVALID_PARAMS, "The task was cancelled and has no result")
        result = {name: value for name, value in record.result.items() if name != "resultType"}
        if record.revision > call.revision:
            tool = self.catalog.tools.get(record.tool)
            result = narrow_tool_result(result, call.revision, wrapped=tool is not None and tool.is_wrapped)
        return {**result, "_meta": {**result.get("_meta", {}), **related_task(record.id)}}

    def _connect(self, call: Call, id_: str) -> TaskConnection:
        """Return the connection of a client to a task. Without a session, it belongs to the request alone."""
        connections = self._connections.setdefault(asyncio.get_running_loop(), {})
        standalone = call.channel.standalone
        key = (call if standalone is None else standalone, id_)
        connection = connections.get(key)
        if connection is None:
            connection = connections[key] = TaskConnection(self.store, self.here, call, id_)
            connection.task.add_done_callback(lambda _: connections.pop(key))
        return connection

    async def find(self, call: Call) -> StoredTask:
        """Return the task of a request, if its client may access it.

        Raises:
            MalformedError: The client has no such task.
            ChallengeError: The client needs more scopes.
            InsufficientScopeError: The client needs more scopes.
            BusyError: The storage does not respond.
        """
        id_: object = call.params.get("taskId")
        if not isinstance(id_, str):
            raise MalformedError("taskId: expected a string")
        if not is_task_id(self.runtime.keys, owner_of_call(call), id_):
            raise unknown_task(id_)
        try:
            task = await self.store.get(id_)
        except (OSError, UnreadableTaskError) as error:
            raise unavailable(error) from None
        if task is None:
            raise unknown_task(id_)
        check_access(call, self.access_rules(task.record))
        return task

    def access_rules(self, record: TaskRecord) -> Guarded:
        """Return the access rules that apply to a task today: those of its tool, if that still exists."""
        return self.catalog.tools.get(record.tool) or _StoredScopes(record.scopes)

    async def cancel(self, task: StoredTask) -> StoredTask:
        """Cancel a task, unless it has ended, and return it afterwards.

        Raises:
            BusyError: The storage does not respond.
        """
        ended: list[TaskRecord] = []

        def cancel(record: TaskRecord) -> bool:
            record.end("cancelled")
            ended[:] = [record]
            return True

        task = await self.store.update(task, cancel)
        record = task.record
        if ended and ended[0] is record:
            self.runtime.audit.emit("cancellation", record.principal, detail=f"a task of {record.tool}")
        return task

    def _accept(self, keys: list[str], ctx: Context) -> list[str]:
        """Return the ids of the subscriber's own tasks. Their current state is sent soon."""
        owner = owner_of_call(call_of(ctx))
        accepted = [key for key in keys if is_task_id(self.runtime.keys, owner, key)]
        if (here := self._loops.get(asyncio.get_running_loop())) is not None:
            here.schedule(accepted)
        return accepted


class _StoredScopes:
    """Access rules of a task when its tool does not exist any more."""

    optional_scopes: tuple[str, ...] = ()
    is_anonymous = True

    def __init__(self, scopes: list[str]) -> None:
        self.scopes = tuple(scopes)


def owner_of_call(call: Call) -> str:
    """Return the owner of a call's tasks; empty for an anonymous client."""
    return owner_of(call.principal) or ""
