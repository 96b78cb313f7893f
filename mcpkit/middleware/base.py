"""Middleware: functions that process requests before their handlers, and results after them."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import (
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload

from pydantic_core import from_json

from .._utils.exceptions import ProtocolError, RegistrationError
from ..components.component import Component
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Outcome
from ..protocol.revisions import METHODS
from ..requests.request_record import BackgroundCall, Call, call_of
from ..requests.requests_to_client import Channel
from ..requests.running_requests import Calls, server_ended

if TYPE_CHECKING:
    from ..context import Context

# Methods that no middleware processes: a ping must be answered promptly (basic/utilities/ping), and the response of
# `subscriptions/listen` is a stream without a result to wait for.
UNWRAPPED = frozenset({"ping", "subscriptions/listen"})


# Requests


class Request:
    """A request as middleware receives it.

    Args:
        ctx: Context of the request.
        params: Params of the request.
    """

    __slots__ = ("ctx", "params")

    def __init__(self, ctx: Context[Any], params: dict[str, Any]) -> None:
        self.ctx = ctx
        self.params = params

    @property
    def method(self) -> str:
        """Method as the client sent it. It may be unknown."""
        return self.ctx.method

    @property
    def target(self) -> str | None:
        """Name or URI in the params, as the client sent it; None if there is neither."""
        for member in ("name", "uri"):
            if isinstance(value := self.params.get(member), str):
                return value
        return None

    @property
    def channel(self) -> Channel:
        """Channel of the request, to which `detach` can connect a call: messages, `principal`, `caller` and headers."""
        return call_of(self.ctx).channel

    def with_params(self, params: dict[str, Any]) -> Request:
        """Return the request with other params, for `call_next`.

        Args:
            params: The new params.
        """
        return Request(self.ctx, params)

    def detach(self, call_next: CallNext, channel: Channel) -> DetachedCall:
        """Run the rest of the chain in the background, so that this request can be answered at once.

        Neither `notifications/cancelled` nor the end of the connection cancels the call. It ends at the latest with
        the last `running()` of the server in this event loop. It counts among `Limits.concurrent_requests`, and keeps
        its timeout, context variables and request id.

        In every protocol version, elicitation, sampling and roots requests of the call are sent on `channel`, if that
        has `questions`; otherwise they fail. Input from an earlier round of this request is ignored.

        Args:
            call_next: `call_next` of the middleware.
            channel: Receives progress, log messages, notifications and requests of the call. Take `principal`,
                `request_headers`, `caller` and `is_local` from `request.channel`.

        Raises:
            BusyError: Too many requests are running.
            RuntimeError: No event loop runs in this thread.
        """
        from ..context import Context
        from ..requests.request_record import Dialogue

        call = call_of(self.ctx).copy_to(channel)
        call.dialogue = Dialogue(call)
        request = type(self)(Context(call), self.params)

        async def outcome() -> Outcome:
            return (await call_next(request)).outcome

        return DetachedCall(call, outcome)

    def __repr__(self) -> str:
        """Show method and target."""
        about = "" if self.target is None else f" {self.target!r}"
        return f"<{type(self).__name__} {self.method!r}{about}>"


class ToolCall(Request):
    """A `tools/call` request, for middleware of `tools/call`."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Name of the tool. It may be unknown."""
        return cast("str", self.params["name"])

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments as the client sent them, not yet validated."""
        return cast("dict[str, Any]", self.params.get("arguments", {}))

    def with_arguments(self, arguments: dict[str, Any]) -> ToolCall:
        """Return the call with other arguments, for `call_next`.

        Args:
            arguments: The new arguments.
        """
        return ToolCall(self.ctx, {**self.params, "arguments": arguments})


# Calls in the background


class DetachedCall:
    """A call in the background, started by `Request.detach`.

    All members must be used in the event loop in which it runs.

    Args:
        call: The call.
        run: Runs the call and returns its result.

    Raises:
        BusyError: Too many requests are running.
        RuntimeError: No event loop runs in this thread.
    """

    def __init__(self, call: Call, run: Callable[[], Coroutine[Any, Any, Outcome]]) -> None:
        loop = asyncio.get_running_loop()
        self._calls = Calls()
        self._answer: asyncio.Future[bytes] = loop.create_future()
        self._others = call.runtime.detached.setdefault(loop, set())
        self._alone = BackgroundCall(self._end, self._calls.cancel_of)
        self._others.add(self._alone)
        outcome = run()
        try:
            self._calls.start(self, call, outcome, self._settle)
        except BaseException:
            self._others.discard(self._alone)
            outcome.close()
            raise

    @property
    def is_running(self) -> bool:
        """True until the call has ended or was cancelled."""
        return not self._answer.done()

    async def result(self) -> dict[str, Any]:
        """Wait for the result, in the form for the client's protocol version. May be called several times.

        Raises:
            ProtocolError: The call failed with this error, or the server stopped before its end.
            CancelledError: `cancel` was called, or the waiting task was cancelled.
        """
        answer = from_json(await asyncio.shield(self._answer))
        if "error" in answer:
            error = answer["error"]
            raise ProtocolError(error["code"], error["message"], error.get("data"))
        result: dict[str, Any] = answer["result"]
        return result

    def cancel(self) -> None:
        """Cancel the call, unless it has ended.

        `is_running` is False at once, even if the handler takes time to stop.
        """
        self._calls.cancel(self)

    async def _end(self) -> None:
        await self._calls.aclose(server_ended())

    def _settle(self, message: bytes | None, _: BaseException | None) -> None:
        self._others.discard(self._alone)
        if message is None:
            self._answer.cancel()
        else:
            self._answer.set_result(message)


# Results


class Result(MutableMapping[str, Any]):
    """A result object that will be sent; a mutable mapping of its members.

    Results that are already JSON are parsed when a member is first read.

    Args:
        result: The result object, or its JSON.
        exception: Exception that caused an error result.
        ref: Reference of the exception in the log.

    Attributes:
        exception: Exception of the tool or of inner middleware, expected (`ToolError`) or not. None if the result is
            not an error, or the tool returned it (`ToolResult(..., is_error=True)`). Other handlers have no error
            results: their exceptions are raised by `call_next`. An exception group with a single exception is replaced
            by that exception.
        ref: Reference of the exception in the log and in the client's message ("Internal error (ref ...)"). None if
            the client gets the text of the exception, as for a `ToolError`.
    """

    __slots__ = ("_data", "_outcome", "exception", "ref")

    def __init__(
        self, result: Outcome, exception: BaseException | None = None, ref: str | None = None
    ) -> None:
        self.exception = exception
        self.ref = ref
        self._outcome = result
        self._data: dict[str, Any] | None = None

    @property
    def data(self) -> dict[str, Any]:
        """Members of the result as a dict."""
        if self._data is None:
            # A copy, because the server uses parts of a handler's result again for the next request.
            self._data = cast("dict[str, Any]", from_json(self.rendered()))
        return self._data

    @property
    def outcome(self) -> Outcome:
        """Result object or JSON that will be sent."""
        return self._outcome if self._data is None else self._data

    @property
    def type(self) -> str:
        """`resultType` of the result: `complete`, or a type of an extension."""
        return cast("str", self.data.get("resultType", "complete"))

    def rendered(self) -> bytes:
        """Return the result as JSON on one line."""
        outcome = self.outcome
        if isinstance(outcome, jsonrpc.Pieces):
            outcome = self._outcome = b"".join(outcome)
        return outcome if isinstance(outcome, bytes) else jsonrpc.encode(outcome)

    def __getitem__(self, name: str) -> Any:
        """Return a member."""
        return self.data[name]

    def __setitem__(self, name: str, value: Any) -> None:
        """Add or change a member."""
        self.data[name] = value

    def __delitem__(self, name: str) -> None:
        """Remove a member."""
        del self.data[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the members."""
        return iter(self.data)

    def __len__(self) -> int:
        """Return the number of members."""
        return len(self.data)

    def __repr__(self) -> str:
        """Show the members."""
        return f"{type(self).__name__}({self.data!r})"


def is_handle(result: Mapping[str, object]) -> bool:
    """Return True if the result of a call is a task handle of 2025-11-25, which has no `resultType`."""
    return "task" in result and "content" not in result and "resultType" not in result


class ToolCallResult(Result):
    """The result of a `tools/call`."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """`resultType` of the result: `complete`, `task` for any task handle, or a type of an extension."""
        return "task" if is_handle(self.data) else super().type

    @property
    def is_error(self) -> bool:
        """True if the tool failed."""
        # Inside a JSON string the quotes would be escaped, so where this is not found there is no such member.
        if not isinstance(self.outcome, dict) and b'"isError":true' not in self.rendered():
            return False
        return self.data.get("isError") is True

    @property
    def content(self) -> list[dict[str, Any]]:
        """Content blocks; an empty list for other types of results."""
        return cast("list[dict[str, Any]]", self.data.get("content", []))

    @property
    def structured(self) -> Any:
        """Structured content, or None."""
        return self.data.get("structuredContent")

    @property
    def text(self) -> str:
        """Text blocks, joined by line breaks."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")


# Middleware

CallNext = Callable[[Request], Awaitable[Result]]
"""Passes a request on and returns its result. Raises the exceptions of the handler, for tools only protocol errors."""

CallTool = Callable[[Request], Awaitable[ToolCallResult]]
"""The same for `tools/call`."""

# An async function, or an object that can be called as one.
Hook = Callable[[Request, CallNext], Awaitable[Mapping[str, Any]]]
ToolHook = Callable[[ToolCall, CallTool], Awaitable[Mapping[str, Any]]]
H = TypeVar("H", bound=Hook)
T = TypeVar("T", bound=ToolHook)

# Middleware in the order of registration, each with its method, or None for all methods.
Hooks = Sequence[tuple[str | None, Any]]


class MiddlewareStack:
    """Middleware of one server, in order of registration: the first is outermost.

    Middleware receives every request to the server, including requests that it refuses. Middleware of included servers
    does not run. Middleware of extensions is nearer to the handlers than the server's. `ping`, which must be answered
    promptly (basic/utilities/ping), and `subscriptions/listen`, which is a stream, do not pass through it. Messages
    that are not valid requests (not JSON, no session, unknown protocol version) are refused before.

    Args:
        methods: Custom methods that a middleware may be registered for.
        on_change: Called when a middleware is added.

    Attributes:
        hooks: Registered middleware, each with its method, or None for all methods.
    """

    def __init__(self, methods: Iterable[Component], on_change: Callable[[], None]) -> None:
        self._methods = methods
        self._on_change = on_change
        self.hooks: Hooks = ()

    @overload
    def __call__(self, hook: H, /) -> H: ...
    @overload
    def __call__(self, method: Literal["tools/call"], /) -> Callable[[T], T]: ...
    @overload
    def __call__(self, method: str, /) -> Callable[[H], H]: ...
    def __call__(self, hook: Any = None, /) -> Any:
        """Add a middleware: `@server.middleware`, or `@server.middleware("tools/call")` for one method.

        A middleware is `async def m(request, call_next)`. It returns the result of `await call_next(request)`, or a
        result of its own. `call_next(request.with_params(...))` changes the params. Its exceptions have the same
        effect as those of handlers.

        Args:
            hook: The middleware, or the method that the decorated function is for. For `tools/call` the function
                receives a `ToolCall`; calls without a tool name are refused before.

        Returns:
            The middleware unchanged, or the decorator.

        Raises:
            RegistrationError: It is not an async function, or the method is unknown.
        """
        if hook is None:
            raise RegistrationError(
                "write @server.middleware without parentheses, or with a method name, such as "
                '@server.middleware("tools/call")'
            )
        if not isinstance(hook, str):
            self._add(None, hook)
            return hook
        wrapped = [*METHODS.keys() - UNWRAPPED, *(method.key for method in self._methods)]
        if hook not in wrapped:
            supported = ", ".join(sorted(wrapped))
            raise RegistrationError(f"unknown method {hook!r} for a middleware. Supported are {supported}")

        def register(function: T) -> T:
            self._add(hook, function)
            return function

        return register

    def _add(self, method: str | None, hook: Any) -> None:
        call = hook if inspect.isroutine(hook) else getattr(hook, "__call__", hook)  # noqa: B004 - an object's own
        try:
            inspect.signature(hook).bind(None, None)
            is_valid = inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(call)
        except (TypeError, ValueError):
            is_valid = False
        if not is_valid or isinstance(hook, type):
            instead = f". Write {hook.__name__}(...)" if isinstance(hook, type) else ""
            raise RegistrationError(
                f"a middleware must be an async function of a request and call_next, got {hook!r}{instead}"
            )
        self.hooks = (*self.hooks, (method, hook))
        self._on_change()
