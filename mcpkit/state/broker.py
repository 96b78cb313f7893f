"""The broker: the little that the processes which serve one session must share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class PubSub(Protocol):
    """Records, claims and a message bus: the half of `Shared` that serves sessions.

    *Records.* A key holds fields, a mapping from str to str, and one expiry for all of them. A key
    without fields does not exist. Each `write` and `erase` is atomic: a `read` sees all of it or
    none. A `read` that starts after a `write` has returned sees it, in whichever process. From
    its expiry on, a key is as if it had never been written. Keys and values are text of a few KiB
    at most, without meaning for the engine; whoever uses it begins its keys and topics with the
    server's name.

    *Claims.* A claim is a key of its own, without fields: no key is both written and claimed.

    *Buckets.* A bucket is a key of its own as well, which is neither written nor claimed. It begins full, and is gone
    when it is full again.

    *Bus.* A message reaches every listener that is subscribed to its topic, in all processes, the publisher's
    own included, at most once, and for one publisher in the order in which it published. What is published
    while a listener's connection is down is told when it is up again, or else the listener is told that it has
    missed something; what is published before it is up is lost to it. A listener that raises is logged and
    keeps none of the others from hearing. Messages are short, but for what a client answers to a question: that
    may be as long as the body of a request.

    *Threads and loops.* Every method may be called in any thread, and the coroutines awaited in
    any event loop of the process, several at the same time. An engine with connections has to
    keep one for each loop, or a loop of its own.

    *Failures.* Where the store does not answer within a few seconds, the coroutines raise an
    `OSError` (`ConnectionError`, `TimeoutError`). Nothing is retried by the caller.
    """

    @property
    def store_id(self) -> str:
        """Which store this is: the same text in all processes that share it, and in no others.

        Session ids carry it, so that a process can tell state that has expired from state that it
        never could see. At most 64 characters of ASCII; random where the store lives and dies with
        the process, constant (from its address, say, without credentials) where it is shared; empty while that
        is not known.
        """
        ...

    async def read(self, key: str) -> Mapping[str, str]:
        """Return the fields of `key` as they are now; empty when it is absent or expired.

        The mapping does not follow later writes and must not be changed.
        """
        ...

    async def write(self, key: str, changes: Mapping[str, str | None], ttl: float) -> None:
        """Merge `changes` into the fields of `key`, and let the key expire in `ttl` seconds from now.

        Args:
            key: The key. If it is absent or expired, it is created, if there is a field to hold.
            changes: Fields to set, and with None, fields to remove. None at all prolongs the life of
                a key (or shortens it) that exists, and does nothing to one that does not.
            ttl: Seconds from now, for all fields of the key; with 0 or less it is gone at once.
        """
        ...

    async def erase(self, key: str) -> None:
        """Remove `key` and all its fields; nothing happens when it is absent."""
        ...

    async def claim(self, key: str, ttl: float) -> bool:
        """Take `key` for the next `ttl` seconds, unless it is taken.

        Of all who claim a key, in all processes, one alone is told that it has it, until the claim
        expires: to look and to take is one step. Nobody gives a claim back.

        Args:
            key: The key.
            ttl: Seconds from now, above 0. A claim that has been made is not prolonged by others.

        Returns:
            Whether this call has taken it.
        """
        ...

    async def take_tokens(self, key: str, *, every: float, burst: int, cost: int = 1) -> float:
        """Take something out of the bucket `key`, if there is as much in it.

        Of all who do so, in all processes, no more get it than the bucket has: to look and to take is one step, by the
        clock of the engine, whatever those of the processes say. Who gets nothing takes nothing.

        Args:
            key: The bucket.
            every: Seconds, above 0, in which one comes into it.
            burst: How many it holds, at least 1.
            cost: How many are taken, at least 1 and at most `burst`.

        Returns:
            0.0 where they have been taken; else the seconds after which there will be as many, if nobody else takes
            them.
        """
        ...

    async def publish(self, topic: str, message: str) -> None:
        """Send `message` to the listeners of `topic`. It does not wait until they have heard."""
        ...

    def subscribe(
        self, topic: str, listener: Callable[[str], None], missed: Callable[[], None] | None = None
    ) -> Callable[[], None]:
        """Call `listener` with each message that is published to `topic` from now on.

        It returns at once and never fails: an engine with a connection opens it in the background,
        and opens it again when it breaks. `await listening()` waits until it is up.

        Args:
            topic: The topic, literally: no patterns.
            listener: Called in any thread, perhaps within `publish`. It must be quick and not block.
            missed: Called alike, where messages may have been lost to it since it was up, for whatever reason.

        Returns:
            A function that ends this subscription, from any thread, at once; calling it again does
            nothing. A message that is under way may still arrive.
        """
        ...

    async def listening(self) -> None:
        """Wait until all who have subscribed in this process hear of what is published from now on.

        Raises:
            OSError: The engine does not answer.
        """
        ...
