"""A change, in the one shape in which it goes from the thread that made it to the clients that hear of it."""

from __future__ import annotations

from typing import Final, Literal, get_args

from .audience import Audience

ListName = Literal["tools", "prompts", "resources"]
"""The lists whose changes the protocol announces; templates belong to `resources`."""

LIST_NAMES: Final[tuple[ListName, ...]] = get_args(ListName)


class Change:
    """What has changed: one of the lists, or the data of a resource.

    Two are equal when clients are told the same of them, whoever is told: of several in a row one is enough.

    Args:
        kind: The list, or `resource`.
        uri: The resource, where it is one.
        audience: Whom it is for; everybody when None.
    """

    __slots__ = ("audience", "kind", "uri")

    # No dataclass: to make one takes as long as to import ten files, at each start of a server.
    def __init__(
        self, kind: ListName | Literal["resource"], uri: str | None = None, audience: Audience | None = None
    ) -> None:
        self.kind: Final = kind
        self.uri = uri
        self.audience = audience

    def __eq__(self, other: object) -> bool:
        """Say whether clients are told the same of both."""
        return isinstance(other, Change) and other.kind == self.kind and other.uri == self.uri

    def __hash__(self) -> int:
        """Tell changes apart by what clients are told."""
        return hash((self.kind, self.uri))

    def __or__(self, other: Change) -> Change:
        """Return the two as one: for those whom either of them is for."""
        mine, others = self.audience, other.audience
        return Change(self.kind, self.uri, None if mine is None or others is None else mine | others)
