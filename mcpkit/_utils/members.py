"""Objects without some of their members."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def without(members: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a copy of an object that has none of the named members."""
    return {name: value for name, value in members.items() if name not in names}
