"""Requests of the server to a client in the handshake era, and their responses."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .._utils.errors import BusyError, ClientResponseError, InvalidAnswerError, ProtocolError
from ..execution.coroutines import within
from ..protocol import jsonrpc
from ..protocol.jsonrpc import RequestId, is_object

if TYPE_CHECKING:
    from .elicitation import Question

logger = logging.getLogger(__name__)

_TRIES = 3
"""How often a form is sent again after an invalid answer."""

MOST_OPEN = 100
"""Maximum number of unanswered requests to one client: each suspends a call and its timeout."""

_KEPT = 100
"""Number of closed requests that are remembered, so that a late response is recognised."""


class Sender(Protocol):
    """A channel on which requests to the client are sent."""

    def send(self, message: bytes) -> None:
        """Send one JSON message; in the event loop's thread, without blocking."""
        ...

    def ready(self) -> Awaitable[None]:
        """Wait until the receiver keeps up."""
        ...


class OpenQuestions:
    """Requests to one client that it has not answered yet.

    Args:
        prefix: Beginning of the request ids, different from that of other senders to the same client.
        on_open: Awaited with the id of each request before it is sent.
        on_close: Called with the id of each request that is closed.
        timeout_hint: Text that is appended to the error of a request that timed out.
    """

    def __init__(
        self,
        prefix: str = "",
        on_open: Callable[[str], Awaitable[None]] | None = None,
        on_close: Callable[[str], None] | None = None,
        timeout_hint: str = "",
    ) -> None:
        self._prefix = prefix
        self._timeout_hint = timeout_hint
        self._on_open = on_open
        self._on_close = on_close
        self._count = 0
        self._open: dict[str, asyncio.Future[Mapping[str, Any]]] = {}
        self._channels: dict[str, Sender] = {}
        self._over: deque[str] = deque(maxlen=_KEPT)
        self._closed_because: str | None = None

    def close(self, reason: str) -> None:
        """Cancel all open requests, and reject new ones.

        Args:
            reason: Message of the ClientResponseError that waiting callers get.
        """
        self._closed_because = reason
        for id_, future in tuple(self._open.items()):
            self._cancel(id_)
            if not future.done():
                future.set_exception(ClientResponseError(reason))

    def __len__(self) -> int:
        """Return the number of open requests."""
        return len(self._open)

    async def ask(
        self,
        questions: Sequence[Question[Any]],
        requests: Sequence[dict[str, Any]],
        channel: Sender,
        seconds: float,
    ) -> list[Any]:
        """Send several requests at once, and wait for the responses.

        Args:
            questions: The requests.
            requests: Their JSON, without the id.
            channel: Channel to send them on.
            seconds: Timeout for all responses, in seconds.

        Returns:
            The results, in the order of the requests.

        Raises:
            ClientResponseError: The client does not respond in time, or responds with an error or an invalid result.
            BusyError: Too many requests to the client are open.
        """
        if self._closed_because is not None:
            raise ClientResponseError(self._closed_because)
        if len(self._open) + len(requests) > MOST_OPEN:
            raise BusyError(
                f"Too many requests from server to client are unanswered ({len(self._open)}). Respond to some first",
                retry_after=10,
            )
        opened: list[str] = []
        answers: list[Any] = []
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            for request in requests:
                opened.append(await self._send(request, channel))
            await within(end - loop.time(), channel.ready())
            for number, question in enumerate(questions):
                tries = _TRIES
                while True:
                    tries -= 1
                    result = await within(end - loop.time(), self._open[opened[number]])
                    try:
                        answers.append(question.read(result))
                        break
                    except InvalidAnswerError as error:
                        if not error.is_form or tries == 0:
                            raise
                        from .elicitation import asked_again

                        request = asked_again(requests[number], error.problem)
                    again = await self._send(request, channel)
                    self._close(opened[number])
                    opened[number] = again
        except TimeoutError:
            raise ClientResponseError(
                f"The client did not answer within {seconds:g} s{self._timeout_hint}"
            ) from None
        finally:
            for id_ in opened:
                self._cancel(id_)
                self._close(id_)
        return answers

    def answer(self, message: Mapping[str, Any]) -> bool:
        """Handle a response of the client.

        Args:
            message: The JSON-RPC response.

        Returns:
            True if it belongs to a request of this object, open or closed.
        """
        given = message.get("id")
        id_ = str(whole) if (whole := jsonrpc.whole_number(given)) is not None else given
        future = self._find(id_, is_answer="result" in message or "error" in message)
        if future is None:
            return isinstance(id_, str) and id_ in self._over
        if not future.done():
            if isinstance(id_, str) and id_ in self._open:
                _settle(future, message)
            else:
                future.set_exception(
                    InvalidAnswerError(f"id: expected {next(iter(self._open))!r}, got {given!r:.200}")
                )
        return True

    def fail(self, id_: RequestId | None, problem: ProtocolError) -> None:
        """Fail a request whose response is not valid JSON.

        Args:
            id_: Id of the response; None if it has none.
            problem: The parse error.
        """
        future = self._find(id_, is_answer=True)
        if future is not None and not future.done():
            future.set_exception(InvalidAnswerError(problem.message))

    def _find(self, id_: object, *, is_answer: bool) -> asyncio.Future[Mapping[str, Any]] | None:
        """Return the open request of a response. If its id matches none, return the only open one, or None."""
        if isinstance(id_, str) and (id_ in self._open or id_ in self._over):
            return self._open.get(id_)
        if (
            self._prefix or not is_answer
        ):  # others ask the same client, so that it may be a question of theirs
            return None
        logger.warning(
            "the client sent a response with the id %.200r, which matches no open request. If exactly one request is "
            "open, that request fails",
            id_,
        )
        return next(iter(self._open.values())) if len(self._open) == 1 else None

    def cancel(self, channel: Sender) -> None:
        """Send `notifications/cancelled` for the open requests of a channel that is closing.

        Args:
            channel: The channel.
        """
        for id_ in [id_ for id_, asked_on in self._channels.items() if asked_on is channel]:
            self._cancel(id_)

    def _cancel(self, id_: str) -> None:
        channel = self._channels.pop(id_, None)
        future = self._open[id_]
        if channel is not None and (not future.done() or future.cancelled()):
            channel.send(jsonrpc.notification("notifications/cancelled", {"requestId": id_}))

    async def _send(self, request: Mapping[str, Any], channel: Sender) -> str:
        self._count += 1
        id_ = f"{self._prefix}{self._count}"
        self._open[id_] = asyncio.get_running_loop().create_future()
        if self._on_open is not None:
            try:
                await self._on_open(id_)
            except BaseException:
                self._close(id_)
                raise
        self._channels[id_] = channel
        channel.send(jsonrpc.encode({"jsonrpc": "2.0", "id": id_, **request}))
        return id_

    def _close(self, id_: str) -> None:
        self._channels.pop(id_, None)
        self._open.pop(id_).cancel()
        self._over.append(id_)
        if self._on_close is not None:
            self._on_close(id_)


def _settle(future: asyncio.Future[Mapping[str, Any]], message: Mapping[str, Any]) -> None:
    result, error = message.get("result"), message.get("error")
    if message.get("jsonrpc", "2.0") != "2.0":  # extensions may leave it out
        future.set_exception(InvalidAnswerError('jsonrpc: expected "2.0"'))
    elif is_object(result):
        future.set_result(result)
    elif error is not None:
        code, text = (error.get("code"), error.get("message")) if is_object(error) else (None, error)
        said = text[:500] if isinstance(text, str) and text else None
        told = "" if said is None else f": {said}"
        future.set_exception(
            ClientResponseError(
                f"The client returned an error{told}", code if type(code) is int else None, said
            )
        )
    else:
        future.set_exception(InvalidAnswerError("result: expected an object"))
