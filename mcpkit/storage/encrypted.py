"""Encrypted records in the storage, for data of authorization."""

from __future__ import annotations

import logging
import math
import struct
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import NamedTuple

from pydantic_core import from_json, to_json

from ..protocol.types import Json
from .base import Storage
from .keys import Keys
from .store import Store

logger = logging.getLogger(__name__)

_PURPOSE = "sealed record"

_FORMAT = 1
"""Format that this version writes. It reads this one and the one before."""

_HEAD = struct.Struct(">B8sd")
"""Header of an encrypted record: format, id of the key, expiry in Unix seconds."""

_LOOKED_AT = 1000
"""Number of records that a process checks at its start."""

_SAID_ONCE_IN = 60.0
"""Seconds in which processes that start together log unreadable records only once."""


class UnreadableRecordError(Exception):
    """A record cannot be decrypted with any of the secrets."""


class NewerRecordError(UnreadableRecordError):
    """A record was written by a later version of mcpkit, and stays unchanged."""


class Sealed:
    """JSON records in a store, encrypted and bound to their keys. A copy under another key cannot be decrypted.

    A record contains the id of its encryption key. A record with an older key or format is written again with the
    newest one when it is read, unless another caller changes it at that moment.

    Args:
        store: Store of the records.
        keys: Keys for the encryption.
        prefix: Prefix of these records within the server, such as `"clients"`.
    """

    def __init__(self, store: Store, keys: Keys, prefix: str) -> None:
        self._store = store
        self._keys = keys
        self._prefix = f"{_root(keys)}{prefix}/"
        self._ids: tuple[bytes, ...] = keys.ids(_PURPOSE)

    async def get(self, key: str) -> tuple[Json, str] | None:
        """Return a record with its version; None if there is none.

        Raises:
            UnreadableRecordError: None of the secrets decrypts it.
            NewerRecordError: It was written by a later version of mcpkit.
            OSError: The store does not answer.
        """
        place = self._prefix + key
        while (stored := await self._store.get(place)) is not None:
            data, expires = self._opened(place, stored.value)
            value: Json = from_json(data, cache_strings="none")
            left = expires - time.time()
            if left <= 0 or stored.value[: _HEAD.size] == self._head(expires):
                return value, stored.version
            version: str | None = stored.version
            with suppress(OSError):  # another time, then
                version = await self._store.put(
                    place, self._closed(place, data, expires), version=stored.version, ttl=left
                )
            if version is not None:
                return value, version
        return None

    async def put(self, key: str, value: Json, *, version: str | None, ttl: float) -> str | None:
        """Set a record, unless another caller has changed it since it was read; see `Store.put`.

        Returns:
            The new version; None if nothing was written.

        Raises:
            OSError: The store does not answer.
            PydanticSerializationError: The value is not JSON.
        """
        place = self._prefix + key
        sealed = self._closed(place, to_json(value), time.time() + ttl)
        return await self._store.put(place, sealed, version=version, ttl=ttl)

    async def delete(self, key: str, *, version: str) -> bool:
        """Remove a record, unless another caller has changed it since it was read; return True if it was removed.

        Raises:
            OSError: The store does not answer.
        """
        return await self._store.delete(self._prefix + key, version=version)

    async def items(self, beginning: str) -> AsyncIterator[Json]:
        """Iterate over the readable records with a prefix.

        Raises:
            OSError: The store does not answer.
        """
        async for place, stored in self._store.items(self._prefix + beginning):
            with suppress(UnreadableRecordError):
                yield from_json(self._opened(place, stored.value)[0], cache_strings="none")

    async def unreadable(self) -> int:
        """Return the number of records that none of the secrets decrypts, without those of a later version.

        Raises:
            OSError: The store does not answer.
        """
        return (await _count(self._store, self._prefix, self._ids)).unreadable

    def _head(self, expires: float) -> bytes:
        return _HEAD.pack(_FORMAT, self._ids[0], expires)

    def _closed(self, place: str, data: bytes, expires: float) -> bytes:
        head = self._head(expires)
        return head + self._keys.encrypt(_PURPOSE, data, head + _bytes(place))

    def _opened(self, place: str, value: bytes) -> tuple[bytes, float]:
        """Return the content and the expiry of a record."""
        if value[:1] > bytes([_FORMAT]):
            raise NewerRecordError(
                f"the record {place!r} was written by a later version of mcpkit (format {value[0]}; this "
                f"version supports up to {_FORMAT}). Update mcpkit"
            )
        head, sealed = value[: _HEAD.size], value[_HEAD.size :]
        data = self._keys.decrypt(_PURPOSE, sealed, head + _bytes(place))
        if data is None:
            raise UnreadableRecordError(
                f"the record {place!r} cannot be decrypted with the given secrets. {_CURE}"
            )
        expires: float = _HEAD.unpack(head)[2]
        return data, expires


_CURE = "Add the secret that was used to write it, Server(secret_key=[new, old]), or wait until the record expires"


class _Count(NamedTuple):
    unreadable: int
    newer: int
    is_all: bool


async def _count(store: Store, prefix: str, ids: tuple[bytes, ...], most: float = math.inf) -> _Count:
    seen = unreadable = newer = 0
    async for _, stored in store.items(prefix):
        if seen == most:
            return _Count(unreadable, newer, is_all=False)
        seen += 1
        if stored.value[:1] > bytes([_FORMAT]):
            newer += 1
        elif stored.value[1:9] not in ids:
            unreadable += 1
    return _Count(unreadable, newer, is_all=True)


async def tell_unreadable(shared: Storage, keys: Keys) -> None:
    """Log the number of unreadable encrypted records among the first thousand of a server.

    Of several processes that start together, one logs it.

    Args:
        shared: Storage of the server.
        keys: Keys that should decrypt the records.
    """
    try:
        unreadable, newer, is_all = await _count(shared, _root(keys), keys.ids(_PURPOSE), _LOOKED_AT)
        least = "" if is_all else "at least "
        if (unreadable or newer) and await shared.claim(f"{keys.name}/unreadable", _SAID_ONCE_IN):
            if unreadable:
                logger.warning(
                    "cannot decrypt %s%d records of %r with the given secrets. %s",
                    least,
                    unreadable,
                    shared,
                    _CURE,
                )
            if newer:
                logger.warning(
                    "skipped %s%d records of %r that were written by a later version of mcpkit. Update "
                    "mcpkit",
                    least,
                    newer,
                    shared,
                )
    except OSError as error:
        logger.error(  # noqa: TRY400 - where it happened says nothing
            "the shared store does not answer, so mcpkit could not check whether the secrets decrypt "
            "its records: %s",
            error,
        )


def _root(keys: Keys) -> str:
    return f"{keys.name}/sealed/"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
