"""Middleware: functions of the author's that every request passes through, and its result on the way back."""

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

from ..calls.call import Call, call_of
from ..calls.channel import Channel
from ..calls.runtime import Alone
from ..calls.tasks import Calls, server_ended
from ..common.errors import ProtocolError, RegistrationError
from ..components.component import Component
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Outcome
from ..protocol.revisions import METHODS

if TYPE_CHECKING:
    from ..components.context import Context

UNWRAPPED = frozenset({"ping", "subscriptions/listen"})
"""A ping must be answered promptly however busy the server is; a stream that listens has no result to wait for."""


class Request:
    """A request, as a middleware sees it.

    Args:
        ctx: The Context that the handler will have.
        params: What the handler will be asked.
    """

    __slots__ = ("ctx", "params")

    def __init__(self, ctx: Context[Any], params: dict[str, Any]) -> None:
        self.ctx = ctx
        self.params = params

    @property
    def method(self) -> str:
        """Its method, as the client says it: it may be one that there is not."""
        return self.ctx.method

    @property
    def target(self) -> str | None:
        """The name or the URI that it is about, as the client says it; None where it names nothing."""
        for member in ("name", "uri"):
            if isinstance(value := self.params.get(member), str):
                return value
        return None

    @property
    def channel(self) -> Channel:
        """Where the messages of the request go: what `detach` needs of it, such as `principal` and `caller`."""
        return call_of(self.ctx).channel

    def with_params(self, params: dict[str, Any]) -> Request:
        """Return the same request with other params, for `call_next`."""
        return Request(self.ctx, params)

    def detach(self, call_next: CallNext, channel: Channel) -> Detached:
        """Let the rest of the chain run on its own, so that this request can be answered before.

        It is a call of the server's, no longer of the client's: neither `notifications/cancelled` nor the end of the
        connection touches it. It ends with the last `running()` of the server in this event loop at the latest. As any
        other it counts among `Limits.concurrent_requests`, and has its timeout, its context variables and the id of
        this request.

        It asks by requests on `channel` in both eras, where that has `questions`; else its client cannot be asked. So
        it has one round: what the client may have brought from an earlier round of this request is ignored.

        Args:
            call_next: What the middleware was given.
            channel: Where its progress, log messages, notifications and questions go, and who asks:
                `request.channel` is that of this request, to take `principal`, `request_headers`, `caller`
                and `is_local` from.

        Raises:
            BusyError: Too many requests are running.
            RuntimeError: No event loop runs in this thread.
        """
        from ..calls.asking.dialogue import Dialogue
        from ..components.context import Context

        call = call_of(self.ctx).twin(channel)
        call.dialogue = Dialogue(call, call.paused)
        request = type(self)(Context(call), self.params)

        async def outcome() -> Outcome:
            return (await call_next(request)).outcome

        return Detached(call, outcome)

    def __repr__(self) -> str:
        """Show what is asked."""
        about = "" if self.target is None else f" {self.target!r}"
        return f"<{type(self).__name__} {self.method!r}{about}>"


class ToolCall(Request):
    """A `tools/call`, as a middleware for it alone sees it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the tool; there may be none by that name."""
        return cast("str", self.params["name"])

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments as the client sent them, before they are held against the schema."""
        return cast("dict[str, Any]", self.params.get("arguments", {}))

    def with_arguments(self, arguments: dict[str, Any]) -> ToolCall:
        """Return the same call with other arguments, for `call_next`."""
        return ToolCall(self.ctx, {**self.params, "arguments": arguments})


class Detached:
    """A call that goes on without whoever has sent it; `Request.detach` begins it.

    All members are for the event loop in which it runs.

    Args:
        call: The call.
        run: Runs it, and returns its result.

    Raises:
        BusyError: Too many requests are running.
        RuntimeError: No event loop runs in this thread.
    """

    def __init__(self, call: Call, run: Callable[[], Coroutine[Any, Any, Outcome]]) -> None:
        loop = asyncio.get_running_loop()
        self._calls = Calls()
        self._answer: asyncio.Future[bytes] = loop.create_future()
        self._others = call.runtime.detached.setdefault(loop, set())
        self._alone = Alone(self._end, self._calls.cancel_of)
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
        """Whether it has neither ended nor been cancelled."""
        return not self._answer.done()

    async def result(self) -> dict[str, Any]:
        """Wait for the result, as the client of its revision would get it; as often as it is wanted.

        Raises:
            ProtocolError: The client would have got this error; also where the server has ended before the call.
            CancelledError: It has been cancelled by `cancel`, or whoever waits here has been.
        """
        answer = from_json(await asyncio.shield(self._answer))
        if "error" in answer:
            error = answer["error"]
            raise ProtocolError(error["code"], error["message"], error.get("data"))
        result: dict[str, Any] = answer["result"]
        return result

    def cancel(self) -> None:
        """Stop it; nothing happens where it has ended. `is_running` is false at once, however long it takes to stop."""
        self._calls.cancel(self)

    async def _end(self) -> None:
        await self._calls.aclose(server_ended())

    def _settle(self, message: bytes | None, _: BaseException | None) -> None:
        self._others.discard(self._alone)
        if message is None:
            self._answer.cancel()
        else:
            self._answer.set_result(message)


class Result(MutableMapping[str, Any]):
    """A result object as it will be sent; it behaves as a dict, and may be changed.

    What is rendered already is read when a member is asked for, so that a middleware that only passes it
    on does not pay for it.

    Args:
        outcome: The result object, or its JSON.
        exception: What was raised, where it is an error result because of that.
        ref: What names that exception.

    Attributes:
        exception: What a tool, or a middleware nearer to it, has raised: a `ToolError` or the like as well as what
            nobody has meant to happen. None where the result is no error, or was made as one (`ToolResult(...,
            is_error=True)`). Other handlers have no error results: what they raise comes out of `call_next`. Of a
            group with a single exception in it, as a task group raises it, it is that one.
        ref: What names the exception in the log and to the client ("Internal error (ref ...)"). None where it says
            itself what the client reads, as a `ToolError` does.
    """

    __slots__ = ("_data", "_outcome", "exception", "ref")

    def __init__(
        self, outcome: Outcome, exception: BaseException | None = None, ref: str | None = None
    ) -> None:
        self.exception = exception
        self.ref = ref
        self._outcome = outcome
        self._data: dict[str, Any] | None = None

    @property
    def data(self) -> dict[str, Any]:
        """The members, as a dict."""
        if self._data is None:
            # Of its own: parts of what a handler answers are kept for the next request.
            data: dict[str, Any] = from_json(self.rendered())
            self._data = data
            return data
        return self._data

    @property
    def outcome(self) -> Outcome:
        """What is sent: as it was where nobody has looked at it."""
        return self._outcome if self._data is None else self._data

    @property
    def type(self) -> str:
        """Its `resultType`: `complete`, or what an extension has brought."""
        return cast("str", self.data.get("resultType", "complete"))

    def rendered(self) -> bytes:
        """Return its JSON, on one line."""
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
        """Go through the names of the members."""
        return iter(self.data)

    def __len__(self) -> int:
        """Count the members."""
        return len(self.data)

    def __repr__(self) -> str:
        """Show the members."""
        return f"{type(self).__name__}({self.data!r})"


def is_handle(result: Mapping[str, object]) -> bool:
    """Say whether the result of a call is the handle of a task in 2025-11-25, where no `resultType` says so."""
    return "task" in result and "content" not in result and "resultType" not in result


class ToolCallResult(Result):
    """The result of a `tools/call`."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """Its `resultType`: `complete`, `task` where it is a task's handle, also in 2025-11-25, or an extension's."""
        return "task" if is_handle(self.data) else super().type

    @property
    def is_error(self) -> bool:
        """Whether the tool could not do what it was asked."""
        # Inside a JSON string the quotes would be escaped, so where this is not found there is no such member.
        if not isinstance(self.outcome, dict) and b'"isError":true' not in self.rendered():
            return False
        return self.data.get("isError") is True

    @property
    def content(self) -> list[dict[str, Any]]:
        """The content blocks; none where the result is of another type."""
        return cast("list[dict[str, Any]]", self.data.get("content", []))

    @property
    def structured(self) -> Any:
        """The structured content; None where there is none."""
        return self.data.get("structuredContent")

    @property
    def text(self) -> str:
        """The text blocks, one after the other."""
        return "\n".join(block["text"] for block in self.content if block["type"] == "text")


CallNext = Callable[[Request], Awaitable[Result]]
"""Passes a request on, and returns its result; raises what the handler has raised, of a tool only what is no result."""

CallTool = Callable[[Request], Awaitable[ToolCallResult]]
"""The same for `tools/call`."""

Hook = Callable[[Request, CallNext], Awaitable[Mapping[str, Any]]]
"""A middleware: an async function, or an object that can be called as one."""

ToolHook = Callable[[ToolCall, CallTool], Awaitable[Mapping[str, Any]]]
"""A middleware for `tools/call`."""

H = TypeVar("H", bound=Hook)
T = TypeVar("T", bound=ToolHook)


Hooks = Sequence[tuple[str | None, Any]]
"""Middleware in the order of registration, each with the method that it is for, or None for all."""


class Middlewares:
    """The middleware of one server, in the order of registration: the first is outermost.

    It wraps every request of both eras that this server answers, also those that it refuses; of an included
    server only the components and extensions count, not its own middleware. That of extensions comes after the
    server's, nearer to the handlers. Two are not wrapped: `ping`, which must be answered
    promptly (basic/utilities/ping), and `subscriptions/listen`, which is a stream. What is no request that
    can be served at all (not JSON, no session, a revision that there is not) is refused before.

    Args:
        methods: The methods beside the core's that one of them may be for.
        on_change: Called when there is another.

    Attributes:
        hooks: What is registered, each with the method that it is for, or None for all.
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

        A middleware is `async def m(request, call_next)`. It returns what `await call_next(request)` has
        returned, or a result of its own; `call_next(request.with_params(...))` changes what is asked. What
        it raises becomes what it would have become in the handler.

        Args:
            hook: The middleware, or the method that the decorated one is for. For `tools/call` it
                takes a `ToolCall`; calls that name no tool pass it by and are refused.

        Returns:
            The middleware unchanged, or the decorator.

        Raises:
            RegistrationError: It is no async function, or there is no such method.
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
            raise RegistrationError(
                f"unknown method {hook!r} for a middleware. Supported are {', '.join(sorted(wrapped))}"
            )

        def register(function: T) -> T:
            self._add(hook, function)
            return function

        return register

    def _add(self, method: str | None, hook: Any) -> None:
        if not _is_hook(hook):
            instead = f". Write {hook.__name__}(...)" if isinstance(hook, type) else ""
            raise RegistrationError(
                f"a middleware must be an async function of a request and call_next, got {hook!r}{instead}"
            )
        self.hooks = (*self.hooks, (method, hook))
        self._on_change()


def _is_hook(hook: Any) -> bool:
    call = hook if inspect.isroutine(hook) else getattr(hook, "__call__", hook)  # noqa: B004 - an object's own
    if isinstance(hook, type) or not (inspect.iscoroutinefunction(hook) or inspect.iscoroutinefunction(call)):
        return False
    try:
        inspect.signature(hook).bind(None, None)
    except TypeError:
        return False
    return True
