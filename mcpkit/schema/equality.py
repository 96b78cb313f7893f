"""When two JSON values are the same."""

from __future__ import annotations

import sys
from typing import Any

from ..protocol.jsonrpc import is_array, is_object

LARGEST_HASH = sys.hash_info.modulus
"""Whole numbers up to this one have hashes of their own."""


def identity(value: Any) -> Any:
    """Return a hashable object that is equal for two JSON values that are equal in JSON Schema.

    JSON Schema 2020-12, "Instance Equality": 1 and 1.0 are equal, `true` and 1 are not. Clients cannot construct many
    values with the same hash: large numbers and tuples are converted to strings, and hashes of strings are randomized.
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
