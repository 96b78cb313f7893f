"""Whose a session is: adopted by the first who says who they are, ended where its principal was sent away."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from ....state.principal import Principal
from .record import OWNER, QUESTION, Record, unreachable

if TYPE_CHECKING:
    from ....calls.runtime import Runtime
    from ....state.revocations import Revocations


async def adopt(runtime: Runtime, record: Record, principal: Principal, owner: str) -> None:
    """Let somebody have a session that was nobody's, unless somebody else has been faster.

    Args:
        runtime: What has the store.
        record: The session.
        principal: Who.
        owner: What stands for them; see `owner_of`.

    Raises:
        BusyError: The shared store does not answer.
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
    """Say whether a session was opened before its client was sent away; then it ends.

    Args:
        revocations: Who has been sent away; None where nobody can be.
        record: The session.
        principal: Its client.
        opened: When it was opened, in Unix seconds.

    Raises:
        BusyError: The shared store does not answer.
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
