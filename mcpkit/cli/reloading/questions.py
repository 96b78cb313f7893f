"""What processes of the server ask the host: under ids of its own for each, so that two never have the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from ...protocol.jsonrpc import Json, RequestId, is_id
from .child import Child


class Questions:
    """Requests of processes that the host has not answered yet.

    Args:
        send: Sends a message to the host.
    """

    def __init__(self, send: Callable[[Json], None]) -> None:
        self._send = send
        self._ids = count()
        self._open: dict[RequestId, tuple[Child, object]] = {}

    def ask(self, child: Child, request: Json) -> None:
        """Ask the host what a process asks."""
        id_ = next(self._ids)
        self._open[id_] = child, request["id"]
        self._send({**request, "id": id_})

    def answer(self, message: Json) -> None:
        """Bring an answer of the host's to the process that has asked, where it still waits."""
        id_: object = message.get("id")
        if is_id(id_) and id_ in self._open:
            child, asked = self._open.pop(id_)
            child.send({**message, "id": asked})

    def cancelled(self, child: Child, asked: RequestId) -> RequestId | None:
        """Forget a question that a process has cancelled, and return its id for the host; None where it is none."""
        for id_, each in self._open.items():
            if each == (child, asked):
                del self._open[id_]
                return id_
        return None

    def withdraw(self, child: Child) -> None:
        """Tell the host that nobody waits any more for what a process has asked."""
        for id_ in [id_ for id_, (asking, _) in self._open.items() if asking is child]:
            del self._open[id_]
            params = {"requestId": id_, "reason": "the server process that sent the request was stopped"}
            self._send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
