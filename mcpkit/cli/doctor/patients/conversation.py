"""A conversation with a server, as the checks see it, whatever it travels by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from ...._utils.package import __version__
from ....protocol.jsonrpc import Json, is_object
from ....protocol.revisions import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION

ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
INFO: Final = {"name": "mcpkit-doctor", "version": __version__}


@dataclass(frozen=True)
class Answer:
    """What a request has come to.

    Attributes:
        result: The result; None where there is none.
        error: The error; None where there is none.
        problem: Why there is neither; empty where there is one.
        seconds: How long it took.
        status: The HTTP status; 0 where there is none.
    """

    result: Json | None = None
    error: Json | None = None
    problem: str = ""
    seconds: float = 0.0
    status: int = 0

    @property
    def code(self) -> int | None:
        """The code of the error; None where there is none."""
        code = None if self.error is None else self.error.get("code")
        return code if isinstance(code, int) else None

    def __str__(self) -> str:
        if self.result is not None:
            return "a result"
        if self.error is not None:
            return f"error {self.error.get('code')} ({str(self.error.get('message'))[:80]})"
        return self.problem


def answer_of(message: Json, seconds: float, status: int = 0) -> Answer:
    """Return a response as an answer."""
    result, error = message.get("result"), message.get("error")
    if is_object(result):
        return Answer(result, None, "", seconds, status)
    if is_object(error):
        return Answer(None, error, "", seconds, status)
    return Answer(None, None, "a response without result or error", seconds, status)


class Conversation(Protocol):
    """Asks a server; nothing is raised where it does not answer."""

    async def ask(
        self,
        method: str,
        params: Json | None = None,
        *,
        name: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its answer.

        Args:
            method: The method.
            params: Its parameters.
            name: The id of the request; None for the next number.
            seconds: How long to wait; None for as long as the server is given for each answer.
        """
        ...

    async def tell(self, method: str) -> None:
        """Send a notification."""
        ...

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Listen to changes (subscriptions/listen), and return what is acknowledged as a result."""
        ...


def opening(revision: str) -> Json:
    """Return the parameters of `initialize`."""
    return {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}


def stateless(revision: str, params: Json | None = None) -> Json:
    """Return the parameters of a request of the stateless era."""
    meta = {PROTOCOL_VERSION: revision, CLIENT_INFO: INFO, CLIENT_CAPABILITIES: {}}
    return {**(params or {}), "_meta": meta}


class Stateless:
    """The same conversation in the stateless era: each request says who asks, and in which revision."""

    def __init__(self, inner: Conversation, revision: str) -> None:
        self._inner = inner
        self._revision = revision

    async def ask(
        self,
        method: str,
        params: Json | None = None,
        *,
        name: int | str | None = None,
        seconds: float | None = None,
    ) -> Answer:
        """Send a request, and wait for its answer."""
        return await self._inner.ask(method, stateless(self._revision, params), name=name, seconds=seconds)

    async def tell(self, method: str) -> None:
        """Send a notification."""
        await self._inner.tell(method)

    async def listen(self, params: Json, seconds: float) -> Answer:
        """Listen to changes, and return what is acknowledged as a result."""
        return await self._inner.listen(stateless(self._revision, params), seconds)
