"""Tool calls: arguments in HTTP headers, validation of results, and result types."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from .._utils.exceptions import HEADER_MISMATCH, ProtocolError
from ..protocol.jsonrpc import Json
from ..protocol.revisions import STATELESS
from .asking.questions import Questions
from .call_results import CallResult
from .client_session import ClientSession
from .connected import Connected
from .pending_requests_and_callbacks import ProgressCallback
from .retries_and_timeouts import Timeout
from .tools.remote_tools import ListedTools, RemoteTool

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from ..protocol.objects import ToolDefinition

T = TypeVar("T")


class Caller(Connected, ABC):
    """Base of `Client` with the methods for tools.

    Args:
        link: The link to the server.
        questions: The handler of requests from the server.
        ask: Sends a request and returns its result after all input rounds. It takes method, params, progress, log
            level, timeout, whether the request may be sent again, and headers.
        validates: Whether results of tools are validated against their `outputSchema`.
    """

    def __init__(
        self,
        link: ClientSession,
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
        """Whether tools may require arguments in HTTP headers (`x-mcp-header`)."""
        link = self._link
        return link.wire.revision in STATELESS and getattr(link.transport, "is_http", False)

    @abstractmethod
    async def _list(self, method: str, member: str, use_cache: bool) -> list[Any]:
        """Return the items of all pages of a list method."""

    @overload
    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        result_type: None = None,
        progress: ProgressCallback | None = None,
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
        progress: ProgressCallback | None = None,
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
        progress: ProgressCallback | None = None,
        log_level: str | None = None,
        timeout: Timeout | float | None = None,
        retry: bool | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a tool and return its result.

        Args:
            name: The name of the tool.
            arguments: Its arguments, JSON values by name.
            result_type: The type of the returned value, read from the structured content, or else from the text: a
                dataclass, `TypedDict`, pydantic model or any other type that a tool's argument may have. None returns a
                `CallResult`.
            progress: Called with progress, total and message of each progress notification.
            log_level: The lowest level of log messages for this request. Only 2026-07-28 has it.
            timeout: Time limits of this call in seconds. None takes those of the client.
            retry: Whether the call may be sent again after a lost connection. None allows it for tools whose
                annotations declare them read-only or idempotent.
            meta: Members of the request's `_meta`, such as those of extensions.

        Returns:
            A `CallResult`, or a value of `result_type`.

        Raises:
            ToolError: The tool failed, and `result_type` is given. Without `result_type` see `CallResult.is_error`.
            InvalidResultError: The result does not fit the tool's `outputSchema`, or `result_type`.
            ProtocolError: The server responded with an error, for example because there is no such tool; or a member of
                its result cannot be read, which the message names.
            TimeoutError: A time limit has passed. The client has cancelled the request.
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
        from .tools.headers_and_result_types import read_into  # which brings all that types may be

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
        """Return all tools by name, as callables: `await (await client.tools())["forecast"](city="Oslo")`.

        Raises:
            ProtocolError: The server responded with an error, or with a result that cannot be read.
        """
        return {str(tool.get("name")): RemoteTool(self.call_tool, tool) for tool in await self.list_tools()}

    async def list_tools(self, *, use_cache: bool = True) -> list[ToolDefinition]:
        """Return the tools of all pages.

        Args:
            use_cache: Whether a cached list may be returned.

        Returns:
            The `Tool` objects of the specification, without those that are invalid.

        Raises:
            ProtocolError: The server responded with an error, or with a result that cannot be read.
        """
        tools = await self._list("tools/list", "tools", use_cache)
        return self._tools.learn(tools, by_http=self._repeats_arguments)
