"""Whose something is that requests come back to: a session, a pipe, a state that a client carries."""

from __future__ import annotations

import hashlib
from functools import lru_cache

from .principal import Principal


def owner_of(principal: Principal) -> str | None:
    """Return what stands for who asks, by which client: short, and no name, as others may read it.

    It is the same whatever has been granted, so that what is theirs stays theirs with the next access token.

    Returns:
        32 characters; None for nobody.
    """
    return None if principal.id is None else _owner(principal.id, principal.client_id)


@lru_cache(1024)
def _owner(id_: str, client_id: str | None) -> str:
    """Return the same, kept for those who ask again: each request of a session comes by here."""
    whose = _bytes(id_)
    if client_id is not None:
        whose += b"\xff" + _bytes(client_id)  # which is in no text
    return hashlib.sha256(whose).hexdigest()[:32]


def digest_of(id_: str) -> str:
    """Return what stands for a principal, by whichever client, in what processes share."""
    return hashlib.sha256(_bytes(id_)).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
