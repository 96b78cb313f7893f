"""What a call of version 1 looks like, and what it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shape:
    """A call: its parameters in version 1, and what becomes of each.

    Attributes:
        native: What is called natively.
        parameters: The names of version 1, in the order in which they may be given by position.
        first: Those that come first, by position, natively; in that order.
        renamed: Those that go by another name.
        dropped: Those that mean nothing natively.
        encoded: Those that are base64 in version 1, and bytes natively.
        urls: Those that may be an `AnyUrl` in version 1, and are texts natively.
    """

    native: str
    parameters: tuple[str, ...]
    first: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    dropped: frozenset[str] = frozenset()
    encoded: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()
