"""Protocols of the channels on which the server sends messages to a client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from .._utils.errors import ChallengeError
from ..identity.principal import Principal
from .client_requests import OpenQuestions, Sender

NO_HEADERS: Mapping[bytes, bytes] = MappingProxyType({})
"""Stands for the headers of a request on a transport without headers."""


class StandaloneChannel(Sender, Protocol):
    """Channel for messages to a client that belong to no request of it, such as the GET stream of a session."""

    @property
    def questions(self) -> OpenQuestions | None:
        """Open requests of the server to the client on this channel."""
        ...

    @property
    def is_open(self) -> bool:
        """True if the client receives messages now."""
        ...

    @property
    def has_ended(self) -> bool:
        """True if the client will receive no more messages."""
        ...

    def attend(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function when the channel opens, or may have opened.

        Args:
            changed: The function.

        Returns:
            A function that ends it.
        """
        ...


class Channel(Sender, Protocol):
    """Channel on which the server sends the messages that belong to a request."""

    @property
    def standalone(self) -> StandaloneChannel | None:
        """Channel for messages that belong to no request, such as progress of a task; None if there is none."""
        ...

    @property
    def questions(self) -> OpenQuestions | None:
        """Open requests of the server to the client; None if the transport has no server requests."""
        ...

    @property
    def request_headers(self) -> Mapping[bytes, bytes]:
        """Headers of the HTTP request, with lower-case names; empty on other transports."""
        ...

    @property
    def principal(self) -> Principal:
        """Principal that sent the request."""
        ...

    @property
    def caller(self) -> str | None:
        """Identifier of the client's address, for limits per client; None if it is the only client, or unknown."""
        ...

    @property
    def is_local(self) -> bool:
        """True if the transport has no access tokens, because the user who started the process is the client."""
        ...

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return the error that makes the client authenticate or request more scopes.

        None if that is impossible: the response has begun, or the transport has no access tokens.

        Args:
            scopes: All scopes that the request needs.
            revision: Protocol version of the request.
        """
        ...

    def defer_response(self) -> None:
        """Do not start an event stream after a delay: the handler may still have to send a challenge."""
        ...

    def close(self) -> Awaitable[None]:
        """Close the connection, if the client can reconnect to receive the rest."""
        ...
