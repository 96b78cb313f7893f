"""The client: what its users touch."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from types import TracebackType
from typing import Any, Final

from typing_extensions import Self, TypeIs

from ..common.version import __version__
from ..engine.engine import Served
from ..errors import METHOD_NOT_FOUND, ProtocolError
from ..protocol.eras import LOG_LEVEL
from ..protocol.types import Json
from .link import Answerer, Link, Negotiated, Progress
from .negotiation import Negotiation
from .results import CallResult
from .rounds import answered
from .transport import Transport
from .transports.memory import MemoryTransport

_INFO: Final = {"name": "mcpkit", "version": __version__}


class Client:
    """A client of one server, whatever its transport and its revision.

        async with Client("server.py") as client:
            result = await client.call("forecast", {"city": "Oslo"})

    It may be used by many tasks at once, and closed in another task than it was opened in. It can be opened again.

    Args:
        target: The server: an object, or a transport.
        revision: The revision to speak; None for the newest that both know.
        info: The client's `Implementation`.
        answerer: What answers the server's questions.
        timeout: Seconds without an answer and without progress after which a request is given up; None for any number.
        max_timeout: Seconds after which a request is given up whatever comes; None for any number.
        connect_timeout: Seconds that it may take to connect and to agree upon a revision.

    Raises:
        ValueError: There is no such revision.
        TypeError: The target is nothing that can be connected to.
    """

    def __init__(
        self,
        target: Served | Transport,
        *,
        revision: str | None = None,
        info: Json | None = None,
        answerer: Answerer | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        connect_timeout: float | None = 60.0,
    ) -> None:
        self._link = Link(
            _ways(target),
            Negotiation(revision, connect_timeout),
            info=info or _INFO,
            answerer=answerer or _Nobody(),
        )
        self._timeout = timeout
        self._max_timeout = max_timeout

    # Its life

    async def __aenter__(self) -> Self:
        """Connect, and agree with the server upon a revision."""
        try:
            await self._link.begin()
        except BaseException:
            await self._link.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        await self.close()

    async def close(self) -> None:
        """End all that waits, and leave the server; called again it does nothing."""
        await self._link.close()

    # What was agreed upon

    @property
    def revision(self) -> str:
        """The revision that is spoken.

        Raises:
            ConnectionError: It has not been opened yet; so for all that was agreed upon.
        """
        return self._agreed.revision

    @property
    def revision_reason(self) -> str:
        """Why it is that one, in words."""
        return self._agreed.reason

    @property
    def server_info(self) -> Json:
        """What the server says it is."""
        return self._agreed.info

    @property
    def server_capabilities(self) -> Json:
        """What the server declares."""
        return self._agreed.capabilities

    @property
    def instructions(self) -> str | None:
        """How the server says that a model should use it, or None."""
        return self._agreed.instructions

    @property
    def _agreed(self) -> Negotiated:
        if self._link.negotiated is None:
            raise ConnectionError("the client is not open: write `async with Client(...) as client:`")
        return self._link.negotiated

    # What it asks

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
    ) -> Json:
        """Send any request, and return its result, once the server has asked all that it wants to know.

        Args:
            method: The method.
            params: Its params; the `_meta` that the revision wants is added.
            progress: Called with done, total and message at each progress notification.
            log_level: The level to ask for in this request; stateless revisions only.
            timeout: As for the client, which says what holds where this is None.
            max_timeout: The same.

        Raises:
            ProtocolError: The server answered with an error.
            TimeoutError: The time is over; the server has been told.
            ConnectionError: The server cannot be reached, or its answer did not come back.
        """
        told: Json = {} if params is None else {**params}
        if log_level is not None:
            told["_meta"] = {**told.get("_meta", {}), LOG_LEVEL: log_level}
        link = self._link
        timeout = self._timeout if timeout is None else timeout
        max_timeout = self._max_timeout if max_timeout is None else max_timeout
        result = await link.request(method, told, progress, timeout, max_timeout)
        if result.get("resultType") != "input_required":
            return result

        def again(params: Json) -> Awaitable[Json]:
            return link.request(method, params, progress, timeout, max_timeout)

        return await answered(again, method, told, result, link.answerer)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> Awaitable[None]:
        """Send a notification; what is returned need not be awaited, and is done when it has been sent."""
        return self._link.notify(method, params)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
    ) -> CallResult:
        """Call a tool.

        Args:
            name: The tool's name.
            arguments: JSON values by name.
            progress: Called with done, total and message at each progress notification.
            log_level: The level to ask for in this request; stateless revisions only.
            timeout: As for the client, which says what holds where this is None.
            max_timeout: The same.

        Raises:
            ProtocolError: The server answered with an error, for example because there is no such tool.
            TimeoutError: The time is over; the server has been told.
            ConnectionError: The server cannot be reached, or its answer did not come back.
        """
        params = {"name": name, "arguments": arguments or {}}
        return CallResult(
            await self.request(
                "tools/call",
                params,
                progress=progress,
                log_level=log_level,
                timeout=timeout,
                max_timeout=max_timeout,
            )
        )

    async def list_tools(self) -> list[Json]:
        """Return all tools, page by page."""
        return await self._list("tools/list", "tools")

    async def list_resources(self) -> list[Json]:
        """Return all resources, page by page."""
        return await self._list("resources/list", "resources")

    async def list_resource_templates(self) -> list[Json]:
        """Return all resource templates, page by page."""
        return await self._list("resources/templates/list", "resourceTemplates")

    async def list_prompts(self) -> list[Json]:
        """Return all prompts, page by page."""
        return await self._list("prompts/list", "prompts")

    async def read(self, uri: str) -> list[Json]:
        """Read a resource and return its contents.

        Raises:
            ProtocolError: The server answered with an error, for example because there is no such resource.
        """
        contents: list[Json] = (await self.request("resources/read", {"uri": uri}))["contents"]
        return contents

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Json]:
        """Get a prompt and return its messages.

        Raises:
            ProtocolError: The server answered with an error.
        """
        params = {"name": name, "arguments": arguments or {}}
        messages: list[Json] = (await self.request("prompts/get", params))["messages"]
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
        params: Json = {"ref": ref, "argument": {"name": argument, "value": value}}
        if arguments:
            params["context"] = {"arguments": arguments}
        values: list[str] = (await self.request("completion/complete", params))["completion"]["values"]
        return values

    async def _list(self, method: str, member: str) -> list[Json]:
        page = await self.request(method)
        found: list[Json] = page[member]
        while "nextCursor" in page:
            page = await self.request(method, {"cursor": page["nextCursor"]})
            found += page[member]
        return found


class _Nobody:
    """Answers no question."""

    capabilities: Final[Json] = {}

    async def answer(self, method: str, params: Json) -> Json:
        """Refuse: nothing was declared."""
        raise ProtocolError(METHOD_NOT_FOUND, f"this client does not answer {method[:60]}")


def _ways(target: Served | Transport) -> Sequence[Transport]:
    return [MemoryTransport(target) if _is_server(target) else target]


def _is_server(target: Served | Transport) -> TypeIs[Served]:
    return hasattr(target, "engine")
