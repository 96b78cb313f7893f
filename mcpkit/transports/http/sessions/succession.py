"""Reading of session ids, under all secrets of the server, also former ones.

A short id refers to the token in the record of its session; see `token`.

A client keeps its id as long as its session lives, so an id cannot be issued again under a newer secret, as records
are. Instead, a shared store that outlives the process contains a signature of the id under the newest secret.
"""

from __future__ import annotations

import hashlib

from ....storage.base import Storage
from ....storage.encryption_keys import Keys
from .record import TOKEN, key_of
from .token import SessionToken, is_newest, is_short, read, read_known

_PURPOSE = "session id of an older secret"
_MAC = "mac"


class Succession:
    """Reads session ids that were signed under any secret, also a former one.

    Args:
        shared: The shared store.
        keys: Keys that sign ids.
    """

    def __init__(self, shared: Storage, keys: Keys) -> None:
        self._shared = shared
        self._keys = keys

    async def read(self, id_: str, now: float) -> SessionToken | None:
        """Return the token of an id; None if it was not signed by this server, or has expired.

        Args:
            id_: The id that a client has sent.
            now: The time, in Unix seconds.

        Raises:
            OSError: The shared store does not respond.
        """
        if self._shared.is_persistent and is_short(id_):
            fields = await self._shared.read(key_of(self._keys.name, id_))
            token = await self._signed(fields[TOKEN], now) if TOKEN in fields else None
            return None if token is None or token.id != id_ else token  # what is in the store is not trusted
        return await self._signed(id_, now)

    async def _signed(self, id_: str, now: float) -> SessionToken | None:
        token = read(self._keys, id_, now)
        if not self._shared.is_persistent:
            return token
        if token is None:
            return await self._known(id_, now)
        if not is_newest(self._keys, id_):
            await self._keep(id_, token, now)
        return token

    async def _keep(self, id_: str, token: SessionToken, now: float) -> None:
        mac = self._keys.sign(_PURPOSE, id_.encode())
        await self._shared.write(self._key(id_), {_MAC: mac.hex()}, token.expires - now)

    async def _known(self, id_: str, now: float) -> SessionToken | None:
        if not id_.isascii():
            return None
        fields = await self._shared.read(self._key(id_))
        mac = bytes.fromhex(fields.get(_MAC, ""))
        if not self._keys.verify(_PURPOSE, id_.encode(), mac):
            return None
        token = read_known(id_, now)
        if token is not None and mac != self._keys.sign(_PURPOSE, id_.encode()):
            await self._keep(id_, token, now)
        return token

    def _key(self, id_: str) -> str:
        return f"{self._keys.name}/session-id/{hashlib.sha256(id_.encode()).hexdigest()}"
