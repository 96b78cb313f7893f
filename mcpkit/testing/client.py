"""The client that `connect` makes, in the process of the server that is tested."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from ..client.client import Client as BaseClient
from ..client.link.answerer import Answerer
from ..client.link.awaited import Progress as ProgressCallback
from ..client.options import Retries, Timeout
from ..client.transports.memory import MemoryTransport
from ..common.errors import METHOD_NOT_FOUND, ProtocolError
from ..protocol import jsonrpc
from ..protocol.revisions import LATEST
from ..server import Server
from ..state.principal import ANYONE, Principal

__all__ = ["Answers", "Client", "ProgressCallback", "connect"]

Answers = Callable[[str, dict[str, Any]], "dict[str, Any] | Awaitable[dict[str, Any]]"]
"""Responds to requests of the server: takes method (such as `elicitation/create`) and params; returns the result."""

_ALL: Final[dict[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}


class Client(BaseClient):
    """A client in the same process; make one with `connect`.

    Attributes:
        notifications: All notifications that have come, oldest first.
    """

    def __init__(
        self,
        server: Server,
        *,
        protocol_version: str,
        client_info: dict[str, Any],
        capabilities: dict[str, Any],
        answers: Answers | None = None,
        principal: Principal = ANYONE,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        raw = {
            name.lower().encode("latin-1"): value.encode("latin-1") for name, value in (headers or {}).items()
        }
        self._answers = _Answers(answers, capabilities)
        self._memory = MemoryTransport(server, principal=principal, headers=raw)
        super().__init__(
            self._memory,
            protocol_version=protocol_version,
            client_info=client_info,
            timeout=Timeout(connect=None),
            retries=Retries() if answers else Retries(rounds=0),
            validate_results=False,
            cache=False,
        )
        self.notifications: list[dict[str, Any]] = []
        self._arrival = asyncio.Event()
        self._link.listeners.add(self._hear)

    def _answerer(self, questions: object) -> Answerer:
        return self._answers

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification; what is returned need not be awaited."""
        self._memory.send(self._link.wire.notification(method, params))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def notification(self, method: str) -> dict[str, Any]:
        """Wait for a notification, take it out of `notifications`, and return its params.

        Args:
            method: For example `notifications/tools/list_changed`.
        """
        while True:
            for index, message in enumerate(self.notifications):
                if message["method"] == method:
                    del self.notifications[index]
                    params: dict[str, Any] = message.get("params", {})
                    return params
            self._arrival.clear()
            await self._arrival.wait()

    def _hear(self, method: str, params: dict[str, Any] | None) -> None:
        told = {} if params is None else {"params": params}
        self.notifications.append({"jsonrpc": "2.0", "method": method, **told})
        self._arrival.set()


class _Answers:
    """Answers as a test says.

    Args:
        answers: What answers; None for a test that expects no question.
        capabilities: What the client declares.
    """

    def __init__(self, answers: Answers | None, capabilities: dict[str, Any]) -> None:
        self._answers = answers
        self._capabilities = capabilities

    def capabilities(self, revision: str) -> dict[str, Any]:
        """Return the same in each revision."""
        return self._capabilities

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a question."""
        if self._answers is None:
            raise ProtocolError(
                METHOD_NOT_FOUND, f"the test has no response to {method}. Pass answers= to connect()"
            )
        answer: object = self._answers(method, params)
        if inspect.isawaitable(answer):
            answer = await answer
        if not jsonrpc.is_object(answer):
            raise TypeError(f"answers= must return the result of {method} as a dict, got {answer!r}")
        return answer


@asynccontextmanager
async def connect(
    server: Server,
    *,
    protocol_version: str = LATEST,
    client_info: dict[str, Any] | None = None,
    capabilities: dict[str, Any] | None = None,
    answers: Answers | None = None,
    principal: Principal = ANYONE,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[Client]:
    """Connect a client to a server in the same process and event loop.

    Every message passes through the protocol as it does over a wire. The lifespan is entered
    first and left last. It can be entered and left in different tasks, as pytest fixtures do.

    Args:
        server: The server.
        protocol_version: The protocol version of the client.
        client_info: The client's `Implementation`.
        capabilities: The capabilities that the client declares; with `answers`, by default all.
        answers: What it answers when the server asks; a ProtocolError that it raises is the answer, too, and
            any other exception ends the calls that wait.
        principal: Who the client is, for what not everybody may see; nobody in particular by default.
        headers: What handlers find as the headers of the HTTP request, by name in any case.

    Raises:
        ValueError: There is no such revision, or a header has characters beyond Latin-1.
        RegistrationError: Type hints of a component cannot be resolved.
    """
    async with Client(
        server,
        protocol_version=protocol_version,
        client_info=client_info or {"name": "mcpkit-testing", "version": "1"},
        capabilities=capabilities if capabilities is not None else dict(_ALL if answers else {}),
        answers=answers,
        principal=principal,
        headers=headers,
    ) as client:
        yield client
