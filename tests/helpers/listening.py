"""What the tests of changes and of those who make them have in common."""

from __future__ import annotations

from collections.abc import Callable

from mcpkit import Server
from mcpkit.engine.subscriptions.hub import Changes
from mcpkit.state.change import Change
from mcpkit.state.principal import ANYONE


class Ear:
    """Writes down what it hears.

    Args:
        then: Called one for each change, the last of them first.
    """

    principal = ANYONE

    def __init__(self, *then: Callable[[], None]) -> None:
        self.heard: list[Change] = []
        self.then = list(then)

    def changed(self, change: Change) -> None:
        self.heard.append(change)
        if self.then:
            self.then.pop()()

    @property
    def uris(self) -> list[str | None]:
        return [change.uri for change in self.heard]


def updated(uri: str) -> Change:
    return Change("resource", uri)


def hearing(server: Server) -> int:
    """Return in how many event loops somebody hears of the server's changes."""
    return sum(
        isinstance(getattr(each, "__self__", None), Changes)
        for each in server.catalog.listeners._all.values()
    )
