"""Task ids: unguessable, and signed for their owner, so that they are checked without the storage."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from ..protocol.types import Json
from ..storage.keys import Keys

_RANDOM = 16
_LENGTH = 64
_PURPOSE = "task id 1"

IDEMPOTENCY_KEY = "mcpkit/idempotencyKey"
"""Member of a request's `_meta`; a client that repeats a request with the same key gets the same task."""

MAX_KEY = 200
"""Characters of an idempotency key."""


def new_id(keys: Keys, owner: str) -> str:
    """Return a new id for a task of an owner, with 64 characters."""
    return _id(keys, owner, os.urandom(_RANDOM))


def same_id(keys: Keys, owner: str, whose: str, tool: str, arguments: Json, key: str) -> str:
    """Return the id for an idempotency key: the same for the same request with the same key.

    Args:
        keys: Keys for the signature.
        owner: Owner of the task; empty for an anonymous client.
        whose: Client identifier, as far as known: unrelated clients may use the same key.
        tool: Name of the tool.
        arguments: Arguments of the call.
        key: The idempotency key.
    """
    said = json.dumps([whose, tool, arguments, key], sort_keys=True, separators=(",", ":"))
    return _id(keys, owner, keys.sign("task idempotency 1", hashlib.sha256(said.encode()).digest())[:_RANDOM])


def is_of(keys: Keys, owner: str, id_: str) -> bool:
    """Return True if an id was created for this owner, under any of the secrets."""
    if len(id_) != _LENGTH or not id_.isascii():
        return False
    try:
        packed = urlsafe_b64decode(id_)
    except ValueError:
        return False
    random, mac = packed[:_RANDOM], packed[_RANDOM:]
    # Decoding skips what is not of the alphabet; encoding shows it.
    return urlsafe_b64encode(packed).decode() == id_ and keys.verify(_PURPOSE, _signed(owner, random), mac)


def _id(keys: Keys, owner: str, random: bytes) -> str:
    random = (
        bytes([random[0] & 0x7F]) + random[1:]
    )  # so that no id begins with a hyphen, as options of commands do
    return urlsafe_b64encode(random + keys.sign(_PURPOSE, _signed(owner, random))).decode()


def _signed(owner: str, random: bytes) -> bytes:
    return random + owner.encode()
