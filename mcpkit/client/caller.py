"""Calls of tools: what is repeated in headers, held against schemas, and made of the results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ..common.errors import HEADER_MISMATCH, ProtocolError
from ..protocol.revisions import STATELESS
from ..protocol.types import Json
from .asking.questions import Questions
from .connected import Connected
from .link.awaited import Progress
from .link.link import Link
from .link.results import CallResult
from .tools.listed import ListedTools
from .tools.tools import RemoteTool

if TYPE_CHECKING:
    from typing_extensions import TypeForm

T = TypeVar("T")


class Caller(Connected, ABC):
    """What calls tools.

    Args:
        link: The link to the server.
        questions: What answers the server's questions.
        ask: Sends a request and returns its result, once nothing is asked any more; takes method, params, progress, log
            level, timeout, longest timeout, whether it may be done twice, and headers.
        validates: Whether what tools answer is held against their `outputSchema`.
    """

    def __init__(
        self,
        link: Link,
        questions: Questions,
        ask: Callable[..., Coroutine[Any, Any, Json]],
        *,
        validates: bool,
    ) -> None:
        super().__init__(link, questions)
        self._ask = ask
        self._validates = validates
        self._tools = ListedTools(self.list_tools)
        link.listeners.add(self._tools.hear)

    @property
    def _repeats_arguments(self) -> bool:
        """Whether tools may have clients repeat arguments in HTTP headers."""
        link = self._link
        return link.wire.revision in STATELESS and getattr(link.transport, "is_http", False)

    @abstractmethod
    async def _list(self, method: str, member: str, fresh: bool) -> list[Json]:
        """Return all that a method lists."""

    @overload
    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        into: None = None,
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        retry: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallResult: ...
    @overload
    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        into: TypeForm[T],
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        retry: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> T: ...
    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        into: Any = None,
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: float | None = None,
        max_timeout: float | None = None,
        retry: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a tool, and return its result: a `CallResult`, or a value of the type `into`.

        Args:
            name: The tool's name.
            arguments: JSON values by name.
            into: What to make of the structured content, or else of the text: a dataclass, `TypedDict`, pydantic
                model or any other type that an argument of a tool may have.
            progress: Called with done, total and message at each progress notification.
            log_level: The level to ask for in this request; stateless revisions only.
            timeout: As for the client, which says what holds where this is None.
            max_timeout: The same.
            retry: Whether the call may be done twice, where the way to the server or back has broken; None where the
                tool says that it is read-only or idempotent, as far as it has been listed.
            meta: Members of the call's `_meta`, such as those of extensions.

        Raises:
            ToolError: The tool could not do what it was asked, and a type was asked for.
            InvalidResultError: The result does not fit the tool's `outputSchema`, or the type.
            ProtocolError: The server answered with an error, for example because there is no such tool; or a member
                of its result cannot be read, which the message names.
            TimeoutError: The time is over; the server has been told.
            OutcomeUnknownError: It may or may not have been done.
            ConnectionError: The server cannot be reached, or its answer did not come back.
        """
        params: Json = {"name": name, "arguments": arguments or {}}
        if meta is not None:
            params["_meta"] = dict(meta)
        tools = self._tools
        if self._repeats_arguments:
            rest = (progress, log_level, timeout, max_timeout)
            answer = await self._ask_with_headers(name, params, retry, *rest)
        else:
            retry = tools.is_harmless(name) if retry is None else retry
            answer = await self._ask("tools/call", params, progress, log_level, timeout, max_timeout, retry)
        result = CallResult(answer, may_be_null=self._link.wire.revision in STATELESS)
        if self._validates and not result.is_error and tools.may_promise(name, result):
            await tools.check(name, result)
        if into is None:
            return result
        from .tools.into import read_into  # which brings all that types may be

        return read_into(result, into, name)

    async def _ask_with_headers(self, name: str, params: Json, retry: bool | None, *rest: Any) -> Json:
        given, tools = params["arguments"], self._tools
        try:
            headers = await tools.headers(name, given)  # which has it listed
            may_repeat = tools.is_harmless(name) if retry is None else retry
            return await self._ask("tools/call", params, *rest, may_repeat, headers)
        except ProtocolError as error:
            if error.code != HEADER_MISMATCH:
                raise
        headers = await tools.headers(name, given, fresh=True)
        may_repeat = tools.is_harmless(name) if retry is None else retry
        return await self._ask("tools/call", params, *rest, may_repeat, headers)

    async def tools(self) -> dict[str, RemoteTool]:
        """Return all tools by name, to be called like functions: `await tools["forecast"](city="Oslo")`."""
        return {str(tool.get("name")): RemoteTool(self.call, tool) for tool in await self.list_tools()}

    async def list_tools(self, *, fresh: bool = False) -> list[Json]:
        """Return all tools, page by page; `fresh` asks also where a list is kept that still holds."""
        tools = await self._list("tools/list", "tools", fresh)
        return self._tools.learn(tools, by_http=self._repeats_arguments)
