"""The server that is looked at, and what is known of it so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from ....protocol.jsonrpc import Json, is_object
from ...exit_status import Status
from .conversation import Answer, Conversation

if TYPE_CHECKING:
    from ....client.client import Client

T = TypeVar("T")


@dataclass
class Patient:
    """The server that is looked at.

    Attributes:
        patience: Seconds that it has for each answer.
        first_patience: Seconds that it has for the first one.
        wants_calls: Whether tools may be called.
        opened: The result of `initialize` under the newest revision that has it; None where there is none.
        discovered: The result of `server/discover`; None where there is none.
        revisions: What it speaks.
        conversation: By which it is asked from here on; None where there is no way.
        listener: By which it is asked in the stateless era; None where it does not speak that.
        lists: What it lists, by method.
        paged: The methods whose lists have several pages.
        looped: The methods whose lists have no end.
        is_divided: Whether requests of a session reach instances that do not know it.
        client: Connects a client of mcpkit; None where there is none.
        has_buffered_events: Whether something keeps events back.
        status: The status that the command ends with; None where findings decide.
    """

    patience: float
    first_patience: float
    wants_calls: bool
    opened: Json | None = None
    discovered: Json | None = None
    revisions: list[str] = field(default_factory=list[str])
    conversation: Conversation | None = None
    listener: Conversation | None = None
    lists: dict[str, list[Json]] = field(default_factory=dict[str, list[Json]])
    paged: set[str] = field(default_factory=set[str])
    looped: set[str] = field(default_factory=set[str])
    is_divided: bool = False
    client: Callable[[], AbstractAsyncContextManager[Client]] | None = None
    has_buffered_events: bool = False
    status: Status | None = None

    @property
    def is_stateless(self) -> bool:
        """Whether it speaks the stateless era alone."""
        return self.opened is None

    @property
    def capabilities(self) -> Json:
        """What it declares."""
        result = self.discovered if self.opened is None else self.opened
        capabilities = None if result is None else result.get("capabilities")
        return capabilities if is_object(capabilities) else {}

    def has(self, capability: str, part: str) -> bool:
        """Say whether it declares a part of a capability, such as `listChanged` of `tools`."""
        declared = self.capabilities.get(capability)
        return is_object(declared) and declared.get(part) is True

    async def ask(self, method: str, params: Json | None = None) -> Answer:
        """Ask it."""
        assert self.conversation is not None, "the checks stop if the server cannot be reached"
        return await self.conversation.ask(method, params)

    def now(self) -> float:
        """Return a time in seconds, to be compared with another."""
        return time.monotonic()


def there(value: T | None) -> T:
    """Return what is there by now, as the step before has seen to."""
    assert value is not None, "an earlier check stops the run if this is missing"
    return value
