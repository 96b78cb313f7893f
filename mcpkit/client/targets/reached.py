"""Connection settings of a server, and the filter of its tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal


@dataclass(frozen=True)
class Process:
    """A process that communicates over its standard streams.

    Attributes:
        command: The program and its arguments.
        env: Its environment variables.
        cwd: The working directory; None for the client's own.
    """

    command: Sequence[str] = field(repr=False)  # which may hold secrets, as do the others that are not shown
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: Path | None = None


@dataclass(frozen=True)
class Remote:
    """A server at a URL.

    Attributes:
        url: The URL.
        headers: The headers of each request.
        token: The bearer token of each request, or None.
        way: The transport to use; None for any.
        logs_in: Whether the user logs in if the server requires it.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    token: str | None = field(default=None, repr=False)
    way: Literal["http", "sse"] | None = None
    logs_in: bool = False


@dataclass(frozen=True)
class Tools:
    """A filter of the tools of a server.

    Attributes:
        include: The names of the tools to include; None for all.
        exclude: The names of the tools to exclude, even if they are included.
    """

    include: frozenset[str] | None = None
    exclude: frozenset[str] = frozenset()

    def have(self, name: str) -> bool:
        """Return whether the filter lets a tool pass."""
        return name not in self.exclude and (self.include is None or name in self.include)


ALL_TOOLS: Final = Tools()


@dataclass(frozen=True)
class Configured:
    """A server of a configuration.

    Attributes:
        place: Its place in the configuration, for messages.
        reached: The connection settings.
        timeout: The time limit of a request in seconds; None if the configuration has none.
        tools: The filter of its tools.
    """

    place: str
    reached: Process | Remote
    timeout: float | None
    tools: Tools
