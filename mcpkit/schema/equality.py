"""When two JSON values are the same."""

from __future__ import annotations

import sys
from typing import Any

from ..protocol.jsonrpc import is_array, is_object

LARGEST_HASH = sys.hash_info.modulus
"""Whole numbers up to this one have hashes of their own."""


def identity(value: Any) -> Any:
    """Return something hashable that is equal for two JSON values exactly when JSON Schema says they are.

    JSON Schema 2020-12, "Instance Equality": 1 and 1.0 are the same, `true` and 1 are not. Nobody can choose
    many values whose identities have one hash: those of numbers and tuples are known to all, those of texts to none.
    """
    if type(value) is str or value is None:
        return value
    if is_object(value) or is_array(value):
        return object, _identity_text(value)
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return hex(value).encode() if isinstance(value, int) and abs(value) > LARGEST_HASH else value


def _identity_text(value: Any) -> str:
    # What is within is put there as it is: quoted once more at each level, a few levels would be gigabytes.
    if is_object(value):
        return f"{{{','.join(sorted(f'{key!r}:{_identity_text(item)}' for key, item in value.items()))}}}"
    if is_array(value):
        return f"[{','.join(map(_identity_text, value))}]"
    return repr(identity(value))
