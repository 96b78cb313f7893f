"""Protocols of a storage, `PubSub` and `Store`, and what all storages share: checks, subscriptions, token buckets."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

from .._utils.option_checks import check_seconds

logger = logging.getLogger(__name__)

# The fields of an absent key.
NO_FIELDS: Mapping[str, str] = MappingProxyType({})

# Protocols


class PubSub(Protocol):
    """Records, claims, rate-limit buckets and a message bus: the half of `Storage` that serves sessions.

    *Records.* A key holds fields, a mapping from str to str, with one expiry for all of them. A key without fields does
    not exist. Each `write` and `erase` is atomic: a `read` sees all of it or none. A `read` that starts after a `write`
    has returned sees it, in every process. An expired key is the same as one that was never written. Keys and values
    are text of a few KiB at most, opaque to the storage. Callers start their keys and topics with the name of the
    server.

    *Claims.* A claim is a key without fields. Callers use no key both for a record and for a claim.

    *Buckets.* A bucket is a key that is neither a record nor a claim. It starts full, and is removed when it is full
    again.

    *Bus.* A message reaches each listener of its topic, in all processes, including that of the publisher. It is
    delivered at most once, and in order for each publisher. Messages published while the connection of a listener is
    down are delivered when it is up again, or the listener is notified that it missed some. Messages published before
    the connection is up are lost. An exception of a listener is logged and does not affect the others. Messages are
    short, except responses of clients to elicitation and sampling: those may be as long as a request body.

    *Threads and event loops.* Every method may be called in any thread. Its coroutines may be awaited in any event loop
    of the process, several at the same time. A storage with connections needs one for each loop, or a loop of its own.

    *Failures.* If the storage does not answer within a few seconds, the coroutines raise an `OSError`
    (`ConnectionError`, `TimeoutError`). The caller does not retry.
    """

    @property
    def store_id(self) -> str:
        """Identifier of the storage: the same in all processes that share it, and different in all others.

        Session ids contain it, so that a process can distinguish expired state from state in another storage. It has at
        most 64 ASCII characters. It is random for a storage within one process. For a shared storage it is constant,
        for example a digest of the address without credentials. It is empty while it is unknown.
        """
        ...

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of a key.

        Args:
            key: The key.

        Returns:
            The fields; empty if the key is absent or expired. The mapping does not follow later writes. Do not change
            it.
        """
        ...

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge fields into a key and set its expiry.

        Args:
            key: The key. If it is absent or expired, it is created, provided that a field remains.
            changes: Fields to set; a value of None removes the field. Empty changes only set the expiry of an existing
                key.
            ttl: Seconds from now until the key expires with all its fields; 0 or less removes it at once.
        """
        ...

    async def erase(self, key: str) -> None:
        """Remove a key and its fields, if it exists."""
        ...

    async def claim(self, key: str, ttl: float) -> bool:
        """Claim a key, unless it is claimed already. The check and the claim are one atomic step.

        Of all callers in all processes, one gets the claim until it expires. A claim cannot be released or extended.

        Args:
            key: The key.
            ttl: Seconds from now until the claim expires, above 0.

        Returns:
            True if this call got the claim.
        """
        ...

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        """Take tokens from a bucket (token bucket algorithm). The check and the withdrawal are one atomic step.

        All processes share the bucket and the clock of the storage. A call that fails takes no tokens.

        Args:
            key: Key of the bucket.
            every: Seconds, above 0, in which one token is added.
            burst: Capacity of the bucket, at least 1.
            cost: Number of tokens to take, from 1 to `burst`.

        Returns:
            0.0 if the tokens were taken; otherwise the seconds until there are enough, if no other call takes them.
        """
        ...

    async def publish(self, topic: str, message: str) -> None:
        """Publish a message to the listeners of a topic, without waiting until they have received it.

        Args:
            topic: The topic.
            message: The message.
        """
        ...

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call a function with each message that is published to a topic from now on.

        It returns at once and never fails. A storage with a connection opens it in the background, and again when it
        breaks. `await listening()` waits until it is up.

        Args:
            topic: The topic, literally: no patterns.
            listener: Receives each message. It is called in any thread, perhaps within `publish`, and must not block.
            missed: Called in the same way when messages may have been lost since the subscription was up.

        Returns:
            A function that ends the subscription, from any thread. Calling it again does nothing. A message that is
            being delivered may still arrive.
        """
        ...

    async def listening(self) -> None:
        """Wait until all subscriptions of this process receive what is published from now on.

        Raises:
            OSError: The storage does not answer.
        """
        ...


class StoredValue(NamedTuple):
    """A value of a `Store` with its version.

    Attributes:
        value: The value.
        version: Opaque version of the value, different from that of any other value, past or future.
    """

    value: bytes
    version: str


class Store(Protocol):
    """A key-value store with compare-and-set, shared by several processes: the half of `Storage` that handlers use.

    *Values.* A key holds bytes, of some megabytes at most and opaque to the storage, and one expiry. Each `put` and
    `delete` is atomic: of all callers with the same version, in all processes, one succeeds and the others get None or
    False. A `get` that starts after a `put` has returned sees it, in every process. An expired key is the
    same as one that was never written. Callers start their keys with the name of the server.

    *Versions.* A version is an opaque text. No version is used again, not even after a `delete`, an expiry or a
    restart. Every write needs the version that was read. To overwrite a value, read and write again until it succeeds.

    *Threads and event loops.* Every method may be called in any thread. Its coroutines may be awaited in any event loop
    of the process, several at the same time.

    *Failures.* If the storage does not answer within a few seconds, the coroutines raise an `OSError`
    (`ConnectionError`, `TimeoutError`). The caller does not retry.
    """

    def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        """Iterate over the keys with a prefix and their values, in any order, with `async for`.

        A value that is changed meanwhile is returned as it was before or after the change. A key that exists throughout
        is returned exactly once.

        Args:
            prefix: Beginning of the keys.
        """
        ...

    async def get(self, key: str) -> StoredValue | None:
        """Return the value of a key with its version; None if the key is absent or expired."""
        ...

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        """Set the value of a key, unless another caller has changed it since it was read.

        Args:
            key: The key.
            value: The new value.
            version: The version that was read; None if the key was absent.
            ttl: Seconds from now until the key expires, above 0.

        Returns:
            The new version; None if the key has another version by now, or is absent. Then nothing was written.

        Raises:
            TypeError: The value is not bytes, or `ttl` is not a number.
            ValueError: `ttl` is not above 0, or not finite.
        """
        ...

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove a key, unless another caller has changed it since it was read.

        Args:
            key: The key.
            version: The version that was read.

        Returns:
            True if the key was removed.
        """
        ...


class Storage(PubSub, Store, Protocol):
    """Storage of a server: the type of `Server(storage=...)`.

    `Memory` is the storage of one process, `Sqlite` that of one machine, `Redis` that of several machines.

    To write another storage, implement the members of `PubSub`, `Store` and this class, and keep their rules. The keys
    of `PubSub` and those of `Store` are separate namespaces.
    """

    @property
    def is_persistent(self) -> bool:
        """True if stored data outlives the process, so that other or later processes can read it.

        A server without a permanent secret rejects such a storage.
        """
        ...


# Checks

SECRET_VARIABLE = "MCPKIT_SECRET"
SECRET_HELP = 'generate one with: python -c "import secrets; print(secrets.token_urlsafe(32))"'

_MEMBERS = (
    *("read", "write", "erase", "claim", "take_tokens", "publish", "subscribe", "listening"),
    *("get", "put", "delete", "items"),
)


def check_storage(storage: object, secret: str | bytes | Sequence[str | bytes] | None) -> None:
    """Check the storage of a server.

    Args:
        storage: Value of `Server(storage=...)`.
        secret: Value of `Server(secret_key=...)`.

    Raises:
        TypeError: The value is not a storage.
        ValueError: The storage outlives the process, and the server has no permanent secret.
    """
    is_persistent = None if isinstance(storage, type) else getattr(storage, "is_persistent", None)
    if not isinstance(is_persistent, bool):
        example = 'Sqlite("notes.db")'
        if isinstance(storage, str | os.PathLike):
            example = f"Sqlite({os.fspath(storage)!r})"
        raise TypeError(f"storage must be a storage such as Memory() or {example}, got {storage!r}")
    if missing := [name for name in _MEMBERS if not hasattr(storage, name)]:
        raise TypeError(
            f"storage lacks {', '.join(missing)}. Implement all members of mcpkit.storage.Storage; got {storage!r}"
        )
    if is_persistent and secret is None and SECRET_VARIABLE not in os.environ:
        raise ValueError(
            f"storage={type(storage).__name__}(...) keeps encrypted data after this process ends, so the server needs "
            f"a permanent secret. Set {SECRET_VARIABLE} or write Server(secret_key=...); {SECRET_HELP}"
        )


def check_value(of: str, value: object) -> None:
    """Check the value of a record or a job.

    Raises:
        TypeError: It is not bytes.
    """
    if not isinstance(value, bytes):
        raise TypeError(
            f"the value of a {of} must be bytes, got {type(value).__name__}. Encode it, for example as JSON"
        )


def check_put(value: object, ttl: object) -> None:
    """Check the value and the expiry of a `put`.

    Raises:
        TypeError: The value is not bytes, or `ttl` is not a number.
        ValueError: `ttl` is not above 0, or not finite.
    """
    check_value("record", value)
    check_seconds("ttl", ttl)


# Message bus


class Subscription:
    """A subscription to a topic of a message bus.

    Args:
        topic: The topic.
        listener: Receives each message.
        missed: Called when messages may have been lost.
    """

    __slots__ = ("_listener", "_missed", "topic")

    def __init__(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None
    ) -> None:
        self.topic = topic
        self._listener = listener
        self._missed = missed

    def deliver(self, message: str) -> None:
        """Call the listener. Its exception affects neither the publisher nor other listeners."""
        try:
            self._listener(message)
        except Exception:
            logger.exception(
                "a listener of the topic %s raised an exception. Other listeners still receive the message",
                self.topic,
            )

    def notify_gap(self) -> None:
        """Notify the listener that messages may have been lost."""
        if self._missed is not None:
            try:
                self._missed()
            except Exception:
                logger.exception(
                    "the listener of the topic %s for missed messages raised an exception. Other "
                    "listeners are still called",
                    self.topic,
                )


# Token buckets: the generic cell rate algorithm, which stores one number for each bucket


def bucket_slack(every: float) -> float:
    """Return the seconds by which a request may be early; the next one is not earlier for that.

    Args:
        every: Seconds in which one token is added.
    """
    return 0.001 * every + 1e-6  # the second part is for the rounding of floating-point times


def take_tokens(
    full_at: float, now: float, *, every: float, burst: float, cost: float
) -> tuple[float, float]:
    """Take tokens from a bucket that is stored as the time at which it will be full.

    If the clock was set back, or the bucket was larger before, it counts as empty: a caller never waits longer than the
    bucket takes to fill.

    Args:
        full_at: Time at which the bucket will be full; any time in the past for a full one.
        now: The current time by the same clock.
        every: Seconds in which one token is added.
        burst: Capacity of the bucket.
        cost: Number of tokens to take.

    Returns:
        The new `full_at`, and 0.0; or the seconds until there are enough tokens, and then none are taken.
    """
    slack = bucket_slack(every)
    empty = now + burst * every
    full_at = max(full_at, now) if full_at <= empty + slack else empty
    wait = full_at - now - (burst - cost) * every
    if wait > slack:
        return full_at, wait
    return full_at + cost * every, 0.0


# Measurements of the queue


class QueueStats(NamedTuple):
    """Statistics of one queue.

    Attributes:
        queue: Name of the queue.
        ready: Number of jobs that a worker may take now.
        held: Number of jobs that are leased, or may be taken later.
        oldest: Seconds for which the oldest ready job has waited; 0 without ready jobs.
    """

    queue: str
    ready: int
    held: int
    oldest: float


class Waits(Protocol):
    """Source of queue statistics for a `TaskMeter`."""

    def waiting(self) -> Sequence[tuple[str, QueueStats]]:
        """Return statistics of the queues, each with the name of its tool. It blocks while it reads the storage.

        Returns:
            Names of tools with their statistics; empty if the storage does not answer.
        """
        ...


class TaskMeter:
    """Base class of meters of tasks. Its methods do nothing.

    A middleware that derives from it receives the measurements, as `Telemetry` does. The methods are called in the
    event loop, so they must not block.
    """

    def attach_tasks(self, tasks: Waits) -> None:
        """Receive the source of queue statistics of a server. It may be called several times.

        Args:
            tasks: The source. Hold it by a weak reference.
        """

    def run_began(self, tool: str, seconds: float) -> None:
        """Receive the start of a run of a task.

        Args:
            tool: Name of the tool.
            seconds: Seconds since the task was last changed.
        """

    def run_ended(self, tool: str, outcome: str, attempt: int, seconds: float) -> None:
        """Receive the end of a run of a task.

        Args:
            tool: Name of the tool.
            outcome: Outcome of the task: `completed`, `failed`, `cancelled`, `given_up` (too many attempts, or too
                late) or `input_required`. Outcome of the run, if the task continues: `drained` (handed back to the
                queue), `lost` (another worker has it) or `put_off` (no capacity).
            attempt: Number of times that the task was taken.
            seconds: Duration in seconds.
        """
