"""A Redis as one process has it open: connections that belong to an event loop of their own, in a thread."""

from __future__ import annotations

import asyncio
import logging
import os
import selectors
import threading
from collections.abc import Coroutine, Mapping, Sequence
from contextvars import Context
from importlib import import_module
from typing import Protocol, TypeVar, Union
from weakref import WeakSet

from .redis_scripts import Script

logger = logging.getLogger(__name__)

T = TypeVar("T")
Text = bytes | str | int
Reply = Union[bytes, int, None, list["Reply"]]  # noqa: UP007 - it names itself
"""A reply of Redis, as it is on the wire."""

DEFAULT_TIMEOUT = 5.0
"""Timeout in seconds of a command to Redis."""

REPLY = 2.0
"""Timeout in seconds of one reply, after which the command is sent again on another connection."""

_CONNECTIONS = 16

_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Seconds before each attempt to send a command when the connection breaks."""

_OLDEST = (6, 2)


class Client(Protocol):
    """The part of redis-py's client that is used, with replies as they are on the wire."""

    async def execute_command(self, *args: Text) -> Reply:
        """Send a command, and return its reply."""
        ...

    async def aclose(self) -> None:
        """Close the connections."""
        ...


class Link:
    """Connections of one process to Redis, with an event loop in a thread.

    Failures are raised as OSError with a text that names the Redis without credentials.

    Args:
        url: URL of Redis, with credentials.
        shown: The same without credentials.

    Raises:
        ImportError: redis-py is not installed.

    Attributes:
        shown: URL of Redis without credentials.
        process: Id of the process that has the connections.
        loop: Event loop of the connections.
        errors: Module of redis-py's exceptions.
    """

    def __init__(self, url: str, shown: str) -> None:
        self._url = url
        self.shown = shown
        self.process = os.getpid()
        selector = selectors.DefaultSelector()
        self.loop = asyncio.SelectorEventLoop(selector)
        _selectors.add(selector)
        self.errors = import_module("redis.exceptions")
        self._room = asyncio.Semaphore(_CONNECTIONS)
        self._knowing = asyncio.Lock()
        self._is_known = False
        self._told: str | None = None  # of which start it has been logged what Redis is set to
        self._end = asyncio.Event()
        self._client = self.client(REPLY)
        self._thread = threading.Thread(target=self._serve, name="mcpkit-redis", daemon=True)
        self._thread.start()

    def client(self, reply: float) -> Client:
        """Make a client that opens its connections on use.

        Args:
            reply: Timeout of a reply in seconds.
        """
        module = import_module("redis.asyncio")
        never = import_module("redis.asyncio.retry").Retry(import_module("redis.backoff").NoBackoff(), 0)
        made = module.Redis.from_url(
            self._url, protocol=2, socket_timeout=reply, socket_connect_timeout=REPLY, retry=never
        )
        made.response_callbacks.clear()  # they differ between its versions
        client: Client = made
        return client

    async def run(self, operation: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the thread, from any event loop, and return its result.

        Raises:
            OSError: Redis does not answer, or returns an error.
        """
        bounded = self.bounded(operation)
        try:
            # Without the context of who asks: a connection that is opened for them keeps it for as long as it lasts.
            done = Context().run(asyncio.run_coroutine_threadsafe, bounded, self.loop)
        except RuntimeError:  # it has been closed meanwhile
            bounded.close()
            operation.close()
            raise ConnectionError(f"this process has closed its connection to {self.shown}") from None
        return await asyncio.wrap_future(done)

    async def bounded(self, operation: Coroutine[object, object, T]) -> T:
        """Await a coroutine in the thread's event loop, with a timeout.

        Raises:
            OSError: Redis does not answer, or returns an error.
        """
        try:
            return await asyncio.wait_for(operation, DEFAULT_TIMEOUT)
        except asyncio.TimeoutError:
            raise TimeoutError(
                f"{self.shown} did not answer within {DEFAULT_TIMEOUT:g} s. Check that Redis is running and reachable"
            ) from None
        except asyncio.CancelledError:
            if self._end.is_set():
                raise ConnectionError(f"this process has closed its connection to {self.shown}") from None
            raise
        except self.errors.RedisError as error:
            raise self.failure(error) from None

    async def command(self, *args: Text) -> Reply:
        """Send a command, again when the connection breaks, and return its reply. Call it in the thread's loop."""
        async with self._room:
            for pause in _PAUSES:
                await asyncio.sleep(pause)
                try:
                    if not self._is_known:
                        await self._know()
                    return await self._client.execute_command(*args)
                except (self.errors.ConnectionError, self.errors.TimeoutError, OSError) as error:
                    if pause == _PAUSES[-1] or isinstance(error, self.errors.AuthenticationError):
                        raise
                except self.errors.ResponseError as error:
                    is_read_only = isinstance(error, self.errors.ReadOnlyError) or "READONLY" in str(error)
                    if pause == _PAUSES[-1] or not is_read_only:
                        raise
                    await self._client.aclose()  # it is a primary no more: another one may be there by now
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    async def script(self, script: Script, keys: Sequence[Text], *args: Text) -> Reply:
        """Run a script, by its digest if Redis knows it, and return its result. Call it in the thread's loop."""
        try:
            return await self.command("EVALSHA", script.digest, len(keys), *keys, *args)
        except self.errors.NoScriptError:
            return await self.command("EVAL", script.text, len(keys), *keys, *args)

    async def look(self, client: Client) -> str:
        """Check that Redis is suitable, and log a warning about its settings once for each start of it.

        Returns:
            Id of this run of Redis; empty if the user may not run INFO.

        Raises:
            OSError: The Redis is not suitable.
        """
        try:
            said = await client.execute_command("INFO")
        except self.errors.NoPermissionError:
            return ""
        text = said.decode() if isinstance(said, bytes) else str(said)
        about = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        self._check(about)
        run = about.get("run_id", "")
        if run != self._told:
            self._told = run
            self._tell(about)
        return run

    def _check(self, about: Mapping[str, str]) -> None:
        version = about.get("redis_version", "")
        numbers = tuple(int(each) for each in version.split(".")[:2] if each.isdigit())
        if numbers and numbers < _OLDEST:
            raise _UnfitError(
                f"{self.shown} runs Redis {version}, but mcpkit needs 6.2 or later. Update Redis"
            )
        mode = about.get("redis_mode") or about.get("server_mode", "standalone")  # the second is Valkey's
        if mode != "standalone":
            raise _UnfitError(
                f"{self.shown} is a Redis {mode}, which mcpkit does not support. Use the URL of a standalone "
                "primary"
            )

    def _tell(self, about: Mapping[str, str]) -> None:
        policy = about.get("maxmemory_policy")
        if policy not in {None, "noeviction"}:
            logger.warning(
                "%s has maxmemory-policy %s, so Redis may evict sessions, claims and stored values. Set "
                "maxmemory-policy to noeviction",
                self.shown,
                policy,
            )
        if about.get("aof_enabled") == "0":
            logger.warning(
                "%s has appendonly no, so Redis loses the data since its last snapshot, or all data, when "
                "it stops. Set appendonly to yes",
                self.shown,
            )

    async def _know(self) -> None:
        async with self._knowing:
            if not self._is_known:
                await self.look(self._client)
                self._is_known = True

    def failure(self, error: Exception) -> OSError:
        """Return the OSError for an exception of redis-py."""
        errors = self.errors
        if isinstance(error, _UnfitError):
            return OSError(str(error))
        if isinstance(error, errors.TimeoutError):
            return TimeoutError(
                f"{self.shown} did not answer within {REPLY:g} s. Check that Redis is running and reachable"
            )
        if isinstance(error, errors.NoPermissionError):  # it names the user
            return PermissionError(
                f"{self.shown} denied a command that mcpkit needs to its user. Extend the permissions of the "
                "user; ACL LOG lists the denied commands"
            )
        if isinstance(error, errors.AuthenticationError):
            return PermissionError(
                f"{self.shown} rejected the user name or password of the URL, or the URL has none"
            )
        if isinstance(error, errors.ConnectionError | OSError):
            return ConnectionError(f"{self.shown} cannot be reached: {error}")
        return OSError(f"{self.shown} returned an error: {error}")

    # The thread

    def _serve(self) -> None:
        try:
            self.loop.run_until_complete(self._last())
        finally:
            self.loop.close()

    async def _last(self) -> None:
        await self._end.wait()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for each in others:
                each.cancel()
            await asyncio.wait(others, timeout=1)
        await self._client.aclose()

    def close(self) -> None:
        """Close the connections and end the thread. In a forked child, which has neither, it does nothing."""
        if self.process == os.getpid() and not self.loop.is_closed():
            try:
                self.loop.call_soon_threadsafe(self._end.set)
            except RuntimeError:  # somebody else has closed it
                return
            if threading.current_thread() is not self._thread:
                self._thread.join(DEFAULT_TIMEOUT)


_selectors: WeakSet[selectors.BaseSelector] = WeakSet()
"""Selectors of the sockets of this process."""


def _let_go() -> None:
    """Close the sockets that a forked child has inherited. Redis gets no message, because the parent uses them.

    Their file descriptors are redirected to the null device, because copies of the parent's objects refer to them.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for selector in tuple(_selectors):
        for each in tuple((selector.get_map() or {}).values()):
            os.dup2(nowhere, each.fd, inheritable=False)
    os.close(nowhere)
    _selectors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)


class _UnfitError(OSError):
    """The Redis is not suitable."""
