"""What the processes that serve the same share: one engine for all of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

from .broker import PubSub
from .keys import SECRET_HOW, SECRET_VARIABLE
from .store import Store


class Storage(PubSub, Store, Protocol):
    """What `Server(storage=...)` takes.

    `Memory` is the engine within one process, `Sqlite` that of one machine, `Redis` that of several.

    To write another engine, implement the members of `PubSub`, of `Store` and this one, and keep their rules. What a
    `PubSub` has under a key and what a `Store` has under the same key are two things.
    """

    @property
    def is_persistent(self) -> bool:
        """Whether it outlives the process: others may have what is kept in it, or one that is started later.

        A server refuses such an engine where it has no secret that lasts as long.
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
    """Refuse what processes cannot share, or must not without a secret.

    Args:
        shared: What stands in `Server(storage=...)`.
        secret: What stands in `Server(secret_key=...)`.

    Raises:
        TypeError: It is no engine.
        ValueError: It outlives the process, and the secret does not.
    """
    is_persistent = None if isinstance(shared, type) else getattr(shared, "is_persistent", None)
    if not isinstance(is_persistent, bool):
        meant = (
            f"Sqlite({os.fspath(shared)!r})"
            if isinstance(shared, str | os.PathLike)
            else 'Sqlite("notes.db")'
        )
        raise TypeError(f"shared must be an engine such as Memory() or {meant}, got {shared!r}")
    if missing := [name for name in _MEMBERS if not hasattr(shared, name)]:
        raise TypeError(
            f"shared lacks {', '.join(missing)}. Implement all members of mcpkit.Shared; got {shared!r}"
        )
    if is_persistent and secret is None and SECRET_VARIABLE not in os.environ:
        raise ValueError(
            f"storage={type(shared).__name__}(...) keeps encrypted data after this process ends, so the "
            f"server needs a permanent secret. Set {SECRET_VARIABLE} or write Server(secret_key=...); "
            f"{SECRET_HOW}"
        )
