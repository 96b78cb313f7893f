"""Storage of a server: in memory, in an SQLite file, or in Redis."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .state.broker import PubSub
    from .state.memory import Memory
    from .state.queue import Queue
    from .state.redis import Redis
    from .state.shared import Storage
    from .state.sqlite import Sqlite
    from .state.store import Store, StoredValue
else:
    from .common.late_names import late_names

    __getattr__ = late_names(
        globals(),
        {
            ".state.broker": "PubSub",
            ".state.memory": "Memory",
            ".state.queue": "Queue",
            ".state.redis": "Redis",
            ".state.shared": "Storage",
            ".state.sqlite": "Sqlite",
            ".state.store": "Store StoredValue",
        },
    )

__all__ = [
    "Memory",
    "PubSub",
    "Queue",
    "Redis",
    "Sqlite",
    "Storage",
    "Store",
    "StoredValue",
]
