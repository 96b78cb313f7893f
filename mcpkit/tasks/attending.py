"""Notifications and requests of tasks to clients of 2025-11-25."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from .._utils.errors import BusyError, ClientResponseError, InvalidAnswerError, MalformedError
from ..execution.coroutines import within
from ..protocol import jsonrpc
from ..protocol.types import Json
from ..requests.call import Call
from ..requests.client_requests import OpenQuestions, Sender
from ..requests.elicitation import Question
from .ledger import Held, UnreadableTaskError
from .record import Record
from .service import TaskService, unknown
from .wire import related, task_2025

logger = logging.getLogger(__name__)

_LOOK = 30.0
"""Seconds between two polls of a task without a notification."""

_LOOKS = 2
"""Number of polls of a task with open requests after which they are sent on the standalone channel."""

_PAUSE = 1.0
"""Seconds until a read or write is tried again while the storage does not answer."""

_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""Capability that the client needs for each kind of request."""


class Way:
    """A channel on which a client receives messages about a task.

    Args:
        sender: The channel.
        questions: Open requests on the channel; None if it has no server requests.
        token: Progress token; None without progress notifications.
    """

    def __init__(self, sender: Sender, questions: OpenQuestions | None, token: object) -> None:
        self.sender = sender
        self.questions = questions
        self.token = token
        self.told: Json | None = None

    def tell(self, record: Record) -> None:
        """Send a progress notification, unless this progress was sent before."""
        if self.token is not None and record.progress is not None and record.progress != self.told:
            self.told = record.progress
            params = {"progressToken": self.token, **record.progress, "_meta": related(record.id)}
            self.sender.send(jsonrpc.notification("notifications/progress", params))


class Attending:
    """Connection of one client to one task.

    Messages go to the streams of its `tasks/result` requests while there are any, and otherwise to the standalone
    channel of the session, if it has one.

    Args:
        service: The tasks.
        call: The client's request. If it created the task, its progress token is used on the standalone channel.
        id_: Id of the task.
        seconds: Timeout of requests to the client.

    Attributes:
        over: Future of the ended task.
    """

    def __init__(
        self,
        service: TaskService,
        call: Call,
        id_: str,
        seconds: float,
    ) -> None:
        self.over: asyncio.Future[Held] = asyncio.get_running_loop().create_future()
        self._service = service
        self._client = call.client
        self._id = id_
        self._seconds = seconds
        standalone = self._standalone = call.channel.standalone
        token = call.meta.get("progressToken") if call.method == "tools/call" else None
        self._beside = None if standalone is None else Way(standalone, standalone.questions, token)
        self._status = ""
        self._looks = 0
        self._seen = 0.0  # when the task was changed last that has been told of
        self._waiting: list[Way] = []
        self._asked: dict[str, tuple[Way, asyncio.Task[None]]] = {}
        self._news = asyncio.Event()

    # Who waits

    async def wait(self, call: Call) -> Held:
        """Wait for the end of the task on the stream of `tasks/result`. Requests to the client are sent there.

        Raises:
            MalformedError: The task no longer exists.
        """
        way = Way(call.channel, call.channel.questions, call.meta.get("progressToken"))
        self._waiting.append(way)
        self._news.set()
        try:
            return await asyncio.shield(self.over)
        finally:
            self._waiting.remove(way)
            self._take_back(way)
            self._news.set()

    # What is told

    def see(self, held: Held) -> None:
        """Send notifications for a record that another reader has seen, because the client may be reachable by now."""
        if held.record.updated >= self._seen and self._best() is not None:
            self._seen = held.record.updated
            self._tell(held.record)
            self._ask(held)

    def looked(self, held: Held) -> None:
        """Note that the client has polled the task and seen this record.

        If the client polls repeatedly while the task has open requests, and does not send `tasks/result`, the requests
        are sent on the standalone channel. They are not sent earlier, because some clients register a task only after
        its first notification.
        """
        self._looks += bool(held.record.asked)
        self.see(held)

    async def run(self) -> None:
        """Send notifications until the task has ended, or the client is gone."""
        ends = [self._service.telling.watch(self._id, self._news.set)]
        if self._standalone is not None:
            ends.append(self._standalone.attend(self._news.set))
        try:
            while self._waiting or (self._standalone is not None and not self._standalone.has_ended):
                self._news.clear()
                if self._best() is not None and await self._look():
                    return
                with suppress(TimeoutError):
                    await within(_LOOK, self._news.wait())
        finally:
            for end in ends:
                end()
            for _, asking in self._asked.values():
                asking.cancel()
            if not self.over.done():
                self.over.cancel()

    async def _look(self) -> bool:
        """Read the task and send notifications; return True if it has ended."""
        try:
            held = await self._service.ledger.look(self._id)
        except (OSError, UnreadableTaskError) as error:
            logger.debug("the state of a task cannot be read; mcpkit tries again: %s", error)
            asyncio.get_running_loop().call_later(_PAUSE, self._news.set)
            return False
        if held is None:
            self.over.set_exception(unknown(self._id))
            self.over.exception()  # where nobody waits, nobody has to hear of it
            return True
        self.see(held)
        if held.record.is_over:
            self.over.set_result(held)
        return held.record.is_over

    def _best(self) -> Way | None:
        """Return the current channel; None if the client is not reachable."""
        if self._waiting:
            return self._waiting[0]
        return self._beside if self._standalone is not None and self._standalone.is_open else None

    def _tell(self, record: Record) -> None:
        for way in self._waiting:
            way.tell(record)
        if self._beside is None or self._standalone is None or not self._standalone.is_open:
            return
        self._beside.tell(record)
        task = task_2025(record)
        if task["status"] != self._status:
            if self._status or record.is_over:  # what it began with is known
                self._beside.sender.send(jsonrpc.notification("notifications/tasks/status", task))
            self._status = task["status"]

    # What is asked

    def _ask(self, held: Held) -> None:
        """Send open requests that were not sent, and cancel those that are closed."""
        asked = held.record.asked
        for key in self._asked.keys() - asked.keys():
            self._asked.pop(key)[1].cancel()
        way = self._best()
        if way is None or way.questions is None or (way is self._beside and self._looks < _LOOKS):
            return
        for key, entry in asked.items():
            if key not in self._asked and self._can_be_asked(entry["request"]):
                asking = self._put(held, key, entry["request"], way, way.questions)
                self._asked[key] = way, asyncio.get_running_loop().create_task(asking)

    def _can_be_asked(self, request: Json) -> bool:
        capability = _CAPABILITY.get(request["method"])
        if capability is None:
            return False
        if request.get("params", {}).get("mode") == "url":
            capability += ".url"
        return self._client.supports(capability)

    def _take_back(self, way: Way) -> None:
        """Cancel requests on a channel that closes, so that they are sent on another one."""
        for key in [key for key, (asked_on, _) in self._asked.items() if asked_on is way]:
            self._asked.pop(key)[1].cancel()

    async def _put(self, held: Held, key: str, request: Json, way: Way, questions: OpenQuestions) -> None:
        params = request.get("params", {})
        meta = {**params.get("_meta", {}), **related(self._id)}
        said = {**request, "params": {**params, "_meta": meta}}
        try:
            (answer,) = await questions.ask([_Relayed(request["method"])], [said], way.sender, self._seconds)
        except ClientResponseError as error:
            # Else it has not answered in time, or is not there any more.
            if error.code is not None or isinstance(error, InvalidAnswerError):
                why = str(error)
                await self._surely(lambda: self._service.refuse(held, key, why))
        except BusyError as error:
            logger.debug("a task cannot send a request to its client: %s", error)
        else:
            await self._surely(lambda: self._service.answer(held, {key: answer}))

    async def _surely(self, write: Callable[[], Awaitable[object]]) -> None:
        """Write a response of the client, with retries, because the client does not send it again."""
        while True:
            try:
                await write()
            except MalformedError as error:
                logger.debug("ignored an invalid response of the client to a request of a task: %s", error)
                return
            except BusyError:
                await asyncio.sleep(_PAUSE)
            else:
                return


class _Relayed(Question[Json]):
    """A request that passes its result on unchanged."""

    method = ""

    def __init__(self, method: str) -> None:
        super().__init__(None)
        self.name = method

    def params(self, revision: str) -> Json:
        """Return an empty dict: the params are known."""
        return {}

    def read(self, result: Mapping[str, object]) -> Json:
        """Return the result."""
        return dict(result)
