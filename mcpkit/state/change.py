"""A change, in the one shape in which it goes from the thread that made it to the clients that hear of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from .audience import Audience

ListName = Literal["tools", "prompts", "resources"]
"""The lists with a change notification in the protocol; templates belong to `resources`."""

LIST_NAMES: tuple[ListName, ...] = get_args(ListName)

LISTS = {f"{name}ListChanged": name for name in LIST_NAMES}
"""The members of the filter of `subscriptions/listen` that select a list."""

RESOURCES = "resourceSubscriptions"
"""The member of it with the URIs of resources."""


class Change:
    """What has changed: one of the lists, the data of a resource, or what a topic of an extension tells of a key.

    Two are equal when whoever wants to hear of one wants to hear of the other, whatever is told, and to whom: of
    several in a row one is enough, the latest.

    Args:
        kind: The list; `resource`; or the notification that the topic tells by, such as `notifications/jobs`.
        key: The resource's URI, or the key under the topic; None for a list.
        audience: Whom it is for; everybody when None.
        params: What the notification of a topic says; None for all else, and for what somebody wants to hear of.
    """

    __slots__ = ("audience", "key", "kind", "params")

    # No dataclass: to make one takes as long as to import ten files, at each start of a server.
    def __init__(
        self,
        kind: str,
        key: str | None = None,
        audience: Audience | None = None,
        params: dict[str, Any] | None = None,
    ) -> None:
        self.kind = kind
        self.key = key
        self.audience = audience
        self.params = params

    @property
    def uri(self) -> str | None:
        """The resource that it is about, where it is about one."""
        return self.key if self.kind == "resource" else None

    @property
    def is_lost(self) -> bool:
        """Whether it is of a topic, and nobody knows any more what it told."""
        return self.key is not None and self.kind != "resource" and self.params is None

    def __eq__(self, other: object) -> bool:
        """Say whether who wants to hear of one wants to hear of the other."""
        return isinstance(other, Change) and other.kind == self.kind and other.key == self.key

    def __hash__(self) -> int:
        """Tell changes apart by what is listened to."""
        return hash((self.kind, self.key))

    def __or__(self, other: Change) -> Change:
        """Return the two as one: what the later one tells, for those whom either of them is for."""
        mine, others = self.audience, other.audience
        both = None if mine is None or others is None else mine | others
        return Change(self.kind, self.key, both, other.params)
