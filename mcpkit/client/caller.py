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
from .options import Timeout
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
            level, timeout, whether it may be done twice, and headers.
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
    async def _list(self, method: str, member: str, use_cache: bool) -> list[Json]:
        """Return all that a method lists."""

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: None = None,
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: Timeout | float | None = None,
        retry: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> CallResult: ...
    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: TypeForm[T],
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: Timeout | float | None = None,
        retry: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> T: ...
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: Any = None,
        progress: Progress | None = None,
        log_level: str | None = None,
        timeout: Timeout | float | None = None,
        retry: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a tool, and return its result: a `CallResult`, or a value of `result_type`.

        Args:
            name: The tool's name.
            arguments: JSON values by name.
            result_type: Type of the returned value, read from the structured content, or else from the text: a
                dataclass, `TypedDict`, pydantic model or any other type that a tool's argument may have.
            progress: Called with progress, total and message of each progress notification.
            log_level: Lowest level of log messages for this request; only in 2026-07-28.
            timeout: As for the client, whose value is used when None.
            retry: Whether the call may be sent again after a lost connection; None for tools whose annotations say that
                they are read-only or idempotent.
            meta: Members of the request's `_meta`, such as those of extensions.

        Raises:
            ToolError: The tool failed, and `result_type` is given.
            InvalidResultError: The result does not fit the tool's `outputSchema`, or the type.
            ProtocolError: The server answered with an error, for example because there is no such tool; or a member
                of its result cannot be read, which the message names.
            TimeoutError: A time limit has passed; the request has been cancelled.
            OutcomeUnknownError: The server may or may not have run the tool.
            ConnectionError: The server cannot be reached, or the connection was lost before the response.
        """
        params: Json = {"name": name, "arguments": arguments or {}}
        if meta is not None:
            params["_meta"] = dict(meta)
        tools = self._tools
        if self._repeats_arguments:
            rest = (progress, log_level, timeout)
            answer = await self._ask_with_headers(name, params, retry, *rest)
        else:
            retry = tools.is_harmless(name) if retry is None else retry
            answer = await self._ask("tools/call", params, progress, log_level, timeout, retry)
        result = CallResult(answer, may_be_null=self._link.wire.revision in STATELESS)
        if self._validates and not result.is_error and tools.may_promise(name, result):
            await tools.check(name, result)
        if result_type is None:
            return result
        from .tools.into import read_into  # which brings all that types may be

        return read_into(result, result_type, name)

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
        return {str(tool.get("name")): RemoteTool(self.call_tool, tool) for tool in await self.list_tools()}

    async def list_tools(self, *, use_cache: bool = True) -> list[Json]:
        """Return all tools of all pages; a cached list only with `use_cache`."""
        tools = await self._list("tools/list", "tools", use_cache)
        return self._tools.learn(tools, by_http=self._repeats_arguments)
