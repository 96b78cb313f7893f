"""The test client, in the same process as the server, and replacements of dependencies in tests."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from .._utils.exceptions import METHOD_NOT_FOUND, ProtocolError
from ..client.client import Client
from ..client.timeouts_retries_and_progress import ProgressCallback, Retries, Timeout
from ..client.transport_interface_and_memory import MemoryTransport
from ..identity.principals_and_scopes import ANYONE, Principal
from ..protocol import jsonrpc
from ..protocol.revisions import LATEST
from ..server import Server

__all__ = ["ProgressCallback", "ServerRequestHandler", "TestClient", "connect", "override"]

ServerRequestHandler = Callable[[str, dict[str, Any]], "dict[str, Any] | Awaitable[dict[str, Any]]"]
"""Responds to requests of the server: takes method (such as `elicitation/create`) and params; returns the result."""

_ALL: Final[dict[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}


class TestClient(Client):
    """A client in the same process as the server, returned by `connect`. It records notifications.

    Attributes:
        notifications: Received notifications as JSON-RPC messages, oldest first; `notification` removes them.
    """

    __test__ = False  # pytest collects classes named Test*

    def __init__(
        self,
        server: Server,
        *,
        protocol_version: str,
        client_info: dict[str, Any],
        capabilities: dict[str, Any],
        request_handler: ServerRequestHandler | None = None,
        principal: Principal = ANYONE,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        raw = {
            name.lower().encode("latin-1"): value.encode("latin-1") for name, value in (headers or {}).items()
        }
        self._requests = _Requests(request_handler, capabilities)
        self._memory = MemoryTransport(server, principal=principal, headers=raw)
        super().__init__(
            self._memory,
            protocol_version=protocol_version,
            client_info=client_info,
            timeout=Timeout(connect=None),
            retries=Retries() if request_handler else Retries(rounds=0),
            validate_results=False,
            cache=False,
        )
        self.notifications: list[dict[str, Any]] = []
        self._arrival = asyncio.Event()
        self._session.handler = self._requests
        self._session.listeners.add(self._receive)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification at once; the returned awaitable may be ignored.

        Args:
            method: Method of the notification.
            params: Params of the notification.
        """
        self._memory.send(self._session.wire.notification(method, params))
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def notification(self, method: str) -> dict[str, Any]:
        """Wait for a notification, remove it from `notifications`, and return its params.

        Args:
            method: Method of the notification, such as `notifications/tools/list_changed`.
        """
        while True:
            for index, message in enumerate(self.notifications):
                if message["method"] == method:
                    del self.notifications[index]
                    params: dict[str, Any] = message.get("params", {})
                    return params
            self._arrival.clear()
            await self._arrival.wait()

    def _receive(self, method: str, params: dict[str, Any] | None) -> None:
        members = {} if params is None else {"params": params}
        self.notifications.append({"jsonrpc": "2.0", "method": method, **members})
        self._arrival.set()


class _Requests:
    """Responds to requests of the server by the function of the test.

    Args:
        handler: The function; None for a test that expects no request.
        capabilities: Capabilities that the client declares.
    """

    def __init__(self, handler: ServerRequestHandler | None, capabilities: dict[str, Any]) -> None:
        self._handler = handler
        self._capabilities = capabilities

    def capabilities(self, revision: str) -> dict[str, Any]:
        """Return the declared capabilities, the same in each protocol version."""
        return self._capabilities

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request."""
        if self._handler is None:
            raise ProtocolError(
                METHOD_NOT_FOUND, f"the test has no response to {method}. Pass request_handler= to connect()"
            )
        answer: object = self._handler(method, params)
        if inspect.isawaitable(answer):
            answer = await answer
        if not jsonrpc.is_object(answer):
            raise TypeError(f"request_handler= must return the result of {method} as a dict, got {answer!r}")
        return answer


@asynccontextmanager
async def connect(
    server: Server,
    *,
    protocol_version: str = LATEST,
    client_info: dict[str, Any] | None = None,
    capabilities: dict[str, Any] | None = None,
    request_handler: ServerRequestHandler | None = None,
    principal: Principal = ANYONE,
    headers: Mapping[str, str] | None = None,
) -> AsyncGenerator[TestClient]:
    """Connect a client to a server in the same process and event loop, for tests.

        async with connect(server) as client:
            assert (await client.call_tool("add", {"a": 1, "b": 2})).data == 3

    Every message passes through the protocol as over a network. The server's lifespan is entered first and left last.
    The context can be entered and left in different tasks, as pytest fixtures do.

    Args:
        server: The server.
        protocol_version: Protocol version of the client.
        client_info: `Implementation` of the client; None for that of mcpkit's tests.
        capabilities: Capabilities that the client declares. None declares all with `request_handler`, else none.
        request_handler: Responds to requests of the server (elicitation, sampling, roots): takes method and params,
            returns the result, and may be `async`. A ProtocolError that it raises is the error response; any other
            exception is raised by the waiting calls.
        principal: Authenticated principal of the client; anonymous by default.
        headers: HTTP headers for handlers, by name in any case.

    Returns:
        An async context manager that yields a `TestClient`, a `mcpkit.Client` that records notifications.

    Raises:
        ValueError: There is no such protocol version, or a header has characters outside of Latin-1.
        RegistrationError: Type hints of a component cannot be resolved.
    """
    async with TestClient(
        server,
        protocol_version=protocol_version,
        client_info=client_info or {"name": "mcpkit-testing", "version": "1"},
        capabilities=capabilities if capabilities is not None else dict(_ALL if request_handler else {}),
        request_handler=request_handler,
        principal=principal,
        headers=headers,
    ) as client:
        yield client


@contextmanager
def override(
    server: Server, function: Callable[..., object], replacement: Callable[..., object]
) -> Generator[None]:
    """Replace a dependency of a server's handlers within a `with` block.

    Args:
        server: The server.
        function: The function in `Depends(...)`.
        replacement: The function that is called instead, of any kind. It may have dependencies of its own, `function`
            among them.

    Raises:
        RegistrationError: No handler depends on `function`, or the arguments of the replacement cannot be filled.
    """
    from ..components.dependency_runner import overridden

    runtime = server.engine.runtime
    before = runtime.overrides
    injections = [
        each for part in server.catalog.parts for component in part for each in component.injections
    ]
    runtime.overrides = overridden(before, injections, function, replacement)
    try:
        yield
    finally:
        runtime.overrides = before
