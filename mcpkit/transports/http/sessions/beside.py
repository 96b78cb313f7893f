"""What a session says to its client that belongs to no request, such as progress of a task."""

from __future__ import annotations

from collections.abc import Callable

from ....calls.asking.pending import OpenQuestions
from .telling import Telling


class Beside:
    """The newest stream of a session that a GET has opened, in whichever process; see `StandaloneChannel`.

    Args:
        questions: What its client is asked.
        telling: Its streams.

    Attributes:
        questions: What its client is asked.
        has_ended: Whether the session has.
    """

    __slots__ = ("_telling", "has_ended", "questions")

    def __init__(self, questions: OpenQuestions, telling: Telling) -> None:
        self.questions: OpenQuestions | None = questions
        self.has_ended = False
        self._telling = telling

    @property
    def is_open(self) -> bool:
        """Whether there is such a stream, as far as is known here."""
        return self._telling.is_heard

    def attend(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function when there is one; return what ends this."""
        return self._telling.attend(changed)

    def send(self, message: bytes) -> None:
        """Say a message; it is lost where nobody listens."""
        self._telling.say(message)

    async def ready(self) -> None:
        """Wait until the client keeps up, where it listens here."""
        streams = self._telling.streams
        if streams and (exchange := streams[-1].exchange) is not None:
            await exchange.ready()
