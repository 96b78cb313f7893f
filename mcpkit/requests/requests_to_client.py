"""Channels to a client, and requests of the server that are sent on them in the handshake era."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Protocol

from typing_extensions import TypeVar

from .._utils.exceptions import (
    BusyError,
    ChallengeError,
    ClientResponseError,
    InvalidAnswerError,
    ProtocolError,
)
from ..execution.coroutines import within
from ..identity.principals_and_scopes import Principal
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json, RequestId, is_object

A = TypeVar("A", default=Any)

logger = logging.getLogger(__name__)

# Stands for the headers of a request on a transport without headers.
NO_HEADERS: Mapping[bytes, bytes] = MappingProxyType({})

# Channels, which transports implement


class Sender(Protocol):
    """A channel on which requests to the client are sent."""

    def send(self, message: bytes) -> None:
        """Send one JSON message; in the event loop's thread, without blocking."""
        ...

    def ready(self) -> Awaitable[None]:
        """Wait until the receiver keeps up."""
        ...


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

    def attend(self, changed: Callable[[], None]) -> Callable[[], object]:
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


# Requests to the client

# Prefix of the names of requests without a key; their index follows.
DERIVED = "#"

_MAX_PROBLEM_LENGTH = 500  # maximum length of the error text shown above a form that is sent again


class Question(ABC, Generic[A]):
    """Base class of requests to the client, for `ctx.ask`, which sends several at once.

    Args:
        key: Name of the request among those of one call: 1 to 100 characters, not starting with `#`, used once. Needed
            if the order of requests may change between rounds. By default, the index of the request.
        capabilities: Client capabilities that the request needs.

    Attributes:
        key: The key; None for the index.
        capabilities: Client capabilities that the request needs.
        method: The JSON-RPC method.
    """

    method: str

    def __init__(self, key: str | None, *capabilities: str) -> None:
        if key is not None:
            check_key(key)
        self.key = key
        self.capabilities = capabilities

    @abstractmethod
    def params(self, revision: str) -> Json:
        """Return the params of the request.

        Args:
            revision: Protocol version of the client.

        Raises:
            ValueError: The protocol version does not support the request; the message names the missing feature.
        """

    @abstractmethod
    def read(self, result: Mapping[str, Any]) -> A:
        """Return the value of the client's result.

        Args:
            result: The result object.

        Raises:
            InvalidAnswerError: The result is invalid.
        """

    def request(self, revision: str) -> Json:
        """Return the method and the params.

        Args:
            revision: Protocol version of the client.

        Raises:
            ClientResponseError: The protocol version does not support the request.
        """
        try:
            params = self.params(revision)
        except ValueError as error:
            raise ClientResponseError(f"The client does not support this request: {error}") from None
        return {"method": self.method, "params": params} if params else {"method": self.method}


def check_key(key: object) -> None:
    """Check the key of a request, or of `ctx.once`.

    Raises:
        ValueError: It is invalid.
    """
    if not isinstance(key, str) or not 0 < len(key) <= 100:
        raise ValueError(f"key must be a string of 1 to 100 characters, got {key!r}")
    if key.startswith(DERIVED):
        raise ValueError(
            f"key must not begin with {DERIVED}, which is reserved for generated keys, got {key!r}"
        )


def type_text(value: object) -> str:
    """Return the name of a value's type for messages, without its content, which may be an answer of the user."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[:1] in 'AEIOUaeiou' else 'a'} {name}"


def repeat_form(request: Json, problem: str) -> Json:
    """Return the request of a form again, with the validation error below its message."""
    params = request["params"]
    if len(problem) > _MAX_PROBLEM_LENGTH:
        problem = f"{problem[:_MAX_PROBLEM_LENGTH]}…"
    return {**request, "params": {**params, "message": f"{params['message']}\n\n{problem}"}}


# Maximum number of unanswered requests to one client: each suspends a call and its timeout.
MAX_OPEN = 100

_TRIES = 3  # how often a form is sent again after an invalid answer

_MAX_CLOSED = 100  # number of ids of closed requests that are stored, so that a late response is recognised


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
        self._closed: deque[str] = deque(maxlen=_MAX_CLOSED)
        self._end_reason: str | None = None

    def __len__(self) -> int:
        """Return the number of open requests."""
        return len(self._open)

    # Sending

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
        if self._end_reason is not None:
            raise ClientResponseError(self._end_reason)
        if len(self._open) + len(requests) > MAX_OPEN:
            raise BusyError(
                f"Too many requests from server to client are unanswered ({len(self._open)}). Respond to some first",
                retry_after=10,
            )
        ids: list[str] = []
        answers: list[Any] = []
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            for request in requests:
                ids.append(await self._send(request, channel))
            await within(end - loop.time(), channel.ready())
            for number, question in enumerate(questions):
                tries = _TRIES
                while True:
                    tries -= 1
                    result = await within(end - loop.time(), self._open[ids[number]])
                    try:
                        answers.append(question.read(result))
                        break
                    except InvalidAnswerError as error:
                        if not error.is_form or tries == 0:
                            raise
                        request = repeat_form(requests[number], error.problem)
                    new_id = await self._send(request, channel)
                    self._close(ids[number])
                    ids[number] = new_id
        except TimeoutError:
            raise ClientResponseError(
                f"The client did not answer within {seconds:g} s{self._timeout_hint}"
            ) from None
        finally:
            for id_ in ids:
                self._cancel(id_)
                self._close(id_)
        return answers

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

    # Responses

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
            return isinstance(id_, str) and id_ in self._closed
        if future.done():
            return True
        if not isinstance(id_, str) or id_ not in self._open:
            future.set_exception(
                InvalidAnswerError(f"id: expected {next(iter(self._open))!r}, got {given!r:.200}")
            )
        elif message.get("jsonrpc", "2.0") != "2.0":  # extensions may leave it out
            future.set_exception(InvalidAnswerError('jsonrpc: expected "2.0"'))
        elif is_object(result := message.get("result")):
            future.set_result(result)
        elif (error := message.get("error")) is not None:
            code, text = (error.get("code"), error.get("message")) if is_object(error) else (None, error)
            text = text[:500] if isinstance(text, str) and text else None
            future.set_exception(
                ClientResponseError(
                    f"The client returned an error{'' if text is None else f': {text}'}",
                    code if type(code) is int else None,
                    text,
                )
            )
        else:
            future.set_exception(InvalidAnswerError("result: expected an object"))
        return True

    def fail(self, id_: RequestId | None, problem: ProtocolError) -> None:
        """Fail a request after a response that is not valid JSON.

        Args:
            id_: Id of the response; None if it has none.
            problem: The parse error.
        """
        future = self._find(id_, is_answer=True)
        if future is not None and not future.done():
            future.set_exception(InvalidAnswerError(problem.message))

    def _find(self, id_: object, *, is_answer: bool) -> asyncio.Future[Mapping[str, Any]] | None:
        """Return the open request of a response. If its id matches none, return the only open one, or None."""
        if isinstance(id_, str) and (id_ in self._open or id_ in self._closed):
            return self._open.get(id_)
        if self._prefix or not is_answer:  # with a prefix, it may answer a request of another sender
            return None
        logger.warning(
            "the client sent a response with the id %.200r, which matches no open request. If exactly one request is "
            "open, that request fails",
            id_,
        )
        return next(iter(self._open.values())) if len(self._open) == 1 else None

    # Ends

    def cancel(self, channel: Sender) -> None:
        """Send `notifications/cancelled` for the open requests of a channel that is closing.

        Args:
            channel: The channel.
        """
        for id_ in [id_ for id_, used in self._channels.items() if used is channel]:
            self._cancel(id_)

    def close(self, reason: str) -> None:
        """Cancel all open requests, and reject new ones.

        Args:
            reason: Message of the ClientResponseError that waiting callers get.
        """
        self._end_reason = reason
        for id_, future in tuple(self._open.items()):
            self._cancel(id_)
            if not future.done():
                future.set_exception(ClientResponseError(reason))

    def _cancel(self, id_: str) -> None:
        channel = self._channels.pop(id_, None)
        future = self._open[id_]
        if channel is not None and (not future.done() or future.cancelled()):
            channel.send(jsonrpc.notification("notifications/cancelled", {"requestId": id_}))

    def _close(self, id_: str) -> None:
        self._channels.pop(id_, None)
        self._open.pop(id_).cancel()
        self._closed.append(id_)
        if self._on_close is not None:
            self._on_close(id_)
