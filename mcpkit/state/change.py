"""A change, in the one shape in which it goes from the thread that made it to the clients that hear of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final, Literal, get_args

from .audience import Audience

ListName = Literal["tools", "prompts", "resources"]
"""The lists whose changes the protocol announces; templates belong to `resources`."""

LIST_NAMES: Final[tuple[ListName, ...]] = get_args(ListName)


@dataclass(frozen=True, slots=True)
class Change:
    """What has changed: one of the lists, or the data of a resource.

    Two are equal when clients are told the same of them, whoever is told: of several in a row one is enough.

    Args:
        kind: The list, or `resource`.
        uri: The resource, where it is one.
        audience: Whom it is for; everybody when None.
    """

    kind: ListName | Literal["resource"]
    uri: str | None = None
    audience: Audience | None = field(default=None, compare=False)

    def __or__(self, other: Change) -> Change:
        """Return the two as one: for those whom either of them is for."""
        if self.audience is None or other.audience is None:
            return replace(self, audience=None)
        return replace(self, audience=self.audience | other.audience)
