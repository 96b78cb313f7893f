"""Epoch of the shared store: it changes when the store loses its record of used states, which are then unknown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from .runtime import Runtime

_TTL = 365 * 86_400.0

_known: WeakKeyDictionary[Runtime, str] = WeakKeyDictionary()


async def known_epoch(runtime: Runtime) -> str:
    """Return the epoch of the shared store that this process knows. It changes when the store loses its data.

    Raises:
        OSError: The epoch is not known yet, and the store does not respond.
    """
    if runtime.is_alone:  # nothing is lost without the process
        return ""
    return _known.get(runtime) or await latest_epoch(runtime)


async def latest_epoch(runtime: Runtime) -> str:
    """Return the current epoch of the shared store.

    Raises:
        OSError: The store does not respond.
    """
    if runtime.is_alone:
        return ""
    key = f"{runtime.name}/requestState/epoch"
    while (stored := await runtime.storage.get(key)) is None:
        await runtime.storage.put(key, os.urandom(16).hex().encode(), version=None, ttl=_TTL)
    epoch = _known[runtime] = stored.value.decode()
    return epoch
