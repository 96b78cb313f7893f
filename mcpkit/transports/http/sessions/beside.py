"""Messages of a session to its client that belong to no request, such as progress of a task."""

from __future__ import annotations

from collections.abc import Callable

from ....requests.channel import OpenQuestions
from .telling import Telling


class Beside:
    """The newest GET stream of a session, in any process; see `StandaloneChannel`.

    Args:
        questions: Open requests to the client.
        telling: Listening streams of the session.

    Attributes:
        questions: Open requests to the client.
        has_ended: Whether the session has ended.
    """

    __slots__ = ("_telling", "has_ended", "questions")

    def __init__(self, questions: OpenQuestions, telling: Telling) -> None:
        self.questions: OpenQuestions | None = questions
        self.has_ended = False
        self._telling = telling

    @property
    def is_open(self) -> bool:
        """True if there is such a stream, as far as this process knows."""
        return self._telling.is_heard

    def attend(self, changed: Callable[[], None]) -> Callable[[], None]:
        """Call a function when there is one. Return a function that ends it."""
        return self._telling.attend(changed)

    def send(self, message: bytes) -> None:
        """Send a message; it is lost if no stream is open."""
        self._telling.say(message)

    async def ready(self) -> None:
        """Wait until the client keeps up, if its stream is in this process."""
        streams = self._telling.streams
        if streams and (exchange := streams[-1].exchange) is not None:
            await exchange.ready()
