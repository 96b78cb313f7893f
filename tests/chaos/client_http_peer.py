"""The scripted server with random faults over HTTP: stateless, or with sessions."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, NamedTuple

from mcpkit.client.transports.http.streamable_http import HttpTransport
from tests.chaos.client_peer import (
    HANDSHAKE,
    STATELESS,
    Message,
    Peer,
    acknowledged,
    changed,
    note_call,
    progress,
    refusal,
)
from tests.helpers.scripted_http import Asked, Reply, ScriptedServer
from tests.helpers.waiting import over


class Refusal(NamedTuple):
    """An answer that is no success.

    Args:
        status: Its status.
        wait: Its `Retry-After`; empty for none.
        has_error: Whether it holds an error of JSON-RPC, and so is the server's own.
    """

    status: int
    wait: str = ""
    has_error: bool = False

    @property
    def headers(self) -> dict[str, str]:
        """Return its headers."""
        told = {"Location": "http://127.0.0.1:1/mcp"} if 300 <= self.status < 400 else {}
        return {**told, "Retry-After": self.wait} if self.wait else told


REFUSALS: Final = {
    "302": Refusal(302),
    "400": Refusal(400),
    "401": Refusal(401),
    "403": Refusal(403),
    "404": Refusal(404),
    "429": Refusal(429),
    "429 and when": Refusal(429, "3"),
    "429 for long": Refusal(429, "3600"),
    "500": Refusal(500),
    "502": Refusal(502),
    "503": Refusal(503),
    "503 and when": Refusal(503, "3"),
    "503 and when, by itself": Refusal(503, "3", has_error=True),
    "504": Refusal(504),
    "500 though done": Refusal(500),
    "502 though done": Refusal(502),
    "503 though done": Refusal(503),
    "503 and when though done": Refusal(503, "3"),
    "504 though done": Refusal(504),
}
"""Those that do not say so come before anything is done: a server that has done something does not say 404, say."""

BEFORE: Final = frozenset(
    {
        *(name for name in REFUSALS if "done" not in name),
        "cut",
        "dies before",
        "dies and comes back as another",
        "nothing",
    }
)

AFTER: Final = frozenset(
    {
        *(name for name in REFUSALS if "done" in name),
        "202",
        "another id",
        "another id alone",
        "cut though done",
        "dies after",
        "empty",
        "garbage",
        "half an answer",
        "late",
        "nothing though done",
    }
)

FAULTS: Final = (*sorted(BEFORE), *sorted(AFTER), "twice")

_LATE = 200.0


class Listener:
    """Takes connections, and can be closed at any time; a server of asyncio forgets one that it is just taking.

    Args:
        port: Where.
        serve: Serves a connection.
    """

    def __init__(
        self, port: int, serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
    ) -> None:
        self._serve = serve
        self._socket = socket.socket(proto=socket.IPPROTO_TCP)  # or asyncio would leave out TCP_NODELAY
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind(("127.0.0.1", port))
        self._socket.listen(100)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._accept)
        self._tasks: set[asyncio.Task[None]] = set()

    def _accept(self) -> None:
        connection, _ = self._socket.accept()
        task = self._loop.create_task(self._connect(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: socket.socket) -> None:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, connection)
        await self._serve(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))

    def close(self) -> None:
        """Take no more."""
        self._loop.remove_reader(self._socket)
        self._socket.close()


class HttpPeer:
    """A server on a port of this machine.

    Args:
        peer: What it does.
        has_sse: Whether it speaks HTTP with SSE.

    Attributes:
        port: Where it is, whenever it lives.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self._server = ScriptedServer(self._script)
        self._sessions: set[str] = set()
        self._streams: dict[str, list[Message]] = {}
        self._listening: dict[Reply, Any] = {}
        self._asking: dict[str, asyncio.Future[Message]] = {}
        self._names = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_alive = False
        self._place = socket.socket()
        self._place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._place.bind(("127.0.0.1", 0))  # nobody else gets the port while the server is dead
        self.port: int = self._place.getsockname()[1]
        self._has_stream = peer.draw.random() < 0.7

    # Its life

    async def start(self) -> None:
        """Come to life."""
        self.peer.begin()
        self._is_alive = True
        self._server.listener = Listener(self.port, self._server.serve)  # type: ignore[assignment]

    def die(self) -> None:
        """Let it be killed, and started again a little later."""
        for each in (self._sessions, self._streams, self._listening, self._asking):
            each.clear()
        if self._is_alive:
            self._is_alive = False
            self._server.die()
            self._do_later(self._revive(self.peer.draw.choice([0, 0, 0.01, 5])))

    def _do_later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _revive(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.start()

    def recover(self) -> None:
        """Have no more faults."""

    async def announce(self) -> None:
        """Tell who listens that the tools have changed."""
        for reply, subscription in list(self._listening.items()):
            await reply.event(changed(subscription))

    async def close(self) -> None:
        """End it."""
        for task in list(self._tasks):
            await over(task)
        if self._server.listener is not None:
            self._server.listener.close()
        await asyncio.sleep(0.01)  # connections that are just being taken
        await self._server.close()
        self._place.close()
        assert not self._server.failures, self._server.failures

    def target(self) -> Any:
        """Return what a client takes as this server."""
        return HttpTransport(f"http://127.0.0.1:{self.port}/mcp", trust_env=False)

    # What it is asked

    async def _script(self, asked: Asked, reply: Reply) -> None:
        if asked.method == "DELETE":
            self._sessions.discard(asked.headers.get("mcp-session-id", ""))
            await reply.send(200)
        elif asked.method == "GET":
            await self._open_stream(asked, reply)
        else:
            await self._take(asked, reply)

    async def _take(self, asked: Asked, reply: Reply) -> None:
        peer, message = self.peer, asked.message
        method = message.get("method")
        needs_session = not peer.is_stateless and method not in {"initialize", "server/discover"}
        if needs_session and asked.headers.get("mcp-session-id") not in self._sessions:
            await reply.send(404)
            return
        if "method" not in message or "id" not in message:
            await reply.send(202)
            self._hear(message)
            return
        fault = peer.fault(FAULTS)
        if await self._is_broken(BEFORE, fault, reply):
            return
        headers: dict[str, str] = {}
        if method == "initialize" and not peer.is_stateless:
            headers["Mcp-Session-Id"] = self._session()
        if method == "subscriptions/listen" and peer.is_stateless:
            await self._listen(reply, acknowledged(message), message["id"])
            return
        note_call(peer, message)
        if peer.wants_to_ask(message) or peer.draw.random() < 0.4:
            await self._answer_on_stream(message, fault, reply, headers)
            return
        answer = peer.answer(message)
        if not await self._is_broken(AFTER, fault, reply, answer):
            await reply.json(answer, headers=headers)
            if fault == "twice":
                await reply.json(answer, headers=headers)

    def _session(self) -> str:
        self._names += 1
        name = f"s{self._names}"
        self._sessions.add(name)
        self.peer.log_level = None
        return name

    def _hear(self, message: Message) -> None:
        asking = self._asking.pop(str(message.get("id")), None)
        if asking is not None and not asking.done() and "result" in message:
            asking.set_result(message["result"])

    async def _answer_on_stream(
        self, message: Message, fault: str, reply: Reply, headers: dict[str, str]
    ) -> None:
        peer = self.peer
        self._names += 1
        name = f"e{self._names}"
        has_ids = not peer.is_stateless and peer.draw.random() < 0.5
        self._streams[name] = []
        await reply.begin_stream(headers)
        if has_ids:
            self._streams[name].append({})
            await reply.event(id_=f"{name}-0", retry=peer.draw.choice([None, 10, 2000]))
        answers: Message | None = None
        if peer.wants_to_ask(message):
            question = f"q{name}"
            self._asking[question] = asyncio.get_running_loop().create_future()
            asking = self._asking[question]
            gone = asyncio.ensure_future(reply.gone())
            await reply.event(peer.question(question))
            try:
                await asyncio.wait((asking, gone), return_when=asyncio.FIRST_COMPLETED)
            finally:
                await over(gone)
            if not asking.done():
                return
            reply.is_over = False
            answers = asking.result()
            if await self._is_broken(BEFORE, peer.fault(FAULTS), reply, has_begun=True):
                return
        answer = peer.answer(message, answers)
        events = [*progress(message), answer]
        if has_ids:
            self._streams[name] += events
        for number, event in enumerate(events, 1):
            if event is answer and await self._is_broken(AFTER, fault, reply, answer, has_begun=True):
                return
            await reply.event(event, id_=f"{name}-{number}" if has_ids else None)
        if fault == "twice":
            await reply.event(answer)
        if peer.draw.random() < 0.8:
            await reply.end_stream()
        else:
            reply.cut()

    async def _open_stream(self, asked: Asked, reply: Reply) -> None:
        peer = self.peer
        if peer.is_stateless:
            await reply.send(405)
            return
        if asked.headers.get("mcp-session-id") not in self._sessions:
            await reply.send(404)
            return
        last = asked.headers.get("last-event-id")
        if last is None:
            if self._has_stream:
                await self._listen(reply)
            else:
                await reply.send(405)
            return
        name, _, number = last.partition("-")
        if name not in self._streams or await self._is_broken(
            BEFORE, peer.fault(("404", "503", "cut")), reply
        ):
            if not reply.is_over and name not in self._streams:
                await reply.send(404)
            return
        await reply.begin_stream()
        for at, event in list(enumerate(self._streams[name]))[int(number) + 1 :]:
            await reply.event(event, id_=f"{name}-{at}")
        await reply.end_stream()

    async def _listen(self, reply: Reply, first: Message | None = None, subscription: Any = None) -> None:
        await reply.begin_stream()
        if first is not None:
            await reply.event(first)
        self._listening[reply] = subscription
        await reply.gone()
        self._listening.pop(reply, None)

    # Faults

    async def _is_broken(
        self,
        when: frozenset[str],
        fault: str,
        reply: Reply,
        answer: Message | None = None,
        *,
        has_begun: bool = False,
    ) -> bool:
        """Do what a fault wants now, and say whether that was all."""
        if fault not in when:
            return False
        if fault.startswith("dies"):
            if fault == "dies and comes back as another":
                self.peer.revision = HANDSHAKE if self.peer.is_stateless else STATELESS
            self.die()
        elif fault.startswith("nothing"):
            await self._gone(reply)
        elif fault in {"cut", "cut though done"} or (has_begun and fault in REFUSALS):
            reply.cut()
        elif fault in REFUSALS:
            await self._refuse(REFUSALS[fault], reply)
        else:
            assert answer is not None
            await self._answer_wrongly(fault, reply, answer, has_begun=has_begun)
        return True

    async def _gone(self, reply: Reply) -> None:
        """Wait until the client has given up."""
        gone = asyncio.ensure_future(reply.gone())
        await asyncio.wait((gone,), timeout=_LATE)
        await over(gone)

    async def _refuse(self, how: Refusal, reply: Reply) -> None:
        message = reply.asked.message if reply.asked.body else None
        if how.status == 404:
            self._sessions.discard(reply.asked.headers.get("mcp-session-id", ""))
        if how.has_error and message is not None:
            error = refusal(message, -32000, "come again later")
            await reply.json(error, how.status, how.headers)
        else:
            await reply.send(how.status, b"<h1>no</h1>", how.headers)

    async def _answer_wrongly(self, fault: str, reply: Reply, answer: Message, *, has_begun: bool) -> None:
        whole = json.dumps(answer).encode()
        if fault == "half an answer":
            if has_begun:
                await reply.chunk(b"data: " + whole[:-9])
            else:
                await reply.send(200, whole[:-9], {"Content-Type": "application/json"}, length=len(whole))
            reply.cut()
        elif fault == "late":
            await self._gone(reply)
        elif has_begun:
            await reply.event({**answer, "id": answer["id"] + 1000})
            if fault == "another id":
                await reply.event(answer)
            await reply.end_stream()
        elif fault in {"another id", "another id alone"}:
            await reply.json({**answer, "id": answer["id"] + 1000})
        elif fault == "garbage":
            await reply.send(200, b"<title>Log in</title>", {"Content-Type": "text/html"})
        elif fault == "empty":
            await reply.send(200, b"", {"Content-Type": "application/json"})
        else:
            await reply.send(202)
