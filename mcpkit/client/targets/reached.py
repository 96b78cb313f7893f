"""How a server is reached, and what of it is wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal


@dataclass(frozen=True)
class Process:
    """A process that speaks over its standard streams.

    Attributes:
        command: The program, and its arguments.
        env: Variables of its environment.
        cwd: The folder in which it starts; None for the client's own.
    """

    command: Sequence[str] = field(repr=False)  # which may hold secrets, as do the others that are not shown
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path | None = None


@dataclass(frozen=True)
class Remote:
    """A server at a URL.

    Attributes:
        url: The URL.
        headers: Headers of each request.
        token: The bearer token of each request, or None.
        way: The transport that is asked for; None where any may be tried.
        logs_in: Whether the user is to log in where the server wants to know who asks.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    token: str | None = field(default=None, repr=False)
    way: Literal["http", "sse"] | None = None
    logs_in: bool = False


@dataclass(frozen=True)
class Tools:
    """Which tools of a server are wanted.

    Attributes:
        include: The names of those that are; None for all.
        exclude: The names of those that are not, even if they are included.
    """

    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()

    def have(self, name: str) -> bool:
        """Say whether a tool is among them."""
        return name not in self.exclude and (self.include is None or name in self.include)


ALL_TOOLS: Final = Tools()


@dataclass(frozen=True)
class Configured:
    """A server of a configuration.

    Attributes:
        place: Where it stands, for messages.
        reached: How it is reached.
        timeout: Seconds that a request may take; None where nothing is said.
        tools: The tools that are wanted.
    """

    place: str
    reached: Process | Remote
    timeout: float | None
    tools: Tools
