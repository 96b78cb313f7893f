"""Single requests as function calls, in any event loop."""

from __future__ import annotations

import asyncio
from itertools import count

from ..._utils.concurrency import require_loop
from ..._utils.exceptions import ProtocolError
from ...engine.engine import Served
from ...engine.message_dispatch import Connection
from ...identity.principals_and_scopes import Principal
from ...protocol import jsonrpc
from ...protocol.jsonrpc import Json
from ...protocol.revisions import LATEST_HANDSHAKE


class Calls:
    """Sessions of a server for callers that open and close none: one for each event loop.

    The first request in a loop enters the lifespan. `aclose` leaves it, and so does the end of the loop, because
    `asyncio.run` cancels remaining tasks.

    Args:
        server: The server.
        principal: Principal of the caller.
    """

    def __init__(self, server: Served, principal: Principal) -> None:
        self._server = server
        self._principal = principal
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request, and return its result. Cancelling this call cancels the request.

        Raises:
            ProtocolError: The server responded with an error.
            BaseException: The exception of the lifespan of the server.
        """
        loop = require_loop("a tool of mcpkit")
        session = self._sessions.get(loop)
        if session is None or session.staying.done():
            for each in [each for each in tuple(self._sessions) if each.is_closed()]:
                self._sessions.pop(each, None)
            session = self._sessions[loop] = _Session(self._server, self._principal)
        return await session.ask(method, params)

    async def aclose(self) -> None:
        """Cancel requests of this event loop, and leave the lifespan. The next request enters it again.

        Raises:
            BaseException: The exception of the lifespan of the server.
        """
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.aclose()


class _Session:
    """One session, which lasts as long as its task.

    Attributes:
        staying: Task that enters and leaves the lifespan of the server.
    """

    def __init__(self, server: Served, principal: Principal) -> None:
        loop = asyncio.get_running_loop()
        self._server = server
        self._principal = principal
        self._ids = count(1)
        self._answers: dict[object, asyncio.Future[Json]] = {}
        self._entered: asyncio.Future[Connection] = loop.create_future()
        self._leave = asyncio.Event()
        self.staying = loop.create_task(self._stay(), name="mcpkit-agent-sdk")

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request; see `Calls.ask`."""
        connection = await asyncio.shield(self._entered)
        id_ = next(self._ids)
        answer: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._answers[id_] = answer
        connection.receive(jsonrpc.encode({"jsonrpc": "2.0", "id": id_, "method": method, "params": params}))
        try:
            return await answer
        except asyncio.CancelledError:
            connection.receive(jsonrpc.notification("notifications/cancelled", {"requestId": id_}))
            raise
        finally:
            self._answers.pop(id_, None)

    async def aclose(self) -> None:
        """Leave the lifespan."""
        self._leave.set()
        await self.staying

    async def _stay(self) -> None:
        engine = self._server.engine
        try:
            async with engine.running():
                await engine.ready()
                connection = Connection(self._server, self._hear, principal=self._principal)
                connection.receive(_INITIALIZE)
                connection.receive(jsonrpc.notification("notifications/initialized"))
                self._entered.set_result(connection)
                try:
                    await self._leave.wait()
                finally:
                    await connection.aclose(graceful=True)
        except BaseException as error:
            if self._entered.done():
                raise
            self._entered.set_exception(error)

    def _hear(self, line: bytes) -> None:
        """Deliver a response to its request; all other messages are dropped."""
        message: Json = jsonrpc.decode(line)
        answer = self._answers.pop(message.get("id"), None)
        if answer is None or answer.done() or "method" in message:
            return
        if "error" in message:
            error = message["error"]
            answer.set_exception(ProtocolError(error["code"], error["message"], error.get("data")))
        else:
            answer.set_result(message["result"])


_INITIALIZE = jsonrpc.encode(
    {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": LATEST_HANDSHAKE,
            "capabilities": {},
            "clientInfo": {"name": "agent-sdk", "version": ""},
        },
    }
)
"""The client declares no capabilities, and requests to it are not possible."""
