"""Protocol of a storage: `PubSub` and `Store` together, and the check of `Server(storage=...)`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from .broker import PubSub
from .keys import SECRET_HOW, SECRET_VARIABLE
from .store import Store


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


_MEMBERS = (
    "read",
    "write",
    "erase",
    "claim",
    "take_tokens",
    "publish",
    "subscribe",
    "listening",
    "get",
    "put",
    "delete",
    "items",
)


def check_shared(shared: object, secret: str | bytes | Sequence[str | bytes] | None) -> None:
    """Check the storage of a server.

    Args:
        shared: Value of `Server(storage=...)`.
        secret: Value of `Server(secret_key=...)`.

    Raises:
        TypeError: The value is not a storage.
        ValueError: The storage outlives the process, and the server has no permanent secret.
    """
    is_persistent = None if isinstance(shared, type) else getattr(shared, "is_persistent", None)
    if not isinstance(is_persistent, bool):
        meant = (
            f"Sqlite({os.fspath(shared)!r})"
            if isinstance(shared, str | os.PathLike)
            else 'Sqlite("notes.db")'
        )
        raise TypeError(f"storage must be a storage such as Memory() or {meant}, got {shared!r}")
    if missing := [name for name in _MEMBERS if not hasattr(shared, name)]:
        raise TypeError(
            f"storage lacks {', '.join(missing)}. Implement all members of mcpkit.storage.Storage; got {shared!r}"
        )
    if is_persistent and secret is None and SECRET_VARIABLE not in os.environ:
        raise ValueError(
            f"storage={type(shared).__name__}(...) keeps encrypted data after this process ends, so the "
            f"server needs a permanent secret. Set {SECRET_VARIABLE} or write Server(secret_key=...); "
            f"{SECRET_HOW}"
        )
