"""Stays with the host, while one process of the server after the other answers it."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from ..._utils.exceptions import INVALID_REQUEST, ProtocolError
from ...protocol.jsonrpc import Json, RequestId, is_id, is_object
from ...protocol.revisions import SUBSCRIPTION_ID
from ...transports.standard_streams import StandardStreams
from .answers import Answers, failed
from .child import Child, ChildEndedError
from .conversation import Conversation, Stream, is_stateless, meta_of, params_of
from .host import Host
from .lists import Lists
from .questions import Questions

DRAIN: Final = 2.0
"""Seconds that running requests get in the old process after an edit."""

WAIT: Final = 10.0
"""Seconds that requests wait for a starting process."""

END: Final = 5.0
"""Seconds to complete requests after the end of input."""

_INTERRUPTED: Final = "The server was reloaded during this request, which may or may not have been executed."


def say(text: str) -> None:
    """Write a line for the author to standard error."""
    with suppress(OSError):
        print(f"mcpkit: {text}", file=sys.stderr, flush=True)


class Supervisor:
    """Speaks with the host for as long as it is there, and starts the server anew when its code is edited.

    Args:
        command: What starts a process of the server, which serves over its standard streams.
        environment: All of its environment.
        edits: Tells of the paths that have been edited, each time that some have.
        streams: Where the host is.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        edits: AsyncGenerator[list[str]],
        streams: StandardStreams,
    ) -> None:
        self._command = command
        self._environment = environment
        self._edits = edits
        self._host = Host(streams, self._hear)
        self._conversation = Conversation()
        self._answers = Answers()
        self._questions = Questions(self._host.send)
        self._running: dict[RequestId, tuple[Child, Json]] = {}
        self._waiting: dict[RequestId, tuple[Json, asyncio.TimerHandle]] = {}
        self._current: Child | None = None
        """The process that serves requests; None while it starts and after a failure."""
        self._problem: str | None = None
        """The error for all requests until the next edit."""
        self._is_edited = asyncio.Event()
        self._has_changed = asyncio.Event()
        """Set when requests have completed, or the process has ended."""
        self._listing: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None

    async def serve(self) -> None:
        """Serve until the host is gone, and end what runs then."""
        await anext(self._edits)  # from here on edits are seen
        life = asyncio.ensure_future(self._live())
        watch = asyncio.ensure_future(self._watch())
        gone = asyncio.ensure_future(self._host.is_gone.wait())
        try:
            done, _ = await asyncio.wait((life, watch, gone), return_when=asyncio.FIRST_COMPLETED)
            for each in done - {gone}:
                each.result()
            if not self._host.is_deaf:
                await self._settle(lambda: not self._running and not self._waiting, END)
        finally:
            for each in (life, watch, gone):
                each.cancel()
            await asyncio.gather(life, watch, gone, return_exceptions=True)
            await self._host.aclose()

    # One process after the other

    async def _watch(self) -> None:
        async for paths in self._edits:
            say(f"changed: {', '.join(Path(path).name for path in paths)}")
            self._is_edited.set()
            self._current = self._problem = None  # what is asked from now on is for the new code
        raise AssertionError("the file watcher of --reload stopped. Run the command again")

    async def _live(self) -> None:
        is_first = True
        while True:
            self._is_edited.clear()
            begun = time.monotonic()
            child = Child(self._command, self._environment, self._take, self._hear_of_end)
            try:
                start = asyncio.ensure_future(self._start(child))
                edited = asyncio.ensure_future(self._is_edited.wait())
                try:
                    await asyncio.wait((start, edited), return_when=asyncio.FIRST_COMPLETED)
                    if start.done():
                        self._begin(child, start.result(), None if is_first else time.monotonic() - begun)
                        is_first = False
                        await edited
                finally:
                    start.cancel()
                    edited.cancel()
                    await asyncio.gather(start, edited, return_exceptions=True)
                await self._retire(child)
            finally:
                await child.stop()

    async def _start(self, child: Child) -> Lists | None:
        """Start a process, and tell it all that the host has told those before it.

        Returns:
            What it lists; None where the host has not begun, or the process has ended.
        """
        try:
            await child.start()
            return await self._open(child)
        except ChildEndedError as error:
            self._fail(str(error))
            return None

    async def _open(self, child: Child) -> Lists | None:
        conversation = self._conversation
        opening = conversation.initialize
        if opening is not None:
            try:
                result = await child.ask("initialize", conversation.opening)
                answer: Json = {"result": result}
            except ProtocolError as problem:
                answer = {"error": {"code": problem.code, "message": str(problem)}}
            self._hear_of_opening(opening, answer)
            if "error" in answer or not conversation.is_initialized:
                return None
            await self._initialize(child)
        elif conversation.meta is not None:
            with suppress(ProtocolError):
                discovered = await child.ask("server/discover", conversation.params())
                self._answers.finish({"id": 0, "method": "server/discover"}, {"result": discovered})
            for stream in conversation.streams.values():
                child.send(stream.request)
        if not conversation.may_be_told:
            return None
        return await Lists.of(child, conversation)

    def _hear_of_opening(self, opening: Json, answer: Json) -> None:
        """Answer the host's `initialize` where that has not been done, and take note of what was negotiated."""
        finished = self._answers.finish(opening, answer)
        conversation = self._conversation
        result: object = finished.get("result")
        revision: object = result.get("protocolVersion") if is_object(result) else None
        if conversation.revision is None:
            if isinstance(revision, str):
                conversation.revision = revision
            else:
                conversation.initialize = None
            self._host.send({"jsonrpc": "2.0", **finished, "id": opening["id"]})
        elif revision != conversation.revision:
            say(f"the server no longer supports revision {conversation.revision}. Reconnect the host")

    async def _initialize(self, child: Child) -> None:
        conversation = self._conversation
        self._initialized(child)
        told: list[tuple[str, Json]] = []
        if conversation.level is not None:
            told.append(("logging/setLevel", {"level": conversation.level}))
        told += [("resources/subscribe", {"uri": uri}) for uri in conversation.subscribed]
        for method, params in told:
            with suppress(ProtocolError):  # it has no such thing now, and may have it after the next edit
                await child.ask(method, params)

    def _initialized(self, child: Child) -> None:
        child.is_initialized = True
        child.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _begin(self, child: Child, lists: Lists | None, seconds: float | None) -> None:
        """Let a process answer from now on, and tell the host what it has otherwise."""
        if child.problem is not None or self._is_edited.is_set():
            return
        self._current, self._problem = child, None
        if self._conversation.is_initialized and not child.is_initialized:  # said while it was opened
            self._initialized(child)
        before = self._answers.lists
        self._answers.lists = lists or before
        if seconds is not None:
            differences = {} if lists is None else before.differences(lists)
            told = ", ".join(f"{kind} {said}" for kind, said in differences.items() if said)
            say(f"reloaded in {seconds:.1f} s" + (f": {told}" if told else ""))
            for each in self._conversation.changes(set(differences)):
                self._host.send(each)
        self._release()

    async def _retire(self, child: Child) -> None:
        """Let a process finish what runs there, for a while; what runs then is answered in its place."""
        self._current = self._problem = None
        listing = self._listing
        await self._settle(
            lambda: (
                all(each is not child for each, _ in self._running.values())
                and (listing is None or listing.done())  # or nobody could tell what differs
            ),
            DRAIN,
        )
        if listing is not None:
            listing.cancel()
        child.is_retired = True
        self._give_up(child, _INTERRUPTED)

    def _give_up(self, child: Child, problem: str) -> None:
        """Answer what runs at a process that will not, and withdraw what it has asked."""
        for id_, (at, request) in list(self._running.items()):
            if at is child:
                del self._running[id_]
                child.send(
                    {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
                )
                self._host.send(failed(request, problem))
        self._questions.withdraw(child)
        self._has_changed.set()

    async def _settle(self, is_settled: Callable[[], bool], seconds: float) -> None:
        """Wait until something is so, at most some seconds."""
        deadline = time.monotonic() + seconds
        while not is_settled() and (rest := deadline - time.monotonic()) > 0:
            self._has_changed.clear()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._has_changed.wait(), rest)

    def _fail(self, problem: str) -> None:
        """Answer in the place of the server from now on, as its code cannot run, until it is edited."""
        if self._problem is not None:
            return
        self._current = None
        self._problem = (
            f"The server cannot start: {problem}\nFix the code. The server restarts after the next edit."
        )
        say("waiting for the next edit; until then every call fails with this error")
        opening = self._conversation.initialize
        if opening is not None and self._conversation.revision is None:
            self._answer(opening, self._problem)
        self._release()

    def _release(self) -> None:
        """Serve what has waited."""
        waiting, self._waiting = self._waiting, {}
        for request, timer in waiting.values():
            timer.cancel()
            self._ask(request)
        self._has_changed.set()

    # What the host says

    def _hear(self, message: object) -> None:
        id_: object = message.get("id") if is_object(message) else None
        method: object = message.get("method") if is_object(message) else None
        if not is_object(message) or (method is not None and not isinstance(method, str)):
            self._refuse("a message must be an object with a method, or a response")
        elif method is None:
            self._questions.answer(message)
        elif "id" not in message:
            self._pass_on(message)
        elif not is_id(id_) or id_ in self._waiting:
            self._refuse("the id of a request must be a unique string or integer")
        else:
            self._conversation.hear(message)
            self._ask(message)

    def _refuse(self, reason: str) -> None:
        error = {"code": INVALID_REQUEST, "message": f"Invalid request: {reason}"}
        self._host.send({"jsonrpc": "2.0", "error": error})

    def _ask(self, request: Json) -> None:
        """Have a request answered: by the process that there is, or in its place, or when there is one."""
        child, method = self._current, request["method"]
        if child is None:
            if self._problem is not None or method == "ping":
                self._answer(request, self._problem or "")
            else:
                timer = asyncio.get_running_loop().call_later(WAIT, self._lose_patience, request["id"])
                self._waiting[request["id"]] = request, timer
        elif method == "initialize" and self._conversation.initialize is None:
            self._conversation.initialize = request
            self._current = None
            self._opening = asyncio.ensure_future(self._begin_conversation(child))
        else:
            if method == "subscriptions/listen":
                self._conversation.streams[request["id"]] = Stream(request)
            else:
                self._running[request["id"]] = child, request
            child.send(request)

    async def _begin_conversation(self, child: Child) -> None:
        with suppress(ChildEndedError):  # which is heard of as the end of any process
            await self._open(child)
            if not child.is_retired:
                self._begin(child, None, None)

    def _lose_patience(self, id_: RequestId) -> None:
        request, _ = self._waiting.pop(id_)
        self._answer(request, f"The server did not start within {WAIT:g} s. Try again later.")
        self._has_changed.set()

    def _answer(self, request: Json, problem: str) -> None:
        """Answer a request in the place of the server."""
        conversation = self._conversation
        if request["method"] == "subscriptions/listen":
            stream = conversation.streams[request["id"]] = Stream(request, is_acknowledged=True)
            self._host.send(stream.acknowledgement())
            return
        answer = self._answers.instead(request, problem, conversation)
        if request["method"] == "initialize" and conversation.revision is None:
            conversation.initialize = request
            conversation.revision = answer["result"]["protocolVersion"]
        if "result" in answer:
            conversation.agree(request)
        self._host.send(answer)

    def _pass_on(self, notification: Json) -> None:
        child = self._current
        method, id_ = notification["method"], params_of(notification).get("requestId")
        if method == "notifications/initialized":
            self._conversation.is_initialized = True
            if child is not None:
                self._initialized(child)
                self._list(child)
            return
        if method == "notifications/cancelled" and is_id(id_):
            if id_ in self._waiting:
                self._waiting.pop(id_)[1].cancel()
            self._conversation.streams.pop(id_, None)
            child, _ = self._running.pop(id_, (child, notification))
            self._has_changed.set()
        if child is not None:
            child.send(notification)

    # What a process says

    def _take(self, child: Child, message: Json) -> None:
        if "method" not in message:
            self._hear_answer(child, message)
        elif "id" in message:
            self._questions.ask(child, message)
        else:
            self._hear_notification(child, message)

    def _hear_answer(self, child: Child, answer: Json) -> None:
        id_: object = answer.get("id")
        if is_id(id_):
            self._conversation.streams.pop(id_, None)
            at, request = self._running.get(id_, (None, answer))
            if at is child:
                del self._running[id_]
                self._has_changed.set()
                if "result" in answer:
                    self._conversation.agree(request)
                answer = self._answers.finish(request, answer)
                if is_stateless(request) and "result" in answer and self._listing is None:
                    self._list(child)
        self._host.send(answer)

    def _hear_notification(self, child: Child, notification: Json) -> None:
        method, params = notification["method"], params_of(notification)
        if method == "notifications/cancelled" and is_id(id_ := params.get("requestId")):
            asked = self._questions.cancelled(child, id_)
            if asked is not None:
                notification = {**notification, "params": {**params, "requestId": asked}}
            else:
                self._conversation.streams.pop(id_, None)
        elif method == "notifications/subscriptions/acknowledged":
            stream = self._conversation.streams.get(meta_of(notification).get(SUBSCRIPTION_ID, ""))
            if stream is not None:
                if stream.is_acknowledged:
                    return
                stream.is_acknowledged = True
                notification = stream.acknowledgement(params.get("notifications"))
        elif method.endswith("/list_changed") and child is self._current:
            self._list(child)
        self._host.send(notification)

    def _hear_of_end(self, child: Child) -> None:
        problem = child.problem or ""
        if child.has_answered:
            self._give_up(
                child,
                f"The server process ended, and this request may or may not have been executed: {problem}",
            )
        unanswered = [request for at, request in self._running.values() if at is child]
        self._running = {id_: each for id_, each in self._running.items() if each[0] is not child}
        self._questions.withdraw(child)
        self._fail(problem)
        for request in unanswered:
            self._answer(request, self._problem or problem)

    def _list(self, child: Child) -> None:
        """Get to know what a process lists, beside what it is asked."""
        if self._listing is not None:
            self._listing.cancel()
        self._listing = asyncio.ensure_future(self._know(child))

    async def _know(self, child: Child) -> None:
        with suppress(ChildEndedError):
            await self._answers.lists.ask(child, self._conversation)
        self._has_changed.set()
