"""Handles of tool calls that run as tasks.

basic/utilities/tasks of 2025-11-25, and since 2026-07-28 the extension io.modelcontextprotocol/tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar

from .._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ..execution.coroutines import within
from ..protocol.jsonrpc import Json, is_object
from ..protocol.revisions import CLIENT_CAPABILITIES, STATELESS, TASKS, TASKS_IN_CORE
from .call_results import malformed
from .client_session import ClientSession
from .elicitation_and_input_rounds import input_responses
from .timeouts_retries_and_progress import ProgressCallback

T = TypeVar("T")

TaskState = Literal["working", "input_required", "completed", "failed", "cancelled"]

_OPEN: Final = frozenset({"working", "input_required"})
_ENDED: Final = frozenset({"completed", "failed", "cancelled"})

_POLL_INTERVAL: Final = 1.0
"""Seconds between two polls of a task without `pollInterval`."""

_MIN_POLL_INTERVAL: Final = 0.02


async def request_task(
    params: Json, session: ClientSession, list_tools: Callable[[], Awaitable[list[Any]]]
) -> Json:
    """Return the params of a tool call that may run as a task.

    In 2025-11-25 the client requests a task, if the server and the tool support it. Since 2026-07-28 the client
    declares the extension in the request, and the server decides.

    Args:
        params: The params of `tools/call`.
        session: The session with the server.
        list_tools: Lists the tools of the server.
    """
    await session.ensure_open()
    if session.wire.revision in STATELESS:
        return _with_extension(params, session)
    if session.wire.revision != TASKS_IN_CORE or session.negotiated is None:
        return params
    supported: object = session.negotiated.capabilities
    for member in ("tasks", "requests", "tools", "call"):
        supported = supported.get(member) if is_object(supported) else None
    if supported is None:
        return params
    tools = [tool for tool in await list_tools() if tool.get("name") == params["name"]]
    execution: object = tools[0].get("execution") if tools else None
    if is_object(execution) and execution.get("taskSupport") in ("optional", "required"):
        return {**params, "task": {}}
    return params


def _with_extension(params: Json, session: ClientSession) -> Json:
    """Return params that declare the tasks extension. In 2026-07-28 each request has its own capabilities."""
    declared = session.wire.capabilities
    capabilities: Json = {**declared, "extensions": {**declared.get("extensions", {}), TASKS: {}}}
    return {**params, "_meta": {CLIENT_CAPABILITIES: capabilities, **params.get("_meta", {})}}


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The status of a task.

    Attributes:
        state: `working`, `input_required`, `completed`, `failed` or `cancelled`.
        message: The server's message about it, or None.
        raw: The `Task` object of the server, with timestamps and the time for which the result is stored.
    """

    state: TaskState
    message: str | None
    raw: Json

    @property
    def is_over(self) -> bool:
        """Whether the task has ended."""
        return self.state in _ENDED


class TaskHandle(Generic[T]):
    """A tool call that runs as a task: `handle = await client.call_tool("render", task=True)`.

    Another process can continue with the task by its id: `client.task(handle.id)`. The handle works as long as its
    client is open. While `result()` or `events()` is awaited, the client's handlers get the requests of the task
    (elicitation, sampling, roots).

    Args:
        task_id: The id of the task; None if the server has responded without a task.
        session: The session with the server.
        send: Sends a request: takes method, params, progress callback, log level, timeout, and whether the request may
            be sent again.
        read: Converts the result of the call.
        progress: Called for each progress notification. Only servers of 2025-11-25 send them for tasks.
        answer: The result of the call, if there is no task.

    Attributes:
        id: The id of the task; None if the server has responded without a task.
    """

    def __init__(
        self,
        task_id: str | None,
        session: ClientSession,
        send: Callable[..., Awaitable[Json]],
        read: Callable[[Json], Awaitable[T]],
        progress: ProgressCallback | None = None,
        answer: Json | None = None,
    ) -> None:
        self.id = task_id
        self._session = session
        self._send = send
        self._read = read
        self._progress = progress
        self._answer = answer
        self._last: Json | None = None  # the last `Task` object, once the task has ended
        if task_id is None:
            self._last = {"status": "failed" if (answer or {}).get("isError") is True else "completed"}
        self._handled: set[str] = set()  # keys of input requests

    async def status(self) -> TaskStatus:
        """Request the status of the task.

        Raises:
            ProtocolError: The server does not know the task, for example because it has expired.
            TimeoutError: A time limit of the client has passed.
            ConnectionError: The server cannot be reached.
        """
        return _status(await self._get())

    async def result(self) -> T:
        """Wait for the end of the task and return the result of the tool call.

        Cancelling the wait does not cancel the task.

        Raises:
            ToolError: The tool failed, and the handle has a `result_type`.
            InvalidResultError: The result does not fit the tool's `outputSchema`, or `result_type`.
            ProtocolError: The task failed or was cancelled, or the server does not know it.
            TimeoutError: The server did not respond to a poll within a time limit of the client.
            ConnectionError: The server cannot be reached.
        """
        if self._answer is None:
            await self._session.ensure_open()
            if self._session.wire.revision in STATELESS:
                async for _ in self._poll():
                    pass
                self._answer = _result_of(self._last or {})
            else:
                await self._fetch_result()
        assert self._answer is not None
        return await self._read(self._answer)

    async def cancel(self) -> None:
        """Request the cancellation of the task. The server decides when, and whether, the task stops.

        Raises:
            ProtocolError: The server does not know the task; or, in 2025-11-25, the task has ended.
            TimeoutError: A time limit of the client has passed.
            ConnectionError: The server cannot be reached.
        """
        if self.id is not None:
            await self._request("tasks/cancel")

    async def events(self) -> AsyncGenerator[TaskStatus]:
        """Yield the status of the task now and after each change, until the task has ended.

        Raises:
            ProtocolError: The server does not know the task.
            TimeoutError: A time limit of the client has passed.
            ConnectionError: The server cannot be reached.
        """
        last: TaskStatus | None = None
        async with aclosing(self._poll()) as tasks:
            async for task in tasks:
                status = _status(task)
                if last is None or (status.state, status.message) != (last.state, last.message):
                    last = status
                    yield status

    def __repr__(self) -> str:
        """Return a representation with the id."""
        return f"TaskHandle({self.id!r})"

    # Requests

    async def _request(self, method: str, progress: ProgressCallback | None = None, **members: Any) -> Json:
        await self._session.ensure_open()
        params: Json = {"taskId": self.id, **members}
        if self._session.wire.revision in STATELESS:
            params = _with_extension(params, self._session)
        return await self._send(method, params, progress, None, None, True)

    async def _get(self) -> Json:
        """Return the `Task` object, from memory if the task has ended."""
        if self._last is not None:
            return self._last
        task = await self._request("tasks/get")
        status = task.get("status")
        if status not in _OPEN and status not in _ENDED:
            raise malformed("tasks/get", "a known status")
        if status in _ENDED:
            self._last = task
        return task

    async def _fetch_result(self) -> None:
        """Request the result in 2025-11-25: `tasks/result` is answered once the task has ended."""
        while True:
            try:
                self._answer = await self._request("tasks/result", self._progress)
            except TimeoutError:
                await self._get()  # the limit is for one request, not for the task; a dead server raises here
            else:
                return

    async def _poll(self) -> AsyncGenerator[Json]:
        """Yield the `Task` object at each poll until the task has ended, and respond to its input requests."""
        changed = asyncio.Event()

        def on_notification(method: str, params: Json | None) -> None:
            is_status = method in ("notifications/tasks/status", "notifications/tasks")
            if is_status and params is not None and params.get("taskId") == self.id:
                changed.set()

        def on_result(fetching: asyncio.Task[None]) -> None:
            changed.set()
            if not fetching.cancelled():
                fetching.exception()  # retrieved; `result()` requests the result again

        fetching: asyncio.Task[None] | None = None
        remove_listener = self._session.listeners.add(on_notification)
        try:
            while True:
                task = await self._get()
                yield task
                if task["status"] in _ENDED:
                    return
                if self._session.wire.revision not in STATELESS:
                    # Servers of 2025-11-25 send requests of the task while `tasks/result` is pending.
                    if fetching is None:
                        fetching = asyncio.ensure_future(self._fetch_result())
                        fetching.add_done_callback(on_result)
                elif await self._respond(task.get("inputRequests")):
                    continue
                interval: object = task.get("pollIntervalMs", task.get("pollInterval"))
                seconds = interval / 1000 if isinstance(interval, int | float) else _POLL_INTERVAL
                with suppress(TimeoutError):
                    await within(max(seconds, _MIN_POLL_INTERVAL), changed.wait())
                changed.clear()
        finally:
            remove_listener()
            if fetching is not None:
                fetching.cancel()

    async def _respond(self, requests: object) -> bool:
        """Respond to new input requests of the task, and return whether there were any."""
        if not is_object(requests) or self._handled.issuperset(requests):
            return False
        skip = self._handled.copy()
        # Before the handlers run, as `result` and `events` may be used at once
        self._handled |= requests.keys()
        try:
            responses = await input_responses(requests, "tasks/get", self._session.handler, skip)
            await self._request("tasks/update", inputResponses=responses)
        except BaseException:
            self._handled = skip
            raise
        return True


def task_of_call(
    answer: Json,
    session: ClientSession,
    send: Callable[..., Awaitable[Json]],
    read: Callable[[Json], Awaitable[T]],
    progress: ProgressCallback | None,
) -> TaskHandle[T]:
    """Return the handle for the result of a `tools/call` that may have created a task; see `TaskHandle`.

    Raises:
        ProtocolError: The created task has no id.
    """
    task: object = None
    if session.wire.revision not in STATELESS:
        task = answer.get("task")
    elif answer.get("resultType") == "task":
        task = answer
    if not is_object(task):
        return TaskHandle(None, session, send, read, answer=answer)
    task_id = task.get("taskId")
    if not isinstance(task_id, str):
        raise malformed("tools/call", "a string as taskId")
    return TaskHandle(task_id, session, send, read, progress)


def _status(task: Json) -> TaskStatus:
    message: object = task.get("statusMessage")
    return TaskStatus(task["status"], message if isinstance(message, str) else None, task)


def _result_of(task: Json) -> Json:
    """Return the result of an ended task.

    Raises:
        ProtocolError: The task has ended without a result.
    """
    result, error = task.get("result"), task.get("error")
    if task.get("status") == "completed" and is_object(result):
        return result
    if is_object(error):
        code = error.get("code")
        raise ProtocolError(
            code if isinstance(code, int) else INTERNAL_ERROR, str(error.get("message")), error.get("data")
        )
    raise ProtocolError(
        INTERNAL_ERROR, f"the task ended without a result; its status is {task.get('status')!r}"
    )
