"""A change that is delivered to subscribed clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

if TYPE_CHECKING:
    from .audience import Audience

ListName = Literal["tools", "prompts", "resources"]
"""The lists with a change notification in the protocol; templates belong to `resources`."""

LIST_NAMES: tuple[ListName, ...] = get_args(ListName)

LISTS = {f"{name}ListChanged": name for name in LIST_NAMES}
"""Members of the filter of `subscriptions/listen` that select a list."""

RESOURCES = "resourceSubscriptions"
"""Member of that filter with the URIs of resources."""


class Change:
    """A change of a list or a resource, or of a key of an extension's topic.

    Two changes are equal if the same subscription selects both, whatever their params and audiences. Of several equal
    ones in a row, only the latest is delivered.

    Args:
        kind: Name of the list; `resource`; or the notification of the topic, such as `notifications/jobs`.
        key: URI of the resource, or key under the topic; None for a list.
        audience: Recipients; all clients when None.
        params: Params of the notification of a topic; None for other changes and for subscriptions.
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
        """URI of the resource; None for other changes."""
        return self.key if self.kind == "resource" else None

    @property
    def is_lost(self) -> bool:
        """True for a change of a topic with unknown params, because messages were missed."""
        return self.key is not None and self.kind != "resource" and self.params is None

    def __eq__(self, other: object) -> bool:
        """Return True if the same subscription selects both."""
        return isinstance(other, Change) and other.kind == self.kind and other.key == self.key

    def __hash__(self) -> int:
        """Return the hash of what a subscription selects."""
        return hash((self.kind, self.key))

    def __or__(self, other: Change) -> Change:
        """Return a change with the params of the later one and the audiences of both."""
        mine, others = self.audience, other.audience
        both = None if mine is None or others is None else mine | others
        return Change(self.kind, self.key, both, other.params)
