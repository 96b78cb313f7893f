"""One process of the server: what it is asked, what it says, and why it has ended."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final
from uuid import uuid4

from ..._utils.exceptions import INTERNAL_ERROR, ProtocolError, TransportError
from ...client.client_messages import OutgoingMessage
from ...client.transports.processes.stdio import StdioTransport
from ...protocol.jsonrpc import Json, RequestId, decode, encode, is_array, is_object
from ...protocol.jsonrpc_validation import id_of_answer, is_call

GRACE: Final = 1.0
"""Seconds to wait for a process to exit, and again after SIGTERM; its requests have ended before."""

_SAID: Final = re.compile(r"^mcpkit: (.+)", re.MULTILINE)
"""The last line of `mcpkit run` for code that raises: file, line and error."""

_NAMED: Final = re.compile(r"^The server \([^)]*\) ")

_PREFIX: Final = f"mcpkit-{uuid4().hex}-"


class ChildEndedError(Exception):
    """The process has ended, or cannot be started; the message says why."""


class Child:
    """One process of the server.

    Args:
        command: What starts it.
        environment: All of its environment.
        take: Called with the child and each message that it sends to the host.
        on_end: Called with the child when it has ended without having been told to.

    Attributes:
        has_answered: Whether it has answered anything, so that its code cannot be broken.
        is_initialized: Whether it has been told that the host is ready for notifications.
        is_retired: Whether nothing that it says is taken any more.
        problem: Why it has ended; None while it lives.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        take: Callable[[Child, Json], None],
        on_end: Callable[[Child], None],
    ) -> None:
        self.has_answered = False
        self.is_initialized = False
        self.is_retired = False
        self.problem: str | None = None
        self._take = take
        self._on_end = on_end
        self._ids = map(f"{_PREFIX}{{}}".format, count())
        self._asked: dict[RequestId, asyncio.Future[Json]] = {}
        self._transport = StdioTransport(command, env=environment, grace=GRACE)
        self._unsent: deque[bytes] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the process, and return as soon as it runs.

        Raises:
            ChildEndedError: It cannot be started.
        """
        try:
            await self._transport.open(self)
        except TransportError as error:
            self.problem = str(error)
            raise ChildEndedError(self.problem) from None

    def send(self, message: Json) -> None:
        """Send a message, once those before it have been sent; to a process that has ended, nothing."""
        self._unsent.append(encode(message))
        if self._sending is None:
            self._sending = asyncio.get_running_loop().create_task(self._send())

    async def ask(self, method: str, params: Json) -> Json:
        """Make a request that is not the host's, and return its result.

        Raises:
            ProtocolError: It is answered with an error.
            ChildEndedError: The process ends before it is answered.
        """
        if self.problem is not None:
            raise ChildEndedError(self.problem)
        id_ = next(self._ids)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[id_] = answer
        try:
            self.send({"jsonrpc": "2.0", "id": id_, "method": method, "params": params})
            message = await answer
        finally:
            del self._asked[id_]
        error = message.get("error")
        if is_object(error):
            code = error.get("code")
            raise ProtocolError(code if type(code) is int else INTERNAL_ERROR, str(error.get("message")))
        result: object = message.get("result")
        return result if is_object(result) else {}

    async def stop(self) -> None:
        """End the process, and return when it has ended."""
        self.is_retired = True
        self._fail("the process is being stopped")
        await self._transport.close()

    # What its transport brings

    def receive(self, line: bytes, request_id: RequestId | None = None) -> None:
        """Take a message, or a batch of them; an answer that is not JSON ends its request."""
        try:
            message: object = decode(line)
        except ProtocolError as error:
            if not is_call(line) and (id_ := id_of_answer(line, line)) is not None:
                self.fail(id_, error)
            return
        for each in message if is_array(message) else [message]:
            if is_object(each):
                self._receive(each)

    def is_pending(self, id_: RequestId) -> bool:
        """Say whether a request may be answered."""
        return not self.is_retired

    def fail(self, id_: RequestId, error: Exception) -> None:
        """Answer a request whose answer could not be read."""
        self._receive({"jsonrpc": "2.0", "id": id_, "error": {"code": INTERNAL_ERROR, "message": str(error)}})

    def connection_lost(self, error: Exception) -> None:
        """Hear that the process has ended."""
        said = _SAID.findall(str(error))
        self._fail(said[-1] if said else _NAMED.sub("it ", str(error)))
        if not self.is_retired:
            self._on_end(self)

    def _receive(self, message: Json) -> None:
        id_: object = message.get("id")
        if "method" not in message:
            self.has_answered = True
            asked = self._asked.get(id_) if isinstance(id_, str) else None
            if asked is not None:
                if not asked.done():
                    asked.set_result(message)
                return
            if isinstance(id_, str) and id_.startswith(_PREFIX):
                return  # nobody waits for it any more
        if not self.is_retired:
            self._take(self, message)

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(ChildEndedError(self.problem))

    async def _send(self) -> None:
        try:
            while self._unsent:
                outgoing = OutgoingMessage()
                outgoing.line = self._unsent.popleft()
                waiting = self._transport.send(outgoing)
                if waiting is not None:
                    await waiting
        except TransportError:
            self._unsent.clear()  # whoever waits hears of the end by `lost`
        finally:
            self._sending = None
