"""Requests of a handler to the client, alike in both eras: the part of `Context` that waits for answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, overload

from pydantic_core import from_json, to_json

from .._utils.errors import ClientResponseError, MissingCapabilityError
from ..content.lazy import LeaveLoop
from ..execution.threads import finish_awaitable
from ..protocol import jsonrpc
from ..protocol.capabilities import tree
from ..protocol.revisions import CLIENT_METHODS, ELICITATION_IDS
from ..protocol.types import Json
from .call import CallContext

if TYPE_CHECKING:
    from typing_extensions import TypeForm, Unpack

    from .call import Call
    from .elicitation import ElicitationResult, Question
    from .elicitation_state import Dialogue
    from .roots import Root
    from .sampling import SampleOptions, SamplingResult

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")

_POLLS = (0.1, 0.4, 1.0, *[2.0] * 9)
"""Seconds between looks at whether a page has been dealt with, before the user is asked again.

Together less than what clients wait for an answer, and not much less, as they give up after 10 rounds or so.
"""

_QUESTIONS = {
    "elicit": "ElicitRequest",
    "elicit_url": "UrlElicitRequest",
    "sample": "SamplingRequest",
    "list_roots": "ListRootsRequest",
}


class TaskRun(NamedTuple):
    """One run of a task, as the handler sees it."""

    id: str
    """The id of the task."""
    attempt: int
    """A number that is greater in each later run of the task. With it a database can refuse writes of an older run."""


class Asking(CallContext):
    """The methods of `Context` that send requests to the client.

    In the handshake era, the server sends a JSON-RPC request to the client on the stream of the call. In the stateless
    era, the server answers the call with the request, and the client repeats the call with the answer. The handler then
    runs from the start, and earlier answers are returned at once. So it must send the same requests in each round. Side
    effects before a request happen again in each round, unless `once` runs them (basic/patterns/mrtr).
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
        """Send several requests to the client at once.

        Args:
            questions: Any number of `ElicitRequest`, `UrlElicitRequest`, `SamplingRequest` and `ListRootsRequest`.

        Returns:
            The answers, in the order of the requests.

        Raises:
            MissingCapabilityError: The client does not declare a capability that a request needs. Do not catch it: the
                client receives it as an error.
            ClientResponseError: The client refuses, does not respond in time, or its response is invalid.
            TypeError: An argument is not a request to the client.
            ValueError: The key of a request was used before in this call.
            RuntimeError: The call has ended, or its method cannot send requests to the client.
        """
        _check_questions(questions)
        call = self._call
        dialogue = dialogue_of(call)
        requests = await _requests(call, questions)
        names = [dialogue.name(question.key) for question in questions]
        return tuple(await dialogue.ask(questions, requests, names))

    @overload
    async def elicit(
        self, message: str, type_: Mapping[str, Any], *, key: str | None = None
    ) -> ElicitationResult[dict[str, Any]]: ...
    @overload
    async def elicit(
        self, message: str, type_: type[T], *, key: str | None = None
    ) -> ElicitationResult[T]: ...
    @overload
    async def elicit(
        self, message: str, type_: TypeForm[T], *, key: str | None = None
    ) -> ElicitationResult[T]: ...
    @overload
    async def elicit(self, message: str, type_: Any, *, key: str | None = None) -> ElicitationResult[Any]: ...
    async def elicit(self, message: str, type_: Any, *, key: str | None = None) -> ElicitationResult[Any]:
        """Request data from the user with a form (client/elicitation).

        Args:
            message: Reason for the request, for the user.
            type_: Type of the data: a pydantic model, dataclass, TypedDict or NamedTuple with fields of text, number,
                boolean, date or choice; or one such type, or a list of choices. Or a JSON Schema, whose value is a
                dict. Never use it for secrets: see `elicit_url`.
            key: Name of the request; see `Question`.

        Returns:
            The user's decision, true if accepted. `value` has the data that the user entered.

        Raises:
            TypeError: A form cannot have this type.
            Exception: Those of `ask`.
        """
        from .elicitation import ElicitRequest

        answer: ElicitationResult[Any] = (await self.ask(ElicitRequest(message, type_, key=key)))[0]
        return answer

    async def elicit_url(
        self,
        message: str,
        url: str,
        *,
        done: Callable[[], bool | Awaitable[bool]] | None = None,
        key: str | None = None,
    ) -> ElicitationResult[None]:
        """Request a visit to a page, for data that must not pass through the client (client/elicitation, "URL Mode").

        Args:
            message: Reason for the request, for the user.
            url: URL of the page, http or https.
            done: Function that returns whether the user has completed the step on the page: `accept` is consent, not
                completion. While it returns False, the user is asked again, for `Timeouts(client_request=...)` seconds
                from the first accept on. With None, the user is asked once.
            key: Name of the request; see `Question`.

        Returns:
            The user's decision. With `done`, an accepted result means that the step is complete.

        Raises:
            ValueError: The URL is not an http or https URL.
            TypeError: `done` is not a function.
            ClientResponseError: `done` still returns False at the end of the time.
            Exception: Those of `ask`.
        """
        from .elicitation import UrlElicitRequest

        _check_done(done)
        call = self._call
        dialogue = dialogue_of(call)
        name = dialogue.name(key)
        id_ = dialogue.page_id(name)
        try:
            questions = (UrlElicitRequest(message, url, key=key, elicitation_id=id_),)
            requests = await _requests(call, questions)
        except BaseException:
            dialogue.release("question", name)
            raise
        while True:
            answer: ElicitationResult[None] = (await dialogue.ask(questions, requests, [name]))[0]
            if done is None or not answer:
                return answer
            until = dialogue.until(name, call.runtime.timeouts.client_request)
            for seconds in (0.0, *_POLLS):
                async with call.paused():
                    await asyncio.sleep(seconds)
                if await finish_awaitable(done()):
                    dialogue.settle(name)
                    if call.revision in ELICITATION_IDS:
                        params = {"elicitationId": id_}
                        call.channel.send(jsonrpc.notification("notifications/elicitation/complete", params))
                    return answer
                if time.time() >= until:
                    raise ClientResponseError(
                        "The user agreed to open the page, but did not complete the step there within "
                        f"{call.runtime.timeouts.client_request:g} s. Complete it, then call again"
                    )
            dialogue.forget(name)
            call.check_open()

    async def sample(
        self, messages: str | Sequence[Any], *, max_tokens: int, **options: Unpack[SampleOptions]
    ) -> SamplingResult:
        """Generate a message with the client's model (client/sampling; deprecated since 2026-07-28).

        Args:
            messages: A text, or messages made by `user(...)` and `assistant(...)`.
            max_tokens: Maximum number of tokens to generate.
            options: Optional parameters; see `SampleOptions`.

        Returns:
            The message of the model; `text` has its text.

        Raises:
            Exception: Those of `ask`.
        """
        from .sampling import SamplingRequest

        (answer,) = await self.ask(SamplingRequest(messages, max_tokens=max_tokens, **options))
        return answer

    async def list_roots(self, *, key: str | None = None) -> list[Root]:
        """Request the client's roots (client/roots; deprecated since 2026-07-28).

        Args:
            key: Name of the request; see `Question`.

        Raises:
            Exception: Those of `ask`.
        """
        from .elicitation import ListRootsRequest

        (answer,) = await self.ask(ListRootsRequest(key=key))
        return answer

    @overload
    async def once(self, key: str, function: Callable[[], Awaitable[T]]) -> T: ...
    @overload
    async def once(self, key: str, function: Callable[[], T | Awaitable[T]]) -> T: ...
    async def once(self, key: str, function: Callable[[], T | Awaitable[T]]) -> T:
        """Run a side effect, such as an order, and repeat its result in later rounds: at least once.

        Args:
            key: Name of the side effect in this request, 1 to 100 characters.
            function: Runs the side effect and returns a JSON value. A function that is not `async` is called in a
                worker thread. The client carries the value to the next round and can read it; a task stores it.
                If the function raises, nothing is stored, and the key may be used again.

        Returns:
            The value that the function returned, in this round or an earlier one.

        Raises:
            TypeError: The value differs after a JSON round trip, for example a tuple or a date.
            ValueError: The key is invalid, or was used before in this call.
            Exception: The exception of the function.
        """
        known = begin_once(self._call, key)
        if known is not None:
            return cast("T", known[0])
        try:
            if iscoroutinefunction(function):
                value = await function()
            else:
                value = await finish_awaitable(await self._call.runtime.threads.run(function, {}, self._call))
            kept = end_once(self._call, key, value)
        except BaseException:
            forget_once(self._call, key)
            raise
        await dialogue_of(self._call).keep()
        return cast("T", kept)

    @property
    def idempotency_key(self) -> str:
        """String that is the same in all rounds and runs of this request, and differs for other requests."""
        return dialogue_of(self._call).call_id

    @property
    def task(self) -> TaskRun | None:
        """The task that runs this function; None while the client waits for the result, or while a task is created."""
        dialogue = self._call.dialogue
        if dialogue is None or dialogue.task_id is None:
            return None
        return TaskRun(dialogue.task_id, dialogue.attempt)


def begin_once(call: Call, key: str) -> tuple[Any] | None:
    """Return the stored value of `once` from an earlier round, as a tuple of one; None if there is none."""
    from .elicitation import check_key

    call.check_open()
    check_key(key)
    dialogue = dialogue_of(call)
    dialogue.use("ctx.once", key)
    return dialogue.remembered(key)


def end_once(call: Call, key: str, value: Any) -> Any:
    """Store a value under a key, and return it in the form that later rounds get."""
    kept = _from_json(key, value)
    dialogue_of(call).remember(key, kept)
    return kept


def forget_once(call: Call, key: str) -> None:
    """Release the key of a side effect that failed; from any thread."""
    dialogue_of(call).release("ctx.once", key)


async def check_rounds(call: Call) -> None:
    """Read the state that a client brings from an earlier round, or reject it before the handler runs.

    Args:
        call: The request.

    Raises:
        MalformedError: The state is malformed, forged, expired, of another request, or already used.
        BusyError: The shared store does not respond, so the server cannot check whether the state was used.
    """
    dialogue = dialogue_of(call)
    if call.runtime.options.single_use_state:
        await dialogue.redeem()


def _check_questions(questions: tuple[object, ...]) -> None:
    from .elicitation import Question

    wrong = [each for each in questions if not isinstance(each, Question)]
    if wrong:
        for each in wrong:
            _close(each)
        raise TypeError(
            f"ctx.ask takes requests to the client, got {_kind(wrong[0])}. {_instead_of(wrong[0])}"
        )


def _instead_of(value: object) -> str:
    """Return the correction for a wrong argument of `ctx.ask`."""
    if isinstance(value, str):
        return f"Write ctx.ask(ElicitRequest({value[:50]!r}, bool)), or another type in place of bool"
    method = getattr(value, "__name__", "") if asyncio.iscoroutine(value) else ""
    if method in _QUESTIONS:
        return (
            f"Write ctx.ask({_QUESTIONS[method]}(...), ...), as ctx.{method}(...) sends a request of its own"
        )
    if isinstance(value, (list, tuple)):
        return "Write ctx.ask(*questions)"
    return (
        "Write ctx.ask(ElicitRequest(...), UrlElicitRequest(...), SamplingRequest(...), ListRootsRequest())"
    )


def _check_done(done: object) -> None:
    if done is not None and not callable(done):
        _close(done)
        raise TypeError(
            f"done= must be a function that returns whether the step is complete, got {_kind(done)}. "
            "Write done=is_paid, or done=lambda: ..."
        )


def _kind(value: object) -> str:
    """Return the name of a value's type for messages, without its content, which may be an answer of the user."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


def _close(value: object) -> None:
    """Close a coroutine that is never awaited."""
    if asyncio.iscoroutine(value):
        value.close()


async def _requests(call: Call, questions: tuple[Question[Any], ...]) -> list[Json]:
    """Return the JSON of requests, if the client supports them. Files in them are read in a worker thread."""
    can_ask = dialogue_of(call).has_rounds or call.channel.questions is not None
    for question in questions:
        if not can_ask or call.revision not in CLIENT_METHODS[question.method]:
            raise MissingCapabilityError(question.capabilities, tree(question.capabilities))
        call.client.require(*question.capabilities)
    requests = [partial(question.request, call.revision) for question in questions]
    said: list[Json] = []
    with suppress(LeaveLoop):
        said = [request() for request in requests]
    if not said:
        said = [await call.runtime.threads.run(request, {}, call) for request in requests]
    call.check_open()
    return said


def _from_json(key: str, value: Any) -> Any:
    """Return a value as later rounds get it, which is equal to it."""
    with suppress(ValueError):
        kept = from_json(to_json(value))
        if kept == value:
            return kept
    what = _kind(value) + (" with values of other types" if type(value) in {list, dict} else "")
    raise TypeError(
        f"the function of ctx.once({key!r}, ...) returned {what}, which does not survive a round trip through JSON. "
        "Return a string, number, boolean or None, or a list or dict with string keys of these"
    )


def dialogue_of(call: Call) -> Dialogue:
    """Return the `Dialogue` of a request, created on first use.

    It is a `Dialogue` in the handshake era and `Rounds` in the stateless era, unless the call was created with another
    one.

    Raises:
        RuntimeError: The method cannot send requests to the client.
        MalformedError: The state that the client brings from an earlier round is malformed, forged or expired.
    """
    if call.dialogue is None:
        if call.era == "handshake":
            from .elicitation_state import Dialogue

            call.dialogue = Dialogue(call, call.paused)
        else:
            from .multi_round_trip import Rounds

            call.dialogue = Rounds(call)
    return call.dialogue
