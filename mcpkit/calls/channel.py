"""What a request came with, and where the messages that belong to it leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from ..common.errors import ChallengeError
from ..state.principal import Principal
from .asking.pending import OpenQuestions, Sender

NO_HEADERS: Mapping[bytes, bytes] = MappingProxyType({})
"""Stands for the headers of a request where there are none."""


class StandaloneChannel(Sender, Protocol):
    """Where messages to a client leave that belong to no request of its."""

    @property
    def questions(self) -> OpenQuestions | None:
        """What it is asked by requests of the server's."""
        ...

    @property
    def is_open(self) -> bool:
        """Whether it hears them now."""
        ...

    @property
    def has_ended(self) -> bool:
        """Whether it will never hear any more."""
        ...

    def attend(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function when it begins to hear them, or where that may have happened; return what ends this."""
        ...


class Channel(Sender, Protocol):
    """Where the messages that belong to a request leave."""

    @property
    def standalone(self) -> StandaloneChannel | None:
        """Where its client hears what belongs to no request, such as progress of a task; None for nowhere."""
        ...

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

    @property
    def is_local(self) -> bool:
        """Whether there are no access tokens here: whoever has started the process may do what it can."""
        ...

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return how whoever asks is told to come back with these scopes, or to say who they are.

        None where that cannot be told: something has been sent already, or there are no access tokens here.

        Args:
            scopes: All that the request needs.
            revision: The one that it is served in.
        """
        ...

    def defer_response(self) -> None:
        """Begin no answer just because time passes: what is served may still have to challenge whoever asks."""
        ...

    def close(self) -> Awaitable[None]:
        """End the connection, where the client can come back to hear the rest."""
        ...
