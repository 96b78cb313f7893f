"""Storage of a server: in memory, in an SQLite file, or in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .base import PubSub, Storage, Store, StoredValue
    from .jobs_and_heartbeats import Queue
    from .memory import Memory
    from .redis import Redis
    from .sqlite import Sqlite
else:
    from .._utils.package import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".base": "PubSub Storage Store StoredValue",
            ".memory": "Memory",
            ".jobs_and_heartbeats": "Queue",
            ".redis": "Redis",
            ".sqlite": "Sqlite",
        },
    )

__all__ = ["Memory", "PubSub", "Queue", "Redis", "Sqlite", "Storage", "Store", "StoredValue"]
