"""What a handler asks the client, alike in both eras: the part of `Context` that waits for answers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast, overload

from pydantic_core import from_json, to_json

from ..errors import AnswerError, MissingCapabilityError
from ..protocol import jsonrpc
from ..protocol.capabilities import tree
from ..protocol.revisions import ASKING, CLIENT_METHODS
from ..running.execution import finish_awaitable

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..component import Component
    from ..context import Context
    from .questions import Answer, Question, Root, Sampled, SampleOptions
    from .rounds import Rounds

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

_POLLS: Final = (0.1, 0.4, 1.0, *[2.0] * 9)
"""Seconds between looks at whether a page has been dealt with, before the user is asked again.

Together less than what clients wait for an answer, and not much less, as they give up after 10 rounds or so.
"""


class Asking:
    """The questions of a `Context`.

    In the handshake era a question is a request to the client, on the stream of the call. In the stateless
    era the call is answered with the question and made again with the answer: the handler runs from the
    top, and what was answered is returned at once. So it must ask the same in each round, and what it does
    before a question is done again unless `once` does it (basic/patterns/mrtr).
    """

    __slots__ = ()

    @overload
    async def ask(self, first: Question[A], /) -> tuple[A]: ...
    @overload
    async def ask(self, first: Question[A], second: Question[B], /) -> tuple[A, B]: ...
    @overload
    async def ask(self, first: Question[A], second: Question[B], third: Question[C], /) -> tuple[A, B, C]: ...
    @overload
    async def ask(self, *questions: Question[Any]) -> tuple[Any, ...]: ...
    async def ask(self, *questions: Question[Any]) -> tuple[Any, ...]:
        """Ask the client several things at once.

        Args:
            questions: `Elicit`, `ElicitUrl`, `Sample` and `ListRoots`, in any number.

        Returns:
            The answers, in the order of the questions.

        Raises:
            MissingCapabilityError: The client cannot be asked this; let it pass, as the client is told.
            AnswerError: The client refuses, takes too long, or answers with something else.
            RuntimeError: The call has ended, or its method has no place for questions.
        """
        ctx = cast("Context[Any]", self)
        ctx._check_open()
        is_askable = ctx.era == "stateless" or ctx._channel.questions is not None
        for question in questions:
            if not is_askable or ctx.revision not in CLIENT_METHODS[question.method]:
                raise MissingCapabilityError(question.capabilities, tree(question.capabilities))
            ctx.client.require(*question.capabilities)
        if ctx.era == "stateless":
            return tuple(_rounds(ctx).ask(questions))
        open_questions = ctx._channel.questions
        assert open_questions is not None
        seconds = ctx.server.question_timeout
        async with ctx._paused():
            return tuple(await open_questions.ask(questions, ctx.revision, ctx._channel, seconds))

    @overload
    async def elicit(self, message: str, type_: type[T], *, key: str | None = None) -> Answer[T]: ...
    @overload
    async def elicit(self, message: str, type_: Any, *, key: str | None = None) -> Answer[Any]: ...
    async def elicit(self, message: str, type_: Any, *, key: str | None = None) -> Answer[Any]:
        """Ask the user to fill in a form (client/elicitation).

        Args:
            message: Why it is asked, for the user.
            type_: What is asked for: a pydantic model, dataclass, TypedDict or NamedTuple with fields of text,
                number, boolean, date or choice; or one such type, or a list of choices. No secrets: for
                those, see `elicit_url`.
            key: See `Question`.

        Returns:
            The user's decision, true when accepted; `value` is what was entered.

        Raises:
            TypeError: The type cannot be asked for.
            Exception: As `ask`.
        """
        from .questions import Elicit

        answer: Answer[Any] = (await self.ask(Elicit(message, type_, key=key)))[0]
        return answer

    async def elicit_url(
        self,
        message: str,
        url: str,
        *,
        done: Callable[[], bool | Awaitable[bool]] | None = None,
        key: str | None = None,
    ) -> Answer[None]:
        """Ask the user to visit a page, for what must not pass through the client (client/elicitation, "URL Mode").

        Args:
            message: Why, for the user.
            url: Where; http or https.
            done: Says whether the user has done there what is needed: an accept is consent, not completion.
                While it says no, the user is asked again, for `question_timeout` seconds from the first accept
                on. None asks once.
            key: See `Question`.

        Returns:
            The user's decision; with `done`, an accept means that it is done.

        Raises:
            ValueError: The URL is none.
            AnswerError: `done` still says no when the time is over.
            Exception: As `ask`.
        """
        from .questions import ElicitUrl

        ctx = cast("Context[Any]", self)
        rounds = _rounds(ctx)
        key = key or rounds.next_key()
        id_ = os.urandom(8).hex() if ctx.era == "handshake" else None
        while True:
            (answer,) = await self.ask(ElicitUrl(message, url, key=key, elicitation_id=id_))
            if done is None or not answer:
                return answer
            until = rounds.until(key)
            for seconds in (0.0, *_POLLS):
                async with ctx._paused():
                    await asyncio.sleep(seconds)
                if await finish_awaitable(done()):
                    rounds.settle(key)
                    if id_ is not None:
                        self._tell_completed(id_)
                    return answer
                if time.time() >= until:
                    raise AnswerError(
                        "The user agreed to visit the page, but what is needed was not done there within "
                        f"{ctx.server.question_timeout:g} s"
                    )
            rounds.forget(key)

    def _tell_completed(self, elicitation_id: str) -> None:
        from .questions import ELICITATION_IDS

        ctx = cast("Context[Any]", self)
        if ctx.revision == ELICITATION_IDS:
            params = {"elicitationId": elicitation_id}
            ctx._channel.send(jsonrpc.notification("notifications/elicitation/complete", params))

    async def sample(
        self, messages: str | Sequence[Any], *, max_tokens: int, **options: Unpack[SampleOptions]
    ) -> Sampled:
        """Have the client's model say something (client/sampling; deprecated since 2026-07-28).

        Args:
            messages: A text, or messages as `user(...)` and `assistant(...)` make them.
            max_tokens: The most tokens that it may say.
            options: See `SampleOptions`.

        Returns:
            What it said; `text` is the text of it.

        Raises:
            Exception: As `ask`.
        """
        from .questions import Sample

        (answer,) = await self.ask(Sample(messages, max_tokens=max_tokens, **options))
        return answer

    async def list_roots(self, *, key: str | None = None) -> list[Root]:
        """Ask for the client's roots (client/roots; deprecated since 2026-07-28).

        Args:
            key: See `Question`.

        Raises:
            Exception: As `ask`.
        """
        from .questions import ListRoots

        (answer,) = await self.ask(ListRoots(key=key))
        return answer

    async def once(self, key: str, function: Callable[[], T | Awaitable[T]]) -> T:
        """Do something that must not be done again in each round, such as an order: at least once.

        Args:
            key: Its name in this request.
            function: Does it, and returns a JSON value. The client carries that to the next round, and can
                read it.

        Returns:
            What the function has returned, in this round or an earlier one.

        Raises:
            ValueError: The value has no JSON form.
            Exception: Whatever the function raises.
        """
        ctx = cast("Context[Any]", self)
        ctx._check_open()
        rounds = _rounds(ctx)
        known = rounds.remembered(key)
        if known is None:
            value = await finish_awaitable(function())
            known = (from_json(to_json(value)),)
            rounds.remember(key, known[0])
        return cast("T", known[0])

    def remembered(self, key: str) -> tuple[Any] | None:
        """Return what `once` has returned under a key, alone in a tuple; None where it has not been called."""
        ctx = cast("Context[Any]", self)
        ctx._check_open()
        return _rounds(ctx).remembered(key)

    @property
    def call_id(self) -> str:
        """A text that is the same in all rounds of this request, and in no other request: for idempotency."""
        return _rounds(cast("Context[Any]", self)).call_id


async def check_rounds(ctx: Context[Any], component: Component) -> None:
    """Take over what a client brings from an earlier round, or refuse it before the handler runs.

    Args:
        ctx: The request.
        component: Whose handler is about to run.

    Raises:
        MalformedError: It is malformed, forged, expired, of another request, or used up.
        BusyError: Whether it has been used up cannot be known now.
    """
    if ctx.era == "stateless":
        rounds = _rounds(ctx)
        if component.is_single_use:
            await rounds.redeem()


def _rounds(ctx: Context[Any]) -> Rounds:
    if ctx._rounds is None:
        from .rounds import Rounds

        if ctx.era == "stateless" and ctx.method not in ASKING:
            raise RuntimeError(
                f"{ctx.method} has no place for questions: only {', '.join(sorted(ASKING))} have"
            )
        ctx._rounds = Rounds(ctx, ctx.server.keys)
    return ctx._rounds
