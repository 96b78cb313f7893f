"""Requests of one call to its client, and its side effects with `once`, in the handshake era."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from ..protocol.types import Json
from .elicitation import DERIVED

if TYPE_CHECKING:
    from .elicitation import Question
    from .runtime import BaseCall


class Dialogue:
    """Requests of one call to its client, and its side effects with `once`.

    The requests are JSON-RPC requests to the client, on the channel of the call. There is one round, and state from an
    earlier round is ignored. `Rounds` implements the stateless era.

    Args:
        call: The call.
        paused: Returns a context manager that stops the clock of the call.

    Attributes:
        attempt: Number of the run of the function; 1 without a task.
        has_done: Whether a side effect has run in this round.
        has_rounds: Whether the call is answered with its requests, and repeated with the answers.
        call_id: Id that is the same in all rounds of a request.
        task_id: Id of the task; None if the call is not the run of a task.
    """

    has_rounds: ClassVar[bool] = False
    attempt: int = 1
    task_id: str | None = None

    def __init__(
        self, call: BaseCall, paused: Callable[[], AbstractAsyncContextManager[object]] = nullcontext
    ) -> None:
        self._call = call
        self._paused = paused
        self.call_id = os.urandom(12).hex()
        self._once: Json = {}
        self._until: dict[str, float] = {}  # key: when the time for what a page is for is over
        self._used: set[tuple[str, str]] = set()
        self._count = 0
        self.has_done = False

    # The run of the handler

    def begin(self) -> None:
        """Reset the used keys at the start of the handler, which a middleware may run twice."""
        self._used.clear()

    def use(self, what: str, key: str) -> None:
        """Record that a key is used.

        Args:
            what: Its use, `question` or `ctx.once`. The two have separate keys.
            key: The key.

        Raises:
            ValueError: The key was used before in this run.
        """
        if (what, key) in self._used:
            raise ValueError(
                f"this call already has a {what} with the key {key!r}. Give each its own key, "
                f'in a loop for example f"{key}-{{number}}"'
            )
        self._used.add((what, key))

    def release(self, what: str, key: str) -> None:
        """Release a key that was not used after all."""
        self._used.discard((what, key))

    def name(self, key: str | None) -> str:
        """Return the name of a request to the client: its key, or otherwise its index.

        Raises:
            ValueError: The key was used before in this run.
        """
        if key is None:
            self._count += 1
            return f"{DERIVED}{self._count}"
        self.use("question", key)
        return key

    def page_id(self, name: str) -> str:
        """Return an id for the page of a request, the same in all runs and unique to the request."""
        import hashlib

        return hashlib.sha256(f"{self.call_id} {name}".encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def remembered(self, key: str) -> tuple[Any] | None:
        """Return the stored value of a side effect, as a tuple of one; None if there is none."""
        return (self._once[key],) if key in self._once else None

    def remember(self, key: str, value: Any) -> None:
        """Store the value of a side effect, a JSON value, for later rounds."""
        self._once[key] = value
        self.has_done = True

    async def keep(self) -> None:
        """Persist the stored values, if the function may run again in another process."""

    def until(self, key: str, seconds: float) -> float:
        """Return the deadline for the step on a page, in Unix seconds. The first call sets it."""
        return self._until.setdefault(key, time.time() + seconds)

    def settle(self, key: str) -> None:
        """Record that the step on a page is complete."""
        self._until.pop(key, None)

    def check_settled(self) -> None:
        """End the round if the handler has returned in spite of an open request.

        Raises:
            InputRequired: An answer of the client is missing.
        """

    # Asking

    async def ask(
        self, questions: Sequence[Question[Any]], requests: Sequence[Json], names: Sequence[str]
    ) -> list[Any]:
        """Return the answers to requests that are sent at once. The clock of the call stops until then.

        Args:
            questions: The requests.
            requests: Their JSON.
            names: Their names.

        Raises:
            InputRequired: Some answers are missing, and come with the next round.
            ClientResponseError: The client does not respond, refuses, or its response is invalid.
            ProtocolError: An answer is malformed; the handler sends another request under a name than before; or too
                many requests to the client are open.
        """
        channel = self._call.channel
        assert channel.questions is not None, "there is a way to the client"
        seconds = self._call.runtime.timeouts.client_request
        async with self._paused():
            return await channel.questions.ask(questions, requests, channel, seconds)

    def forget(self, key: str) -> None:
        """Discard an answer, so that the request is sent again."""

    async def redeem(self) -> None:
        """Mark the state of the earlier round as used, so that no other request can continue from it.

        Raises:
            MalformedError: The state was used before, or this server cannot check it.
            BusyError: The shared store does not respond.
        """

    def result(self) -> Json | None:
        """Return the result that ends a round; None without rounds.

        Raises:
            ValueError: The state is too large.
        """
        return None
