"""Connections of one process to Redis: commands, Lua scripts, and the message log that subscribers read."""

from __future__ import annotations

import asyncio
import logging
import os
import selectors
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import closing
from contextvars import Context
from functools import partial
from hashlib import sha1
from importlib import import_module
from typing import Any, NamedTuple, Protocol, TypeVar
from weakref import WeakSet, finalize

from .base import Subscription

logger = logging.getLogger(__name__)

T = TypeVar("T")
Argument = bytes | str | int
Reply = Any  # bytes, an integer, None, or a list of replies, as it is on the wire

DEFAULT_TIMEOUT = 5.0  # seconds for an operation
_REPLY_TIMEOUT = 2.0  # seconds for one reply; then the command is sent again on another connection
_RETRY_DELAYS = (0.0, 0.05, 0.1, 0.2, 0.4)  # seconds before each attempt to send a command
_MAX_CONNECTIONS = 16
_OLDEST = (6, 2)  # version of Redis


def encoded(text: str) -> bytes:
    """Return a text as bytes, including lone surrogates."""
    return text.encode("utf-8", "surrogatepass")


def decoded(data: bytes) -> str:
    """Return the text of bytes that `encoded` returned."""
    return data.decode("utf-8", "surrogatepass")


# Lua scripts: each is atomic, and may be sent twice


class Script(NamedTuple):
    """A Lua script.

    Attributes:
        text: The script.
        digest: SHA-1 digest, by which Redis knows a script that it has run.
    """

    text: str
    digest: str


def make_script(text: str) -> Script:
    """Create a script from its text."""
    return Script(text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def make_idempotent_script(text: str) -> Script:
    """Create a script that sets `result`, and has no effect when it is sent again after its reply was lost.

    Its first key is that of the operation. It keeps the result for longer than a command is sent again.
    """
    return make_script(
        "local before = redis.call('GET', KEYS[1])\n"
        "if before then return before end\n"
        f"{text}"
        "redis.call('SET', KEYS[1], result, 'PX', 20000)\n"
        "return result\n"
    )


# Connections


class _Client(Protocol):
    """The part of redis-py's client that is used, with replies as they are on the wire."""

    async def execute_command(self, *args: Argument) -> Reply:
        """Send a command, and return its reply."""

    async def aclose(self) -> None:
        """Close the connections."""


class _UnsuitableServerError(OSError):
    """The Redis is too old, or not a standalone primary."""


class RedisConnection:
    """Connections of one process to Redis, with an event loop in a thread.

    Failures are raised as OSError with a text that names the Redis without credentials.

    Args:
        url: URL of Redis, with credentials.
        shown_url: The same without credentials.
        prefix: Beginning of all keys.

    Attributes:
        shown_url: URL of Redis without credentials.
        loop: Event loop of the connections.
        errors: Module of redis-py's exceptions.
        log: The message log.

    Raises:
        ImportError: redis-py is not installed.
    """

    def __init__(self, url: str, shown_url: str, prefix: bytes) -> None:
        self._url = url
        self.shown_url = shown_url
        self._process = os.getpid()
        selector = selectors.DefaultSelector()
        self.loop = asyncio.SelectorEventLoop(selector)
        _selectors.add(selector)
        self.errors = import_module("redis.exceptions")
        self._semaphore = asyncio.Semaphore(_MAX_CONNECTIONS)
        self._check_lock = asyncio.Lock()
        self._is_checked = False
        self._logged_run: str | None = None  # the run of Redis for which warnings have been logged
        self._end = asyncio.Event()
        self._client = self.make_client(_REPLY_TIMEOUT)
        self._thread = threading.Thread(target=self._run_loop, name="mcpkit-redis", daemon=True)
        self._thread.start()
        self.log = MessageLog(self, prefix)

    def make_client(self, reply_timeout: float) -> _Client:
        """Make a client that opens its connections on use.

        Args:
            reply_timeout: Timeout of a reply in seconds.
        """
        no_retry = import_module("redis.asyncio.retry").Retry(import_module("redis.backoff").NoBackoff(), 0)
        client: Any = import_module("redis.asyncio").Redis.from_url(
            self._url,
            protocol=2,
            socket_timeout=reply_timeout,
            socket_connect_timeout=_REPLY_TIMEOUT,
            retry=no_retry,
        )
        client.response_callbacks.clear()  # they differ between versions of redis-py
        return client  # type: ignore[no-any-return]  # redis-py is optional

    async def run(self, operation: Coroutine[object, object, T]) -> T:
        """Run a coroutine in the thread, from any event loop, and return its result.

        Raises:
            OSError: Redis does not answer, or returns an error.
        """
        bounded = self.bounded(operation)
        try:
            # Without the context of the caller, which a connection that is opened now would keep for its lifetime.
            done = Context().run(asyncio.run_coroutine_threadsafe, bounded, self.loop)
        except RuntimeError:  # the loop is closed
            bounded.close()
            operation.close()
            raise ConnectionError(f"this process has closed its connection to {self.shown_url}") from None
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
                f"{self.shown_url} did not answer within {DEFAULT_TIMEOUT:g} s. Check that Redis is running and "
                "reachable"
            ) from None
        except asyncio.CancelledError:
            if self._end.is_set():
                raise ConnectionError(f"this process has closed its connection to {self.shown_url}") from None
            raise
        except self.errors.RedisError as error:
            raise self.failure(error) from None

    async def command(self, *args: Argument) -> Reply:
        """Send a command, again when the connection breaks, and return its reply. Call it in the thread's loop."""
        async with self._semaphore:
            for delay in _RETRY_DELAYS:
                await asyncio.sleep(delay)
                try:
                    if not self._is_checked:
                        async with self._check_lock:
                            if not self._is_checked:
                                await self.check_server(self._client)
                                self._is_checked = True
                    return await self._client.execute_command(*args)
                except (self.errors.AuthenticationError, _UnsuitableServerError):
                    raise
                except (self.errors.ConnectionError, self.errors.TimeoutError, OSError):
                    if delay == _RETRY_DELAYS[-1]:
                        raise
                except self.errors.ResponseError as error:
                    is_read_only = isinstance(error, self.errors.ReadOnlyError) or "READONLY" in str(error)
                    if delay == _RETRY_DELAYS[-1] or not is_read_only:
                        raise
                    # A former primary; the address may lead to the new one by now.
                    await self._client.aclose()
        raise AssertionError  # pragma: no cover - the last attempt returns or raises

    async def script(self, script: Script, keys: Sequence[Argument], *args: Argument) -> Reply:
        """Run a script, by its digest if Redis knows it, and return its result. Call it in the thread's loop."""
        try:
            return await self.command("EVALSHA", script.digest, len(keys), *keys, *args)
        except self.errors.NoScriptError:
            return await self.command("EVAL", script.text, len(keys), *keys, *args)

    async def check_server(self, client: _Client) -> str:
        """Check that Redis is suitable, and log a warning about its settings once for each start of it.

        Returns:
            Id of this run of Redis; empty if the user may not run INFO.

        Raises:
            OSError: The Redis is not suitable.
        """
        try:
            reply = await client.execute_command("INFO")
        except self.errors.NoPermissionError:
            return ""
        text = reply.decode() if isinstance(reply, bytes) else str(reply)
        info = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
        version = info.get("redis_version", "")
        numbers = tuple(int(each) for each in version.split(".")[:2] if each.isdigit())
        if numbers and numbers < _OLDEST:
            raise _UnsuitableServerError(
                f"{self.shown_url} runs Redis {version}, but mcpkit needs 6.2 or later. Update Redis"
            )
        mode = info.get("redis_mode") or info.get("server_mode", "standalone")  # the second is Valkey's
        if mode != "standalone":
            raise _UnsuitableServerError(
                f"{self.shown_url} is a Redis {mode}, which mcpkit does not support. Use the URL of a standalone "
                "primary"
            )
        run = info.get("run_id", "")
        if run == self._logged_run:
            return run
        self._logged_run = run
        policy = info.get("maxmemory_policy")
        if policy not in {None, "noeviction"}:
            logger.warning(
                "%s has maxmemory-policy %s, so Redis may evict sessions, claims and stored values. Set "
                "maxmemory-policy to noeviction",
                self.shown_url,
                policy,
            )
        if info.get("aof_enabled") == "0":
            logger.warning(
                "%s has appendonly no, so Redis loses the data since its last snapshot, or all data, when "
                "it stops. Set appendonly to yes",
                self.shown_url,
            )
        return run

    def failure(self, error: Exception) -> OSError:
        """Return the OSError for an exception of redis-py."""
        errors = self.errors
        if isinstance(error, _UnsuitableServerError):
            return error
        if isinstance(error, errors.TimeoutError):
            return TimeoutError(
                f"{self.shown_url} did not answer within {_REPLY_TIMEOUT:g} s. Check that Redis is running and "
                "reachable"
            )
        if isinstance(error, errors.NoPermissionError):  # its text contains the user name
            return PermissionError(
                f"{self.shown_url} denied a command that mcpkit needs to its user. Extend the permissions of the "
                "user; ACL LOG lists the denied commands"
            )
        if isinstance(error, errors.AuthenticationError):
            return PermissionError(
                f"{self.shown_url} rejected the user name or password of the URL, or the URL has none"
            )
        if isinstance(error, errors.ConnectionError | OSError):
            return ConnectionError(f"{self.shown_url} cannot be reached: {error}")
        return OSError(f"{self.shown_url} returned an error: {error}")

    def _run_loop(self) -> None:
        with closing(self.loop):
            self.loop.run_until_complete(self._run_until_closed())

    async def _run_until_closed(self) -> None:
        await self._end.wait()
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            for each in others:
                each.cancel()
            await asyncio.wait(others, timeout=1)
        await self._client.aclose()
        for _ in range(3):  # in which the loop closes the sockets of connections that were being opened
            await asyncio.sleep(0)

    def close(self) -> None:
        """Close the connections and end the thread. In a forked child, which has neither, it does nothing."""
        if self._process == os.getpid() and not self.loop.is_closed():
            try:
                self.loop.call_soon_threadsafe(self._end.set)
            except RuntimeError:  # another thread has closed it
                return
            if threading.current_thread() is not self._thread:
                self._thread.join(DEFAULT_TIMEOUT)


class RedisClient:
    """Client of a Redis, which opens its connections on first use, and anew in a forked child.

    Args:
        url: URL of Redis, with credentials.
        shown_url: The same without credentials.
        prefix: Beginning of all keys.
    """

    def __init__(self, url: str, shown_url: str, prefix: bytes) -> None:
        self._make_connection = partial(RedisConnection, url, shown_url, prefix)
        self._prefix = prefix
        self._reset()

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._connections: list[RedisConnection] = []  # one or none
        self._finalize = finalize(self, _close, self._connections)

    def connection(self) -> RedisConnection:
        """Return the connection of this process."""
        if self._process != os.getpid():  # a forked child
            _parent_connections.append(self._connections)
            self._finalize.detach()
            self._reset()
        try:
            return self._connections[0]
        except IndexError:
            with self._lock:
                if not self._connections:
                    self._connections.append(self._make_connection())
                return self._connections[0]

    async def command(self, *args: Argument) -> Reply:
        """Send a command, and return its reply.

        Raises:
            OSError: Redis does not answer, or returns an error.
        """
        connection = self.connection()
        return await connection.run(connection.command(*args))

    async def script(self, script: Script, keys: Sequence[Argument], *args: Argument) -> Reply:
        """Run a script, and return its result.

        Raises:
            OSError: Redis does not answer, or returns an error.
        """
        connection = self.connection()
        return await connection.run(connection.script(script, keys, *args))

    def new_key(self, kind: bytes) -> bytes:
        """Return a random key of a kind: `o:` for an operation, `m:` for a long message."""
        return self._prefix + kind + os.urandom(16).hex().encode()

    def close(self) -> None:
        """Close the connections of this process, until the next use."""
        with self._lock:
            _close(self._connections)


_parent_connections: list[object] = []  # not collected in a forked child, which must not touch them


def _close(connections: list[RedisConnection]) -> None:
    while connections:
        connections.pop().close()


_selectors: WeakSet[selectors.BaseSelector] = WeakSet()  # of the sockets of this process


def _close_inherited_sockets() -> None:
    """Close the sockets that a forked child has inherited. Redis gets no message, because the parent uses them.

    Their file descriptors are redirected to the null device, because copies of the parent's objects refer to them.
    """
    null_device = os.open(os.devnull, os.O_RDWR)
    for selector in tuple(_selectors):
        for each in tuple((selector.get_map() or {}).values()):
            os.dup2(null_device, each.fd, inheritable=False)
    os.close(null_device)
    _selectors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited_sockets)


# Message log: a Redis stream, which each process reads in order

MAX_MESSAGES = 10_000  # messages that the stream keeps for processes that have not read them
LONG = 4096  # bytes above which a message is stored outside the stream, and fetched by its subscribers only
_BLOCK = 3.0  # seconds for which a read blocks; then the stream is checked
_RETRY_INTERVAL = 0.5  # seconds between two attempts to read after a failure
_PUBLISH_BATCH = 16
_READ_BATCH = 256

# Adds a message to the stream, and returns its position. A position is the time at which the stream began and the
# number of messages it has had, so that a missing number means a missed message. A long message is stored under the key
# `outside`. The first two arguments of the script are the number of messages in the stream, and the maximum size.
APPEND = """
local function append(log, outside, topic, text)
  local began, number
  if redis.call('EXISTS', log) == 1 then
    local info = redis.call('XINFO', 'STREAM', log)
    for i = 1, #info, 2 do
      if info[i] == 'last-generated-id' then began, number = string.match(info[i + 1], '(%d+)-(%d+)') end
    end
  else
    local time = redis.call('TIME')
    began, number = time[1] .. string.format('%06d', time[2]), 0
  end
  local position = began .. '-' .. string.format('%d', number + 1)
  if #text > tonumber(ARGV[2]) then
    redis.call('SET', outside, text, 'PX', 30000)
    redis.call('XADD', log, 'MAXLEN', '~', ARGV[1], position, 't', topic, 'k', outside)
  else
    redis.call('XADD', log, 'MAXLEN', '~', ARGV[1], position, 't', topic, 'm', text)
  end
  return position
end
"""

# Keys: operation, log, and one for each message that may be stored outside. Arguments: as for `APPEND`; topics and
# texts. Returns the position of the last one.
_PUBLISH = make_idempotent_script(
    APPEND
    + """
local result
for i = 3, #KEYS do result = append(KEYS[2], KEYS[i], ARGV[2 * i - 3], ARGV[2 * i - 2]) end
"""
)

Position = tuple[int, int]
_START: Position = (0, 0)


class MessageLog:
    """Message bus in a Redis stream.

    One connection reads for all subscriptions, from the start. Listeners are notified, and it is logged, when messages
    were missed: the stream was trimmed before it was read, was emptied, or is that of another Redis, such as a promoted
    replica.

    Args:
        connection: Connection to Redis.
        prefix: Beginning of the keys.

    Attributes:
        key: Key of the stream.
    """

    def __init__(self, connection: RedisConnection, prefix: bytes) -> None:
        self._connection = connection
        self._prefix = prefix
        self.key = prefix + b"log"
        self._subscriptions: dict[Subscription, Position] = {}  # with the last message that is not for it
        self._latest = _START  # the last message that this process knows, delivered or published
        self._position: Position | None = None  # the last delivered message
        self._run = ""  # id of the run of Redis
        self._settled = asyncio.Event()  # the position is known, or the failure
        self._failure: OSError | None = None  # the reason why there is no position yet
        self._outgoing: list[tuple[bytes, bytes, asyncio.Future[None]]] = []  # topics and messages
        self._sender: asyncio.Task[None] | None = None
        self._reader: asyncio.Task[None] | None = None
        connection.loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        self._reader = self._connection.loop.create_task(self._read())

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message to `topic` from now on; return a function that ends it."""
        subscription = Subscription(topic, listener, missed)
        self._subscriptions[subscription] = self._latest

        def unsubscribe() -> None:
            self._subscriptions.pop(subscription, None)

        return unsubscribe

    @property
    def is_up(self) -> bool:
        """True if messages published from now on are delivered, or reported as missed."""
        return self._position is not None

    async def listening(self) -> None:
        """Wait until `is_up`. Call it in the thread's loop.

        Raises:
            OSError: Redis does not answer.
        """
        await self._settled.wait()
        if self._position is None and self._failure is not None:
            raise type(self._failure)(*self._failure.args)

    # Publishing

    async def publish(self, topic: str, message: str) -> None:
        """Add a message to the stream, after earlier ones. Call it in the thread's loop."""
        done: asyncio.Future[None] = self._connection.loop.create_future()
        self._outgoing.append((encoded(topic), encoded(message), done))
        if self._sender is None:
            self._sender = self._connection.loop.create_task(self._send())
        await done

    async def _send(self) -> None:
        try:
            await self._settled.wait()
            while self._outgoing:
                batch = [each for each in self._outgoing[:_PUBLISH_BATCH] if not each[2].done()]
                del self._outgoing[:_PUBLISH_BATCH]
                if not batch:
                    continue
                operation = self._prefix + b"o:" + os.urandom(16).hex().encode()
                outside = [self._prefix + b"m:" + os.urandom(16).hex().encode() for _ in batch]
                args = [text for topic, message, _ in batch for text in (topic, message)]
                keys = [operation, self.key, *outside]
                publish = self._connection.script(_PUBLISH, keys, MAX_MESSAGES, LONG, *args)
                failure: OSError | None = None
                try:
                    self.add_published(await self._connection.bounded(publish))
                except OSError as error:
                    failure = error
                for *_, done in batch:
                    if done.done():
                        continue  # the caller was cancelled
                    if failure is None:
                        done.set_result(None)
                    else:
                        done.set_exception(type(failure)(*failure.args))
        finally:
            self._sender = None

    def add_published(self, position: Reply) -> None:
        """Record the position of a message that this process published: later subscriptions do not receive it."""
        self._latest = max(self._latest, _parse_position(position) or _START)

    # Reading, in the thread's loop

    async def _read(self) -> None:
        is_failing = False
        while True:
            client = self._connection.make_client(_BLOCK + _REPLY_TIMEOUT)
            try:
                run = await self._connection.check_server(client)
                if self._position is not None and run != self._run:
                    self._report_gap("Redis was restarted or replaced")
                self._run = run
                await self._check_stream(client)
                if is_failing:
                    logger.info(
                        "%s answers again; messages of other processes are received",
                        self._connection.shown_url,
                    )
                is_failing = False
                self._settled.set()
                while True:
                    await self._read_batch(client)
            except Exception as error:  # noqa: BLE001 - it is tried again after any failure
                failure = self._failure = self._connection.failure(error)
                if not is_failing:
                    logger.error(  # noqa: TRY400 - the traceback adds nothing
                        "the shared store does not answer; this process receives no messages of other "
                        "processes until it does: %s",
                        failure,
                    )
                is_failing = True
                self._settled.set()
            finally:
                await client.aclose()
            await asyncio.sleep(_RETRY_INTERVAL)

    async def _check_stream(self, client: _Client) -> None:
        """Find the position to read from, which is an earlier one if the stream was emptied or restored."""
        last: Position | None = None
        try:
            info = await client.execute_command("XINFO", "STREAM", self.key)
            last = _parse_position(info[info.index(b"last-generated-id") + 1])
        except self._connection.errors.ResponseError as error:
            if "no such key" not in str(error):
                raise
        before = self._position
        if before is None:
            self._position = self._latest = last or _START
            return
        if before != _START and (last is None or last[0] != before[0]):
            position = _START
        elif last is not None and last < before:
            position = last
        else:
            return
        self._report_gap("the Redis stream was emptied or restored from an earlier state")
        self._position = self._latest = position
        for each in tuple(self._subscriptions):
            if each in self._subscriptions:
                self._subscriptions[each] = position

    async def _read_batch(self, client: _Client) -> None:
        began, number = self._position or _START
        streams = await client.execute_command(
            *("XREAD", "COUNT", _READ_BATCH, "BLOCK", round(_BLOCK * 1000)),
            *("STREAMS", self.key, f"{began}-{number}"),
        )
        if not streams:
            await self._check_stream(client)
            return
        for entry in streams[0][1]:
            match entry:
                case [bytes(id_), [_, bytes(topic), form, bytes(content)]]:
                    position = _parse_position(id_) or _START
                    await self._deliver(position, decoded(topic), content, is_outside=form == b"k")
                case _:
                    raise ValueError(
                        f"Redis stream {self.key!r} contains an entry that mcpkit did not write. "
                        "Delete the stream or use another Redis database"
                    )

    async def _deliver(self, position: Position, topic: str, content: bytes, *, is_outside: bool) -> None:
        before = self._position or _START
        expected = (position[0], 1) if before == _START else (before[0], before[1] + 1)
        if position != expected:
            self._report_gap(
                "the Redis stream was trimmed before this process read all of it"
                if position[0] == before[0]
                else "the Redis stream was emptied"
            )
        subscriptions = [each for each in tuple(self._subscriptions) if each.topic == topic]
        message: Reply = content
        if subscriptions and is_outside:
            message = await self._connection.bounded(self._connection.command("GET", content))
        self._position, self._latest = position, max(self._latest, position)
        if message is None:
            self._report_gap("the text of a long message expired before it was read", subscriptions)
            return
        for each in subscriptions:
            after = self._subscriptions.get(each)
            if after is not None and after < position:
                each.deliver(decoded(message))

    def _report_gap(self, reason: str, subscriptions: Iterable[Subscription] | None = None) -> None:
        logger.warning(
            "this process may have missed messages of other processes at %s: %s. Some clients may not "
            "have been notified of changes",
            self._connection.shown_url,
            reason,
        )
        for each in tuple(self._subscriptions) if subscriptions is None else subscriptions:
            each.notify_gap()


def _parse_position(text: Reply) -> Position | None:
    if not text:
        return None
    began, number = text.split(b"-")
    return int(began), int(number)
