"""Requests that come one by one, as calls of functions, in whichever event loop their caller is."""

from __future__ import annotations

import asyncio
from itertools import count

from ...common.errors import ProtocolError
from ...common.loops import require_loop
from ...engine.connection import Connection
from ...engine.engine import Served
from ...protocol import jsonrpc
from ...protocol.revisions import LATEST_HANDSHAKE
from ...protocol.types import Json
from ...state.principal import Principal


class Calls:
    """The sessions of a server with callers who open none, and close none: one in each event loop.

    The lifespan is entered by the first request in a loop. It is left by `aclose`, or when the loop ends, as
    `asyncio.run` cancels then what still runs.

    Args:
        server: Who answers.
        principal: Who asks.
    """

    def __init__(self, server: Served, principal: Principal) -> None:
        self._server = server
        self._principal = principal
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}

    async def ask(self, method: str, params: Json) -> Json:
        """Make a request, and return its result. When this is cancelled, so is the request.

        Raises:
            ProtocolError: It was refused, with its text.
            BaseException: Whatever entering the server's lifespan raised.
        """
        loop = require_loop("a tool of mcpkit")
        session = self._sessions.get(loop)
        if session is None or session.staying.done():
            for each in [each for each in tuple(self._sessions) if each.is_closed()]:
                self._sessions.pop(each, None)
            session = self._sessions[loop] = _Session(self._server, self._principal)
        return await session.ask(method, params)

    async def aclose(self) -> None:
        """Cancel what runs in this event loop, and leave the lifespan here; the next request enters it again.

        Raises:
            BaseException: Whatever leaving the server's lifespan raised.
        """
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.aclose()


class _Session:
    """One session, for as long as its task stays.

    Attributes:
        staying: The task in which the server's lifespan is entered and left.
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
        """Make a request; see `Calls.ask`."""
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
        """Leave."""
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
        """Hand an answer to whoever waits for it; all else has nowhere to go."""
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
