"""A scripted server with random faults: its answers, and a transport that connects it to a client in memory."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any

from mcpkit.client.client_messages import OutgoingMessage
from mcpkit.client.transport_interface_and_memory import TransportListener
from mcpkit.exceptions import TransportError
from tests.helpers.pipe import META

STATELESS, HANDSHAKE = "2026-07-28", "2025-11-25"

Message = dict[str, Any]

_HINTS = {"bake": {}, "ask": {}, "taste": {"readOnlyHint": True}, "clean": {"idempotentHint": True}}
TOOLS: list[Message] = [
    {"name": name, "inputSchema": {"type": "object"}, "annotations": hints} for name, hints in _HINTS.items()
]

CAPABILITIES: Message = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
CAPABILITIES |= {"prompts": {}, "logging": {}}

_CACHE = {"ttlMs": 0, "cacheScope": "private"}

_FORM: Message = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

_QUESTION: Message = {"mode": "form", "message": "Bake it?", "requestedSchema": _FORM}

_ANSWER: Message = {"action": "accept", "content": {"ok": True}}

_INFO = {"name": "chaos", "version": "1"}


class Peer:
    """State and faults of a scripted server.

    Args:
        draw: The source of chance.
        revision: The revision that it speaks.
        max_faults: The maximum number of faults, once it is armed.

    Attributes:
        done: How often each call was done, by key.
        asked: How often each was asked for, so that it could have been done.
        log_level: The level that the client has set in the session of now; None in a new one.
        lives: How often it has come to life.
        faults: Those that it has had, in order.
        revision: As given; a server that dies may come back with another.
        is_armed: Whether it has faults.
    """

    def __init__(self, draw: Random, revision: str, max_faults: int) -> None:
        self.draw = draw
        self.revision = revision
        self.done: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.log_level: str | None = None
        self.lives = 0
        self.faults: list[str] = []
        self.is_armed = False
        self.on_fault: Callable[[], object] = lambda: None
        self._max_faults = max_faults

    def fault(self, kinds: Sequence[str]) -> str:
        """Draw whether there is a fault now, and which; empty for none."""
        if not self.is_armed or len(self.faults) >= self._max_faults or self.draw.random() < 0.5:
            return ""
        fault = self.draw.choice(kinds)
        self.faults.append(fault)
        self.on_fault()
        return fault

    def begin(self) -> None:
        """Come to life, knowing nothing of what was."""
        self.lives += 1
        self.log_level = None

    @property
    def is_stateless(self) -> bool:
        """True for the stateless version."""
        return self.revision == STATELESS

    def answer(self, message: Message, answers: Message | None = None) -> Message:
        """Do what a request asks for, and return the answer.

        Args:
            message: The request.
            answers: What the client has answered to the question of the tool `ask`, where that goes the other way.
        """
        method, params = message["method"], message.get("params", {})
        is_unknown = method == ("initialize" if self.is_stateless else "server/discover")
        if is_unknown:
            return message_of(message, error={"code": -32601, "message": "no such method"})
        if method == "logging/setLevel":
            self.log_level = params["level"]
        meta = {META + "serverInfo": _INFO}
        results: dict[str, Message] = {
            "server/discover": {
                "supportedVersions": [STATELESS],
                "capabilities": CAPABILITIES,
                "_meta": meta,
            },
            "initialize": {
                "protocolVersion": self.revision,
                "capabilities": CAPABILITIES,
                "serverInfo": _INFO,
            },
            "tools/list": {"tools": TOOLS, **_CACHE},
            "resources/read": {"contents": [{"uri": params.get("uri"), "text": "x"}], **_CACHE},
            "prompts/get": {"messages": []},
        }
        result = self._called(params, answers) if method == "tools/call" else results.get(method, {})
        if self.is_stateless:
            result = {"resultType": "complete", **(_CACHE if method == "server/discover" else {}), **result}
        return message_of(message, result=result)

    def wants_to_ask(self, message: Message) -> bool:
        """Return whether the server sends an elicitation before it responds to this request."""
        return not self.is_stateless and message.get("params", {}).get("name") == "ask"

    def _called(self, params: Message, answers: Message | None) -> Message:
        name, key = params["name"], params["arguments"]["key"]
        if name == "ask" and self.is_stateless:
            answers = params.get("inputResponses", {}).get("a")
            if answers is None:
                asks = {"a": {"method": "elicitation/create", "params": _QUESTION}}
                state = {"inputRequests": asks, "requestState": f"é state of {key} "}
                return {"resultType": "input_required", **state}
            assert params["requestState"] == f"é state of {key} ", "to another call"
        if name == "ask":
            assert answers in (_ANSWER, {}), answers
        self.done[key] += 1
        return {"content": [{"type": "text", "text": key}]}


def note_call(peer: Peer, message: Message) -> None:
    """Count a call that has come whole."""
    if message["method"] == "tools/call":
        peer.asked[message["params"]["arguments"]["key"]] += 1


def message_of(request: Message, **members: Any) -> Message:
    """Return the response to a request."""
    return {"jsonrpc": "2.0", "id": request["id"], **members}


def notification(method: str, meta: Message | None = None, **params: Any) -> Message:
    """Return a notification; the id of a subscription is in its metadata."""
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, "_meta": meta or {}}}


PIPE_FAULTS = (
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
        self._receiver: TransportListener | None = None
        self._listens: set[Any] = set()
        self._asking: dict[str, Message] = {}
        self._vain_starts = 0
        self._manner = peer.draw.choice(["refuses", "exits", "ignores"])

    async def open(self, receiver: TransportListener) -> None:
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
            self._receiver.connection_lost(TransportError("the server was killed", may_have_begun=True))

    def recover(self) -> None:
        """Have no more faults."""
        self._vain_starts = 0

    def announce(self) -> None:
        """Notify subscribers that the tools have changed."""
        if not self.peer.is_stateless:
            self._send(notification("tools/list_changed"))
        for id_ in self._listens:
            self._send(notification("tools/list_changed", {META + "subscriptionId": id_}))

    def send(self, outgoing: OutgoingMessage) -> Awaitable[None] | None:
        """Take a message."""
        message = json.loads(outgoing.line)
        fault = self.peer.fault(PIPE_FAULTS) if "method" in message and "id" in message else ""
        if not self.is_open or fault == "refuses":
            raise TransportError("the pipe is closed", may_have_begun=False)
        if self.peer.draw.random() < 0.3:
            return self._take_later(message, fault)
        self._take(message, fault)
        return None

    async def _take_later(self, message: Message, fault: str) -> None:
        life = self.peer.lives
        await asyncio.sleep(0)
        if not self.is_open or life != self.peer.lives:
            raise TransportError("the pipe was closed", may_have_begun=False)
        self._take(message, fault)
        await asyncio.sleep(0)

    def _take(self, message: Message, fault: str) -> None:
        peer, method = self.peer, message.get("method")
        if "method" not in message:
            asked = self._asking.pop(message["id"], None)
            if asked is not None and "result" in message:
                self._answer(asked, peer.fault(PIPE_FAULTS), message["result"])
        elif method == "notifications/cancelled":
            self._listens.discard(message["params"]["requestId"])
        elif "id" in message:
            if method == "server/discover" and not peer.is_stateless and self._manner != "refuses":
                if self._manner == "exits":
                    self.die()
            elif method == "subscriptions/listen" and not fault and peer.is_stateless:
                self._listens.add(message["id"])
                wanted = message["params"]["notifications"]
                meta = {META + "subscriptionId": message["id"]}
                self._send(notification("subscriptions/acknowledged", meta, notifications=wanted))
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
            self._send(message_of(message, error={"code": -32603, "message": "it is too hot"}))
        elif fault == "nothing":
            pass
        elif peer.wants_to_ask(message) and answers is None:
            id_ = f"q{message['id']}"
            self._asking[id_] = message
            question = {"jsonrpc": "2.0", "id": id_, "method": "elicitation/create", "params": _QUESTION}
            self._send(question)
        else:
            token = message.get("params", {}).get("_meta", {}).get("progressToken")
            if token is not None:
                self._send(notification("progress", progressToken=token, progress=1))
            if fault == "dies in the stream":
                self.die()
            else:
                self._give(peer.answer(message, answers), fault)

    def _give(self, answer: Message, fault: str) -> None:
        if fault in {"another id", "another id alone"}:
            self._send({**answer, "id": answer["id"] + 1000})
        elif fault == "garbage":
            for line in (b"{", b"[]", b"[1]", b"null", b'{"jsonrpc": "2.0", "id": 1e999}', b"\xff"):
                self._receive(line)
        if fault in {"dies after", "half an answer"}:
            if fault == "half an answer":
                self._receive(json.dumps(answer).encode()[:-5])
            self.die()
        elif fault == "late":
            asyncio.get_running_loop().call_later(_LATE, self._send_later, self.peer.lives, answer)
        elif fault not in {"another id alone", "nothing though done"}:
            self._send(answer)
            if fault == "twice":
                self._send(answer)
            elif fault == "dies having answered":
                self.die()

    def _send_later(self, life: int, message: Message) -> None:
        if life == self.peer.lives:
            self._send(message)

    def _send(self, message: Message) -> None:
        self._receive(json.dumps(message).encode())

    def _receive(self, line: bytes) -> None:
        if self.is_open:
            assert self._receiver is not None
            self._receiver.receive(line)
