"""The form of calls in version 1, and their native form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shape:
    """A call: its parameters in version 1, and their native form.

    Attributes:
        native: The native function.
        parameters: The names in version 1, in the order of positional arguments.
        first: Native positional arguments, in order.
        renamed: Parameters with another native name.
        dropped: Parameters without a native counterpart.
        encoded: Parameters that are base64 in version 1, and bytes natively.
        urls: Parameters that may be an `AnyUrl` in version 1, and are strings natively.
    """

    native: str
    parameters: tuple[str, ...]
    first: tuple[str, ...] = ()
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    dropped: frozenset[str] = frozenset()
    encoded: frozenset[str] = frozenset()
    urls: frozenset[str] = frozenset()
