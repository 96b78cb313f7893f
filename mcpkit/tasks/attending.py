"""Clients of 2025-11-25 that attend tasks: they hear of progress, and are asked what a task asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from ..calls.asking.pending import OpenQuestions, Sender
from ..calls.asking.questions import Question
from ..calls.call import Call
from ..calls.coroutines import within
from ..common.errors import BusyError, ClientResponseError, InvalidAnswerError, MalformedError
from ..protocol import jsonrpc
from ..protocol.types import Json
from .ledger import Held, UnreadableTaskError
from .record import Record
from .service import TaskService, unknown
from .wire import related, task_2025

logger = logging.getLogger(__name__)

_LOOK = 30.0
"""Seconds between two polls of a task without a notification."""

_LOOKS = 2
"""How often a client has looked for a task that asks something, until it is asked on no stream of a request."""

_PAUSE = 1.0
"""Seconds until something is tried again where the engine does not answer."""

_CAPABILITY = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""What a client must have declared to be asked something."""


class Way:
    """A way by which a client hears of a task.

    Args:
        sender: Where messages leave.
        questions: What is asked there; None where nothing can be.
        token: What its progress goes by; None where nobody wants to hear of it.
    """

    def __init__(self, sender: Sender, questions: OpenQuestions | None, token: object) -> None:
        self.sender = sender
        self.questions = questions
        self.token = token
        self.told: Json | None = None

    def tell(self, record: Record) -> None:
        """Tell how far the task is, where that has not been told here."""
        if self.token is not None and record.progress is not None and record.progress != self.told:
            self.told = record.progress
            params = {"progressToken": self.token, **record.progress, "_meta": related(record.id)}
            self.sender.send(jsonrpc.notification("notifications/progress", params))


class Attending:
    """One client that attends one task.

    It is told on the streams of its requests for the result, as long as there are any, and else on a stream that
    belongs to no request, as far as it has one.

    Args:
        service: The tasks.
        call: The client's request that has led to this: by its token progress is told beside, where it has made
            the task.
        id_: The task's id.
        seconds: How long the client may take for an answer.

    Attributes:
        over: The task when it has ended.
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
        """Wait for the end of the task, on the stream of a request for its result; what it asks is asked there.

        Raises:
            MalformedError: There is no such task any more.
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
        """Tell how the task is, as somebody else has seen it: by now the client may listen where it did not."""
        if held.record.updated >= self._seen and self._best() is not None:
            self._seen = held.record.updated
            self._tell(held.record)
            self._ask(held)

    def looked(self, held: Held) -> None:
        """Take note that the client has looked for the task, and has seen it so.

        It is asked beside where it looks again and again for what waits for an answer, and does not ask for the
        result: not earlier, as some clients know of a task only a moment after they have heard of it.
        """
        self._looks += bool(held.record.asked)
        self.see(held)

    async def run(self) -> None:
        """Tell the client of the task until it has ended, or nobody hears of it any more."""
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
        """Look at the task, and tell how it is; say whether it is over."""
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
        """Return the way that is taken now; None where the client hears of nothing."""
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
        """Ask what is open and has not been asked, and take back what is open no more."""
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
        """Ask elsewhere what was asked on a way that ends."""
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
        """Write down what a client has answered, as often as it takes: it will not say it again."""
        while True:
            try:
                await write()
            except MalformedError as error:
                logger.debug("the response of the client to a request of a task is invalid: %s", error)
                return
            except BusyError:
                await asyncio.sleep(_PAUSE)
            else:
                return


class _Relayed(Question[Json]):
    """A question whose answer is taken as it is: whoever has asked reads it elsewhere."""

    method = ""

    def __init__(self, method: str) -> None:
        super().__init__(None)
        self.name = method

    def params(self, revision: str) -> Json:
        """Return nothing: how it is said is known."""
        return {}

    def read(self, result: Mapping[str, object]) -> Json:
        """Return the answer."""
        return dict(result)
