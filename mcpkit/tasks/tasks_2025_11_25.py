"""Messages of 2025-11-25 about tasks, and requests to clients of that version (basic/utilities/tasks)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from .._utils.exceptions import (
    INTERNAL_ERROR,
    BusyError,
    ClientResponseError,
    ElicitationError,
    InvalidAnswerError,
    MalformedError,
    ProtocolError,
)
from ..components.tool import Tool
from ..execution.coroutines import within
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json
from ..requests.multi_round_trip import digest
from ..requests.request_record import Call, Dialogue
from ..requests.requests_to_client import OpenQuestions, Question, Sender
from .task_execution_and_notifications import LoopTasks
from .task_records import StoredTask, TaskRecord, TaskStore, UnreadableTaskError, unknown_task

logger = logging.getLogger(__name__)

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


async def ask_first(call: Call, tool: Tool) -> list[Json]:
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
        store: The task records.
        here: The tasks of this event loop.
        call: The client's request. If it created the task, its progress token is used on the standalone channel.
        id_: Id of the task.

    Attributes:
        task: The asyncio task that sends the messages.
    """

    def __init__(self, store: TaskStore, here: LoopTasks, call: Call, id_: str) -> None:
        loop = asyncio.get_running_loop()
        self._store = store
        self._here = here
        self._timeout = call.runtime.timeouts.client_request
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
            task = await self._store.get(self._id)
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
        write: Callable[[], Awaitable[object]]
        try:
            (result,) = await questions.ask([_RawQuestion()], [message], stream.sender, self._timeout)
            write = partial(self._store.respond, task, {key: result})
        except ClientResponseError as error:
            if error.code is None and not isinstance(error, InvalidAnswerError):
                return  # it has not responded in time, or is gone
            write = partial(self._store.refuse, task, key, str(error))
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
