"""Tasks of 2025-11-25, with the records of 2026-07-28 (basic/utilities/tasks)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager

from .._utils.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    ClientResponseError,
    ElicitationError,
    MalformedError,
    ProtocolError,
)
from ..components.tools import AnyTool, Tool
from ..engine.registry import CompositeCatalog
from ..engine.subscriptions.hub import Hubs
from ..protocol import content
from ..protocol.jsonrpc import Outcome, is_object
from ..protocol.revisions import TASKS_IN_CORE
from ..protocol.types import Json
from ..requests.call import Call
from ..requests.elicitation import Question
from ..requests.elicitation_state import Dialogue
from ..requests.multi_round_trip import digest
from ..requests.runtime import Runtime
from .attending import Attending
from .ids import is_of
from .ledger import Held, UnreadableTaskError
from .options import TaskOptions
from .record import Record
from .run import Serving
from .service import TaskService, owner_of_call, unreachable_by
from .wire import related, task_2025

_SHORTEST = 10.0
"""Minimum seconds for which a result is kept, whatever `ttl` the client requests."""

_LONGEST = 10**15
"""Maximum milliseconds of a requested `ttl` that can be represented."""

_PAGE = 50
"""Tasks in one page of a list."""


class TasksOfBoth(TaskService):
    """The tasks of a server, for clients of 2025-11-25 and 2026-07-28; see `TaskService`."""

    def __init__(
        self, catalog: CompositeCatalog, runtime: Runtime, serving: Serving, hubs: Hubs, options: TaskOptions
    ) -> None:
        super().__init__(catalog, runtime, serving, hubs, options)
        self._attendance: dict[asyncio.AbstractEventLoop, _Attendance] = {}

    # Life

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run tasks and send notifications in this event loop while the context is active."""
        loop = asyncio.get_running_loop()
        async with super().running():
            attendance = self._attendance.setdefault(loop, _Attendance())
            attendance.users += 1
            try:
                yield
            finally:
                attendance.users -= 1
                if attendance.users == 0:
                    del self._attendance[loop]
                    await attendance.aclose()

    # Making tasks

    async def call(self, call: Call, tool: AnyTool, arguments: Json) -> Json | bytes:
        """Create a task, or call the tool; see `TaskKeeper`."""
        if tool.task is not None:
            return await super().call(call, tool, arguments)
        if call.revision == TASKS_IN_CORE:
            raise ProtocolError(
                METHOD_NOT_FOUND, f"{tool.key} does not support calls as a task. Call it without `task`"
            )
        result: Json = await tool.call(arguments, call)  # to which the wish for a task means nothing
        return result

    async def begin(self, call: Call, tool: Tool, arguments: Json) -> bytes | None:
        """Create a task, if the client requests it (2025-11-25) or supports it (2026-07-28)."""
        if call.era == "stateless":
            return await super().begin(call, tool, arguments)
        assert tool.task is not None, "the tool must have task="
        if call.revision != TASKS_IN_CORE or "task" not in call.params:
            if tool.task.required:
                raise ProtocolError(
                    METHOD_NOT_FOUND, f"{tool.name} only supports calls as a task. Call it with `task`"
                )
            return None
        ttl = _wished(call.params["task"])
        keep = tool.task.result_ttl if ttl is None else min(tool.task.result_ttl, max(_SHORTEST, ttl))
        record = await self.create(call, tool, await _asked_first(call, tool), keep)
        if call.channel.standalone is not None and not record.is_over:
            self._attend(call, record.id)
        return call.render({"task": task_2025(record, self.polls.load)})

    # What is asked of them

    async def serve(self, call: Call) -> Outcome:
        """Handle a request about tasks."""
        if call.era == "stateless":
            return await super().serve(call)
        if call.method == "tasks/list":
            return call.render(await self._list(call))
        held = await self.find(call)
        if call.method == "tasks/get":
            self.polls.count()
            self._attendance[asyncio.get_running_loop()].see(call, held)
        elif call.method == "tasks/cancel":
            held = await self._cancelled(held)
        elif held.record.is_over:
            return call.render(self._outcome(call, held.record))
        else:
            ended = await self._attend(call, held.record.id).wait(call)
            return call.render(self._outcome(call, ended.record))
        return call.render(task_2025(held.record, self.polls.load))

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
        if cursor is not None and not (isinstance(cursor, str) and is_of(self.runtime.keys, owner, cursor)):
            raise _bad_cursor()
        try:
            records, rest = await self.ledger.owned(owner, cursor or "", _PAGE)
            if cursor and not records and await self.ledger.look(cursor) is None:
                raise _bad_cursor()  # it has expired, and what came after it cannot be told
        except (OSError, UnreadableTaskError) as error:
            raise unreachable_by(error) from None
        tasks = [task_2025(record, self.polls.load) for record in records if self._may_ask(call, record)]
        return {"tasks": tasks, **({} if rest is None else {"nextCursor": rest})}

    def _may_ask(self, call: Call, record: Record) -> bool:
        """Return True if the client has the scopes that a task needs today."""
        return call.principal.scopes.issuperset(self.needs(record).scopes)

    async def _cancelled(self, held: Held) -> Held:
        """Cancel a task, and return it.

        Raises:
            ProtocolError: It has ended.
            BusyError: The storage does not answer.
        """
        if not held.record.is_over:
            held = await self.cancel(held)
            if held.record.status == "cancelled":
                return held
        status = task_2025(held.record)["status"]
        raise ProtocolError(
            INVALID_PARAMS, f"Cannot cancel task: it has already ended with status {status!r}"
        )

    def _outcome(self, call: Call, record: Record) -> Json:
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
            result = content.tool_result(result, call.revision, wrapped=tool is not None and tool.is_wrapped)
        return {**result, "_meta": {**result.get("_meta", {}), **related(record.id)}}

    # Who waits

    def _attend(self, call: Call, id_: str) -> Attending:
        """Return the connection of a client to a task."""
        attendance = self._attendance[asyncio.get_running_loop()]
        return attendance.of(self, call, id_, self.runtime.timeouts.client_request)


class _Attendance:
    """Connections of clients to tasks in one event loop, by session and task."""

    def __init__(self) -> None:
        self.users = 0
        self._attending: dict[tuple[object, str], tuple[Attending, asyncio.Task[None]]] = {}

    def of(self, service: TaskService, call: Call, id_: str, seconds: float) -> Attending:
        """Return the connection of a request's client to a task. Without a session, it is that of the request alone."""
        standalone = call.channel.standalone
        key = (call if standalone is None else standalone, id_)
        if key not in self._attending:
            attending = Attending(service, call, id_, seconds)
            running = asyncio.get_running_loop().create_task(attending.run())
            self._attending[key] = attending, running
            running.add_done_callback(lambda _: self._attending.pop(key))
        return self._attending[key][0]

    def see(self, call: Call, held: Held) -> None:
        """Pass a record that the client has polled to its connection."""
        if (found := self._attending.get((call.channel.standalone, held.record.id))) is not None:
            found[0].looked(held)

    async def aclose(self) -> None:
        """Close all connections."""
        running = [task for _, task in self._attending.values()]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class _AskedFirst(Dialogue):
    """Requests to the client before a task is created, and the responses for its run.

    Attributes:
        answers: Digests of the requests, and responses.
    """

    def __init__(self, call: Call) -> None:
        super().__init__(call, call.paused)
        self.answers: list[Json] = []

    async def ask(
        self, questions: Sequence[Question], requests: Sequence[Json], names: Sequence[str]
    ) -> list[object]:
        """Return the responses."""
        kept = [_Kept(question) for question in questions]
        answers = await super().ask(kept, requests, names)
        self.answers += [
            {"digest": digest(request), "result": each.result}
            for request, each in zip(requests, kept, strict=True)
        ]
        return answers


class _Kept(Question):
    """A request that keeps its result unchanged."""

    def __init__(self, question: Question) -> None:
        super().__init__(question.key, *question.capabilities)
        self.result: Json = {}
        self._question = question

    def params(self, revision: str) -> Json:
        """Return the params of the request."""
        return self._question.params(revision)

    def read(self, result: Mapping[str, object]) -> object:
        """Return the value of the result."""
        answer = self._question.read(result)
        self.result = dict(result)
        return answer


async def _asked_first(call: Call, tool: Tool) -> list[Json]:
    """Send the requests of the function's parameters, and return the responses.

    If the user does not accept, the task is created all the same, and its result contains the error.

    Raises:
        ProtocolError: The client does not support the request, or does not respond.
    """
    if not tool.questions:
        return []
    dialogue = call.dialogue = _AskedFirst(call)
    try:
        for ask in tool.questions:
            await ask(call)
    except ElicitationError:
        pass
    except ClientResponseError as error:
        raise ProtocolError(INTERNAL_ERROR, str(error)) from None
    return dialogue.answers


def _wished(task: object) -> float | None:
    """Return the requested `ttl` in seconds; None if there is none.

    Raises:
        MalformedError: It is invalid.
    """
    if not is_object(task):
        raise MalformedError("task: expected an object")
    ttl: object = task.get("ttl")
    if ttl is None:
        return None
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not ttl >= 0:
        raise MalformedError("task.ttl: expected a number of milliseconds, 0 or more")
    return min(ttl, _LONGEST) / 1000


def _bad_cursor() -> MalformedError:
    return MalformedError("Invalid cursor. Send the nextCursor of a previous page, or no cursor")
