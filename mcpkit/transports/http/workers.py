"""Warnings about several processes that serve without shared storage."""

from __future__ import annotations

import inspect
import logging
import multiprocessing
import threading
from types import FrameType
from typing import Any

logger = logging.getLogger(__name__)

CURE = (
    "run one process, use a proxy with sticky sessions, or share one engine, such as "
    'Server(storage=Sqlite("notes.db"))'
)

_saying = threading.Lock()
_is_said = False


def warn_of_workers(*, is_shared: bool, is_stateless: bool) -> None:
    """Log once for all workers that they share no storage, if there certainly are several.

    That is the case under `uvicorn --workers` and gunicorn, with a server that has sessions in memory.

    Args:
        is_shared: Whether the storage is shared.
        is_stateless: Whether there are no sessions.
    """
    global _is_said  # noqa: PLW0603 - workers belong to the process, and so does this
    if is_shared or is_stateless:
        return
    count, is_first = _workers()
    with _saying:
        if count < 2 or not is_first or _is_said:
            return
        _is_said = True
    logger.warning(
        "%d worker processes serve clients without a shared engine. Answers of clients can reach a "
        "process that did not send the request, and changes, subscriptions and ends of sessions are only "
        "known to one process. To avoid this, %s",
        count,
        CURE,
    )


def _workers() -> tuple[int, bool]:
    """Return the number of workers, and whether this is the first one, by the process manager on the call stack."""
    frame: FrameType | None = inspect.currentframe()
    is_worker = False
    while frame is not None:
        module = frame.f_globals.get("__name__")
        is_worker = is_worker or module == "uvicorn.supervisors.multiprocess"
        if is_worker and module == "uvicorn._subprocess":
            config: Any = frame.f_locals.get("config")
            return getattr(config, "workers", 0) or 0, multiprocessing.current_process().name.endswith("-1")
        if module == "gunicorn.arbiter":
            arbiter: Any = frame.f_locals.get("self")
            return getattr(arbiter, "num_workers", 0), getattr(arbiter, "worker_age", 0) == 1
        frame = frame.f_back
    return 0, False
