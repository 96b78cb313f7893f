"""Whose something is that requests come back to: a session, a pipe, a state that a client carries."""

from __future__ import annotations

import hashlib

from .principal import Principal


def owner_of(principal: Principal) -> str | None:
    """Return what stands for who asks, by which client: short, and no name, as others may read it.

    It is the same whatever has been granted, so that what is theirs stays theirs with the next access token.

    Returns:
        32 characters; None for nobody.
    """
    if principal.id is None:
        return None
    whose = _bytes(principal.id)
    if principal.client_id is not None:
        whose += b"\xff" + _bytes(principal.client_id)  # which is in no text
    return hashlib.sha256(whose).hexdigest()[:32]


def digest_of(id_: str) -> str:
    """Return what stands for a principal, by whichever client, in what processes share."""
    return hashlib.sha256(_bytes(id_)).hexdigest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
