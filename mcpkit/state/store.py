"""The store: values of megabytes that processes share, each changed by whoever has seen the latest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

from ..common.numbers import check_seconds


class StoredValue(NamedTuple):
    """What a key of a `Store` holds.

    Attributes:
        value: The value.
        version: What tells this value from all that any key has held before, or will hold.
    """

    value: bytes
    version: str


class Store(Protocol):
    """Values that several processes share, changed by compare-and-set: the half of `Shared` that handlers see.

    *Values.* A key holds bytes, of some megabytes at most and without meaning for the engine, and one expiry. Each
    `put` and `delete` is atomic: of all who have seen the same version, in all processes, one alone succeeds, and
    the others are told so. A `get` that starts after a `put` has returned sees it, in whichever process. From its
    expiry on, a key is as if it had never been written. Whoever uses the store begins its keys with the server's
    name.

    *Versions.* A version is a text without meaning. None comes back, also not after a `delete`, an expiry or a
    restart: who still has an old one can never change what has been written since. There is no write without a
    version: who wants one reads and tries again until it succeeds.

    *Threads and loops.* Every method may be called in any thread, and the coroutines awaited in any event loop of
    the process, several at the same time.

    *Failures.* Where the store does not answer within a few seconds, the coroutines raise an `OSError`
    (`ConnectionError`, `TimeoutError`). Nothing is retried by the caller.
    """

    def items(self, prefix: str) -> AsyncIterator[tuple[str, StoredValue]]:
        """Go through the keys that begin with `prefix`, in any order, and what they hold: `async for`.

        What is changed meanwhile is seen as it was before or as it is after that; nothing is left out that holds
        still, and no key comes twice.
        """
        ...

    async def get(self, key: str) -> StoredValue | None:
        """Return what `key` holds now, with its version; None when it is absent or expired."""
        ...

    async def put(self, key: str, value: bytes, *, version: str | None, ttl: float) -> str | None:
        """Set `key`, unless somebody else has changed it since it was read.

        Args:
            key: The key.
            value: What it is to hold.
            version: The version that was read; None where there was nothing.
            ttl: Seconds from now until the key expires, above 0.

        Returns:
            The new version; None where the key holds another version by now, or none, and nothing was written.

        Raises:
            TypeError: The value is not bytes, or `ttl` is no number.
            ValueError: `ttl` is not above 0, or not finite.
        """
        ...

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove `key`, unless somebody else has changed it since it was read; say whether it was removed."""
        ...


def check_put(value: object, ttl: object) -> None:
    """Refuse what no store keeps.

    Raises:
        TypeError: The value is not bytes, or `ttl` is no number.
        ValueError: `ttl` is not above 0, or not finite.
    """
    if not isinstance(value, bytes):
        raise TypeError(
            f"the value of a record must be bytes, got {type(value).__name__}. Encode it, for example as JSON"
        )
    check_seconds("ttl", ttl)
