"""Protocol of the storage of sessions: records, claims, rate-limit buckets and a message bus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


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
