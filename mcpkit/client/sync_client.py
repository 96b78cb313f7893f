"""The blocking client for scripts, notebooks and threads."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, TypeVar, overload

from typing_extensions import ParamSpec, Self, Unpack

from .._utils.concurrency import refuse_loop, running_loop
from .._utils.exceptions import TransportError
from .call_results import CallResult
from .client import Arguments, AsTask, Client, Direct, negotiation_of
from .client_group import client_for, failures_of, servers_of
from .client_session import CLOSED, NegotiatedProperties, NegotiationResult
from .client_subscriptions import Change, Subscription
from .remote_tools import RemoteTool
from .server_message_handlers import Roots

if TYPE_CHECKING:
    from typing_extensions import TypeForm

    from .task_handles import TaskHandle, TaskStatus

P = ParamSpec("P")
T = TypeVar("T")

_CHECK_INTERVAL = 1.0
"""Seconds between checks for Ctrl+C in a waiting thread, on platforms where nothing interrupts the wait (Windows)."""


def _blocking(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Make a blocking method from a coroutine method of `Client`."""

    @wraps(method)
    def call(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # `ClientGroup` overrides the method.
        own: Callable[P, Coroutine[Any, Any, T]] = getattr(self.client, method.__name__)
        return self.wait_for(partial(own, *args, **kwargs))

    return call


def _signature_of(
    method: Callable[Concatenate[Client, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[SyncClient, P], None]]:
    """Return a decorator that gives a constructor the signature and docstring of another."""

    def decorate(init: Callable[..., None]) -> Callable[Concatenate[SyncClient, P], None]:
        @wraps(method)
        def construct(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> None:
            init(self, *args, **kwargs)

        return construct

    return decorate


class SyncClient(NegotiatedProperties):
    """A `Client` with blocking methods: `with SyncClient("server.py") as client: client.call_tool("now")`.

    It takes the arguments of `Client` and `ClientGroup`. Its event loop runs in a background thread while the client is
    open. Callbacks such as `progress=` are called in that thread, and must not use the client. Several threads may use
    one client.

    Attributes:
        client: The async client behind it, for code that runs in its event loop.
    """

    client: Client

    @_signature_of(Client.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.client = client_for(*args, **kwargs)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._thread: threading.Thread | None = None
        self._entered = 0
        self._process = os.getpid()
        self._changing = threading.RLock()

    # Opening and closing

    def __enter__(self) -> Self:
        """Connect and negotiate a protocol version, unless the client is open already.

        Raises:
            RuntimeError: An event loop is running in this thread, which waiting would block (a notebook is allowed); or
                this process was forked from the one that opened the client.
            Exception: Entering `Client` failed.
        """
        if running_loop() is None or not _is_notebook():
            refuse_loop("SyncClient waits", "it would stand still; write `async with Client(...)`")
        self._check_process()
        with self._changing:
            self._entered += 1
            if self._loop is None:
                self._start_loop()
        try:
            self.wait_for(self.client.__aenter__)
        except BaseException:
            self._leave()
            raise
        return self

    def _start_loop(self) -> None:
        """Run an event loop in a background thread."""
        started: Future[asyncio.AbstractEventLoop] = Future()

        async def run() -> None:
            self._stop = asyncio.Event()
            started.set_result(asyncio.get_running_loop())
            await self._stop.wait()

        self._process = os.getpid()
        # A daemon, so that a client that is not closed, such as in a notebook, does not keep the process alive.
        self._thread = threading.Thread(target=lambda: asyncio.run(run()), name="mcpkit-client", daemon=True)
        self._thread.start()
        self._loop = started.result()

    def __exit__(self, *error: object) -> None:
        """Close the client, unless another block still uses it."""
        self._leave()

    def _leave(self) -> None:
        self._check_thread()
        if self._process != os.getpid():  # the process that this one was forked from has opened it
            return
        with self._changing:
            self._entered -= 1
            if self._entered <= 0:
                self._close()

    def close(self) -> None:
        """Cancel pending requests, disconnect from the server and stop the background thread.

        This closes the client also if several blocks use it. Closing a closed client, or one that a parent process
        opened before a fork, does nothing.
        """
        self._check_thread()
        if self._process == os.getpid():
            with self._changing:
                self._close()

    def _close(self) -> None:
        self._entered = 0
        if self._loop is not None:
            try:
                self.wait_for(self.client.close)
            finally:
                loop, stop, thread = self._loop, self._stop, self._thread
                self._loop = None
                assert stop is not None
                assert thread is not None
                loop.call_soon_threadsafe(stop.set)
                thread.join()

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
        """Run a function in the client's event loop and wait for its result.

        Args:
            function: Called in the event loop; the awaitable that it returns is awaited. It is cancelled if the wait is
                interrupted.

        Returns:
            The result of the awaitable.

        Raises:
            RuntimeError: The caller runs in the client's background thread, which cannot wait for itself; or this
                process was forked from the one that opened the client.
            ConnectionError: The client is not open.
            BaseException: Any exception that the function raises.
        """
        self._check_thread()
        self._check_process()

        async def run() -> T:
            return await function()

        with self._changing:  # a call that a closing event loop gets would never end
            loop = self._loop
            if loop is None:
                raise ConnectionError("the client is not open. Write `with SyncClient(...) as client:`")
            future = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            while not wait((future,), _CHECK_INTERVAL).done:
                pass
            return future.result()
        except CancelledError:
            if loop is self._loop:
                raise
            raise ConnectionError(CLOSED) from None
        except BaseException:
            future.cancel()
            raise

    def _check_process(self) -> None:
        if self._process != os.getpid() and self._loop is not None:
            raise RuntimeError(
                "this SyncClient was opened by the parent process before a fork, and its event loop only runs there. "
                "Create another one in this process: `with SyncClient(...) as client:`"
            )

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise RuntimeError(
                "a callback of SyncClient must not use the client, as both run in the same thread. "
                "Use the client after the call has returned, or in another thread"
            )

    # The servers

    def _negotiated(self, name: str) -> NegotiationResult:
        return negotiation_of(self.client, name)

    @property
    def servers(self) -> Mapping[str, SyncClient]:
        """The clients of the servers of a configuration, by name. They are closed with this client."""
        return {
            name: _ServerClient(client, self.wait_for) for name, client in servers_of(self.client).items()
        }

    @property
    def failures(self) -> Mapping[str, Exception]:
        """The errors of servers of a configuration that cannot be reached, by server name."""
        return failures_of(self.client)

    # Requests

    request = _blocking(Client.request)
    list_tools = _blocking(Client.list_tools)
    list_resources = _blocking(Client.list_resources)
    list_resource_templates = _blocking(Client.list_resource_templates)
    list_prompts = _blocking(Client.list_prompts)
    read_resource = _blocking(Client.read_resource)
    get_prompt = _blocking(Client.get_prompt)
    complete = _blocking(Client.complete)
    ping = _blocking(Client.ping)
    set_log_level = _blocking(Client.set_log_level)

    @overload
    def call_tool(
        self, name: str, arguments: Arguments = None, *, result_type: None = None, **options: Unpack[Direct]
    ) -> CallResult: ...
    @overload
    def call_tool(
        self, name: str, arguments: Arguments = None, *, result_type: None = None, **options: Unpack[AsTask]
    ) -> SyncTaskHandle[CallResult]: ...
    @overload
    def call_tool(
        self, name: str, arguments: Arguments = None, *, result_type: TypeForm[T], **options: Unpack[Direct]
    ) -> T: ...
    @overload
    def call_tool(
        self, name: str, arguments: Arguments = None, *, result_type: TypeForm[T], **options: Unpack[AsTask]
    ) -> SyncTaskHandle[T]: ...
    def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, task: bool = False, **options: Any
    ) -> Any:
        """Call a tool and return its result, or with `task=True` a handle of its task; see `Client.call_tool`.

        Args:
            name: The name of the tool.
            arguments: Its arguments, JSON values by name.
            task: Whether the call may run as a task.
            options: The other arguments of `Client.call_tool`.
        """
        result: Any = self.wait_for(partial(self.client.call_tool, name, arguments, task=task, **options))
        return SyncTaskHandle(result, self.wait_for) if task else result

    @overload
    def task(self, task_id: str, *, result_type: None = None) -> SyncTaskHandle[CallResult]: ...
    @overload
    def task(self, task_id: str, *, result_type: TypeForm[T]) -> SyncTaskHandle[T]: ...
    def task(self, task_id: str, *, result_type: Any = None) -> SyncTaskHandle[Any]:
        """Return a handle of a task that this or another client has created; see `Client.task`.

        Args:
            task_id: The id of the task.
            result_type: The type of the result.
        """
        return SyncTaskHandle(self.client.task(task_id, result_type=result_type), self.wait_for)

    def tools(self) -> dict[str, SyncTool]:
        """Return all tools by name, as callables: `client.tools()["forecast"](city="Oslo")`."""
        listed = self.list_tools()
        return {str(tool.get("name")): SyncTool(self, tool) for tool in listed}

    @property
    def roots(self) -> Roots | None:
        """The folders that the server may use; see `Client.roots`. They can be set at any time."""
        return self.client.roots

    @roots.setter
    def roots(self, roots: Roots | None) -> None:
        async def set_them() -> None:
            self.client.roots = roots

        try:
            self.wait_for(set_them)
        except ConnectionError:  # the client is not open yet
            self.client.roots = roots

    def listen(
        self,
        *,
        tools_list_changed: bool = False,
        prompts_list_changed: bool = False,
        resources_list_changed: bool = False,
        resource_subscriptions: str | Iterable[str] = (),
    ) -> SyncSubscription:
        """Subscribe to changes: `with client.listen(tools_list_changed=True) as changes`, then `for`.

        The arguments are those of `Client.listen`.

        Args:
            tools_list_changed: Whether to receive changes of the list of tools.
            prompts_list_changed: Whether to receive changes of the list of prompts.
            resources_list_changed: Whether to receive changes of the lists of resources and resource templates.
            resource_subscriptions: URIs of resources to subscribe to. Servers may also accept URI templates.

        Returns:
            A subscription, which is a context manager and an iterator of `Change`.

        Raises:
            TypeError: A URI is not a string.
        """
        subscription = self.client.listen(
            tools_list_changed=tools_list_changed,
            prompts_list_changed=prompts_list_changed,
            resources_list_changed=resources_list_changed,
            resource_subscriptions=resource_subscriptions,
        )
        return SyncSubscription(subscription, self.wait_for)


class SyncTool(RemoteTool):
    """A tool of a server as a blocking callable. `SyncClient.tools` returns them."""

    def __init__(self, client: SyncClient, definition: Mapping[str, object]) -> None:
        super().__init__(client.client.call_tool, definition)
        self._wait_for = client.wait_for

    def __call__(self, /, **arguments: Any) -> Any:
        """Call the tool and return its value; see `RemoteTool.__call__`."""
        return self._wait_for(partial(super().__call__, **arguments))


class SyncSubscription:
    """A `Subscription` with blocking methods: `for change in client.listen(tools_list_changed=True)`.

    Args:
        subscription: The subscription to wait for.
        wait_for: Runs a function in the client's event loop and waits for its result; see `SyncClient.wait_for`.
    """

    def __init__(
        self, subscription: Subscription, wait_for: Callable[[Callable[[], Awaitable[Any]]], Any]
    ) -> None:
        self._subscription = subscription
        self._wait_for = wait_for
        self._has_begun = False

    def __enter__(self) -> Self:
        """Subscribe, and return once the server sends changes.

        Raises:
            Exception: Entering `Subscription` failed.
        """
        self._wait_for(self._subscription.__aenter__)
        self._has_begun = True
        return self

    def __exit__(self, *error: object) -> None:
        """End the subscription and notify the server."""
        self.close()

    def __iter__(self) -> Self:
        """Return the subscription itself."""
        return self

    def __next__(self) -> Change:
        """Wait for the next change and return it.

        Raises:
            StopIteration: The subscription or the client has been closed.
        """
        try:
            change: Change = self._wait_for(self._subscription.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None
        except ConnectionError as error:
            # Closing the client ends the subscription.
            if self._has_begun and not isinstance(error, TransportError):
                raise StopIteration from None
            raise
        self._has_begun = True
        return change

    def close(self) -> None:
        """End the subscription and notify the server. Closing it again does nothing."""
        with suppress(ConnectionError):  # closing the client has ended the subscription
            self._wait_for(self._subscription.aclose)


class SyncTaskHandle(Generic[T]):
    """A `TaskHandle` with blocking methods: `client.call_tool("render", task=True).result()`.

    Args:
        handle: The handle to wait for.
        wait_for: Runs a function in the client's event loop and waits for its result; see `SyncClient.wait_for`.

    Attributes:
        id: The id of the task; None if the server has responded without a task.
    """

    def __init__(
        self, handle: TaskHandle[T], wait_for: Callable[[Callable[[], Awaitable[Any]]], Any]
    ) -> None:
        self.id = handle.id
        self._handle = handle
        self._wait_for = wait_for

    def status(self) -> TaskStatus:
        """Request the status of the task; see `TaskHandle.status`."""
        status: TaskStatus = self._wait_for(self._handle.status)
        return status

    def result(self) -> T:
        """Wait for the end of the task and return the result of the tool call; see `TaskHandle.result`."""
        result: T = self._wait_for(self._handle.result)
        return result

    def cancel(self) -> None:
        """Request the cancellation of the task; see `TaskHandle.cancel`."""
        self._wait_for(self._handle.cancel)

    def events(self) -> Iterator[TaskStatus]:
        """Yield the status of the task now and after each change, until the task has ended."""
        events = self._handle.events()
        try:
            while True:
                yield self._wait_for(events.__anext__)
        except StopAsyncIteration:
            return
        finally:
            with suppress(ConnectionError):  # the client has been closed
                self._wait_for(events.aclose)

    def __repr__(self) -> str:
        """Return a representation with the id."""
        return f"SyncTaskHandle({self.id!r})"


class _ServerClient(SyncClient):
    """The client of one server of a `ClientGroup`, which shares the event loop of the group."""

    def __init__(self, client: Client, wait_for: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
        self.client = client
        self._loop = None  # the group's event loop is used
        self._wait_for = wait_for

    def __enter__(self) -> Self:
        """Return the client itself, which is open as long as the group is."""
        return self

    def close(self) -> None:
        """Do nothing: the client is closed with the group."""

    _leave = close

    def wait_for(self, function: Callable[[], Awaitable[T]]) -> T:
        result: T = self._wait_for(function)
        return result


def _is_notebook() -> bool:
    """Return whether the code runs in IPython, where a running event loop may be blocked."""
    ipython: Any = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None
