"""An in-memory client for the tests of a server; it speaks the real protocol of any revision.

async with connect(server) as client:
    result = await client.call("get_forecast", {"latitude": 38.9, "longitude": -77.0})
    assert result.text.startswith("Sunny")
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from .engine.connection import Connection
from .errors import INTERNAL_ERROR, METHOD_NOT_FOUND, ProtocolError
from .protocol import jsonrpc
from .protocol.client import Answered, Asked, ClientWire, Progressed, Refused
from .protocol.eras import LOG_LEVEL, SERVER_INFO
from .protocol.revisions import ALL, LATEST, STATELESS
from .server import Server
from .state.principal import ANYONE, Principal

Answers = Callable[[str, dict[str, Any]], "dict[str, Any] | Awaitable[dict[str, Any]]"]
"""Answers what the server asks: takes the method, such as `elicitation/create`, and its params; returns the result."""

_ALL: Final[dict[str, Any]] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}, "context": {}},
    "roots": {},
}
_ROUNDS: Final = 10
"""As many as the official clients play: what takes more rounds fails with them."""

ProgressCallback = Callable[[float, float | None, str | None], None]


class CallResult:
    """What a tool answered.

    Attributes:
        type: The result's `resultType`: `complete`, also where the revision has no types, or another.
        data: All members of the result; of a type of an extension's, the others are empty.
        content: The content blocks.
        structured: The structured content, or None.
        is_error: Whether the tool could not do what it was asked.
        meta: The result's `_meta`.
    """

    __slots__ = ("content", "data", "is_error", "meta", "structured", "type")

    def __init__(self, result: dict[str, Any]) -> None:
        self.data = result
        self.type: str = result.get("resultType", "complete")
        self.content: list[dict[str, Any]] = result["content"] if self.type == "complete" else []
        self.structured: Any = result.get("structuredContent")
        self.is_error: bool = result.get("isError", False)
        self.meta: dict[str, Any] = result.get("_meta", {})

    @property
    def text(self) -> str:
        """The text blocks, one after the other."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")

    def __repr__(self) -> str:
        """Show the text."""
        return f"CallResult({self.text!r}, is_error={self.is_error})"


class Client:
    """A client in the same process; make one with `connect`.

    Attributes:
        revision: The revision that it speaks.
        notifications: All notifications that have come, oldest first.
        server_info: What the server says it is; filled by `connect`.
        server_capabilities: What the server declares; filled by `connect`.
        instructions: How the server says that a model should use it, or None; filled by `connect`.
    """

    def __init__(
        self,
        server: Server,
        *,
        revision: str,
        info: dict[str, Any],
        capabilities: dict[str, Any],
        answers: Answers | None = None,
        principal: Principal = ANYONE,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.revision = revision
        self.notifications: list[dict[str, Any]] = []
        self.server_info: dict[str, Any] = {}
        self.server_capabilities: dict[str, Any] = {}
        self.instructions: str | None = None
        self._wire = ClientWire(revision, info=info, capabilities=capabilities)
        self._answers = answers
        self._answering: set[asyncio.Task[None]] = set()
        self._waiting: dict[jsonrpc.RequestId, asyncio.Future[dict[str, Any]]] = {}
        self._progress: dict[jsonrpc.RequestId, ProgressCallback] = {}
        self._arrival = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._connection = Connection(
            server,
            self._receive,
            request_headers={
                name.lower().encode("latin-1"): value.encode("latin-1")
                for name, value in (headers or {}).items()
            },
            principal=principal,
        )

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: ProgressCallback | None = None,
        log_level: str | None = None,
    ) -> Coroutine[Any, Any, dict[str, Any]]:
        """Send any request; to be awaited for its result, once the server has asked all that it wants to know.

        Args:
            method: The method.
            params: Its params; the `_meta` that the revision wants is added.
            progress: Called with done, total and message at each progress notification.
            log_level: The level to ask for in this request; stateless revisions only.

        Raises:
            ProtocolError: The server answered with an error.
            ConnectionError: The client was closed before the answer came.
        """
        params = dict(params or {})
        if log_level is not None:
            params["_meta"] = {**params.get("_meta", {}), LOG_LEVEL: log_level}
        play = self._request if self._answers is None else self._request_in_rounds
        return play(method, params, progress)

    async def _request_in_rounds(
        self, method: str, params: dict[str, Any], progress: ProgressCallback | None
    ) -> dict[str, Any]:
        for rounds in range(_ROUNDS + 1):
            result = await self._request(method, params, progress)
            if result.get("resultType") != "input_required":
                return result
            if rounds == _ROUNDS:
                break
            params["inputResponses"] = {
                key: await self._answer(asked) for key, asked in result.get("inputRequests", {}).items()
            }
            params.pop("requestState", None)
            if "requestState" in result:
                params["requestState"] = result["requestState"]
        raise ProtocolError(
            INTERNAL_ERROR,
            f"{method} has been answered with questions in {_ROUNDS} rounds, and asks again: clients give up after "
            f"{_ROUNDS}. Ask several questions at once with ctx.ask(...), or everything in one form",
        )

    async def _request(
        self, method: str, params: dict[str, Any], progress: ProgressCallback | None
    ) -> dict[str, Any]:
        sent = self._wire.request(method, params, reports_progress=progress is not None)
        if progress is not None:
            self._progress[sent.id] = progress
        future = self._waiting[sent.id] = self._loop.create_future()
        self._connection.receive(sent.line)
        try:
            result: dict[str, Any] = await future
        finally:
            del self._waiting[sent.id]
            if progress is not None:
                del self._progress[sent.id]
            if sent.id in self._wire.pending:
                given_up = self._wire.cancel(sent.id, "nobody waits for the answer any more")
                if given_up is not None:
                    self._connection.receive(given_up.line)
        return result

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification."""
        self._connection.receive(self._wire.notification(method, params).line)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: ProgressCallback | None = None,
        log_level: str | None = None,
    ) -> CallResult:
        """Call a tool.

        Args:
            name: The tool's name.
            arguments: JSON values by name.
            progress: Called with done, total and message at each progress notification.
            log_level: The level to ask for in this request; stateless revisions only.

        Raises:
            ProtocolError: The server answered with an error, for example because there is no such tool.
        """
        params = {"name": name, "arguments": arguments or {}}
        return CallResult(await self.request("tools/call", params, progress=progress, log_level=log_level))

    async def list_tools(self) -> list[dict[str, Any]]:
        """Return all tools, page by page."""
        return await self._list("tools/list", "tools")

    async def list_resources(self) -> list[dict[str, Any]]:
        """Return all resources, page by page."""
        return await self._list("resources/list", "resources")

    async def list_resource_templates(self) -> list[dict[str, Any]]:
        """Return all resource templates, page by page."""
        return await self._list("resources/templates/list", "resourceTemplates")

    async def list_prompts(self) -> list[dict[str, Any]]:
        """Return all prompts, page by page."""
        return await self._list("prompts/list", "prompts")

    async def read(self, uri: str) -> list[dict[str, Any]]:
        """Read a resource and return its contents.

        Raises:
            ProtocolError: The server answered with an error, for example because there is no such resource.
        """
        contents: list[dict[str, Any]] = (await self.request("resources/read", {"uri": uri}))["contents"]
        return contents

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
        """Get a prompt and return its messages.

        Raises:
            ProtocolError: The server answered with an error.
        """
        params = {"name": name, "arguments": arguments or {}}
        messages: list[dict[str, Any]] = (await self.request("prompts/get", params))["messages"]
        return messages

    async def complete(
        self, reference: str, argument: str, value: str, arguments: Mapping[str, str] | None = None
    ) -> list[str]:
        """Complete an argument and return the values.

        Args:
            reference: A prompt's name, or a resource template's URI template.
            argument: The argument's name.
            value: What has been typed.
            arguments: The arguments already filled in.

        Raises:
            ProtocolError: The server answered with an error.
        """
        ref = (
            {"type": "ref/resource", "uri": reference}
            if "{" in reference
            else {"type": "ref/prompt", "name": reference}
        )
        params: dict[str, Any] = {"ref": ref, "argument": {"name": argument, "value": value}}
        if arguments:
            params["context"] = {"arguments": arguments}
        values: list[str] = (await self.request("completion/complete", params))["completion"]["values"]
        return values

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

    async def _list(self, method: str, member: str) -> list[dict[str, Any]]:
        page = await self.request(method)
        found: list[dict[str, Any]] = page[member]
        while "nextCursor" in page:
            page = await self.request(method, {"cursor": page["nextCursor"]})
            found += page[member]
        return found

    def _receive(self, line: bytes) -> None:
        for event in self._wire.receive(line):
            if isinstance(event, Answered):
                if not (waiting := self._waiting[event.id]).done():
                    waiting.set_result(event.result)
            elif isinstance(event, Refused):
                if not (waiting := self._waiting[event.id]).done():
                    waiting.set_exception(ProtocolError(event.code, event.message, event.data))
            elif isinstance(event, Asked):
                task = self._loop.create_task(self._reply(event))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            elif isinstance(event, Progressed):
                self._progress[event.id](event.done, event.total, event.message)
            else:
                params = {} if event.params is None else {"params": event.params}
                self.notifications.append({"jsonrpc": "2.0", "method": event.method, **params})
                self._arrival.set()

    async def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._answers is not None
        answer: object = self._answers(asked["method"], asked.get("params", {}))
        if inspect.isawaitable(answer):
            answer = await answer
        if not jsonrpc.is_object(answer):
            raise TypeError(f"answers= returns the result of {asked['method']}, a dict, not {answer!r}")
        return answer

    async def _reply(self, asked: Asked) -> None:
        if self._answers is None:
            reply = self._wire.refuse(
                asked.id, METHOD_NOT_FOUND, "connect(..., answers=) says what to answer"
            )
        else:
            try:
                answer = await self._answer({"method": asked.method, "params": asked.params})
                reply = self._wire.answer(asked.id, answer)
            except ProtocolError as error:
                reply = self._wire.refuse(asked.id, error.code, error.message)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001 - an assertion of the test's, say: its calls raise it
                reply = self._wire.refuse(asked.id, INTERNAL_ERROR, "answers= has failed")
                for waiting in self._waiting.values():
                    if not waiting.done():
                        waiting.set_exception(error)
        self._connection.receive(reply.line)

    async def open(self) -> None:
        """Negotiate with the server; `connect` does."""
        if self.revision in STATELESS:
            result = await self.request("server/discover")
            info = result.get("_meta", {}).get(SERVER_INFO, {})
        else:
            params = {
                "protocolVersion": self.revision,
                "capabilities": self._wire.capabilities,
                "clientInfo": self._wire.info,
            }
            result = await self.request("initialize", params)
            info = result["serverInfo"]
            self.notify("notifications/initialized")
        self.server_info = info
        self.server_capabilities = result["capabilities"]
        self.instructions = result.get("instructions")

    async def close(self) -> None:
        """Stop answering questions; `connect` does."""
        for task in self._answering:
            task.cancel()
        await self._connection.aclose()
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the client has been closed"))


@asynccontextmanager
async def connect(
    server: Server,
    *,
    revision: str = LATEST,
    info: dict[str, Any] | None = None,
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
        revision: The revision that the client speaks, of either era.
        info: The client's `Implementation`.
        capabilities: The capabilities that the client declares; with `answers`, by default all.
        answers: What it answers when the server asks; a ProtocolError that it raises is the answer, too, and
            any other exception ends the calls that wait.
        principal: Who the client is, for what not everybody may see; nobody in particular by default.
        headers: What handlers find as the headers of the HTTP request, by name in any case.

    Raises:
        ValueError: There is no such revision, or a header has characters beyond Latin-1.
        RegistrationError: Type hints of a component cannot be resolved.
    """
    if revision not in ALL:
        raise ValueError(f"unknown revision {revision!r}: there are {', '.join(ALL)}")
    async with server.running():
        await server.ready()
        client = Client(
            server,
            revision=revision,
            info=info or {"name": "mcpkit-testing", "version": "1"},
            capabilities=capabilities if capabilities is not None else dict(_ALL if answers else {}),
            answers=answers,
            principal=principal,
            headers=headers,
        )
        try:
            await client.open()
            yield client
        finally:
            await client.close()
