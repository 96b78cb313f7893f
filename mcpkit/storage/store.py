"""Protocol of a key-value store with compare-and-set, shared by several processes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

from .._utils.numbers import check_seconds


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


def check_put(value: object, ttl: object) -> None:
    """Check the value and the expiry of a `put`.

    Raises:
        TypeError: The value is not bytes, or `ttl` is not a number.
        ValueError: `ttl` is not above 0, or not finite.
    """
    if not isinstance(value, bytes):
        raise TypeError(
            f"the value of a record must be bytes, got {type(value).__name__}. Encode it, for example as JSON"
        )
    check_seconds("ttl", ttl)
