"""How a call asks by requests of the server's on its channel, where it waits for the answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .dialogue import Dialogue

if TYPE_CHECKING:
    from ..call import Call
    from .questions import Question


class ByRequests(Dialogue):
    """The questions of a call that are requests to the client, on the channel of the call; it has one round.

    What a client may have brought as from an earlier round means nothing here.

    Args:
        call: The call.
    """

    def __init__(self, call: Call) -> None:
        super().__init__()
        self._call = call

    @property
    def can_ask(self) -> bool:
        """Whether the client hears requests on the channel."""
        return self._call.channel.questions is not None

    async def ask(
        self, questions: Sequence[Question[Any]], requests: Sequence[dict[str, Any]], names: Sequence[str]
    ) -> list[Any]:
        """Ask all of them at once, and wait for the answers; meanwhile the call's clock stands still."""
        call = self._call
        pending = call.channel.questions
        assert pending is not None
        async with call.paused():
            return await pending.ask(questions, requests, call.channel, call.runtime.question_timeout)
