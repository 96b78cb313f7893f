"""The blocking client for scripts, notebooks and threads."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from functools import partial, wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, TypeVar

from typing_extensions import ParamSpec, Self

from .._utils.concurrency import refuse_loop, running_loop
from .._utils.exceptions import TransportError
from .asking.questions import Roots
from .changes.changes import Change, Subscription
from .client import Client
from .client_session import CLOSED
from .group import client_for, failures_of, servers_of
from .tools.remote_tools import RemoteTool

if TYPE_CHECKING:
    from ..protocol.objects import Implementation, ServerCapabilities

P = ParamSpec("P")
T = TypeVar("T")

_GLANCE = 1.0
"""Seconds between checks for Ctrl+C in a waiting thread, on platforms where nothing interrupts the wait (Windows)."""


def _waiting(
    method: Callable[Concatenate[Client, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncClient, P], T]:
    """Make a blocking method from a coroutine method of `Client`."""

    @wraps(method)
    def waiting(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> T:
        # Of a client of several servers it is another one.
        own: Callable[P, Coroutine[Any, Any, T]] = getattr(self.client, method.__name__)
        return self.wait_for(partial(own, *args, **kwargs))

    return waiting


def _made_like(
    method: Callable[Concatenate[Client, P], None],
) -> Callable[[Callable[..., None]], Callable[Concatenate[SyncClient, P], None]]:
    """Return a decorator that gives a constructor the signature and docstring of another."""

    def give(own: Callable[..., None]) -> Callable[Concatenate[SyncClient, P], None]:
        @wraps(method)
        def construct(self: SyncClient, /, *args: P.args, **kwargs: P.kwargs) -> None:
            own(self, *args, **kwargs)

        return construct

    return give


class SyncClient:
    """A `Client` with blocking methods: `with SyncClient("server.py") as client: client.call_tool("now")`.

    It takes the arguments of `Client` and `ClientGroup`. Its event loop runs in a background thread while the client is
    open. Callbacks such as `progress=` are called in that thread, and must not use the client. Several threads may use
    one client.

    Attributes:
        client: The async client behind it, for code that runs in its event loop.
    """

    client: Client

    @_made_like(Client.__init__)
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.client = client_for(*args, **kwargs)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._entered = 0
        self._process = os.getpid()
        self._changing = threading.RLock()

    # Its life

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
                self._begin()
        try:
            self.wait_for(self.client.__aenter__)
        except BaseException:
            self._leave()
            raise
        return self

    def _begin(self) -> None:
        self._process = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._run, args=(self._loop,), name="mcpkit-client", daemon=True
        )
        self._thread.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the client, unless another block still uses it."""
        self._leave()

    def _leave(self) -> None:
        self._check_thread()
        if self._process != os.getpid():  # it is open in the process that this one was forked from
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
                self._end()

    def _end(self) -> None:
        loop, thread, self._loop = self._loop, self._thread, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

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

        with self._changing:  # what an event loop is handed that is ending would never be done
            loop = self._loop
            if loop is None:
                raise ConnectionError("the client is not open. Write `with SyncClient(...) as client:`")
            future = asyncio.run_coroutine_threadsafe(run(), loop)
        try:
            return _result(future)
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

    @property
    def servers(self) -> Mapping[str, SyncClient]:
        """The clients of the servers of a configuration, by name. They are closed with this client."""
        return {name: _OfServer(client, self.wait_for) for name, client in servers_of(self.client).items()}

    @property
    def failures(self) -> Mapping[str, Exception]:
        """The errors of servers of a configuration that cannot be reached, by server name."""
        return failures_of(self.client)

    # What was agreed upon

    @property
    def protocol_version(self) -> str:
        """The negotiated protocol version.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self.client.protocol_version

    @property
    def protocol_version_reason(self) -> str:
        """An explanation why this protocol version was chosen.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self.client.protocol_version_reason

    @property
    def server_info(self) -> Implementation:
        """The `Implementation` of the server, such as `name` and `version`.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self.client.server_info

    @property
    def server_capabilities(self) -> ServerCapabilities:
        """The capabilities that the server declares.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self.client.server_capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model, or None.

        Raises:
            ConnectionError: The client has not been opened yet.
        """
        return self.client.instructions

    # What it asks

    request = _waiting(Client.request)
    call_tool = _waiting(Client.call_tool)
    list_tools = _waiting(Client.list_tools)
    list_resources = _waiting(Client.list_resources)
    list_resource_templates = _waiting(Client.list_resource_templates)
    list_prompts = _waiting(Client.list_prompts)
    read_resource = _waiting(Client.read_resource)
    get_prompt = _waiting(Client.get_prompt)
    complete = _waiting(Client.complete)
    ping = _waiting(Client.ping)
    set_log_level = _waiting(Client.set_log_level)

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
        except ConnectionError:  # it is not open yet
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
            if self._has_begun and not isinstance(
                error, TransportError
            ):  # the client is closed, which has ended it
                raise StopIteration from None
            raise
        self._has_begun = True
        return change

    def close(self) -> None:
        """End the subscription and notify the server. Closing it again does nothing."""
        with suppress(ConnectionError):  # the client is closed, which has ended it
            self._wait_for(self._subscription.aclose)


class _OfServer(SyncClient):
    """The client of one server of a `ClientGroup`, which shares the event loop of the group."""

    def __init__(self, client: Client, wait_for: Callable[[Callable[[], Awaitable[Any]]], Any]) -> None:
        self.client = client
        self._loop = None  # of its own, to begin and to end
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


def _result(future: Future[T]) -> T:
    while not wait((future,), _GLANCE).done:
        pass
    return future.result()
