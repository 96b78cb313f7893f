"""Tasks of 2025-11-25, with the records of 2026-07-28 (basic/utilities/tasks)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .._utils.exceptions import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    BusyError,
    ClientResponseError,
    ElicitationError,
    InvalidAnswerError,
    MalformedError,
    ProtocolError,
)
from ..components.tool import AnyTool, Tool
from ..execution.coroutines import within
from ..options import TaskOptions
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json, Outcome, is_object
from ..protocol.revisions import TASKS_IN_CORE, narrow_tool_result
from ..requests.multi_round_trip import digest
from ..requests.request_record import Call, Dialogue
from ..requests.requests_to_client import OpenQuestions, Question, Sender
from .task_creation_and_methods import TaskService, owner_of_call, unavailable, unknown_task
from .task_records import StoredTask, TaskRecord, UnreadableTaskError, is_task_id

if TYPE_CHECKING:
    from ..engine.engine import Engine

logger = logging.getLogger(__name__)

# Minimum seconds for which a result is stored, whatever `ttl` the client requests
_MIN_TTL = 10.0

# Maximum milliseconds of a requested `ttl` that can be represented
_MAX_TTL = 10**15

# Tasks in one page of a list
_PAGE_SIZE = 50

# Maximum characters of a tool's error message in the status of its task
_MAX_MESSAGE = 500

# Seconds between two reads of a task without a notification
_POLL_INTERVAL = 30.0

# Number of polls of a task with open requests after which they are sent on the standalone channel
_MIN_POLLS = 2

# Seconds until a read or write is tried again while the storage does not answer
_RETRY_PAUSE = 1.0

# Capability that the client needs for each kind of request
_CLIENT_CAPABILITIES = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


def legacy_task(record: TaskRecord) -> Json:
    """Return the `Task` of 2025-11-25, in which a task with an error result of its tool is failed."""
    task = record.to_task()
    task["ttl"], task["pollInterval"] = task.pop("ttlMs"), task.pop("pollIntervalMs")
    result = record.result or {}
    if result.get("isError"):
        task["status"] = "failed"
        texts = [block["text"] for block in result.get("content", ()) if block.get("type") == "text"]
        if texts:
            task["statusMessage"] = texts[0][:_MAX_MESSAGE]
    return task


def related_task(id_: str) -> Json:
    """Return the `_meta` of a message that belongs to a task and does not name it otherwise."""
    return {"io.modelcontextprotocol/related-task": {"taskId": id_}}


class LegacyTaskService(TaskService):
    """The tasks of a server, for clients of 2025-11-25 and 2026-07-28; see `TaskService`."""

    def __init__(self, engine: Engine, options: TaskOptions) -> None:
        super().__init__(engine, options)
        self._connections: dict[asyncio.AbstractEventLoop, dict[object, TaskConnection]] = {}
        """By event loop, and by session and id of the task."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run tasks and send notifications in this event loop while the context is active."""
        async with super().running():
            try:
                yield
            finally:
                if self.here.users == 1:
                    connections = self._connections.pop(asyncio.get_running_loop(), {})
                    tasks = [connection.task for connection in connections.values()]
                    for task in tasks:
                        task.cancel()
                    await asyncio.gather(*tasks, return_exceptions=True)

    # Creation

    async def call(self, call: Call, tool: AnyTool, arguments: Json) -> Json | bytes:
        """Create a task, or call the tool; see `TaskKeeper`."""
        if tool.task is not None:
            return await super().call(call, tool, arguments)
        if call.revision == TASKS_IN_CORE:
            raise ProtocolError(
                METHOD_NOT_FOUND, f"{tool.key} does not support calls as a task. Call it without `task`"
            )
        result: Json = await tool.call(arguments, call)  # other revisions ignore `task`
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
        options: object = call.params["task"]
        if not is_object(options):
            raise MalformedError("task: expected an object")
        ttl: object = options.get("ttl")
        result_ttl = tool.task.result_ttl
        if ttl is not None:
            if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not ttl >= 0:
                raise MalformedError("task.ttl: expected a number of milliseconds, 0 or more")
            result_ttl = min(result_ttl, max(_MIN_TTL, min(ttl, _MAX_TTL) / 1000))
        record = await self.create(call, tool, await _ask_first(call, tool), result_ttl)
        if call.channel.standalone is not None and not record.is_over:
            self._connect(call, record.id)
        return call.render({"task": legacy_task(record)})

    # Requests about tasks

    async def serve(self, call: Call) -> Outcome:
        """Handle a request about tasks."""
        if call.era == "stateless":
            return await super().serve(call)
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
            connection = connections[key] = TaskConnection(self, call, id_)
            connection.task.add_done_callback(lambda _: connections.pop(key))
        return connection


# Requests of parameters, before the task is created


class _FirstRequests(Dialogue):
    """Requests to the client before a task is created, and the responses for its run.

    Attributes:
        responses: Digests of the requests, and results.
    """

    def __init__(self, call: Call) -> None:
        super().__init__(call)
        self.responses: list[Json] = []

    async def ask(
        self, questions: Sequence[Question[Any]], requests: Sequence[Json], names: Sequence[str]
    ) -> list[Any]:
        """Return the values of the responses."""
        results: list[Json] = await super().ask([_RawQuestion(each) for each in questions], requests, names)
        self.responses += [
            {"digest": digest(request), "result": result}
            for request, result in zip(requests, results, strict=True)
        ]
        return [question.read(result) for question, result in zip(questions, results, strict=True)]


class _RawQuestion(Question[Json]):
    """A request with its result as its value.

    Args:
        question: Question that checks the result; None for no check.
    """

    method = ""

    def __init__(self, question: Question[Any] | None = None) -> None:
        super().__init__(None)
        self._question = question

    def params(self, revision: str) -> Json:
        """Return an empty dict: the params are known."""
        return {}

    def read(self, result: Mapping[str, Any]) -> Json:
        """Return the result, checked."""
        if self._question is not None:
            self._question.read(result)
        return dict(result)


async def _ask_first(call: Call, tool: Tool) -> list[Json]:
    """Send the requests of the function's parameters, and return the responses.

    If the user does not accept, the task is created all the same, and its result contains the error.

    Raises:
        ProtocolError: The client does not support the request, or does not respond.
    """
    if not tool.questions:
        return []
    dialogue = call.dialogue = _FirstRequests(call)
    try:
        for ask in tool.questions:
            await ask(call)
    except ElicitationError:
        pass
    except ClientResponseError as error:
        raise ProtocolError(INTERNAL_ERROR, str(error)) from None
    return dialogue.responses


# Messages to clients


class TaskStream:
    """A channel on which a client receives messages about a task.

    Args:
        sender: The channel.
        questions: Open requests on the channel; None if it has no server requests.
        token: Progress token; None without progress notifications.
    """

    def __init__(self, sender: Sender, questions: OpenQuestions | None, token: object) -> None:
        self.sender = sender
        self.questions = questions
        self._token = token
        self._progress: Json | None = None

    def send_progress(self, record: TaskRecord) -> None:
        """Send a progress notification, unless this progress was sent before."""
        if self._token is not None and record.progress is not None and record.progress != self._progress:
            self._progress = record.progress
            params = {"progressToken": self._token, **record.progress, "_meta": related_task(record.id)}
            self.sender.send(jsonrpc.notification("notifications/progress", params))


class TaskConnection:
    """Connection of one client to one task.

    Messages go to the streams of its `tasks/result` requests while there are any, and otherwise to the standalone
    channel of the session, if it has one. It runs until the task has ended, or the client is gone.

    Args:
        service: The tasks.
        call: The client's request. If it created the task, its progress token is used on the standalone channel.
        id_: Id of the task.

    Attributes:
        task: The asyncio task that sends the messages.
    """

    def __init__(self, service: TaskService, call: Call, id_: str) -> None:
        loop = asyncio.get_running_loop()
        self._service = service
        self._here = service.here
        self._client = call.client
        self._id = id_
        channel = self._standalone = call.channel.standalone
        token = call.meta.get("progressToken") if call.method == "tools/call" else None
        self._standalone_stream = None if channel is None else TaskStream(channel, channel.questions, token)
        self._streams: list[TaskStream] = []  # of `tasks/result` requests
        self._requests: dict[str, tuple[TaskStream, asyncio.Task[None]]] = {}  # that were sent, by key
        self._status = ""  # that was sent last
        self._polls = 0
        self._updated = 0.0  # time of the latest change for which messages were sent
        self._changed = asyncio.Event()
        self._ended: asyncio.Future[StoredTask] = loop.create_future()
        self.task = loop.create_task(self._run())

    async def wait(self, call: Call) -> StoredTask:
        """Wait for the end of the task on the stream of `tasks/result`. Requests to the client are sent there.

        Raises:
            MalformedError: The task no longer exists.
        """
        stream = TaskStream(call.channel, call.channel.questions, call.meta.get("progressToken"))
        self._streams.append(stream)
        self._changed.set()
        try:
            return await asyncio.shield(self._ended)
        finally:
            self._streams.remove(stream)
            # Its open requests are cancelled, and sent on another stream.
            for key in [key for key, (sent_on, _) in self._requests.items() if sent_on is stream]:
                self._requests.pop(key)[1].cancel()
            self._changed.set()

    def on_poll(self, task: StoredTask) -> None:
        """Send messages for the record that the client gets for `tasks/get`.

        If the client polls repeatedly while the task has open requests, and does not send `tasks/result`, the requests
        are sent on the standalone channel. They are not sent earlier, because some clients register a task only after
        its first notification.
        """
        self._polls += bool(task.record.requests)
        self._send(task)

    async def _run(self) -> None:
        channel = self._standalone
        subscriptions: list[Callable[[], object]] = [self._here.watch(self._id, self._changed.set)]
        if channel is not None:
            subscriptions.append(channel.attend(self._changed.set))
        try:
            while self._streams or (channel is not None and not channel.has_ended):
                self._changed.clear()
                if (self._streams or self._open_standalone is not None) and await self._read():
                    return
                with suppress(TimeoutError):
                    await within(_POLL_INTERVAL, self._changed.wait())
        finally:
            for unsubscribe in subscriptions:
                unsubscribe()
            for _, request in self._requests.values():
                request.cancel()
            if not self._ended.done():
                self._ended.cancel()

    async def _read(self) -> bool:
        """Read the task and send messages; return True if it has ended."""
        try:
            task = await self._service.store.get(self._id)
        except (OSError, UnreadableTaskError) as error:
            logger.debug("the state of a task cannot be read; mcpkit tries again: %s", error)
            asyncio.get_running_loop().call_later(_RETRY_PAUSE, self._changed.set)
            return False
        if task is None:
            self._ended.set_exception(unknown_task(self._id))
            self._ended.exception()  # marks it as retrieved, as there may be no request that waits
            return True
        self._send(task)
        if task.record.is_over:
            self._ended.set_result(task)
        return task.record.is_over

    @property
    def _open_standalone(self) -> TaskStream | None:
        """The stream of the standalone channel, if that is open."""
        return self._standalone_stream if self._standalone is not None and self._standalone.is_open else None

    def _send(self, task: StoredTask) -> None:
        """Send the messages for a record, unless those of a newer one were sent or the client is not reachable."""
        record = task.record
        standalone = self._open_standalone
        stream = self._streams[0] if self._streams else standalone
        if stream is None or record.updated < self._updated:
            return
        self._updated = record.updated

        # Progress and status
        for each in self._streams:
            each.send_progress(record)
        if standalone is not None:
            standalone.send_progress(record)
            params = legacy_task(record)
            if params["status"] != self._status:
                if self._status or record.is_over:  # the client knows the first status from the response
                    standalone.sender.send(jsonrpc.notification("notifications/tasks/status", params))
                self._status = params["status"]

        # Requests
        for key in self._requests.keys() - record.requests.keys():
            self._requests.pop(key)[1].cancel()
        if stream.questions is None or (stream is standalone and self._polls < _MIN_POLLS):
            return
        for key, entry in record.requests.items():
            if key not in self._requests and self._is_supported(entry["request"]):
                request = self._ask(task, key, entry["request"], stream, stream.questions)
                self._requests[key] = stream, asyncio.get_running_loop().create_task(request)

    def _is_supported(self, request: Json) -> bool:
        capability = _CLIENT_CAPABILITIES.get(request["method"])
        if capability is None:
            return False
        if request.get("params", {}).get("mode") == "url":
            capability += ".url"
        return self._client.supports(capability)

    async def _ask(
        self, task: StoredTask, key: str, request: Json, stream: TaskStream, questions: OpenQuestions
    ) -> None:
        """Send a request to the client, and store its response in the task."""
        params = request.get("params", {})
        meta = {**params.get("_meta", {}), **related_task(self._id)}
        message = {**request, "params": {**params, "_meta": meta}}
        seconds = self._service.runtime.timeouts.client_request
        write: Callable[[], Awaitable[object]]
        try:
            (result,) = await questions.ask([_RawQuestion()], [message], stream.sender, seconds)
            write = partial(self._service.respond, task, {key: result})
        except ClientResponseError as error:
            if error.code is None and not isinstance(error, InvalidAnswerError):
                return  # it has not responded in time, or is gone
            write = partial(self._service.refuse, task, key, str(error))
        except BusyError as error:
            logger.debug("a task cannot send a request to its client: %s", error)
            return

        # The client does not send its response again, so the write is tried until it succeeds.
        while True:
            try:
                await write()
            except MalformedError as error:
                logger.debug("ignored an invalid response of the client to a request of a task: %s", error)
                return
            except BusyError:
                await asyncio.sleep(_RETRY_PAUSE)
            else:
                return
