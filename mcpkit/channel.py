"""What a request came with, and where the messages that belong to it leave."""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from .asking.open_questions import OpenQuestions
    from .principal import Principal

NO_HEADERS: Final[Mapping[bytes, bytes]] = MappingProxyType({})
"""Stands for the headers of a request where there are none."""


class Channel(Protocol):
    """Where the messages that belong to a request leave."""

    @property
    def questions(self) -> OpenQuestions | None:
        """What the client is asked by requests of the server's; None where it cannot be."""
        ...

    @property
    def request_headers(self) -> Mapping[bytes, bytes]:
        """The headers of the HTTP request by name in lower case; empty where there is none."""
        ...

    @property
    def principal(self) -> Principal:
        """Who has sent the request."""
        ...

    @property
    def caller(self) -> str | None:
        """What tells its client from others that share the server; None where it is alone, or nothing does."""
        ...

    def send(self, message: bytes) -> None:
        """Send one JSON message; in the event loop's thread, without blocking."""
        ...

    def ready(self) -> Awaitable[None]:
        """Wait until the reader on the other side keeps up."""
        ...

    def close(self) -> Awaitable[None]:
        """End the connection, where the client can come back to hear the rest."""
        ...


class RequestHeaders(Mapping[str, str]):
    """The headers of an HTTP request.

    Args:
        raw: Their values by name in lower case.
    """

    __slots__ = ("_raw",)

    def __init__(self, raw: Mapping[bytes, bytes]) -> None:
        self._raw = raw

    def __getitem__(self, name: str) -> str:
        """Return the value of a header, whose name may be in any case."""
        return self._raw[name.lower().encode("latin-1", "replace")].decode("latin-1")

    def __iter__(self) -> Iterator[str]:
        """Go through the names, in lower case."""
        return (name.decode("latin-1") for name in self._raw)

    def __len__(self) -> int:
        """Count the headers."""
        return len(self._raw)

    def __repr__(self) -> str:
        """Show the names alone: there are secrets among the values."""
        return f"<RequestHeaders {', '.join(self)}>"
