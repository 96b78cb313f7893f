"""Digests that identify the owner of a session, a task or a state of a request."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from .principal import Principal


def owner_of(principal: Principal) -> str | None:
    """Return a digest of a principal's id and client, which other users may see.

    It does not depend on scopes, so the owner stays the same with the next access token.

    Returns:
        32 characters; None for an anonymous principal.
    """
    return None if principal.id is None else _owner(principal.id, principal.client_id)


@lru_cache(1024)
def _owner(id_: str, client_id: str | None) -> str:
    """Return the same, cached, because each request of a session calls it."""
    whose = _bytes(id_)
    if client_id is not None:
        whose += b"\xff" + _bytes(client_id)  # which is in no text
    return hashlib.sha256(whose).hexdigest()[:32]


def digest_of(id_: str) -> str:
    """Return a digest of a principal's id, with any client, for keys in a shared storage."""
    return hashlib.sha256(_bytes(id_)).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
