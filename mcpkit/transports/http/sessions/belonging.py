"""Ownership of sessions: adoption by the first authenticated principal, and the end after a revocation."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ....identity.principal import Principal
from .record import OWNER, QUESTION, Record, unreachable

if TYPE_CHECKING:
    from ....identity.revocation import Revocations
    from ....requests.call import Runtime


async def adopt(runtime: Runtime, record: Record, principal: Principal, owner: str) -> None:
    """Make a principal the owner of an anonymous session, unless another one was faster.

    Args:
        runtime: Shared objects of the server, with the store.
        record: The session.
        principal: The principal.
        owner: Its owner key; see `owner_of`.

    Raises:
        BusyError: The shared store does not respond.
    """
    key = f"{record.key}/{OWNER}"
    left = max(record.token.expires - time.time(), 1)
    try:
        if await runtime.storage.put(key, owner.encode(), version=None, ttl=left) is not None:
            holder = owner
            runtime.audit.emit("adoption", principal)
        else:
            stored = await runtime.storage.get(key)
            holder = "" if stored is None else stored.value.decode()  # it has just expired
    except OSError:
        raise unreachable() from None
    # Nobody's questions are no more: what is answered now is answered by somebody.
    record.changes.update(dict.fromkeys(name for name in record.fields if name.startswith(QUESTION)))
    record.changes[OWNER] = holder
    await record.save()


async def is_revoked(
    revocations: Revocations | None, record: Record, principal: Principal, opened: float
) -> bool:
    """Return True, and end a session, if its client's access was revoked after the session was opened.

    Args:
        revocations: Revocations of users' access; None if the server has none.
        record: The session.
        principal: Its client.
        opened: Time when it was opened, in Unix seconds.

    Raises:
        BusyError: The shared store does not respond.
    """
    if principal.id is None or revocations is None:
        return False
    try:
        at = await revocations.latest(principal.id)
    except OSError:
        raise unreachable() from None
    if opened > at:
        return False
    await record.end()
    return True
