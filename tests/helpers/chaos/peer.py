"""A server of the tests' own whose faults are drawn: what it does with messages, whatever brings them.

It counts at itself what it has done, by the keys of the calls, and so knows what was done twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Message = dict[str, Any]

STATELESS, HANDSHAKE, OLDEST = "2026-07-28", "2025-11-25", "2024-11-05"

TOOLS: list[Message] = [
    {"name": "bake", "inputSchema": {"type": "object"}},
    {"name": "ask", "inputSchema": {"type": "object"}},
    {"name": "taste", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "clean", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
]
CAPABILITIES: Message = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "prompts": {},
    "logging": {},
}
_FORM: Message = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
_QUESTION: Message = {"mode": "form", "message": "Bake it?", "requestedSchema": _FORM}
_ANSWER: Message = {"action": "accept", "content": {"ok": True}}
_INFO = {"name": "chaos", "version": "1"}


class Peer:
    """What a server does, and what it has done.

    Args:
        draw: What chance says.
        revision: The revision that it speaks.
        most: How many faults it has at most, once it is armed.

    Attributes:
        done: How often each call was done, by key.
        asked: How often each was asked for, so that it could have been done.
        log_level: The level that the client has set in the session of now; None in a new one.
        lives: How often it has come to life.
        faults: Those that it has had, in order.
        revision: As given; a server that dies may come back with another.
        is_armed: Whether it has faults.
    """

    def __init__(self, draw: Random, revision: str, most: int) -> None:
        self.draw = draw
        self.revision = revision
        self.done: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.log_level: str | None = None
        self.lives = 0
        self.faults: list[str] = []
        self.is_armed = False
        self.on_fault: Callable[[], object] = lambda: None
        self._most = most

    def fault(self, kinds: Sequence[str]) -> str:
        """Draw whether there is a fault now, and which; empty for none."""
        if not self.is_armed or len(self.faults) >= self._most or self.draw.random() < 0.5:
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
        """Whether it is of the stateless era."""
        return self.revision == STATELESS

    def answer(self, message: Message, answers: Message | None = None) -> Message:
        """Do what a request asks for, and return the answer.

        Args:
            message: The request.
            answers: What the client has answered to the question of the tool `ask`, where that goes the other way.
        """
        method, params = message["method"], message.get("params", {})
        result: Message | None = {}
        if method == "server/discover":
            result = self._discovered()
        elif method == "initialize":
            result = None if self.is_stateless else self._initialized()
        elif method == "tools/list":
            result = {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
        elif method == "resources/read":
            result = {"contents": [{"uri": params["uri"], "text": "x"}], "ttlMs": 0, "cacheScope": "private"}
        elif method == "prompts/get":
            result = {"messages": []}
        elif method == "logging/setLevel":
            self.log_level = params["level"]
        elif method == "tools/call":
            result = self._called(params, answers)
        if result is None:
            return refusal(message, -32601, "no such method")
        if self.is_stateless:
            result = {"resultType": "complete", **result}
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def wants_to_ask(self, message: Message) -> bool:
        """Say whether a question has to be asked by a request the other way before this one is answered."""
        return not self.is_stateless and message.get("params", {}).get("name") == "ask"

    def question(self, id_: str) -> Message:
        """Return a request the other way; in the oldest revision that can only be a ping."""
        if self.revision == OLDEST:
            return {"jsonrpc": "2.0", "id": id_, "method": "ping"}
        return {"jsonrpc": "2.0", "id": id_, "method": "elicitation/create", "params": _QUESTION}

    def _called(self, params: Message, answers: Message | None) -> Message:
        name, key = params["name"], params["arguments"]["key"]
        if name == "ask" and self.is_stateless:
            answers = params.get("inputResponses", {}).get("a")
            if answers is None:
                asks = {"a": {"method": "elicitation/create", "params": _QUESTION}}
                return {
                    "resultType": "input_required",
                    "inputRequests": asks,
                    "requestState": f"é state of {key} ",
                }
            assert params["requestState"] == f"é state of {key} ", "to another call"
        if name == "ask":
            assert answers in (_ANSWER, {}), answers
        self.done[key] += 1
        return {"content": [{"type": "text", "text": key}]}

    def _discovered(self) -> Message | None:
        meta = {"io.modelcontextprotocol/serverInfo": _INFO}
        found = {"supportedVersions": [STATELESS], "capabilities": CAPABILITIES, "_meta": meta}
        return {**found, "ttlMs": 0, "cacheScope": "private"} if self.is_stateless else None

    def _initialized(self) -> Message:
        return {"protocolVersion": self.revision, "capabilities": CAPABILITIES, "serverInfo": _INFO}


def note_call(peer: Peer, message: Message) -> None:
    """Count a call that has come whole."""
    if message["method"] == "tools/call":
        peer.asked[message["params"]["arguments"]["key"]] += 1


def refusal(message: Message, code: int, text: str) -> Message:
    """Return an error."""
    return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": text}}


def progress(message: Message) -> list[Message]:
    """Return what a server tells of a request that wants to know how far it is."""
    token = message.get("params", {}).get("_meta", {}).get("progressToken")
    told = {"progressToken": token, "progress": 1}
    note = {"jsonrpc": "2.0", "method": "notifications/progress", "params": told}
    return [] if token is None else [note]


def acknowledged(message: Message) -> Message:
    """Return what a listening client is told first."""
    meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
    told = {"_meta": meta, "notifications": message["params"]["notifications"]}
    return {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": told}


def changed(subscription: Any = None) -> Message:
    """Return what tells that the list of tools has changed."""
    meta = {} if subscription is None else {"_meta": {"io.modelcontextprotocol/subscriptionId": subscription}}
    return {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": meta}
