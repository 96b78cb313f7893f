"""The server whose faults are drawn, at the other end of a pipe.

What it makes of `server/discover` where it is of the handshake era is drawn, too: such servers refuse it, do not answer
it, or end.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from typing import Any

from mcpkit import TransportError
from mcpkit.client.link.transport import Receiver
from mcpkit.protocol.client import Outgoing
from tests.helpers.chaos.peer import (
    HANDSHAKE,
    STATELESS,
    Message,
    Peer,
    acknowledged,
    changed,
    note_call,
    progress,
)

FAULTS = (
    "dies before", "dies after", "dies having answered", "dies in the stream", "dies and does not start",
    "dies and comes back as another", "half an answer", "twice", "another id", "another id alone", "nothing",
    "nothing though done", "late", "garbage", "refuses", "an error",
)  # fmt: skip
_LATE = 200.0


class PipePeer:
    """A transport with the server behind it.

    Args:
        peer: The server.
    """

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.is_open = False
        self._receiver: Receiver | None = None
        self._listens: set[Any] = set()
        self._asking: dict[str, Message] = {}
        self._vain_starts = 0
        self._manner = peer.draw.choice(["refuses", "exits", "ignores"])

    async def open(self, receiver: Receiver) -> None:
        """Start the server."""
        await asyncio.sleep(self.peer.draw.choice([0, 0, 0.01]))
        if self._vain_starts:
            self._vain_starts -= 1
            raise TransportError("the server does not start", may_have_begun=False)
        self.peer.begin()
        self._receiver = receiver
        self._listens.clear()
        self._asking.clear()
        self.is_open = True

    async def close(self) -> None:
        """End it."""
        self.is_open = False

    def die(self) -> None:
        """Let it be killed."""
        if self.is_open:
            self.is_open = False
            assert self._receiver is not None
            self._receiver.lost(TransportError("the server was killed", may_have_begun=True))

    def recover(self) -> None:
        """Have no more faults."""
        self._vain_starts = 0

    def announce(self) -> None:
        """Tell who listens that the tools have changed."""
        if not self.peer.is_stateless:
            self._say(changed())
        for id_ in self._listens:
            self._say(changed(id_))

    def send(self, outgoing: Outgoing) -> Awaitable[None] | None:
        """Take a message."""
        message = json.loads(outgoing.line)
        fault = self.peer.fault(FAULTS) if "method" in message and "id" in message else ""
        if not self.is_open or fault == "refuses":
            raise TransportError("the pipe is closed", may_have_begun=False)
        if self.peer.draw.random() < 0.3:
            return self._take_later(message, fault)
        if self.peer.draw.random() < 0.5:
            self._take(message, fault)
        else:
            life = self.peer.lives
            asyncio.get_running_loop().call_soon(self._take_in, life, message, fault)
        return None

    async def _take_later(self, message: Message, fault: str) -> None:
        life = self.peer.lives
        await asyncio.sleep(0)
        if not self.is_open or life != self.peer.lives:
            raise TransportError("the pipe was closed", may_have_begun=False)
        self._take(message, fault)
        await asyncio.sleep(0)

    def _take_in(self, life: int, message: Message, fault: str) -> None:
        if self.is_open and life == self.peer.lives:
            self._take(message, fault)

    def _take(self, message: Message, fault: str) -> None:
        peer, method = self.peer, message.get("method")
        if "method" not in message:
            asked = self._asking.pop(message["id"], None)
            if asked is not None and "result" in message:
                self._answer(asked, peer.fault(FAULTS), message["result"])
        elif method == "notifications/cancelled":
            self._listens.discard(message["params"]["requestId"])
        elif "id" in message:
            if method == "server/discover" and not peer.is_stateless and self._manner != "refuses":
                if self._manner == "exits":
                    self.die()
            elif method == "subscriptions/listen" and not fault and peer.is_stateless:
                self._listens.add(message["id"])
                self._say(acknowledged(message))
            else:
                note_call(peer, message)
                self._answer(message, fault)

    def _answer(self, message: Message, fault: str, answers: Message | None = None) -> None:
        peer = self.peer
        if fault == "dies before":
            self.die()
        elif fault == "dies and does not start":
            self._vain_starts = peer.draw.choice([1, 2, 5])
            self.die()
        elif fault == "dies and comes back as another":
            peer.revision = HANDSHAKE if peer.is_stateless else STATELESS
            self.die()
        elif fault == "an error":
            self._say(
                {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32603, "message": "it is too hot"}}
            )
        elif fault == "nothing":
            pass
        elif peer.wants_to_ask(message) and answers is None:
            id_ = f"q{message['id']}"
            self._asking[id_] = message
            self._say(peer.question(id_))
        else:
            for each in progress(message):
                self._say(each)
            if fault == "dies in the stream":
                self.die()
            else:
                self._give(peer.answer(message, answers), fault)

    def _give(self, answer: Message, fault: str) -> None:
        if fault in {"another id", "another id alone"}:
            self._say({**answer, "id": answer["id"] + 1000})
        elif fault == "garbage":
            for line in (b"{", b"[]", b"[1]", b"null", b'{"jsonrpc": "2.0", "id": 1e999}', b"\xff"):
                self._receive(line)
        if fault in {"dies after", "half an answer"}:
            if fault == "half an answer":
                self._receive(json.dumps(answer).encode()[:-5])
            self.die()
        elif fault == "late":
            asyncio.get_running_loop().call_later(_LATE, self._say_in, self.peer.lives, answer)
        elif fault not in {"another id alone", "nothing though done"}:
            self._say(answer)
            if fault == "twice":
                self._say(answer)
            elif fault == "dies having answered":
                self.die()

    def _say_in(self, life: int, message: Message) -> None:
        if life == self.peer.lives:
            self._say(message)

    def _say(self, message: Message) -> None:
        self._receive(json.dumps(message).encode())

    def _receive(self, line: bytes) -> None:
        if self.is_open:
            assert self._receiver is not None
            self._receiver.receive(line)
