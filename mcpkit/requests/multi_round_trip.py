"""Requests to the client in the stateless era: the server answers with them, and the client repeats its request.

The handler runs from the start in each round, and earlier answers are returned at once (basic/patterns/mrtr,
2026-07-28). The client carries the state of the rounds as `requestState`. It is signed, and encrypted if the server
has that option.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_core import from_json, to_json

from .._utils.exceptions import (
    INVALID_PARAMS,
    BusyError,
    InputRequired,
    InvalidAnswerError,
    MalformedError,
    ProtocolError,
)
from ..protocol.jsonrpc import Json, is_object
from ..protocol.revisions import ASKING, ROUND_PARAMS
from .request_record import Call, Dialogue, Runtime
from .requests_to_client import Question, repeat_form

logger = logging.getLogger(__name__)

# Bytes of a `requestState`.
MAX_STATE = 16 * 1024

_MAX_ANSWERS = MAX_STATE // 2  # bytes of the answers in it; base64 and the values of `once` take the rest

# The number is raised when the members of a state change, so that states of another version are refused, not misread.
_PURPOSE = "requestState 1"

_MAC_LENGTH = 32

# Seconds by which the clocks of two processes may differ: so much longer than its state a claim lives.
_CLOCK_SKEW = 300


class Rounds(Dialogue):
    """Requests to the client in the rounds of one stateless request.

    Args:
        call: The request, in its present round.

    Raises:
        RuntimeError: The method cannot send requests to the client.
        MalformedError: `inputResponses` is malformed; or the state is not from this server, has expired, or belongs to
            another request.
    """

    has_rounds = True

    def __init__(self, call: Call) -> None:
        if call.method not in ASKING:
            raise RuntimeError(
                f"{call.method} cannot send requests to the client: only {', '.join(sorted(ASKING))} can. "
                "Send them in a handler of one of these"
            )
        super().__init__(call)
        self._subject = _subject(call)
        self._responses = _responses(call.params.get("inputResponses"))  # of this round
        self._answered: dict[str, list[Any]] = {}  # name: digest of the request, result
        self._sent: dict[str, str] = {}  # name: digest of the request at the end of the last round
        self._settled: frozenset[str] = frozenset()  # names that were answered in earlier rounds
        self._pending: dict[str, tuple[str, Json]] = {}  # name: digest of the request, request
        self._round = 0
        self._expires: float | None = None  # expiry of the received state, until there is a further answer
        self._epoch = ""  # of the shared store's record of used states, with `single_use_state`
        self._unclaimed: tuple[str, str, float] | None = None  # digest, home and expiry of the received state
        state = call.params.get("requestState")
        if state is not None:
            self._load(state)

    @property
    def answers(self) -> list[Json]:
        """The answers so far: `digest` identifies the request, `result` is the client's result."""
        return [{"digest": digest, "result": result} for digest, result in self._answered.values()]

    # During a round

    async def ask(
        self, questions: Sequence[Question[Any]], requests: Sequence[Json], names: Sequence[str]
    ) -> list[Any]:
        """Return the answers, if all are there; else end the round."""
        found = [self._find(*each) for each in zip(names, questions, requests, strict=True)]
        answers = [each[0] for each in found if each is not None]
        if len(answers) < len(found):
            if len(to_json(self._answered)) > _MAX_ANSWERS:
                raise ProtocolError(
                    INVALID_PARAMS,
                    f"inputResponses: expected at most {_MAX_ANSWERS:,} bytes while input is still required, as the "
                    "client repeats them in the next round",
                )
            raise InputRequired
        return answers

    def _find(self, key: str, question: Question[Any], request: Json) -> tuple[Any] | None:
        """Return the answer to a request as a tuple of one; None if it must be sent."""
        request_digest = digest(request)
        known = self._answered.get(key)
        before = known[0] if known is not None else self._sent.get(key)
        if before is not None and before != request_digest:
            digests = {**self._sent, **{name: digest for name, (digest, _) in self._answered.items()}}
            raise not_deterministic(self._call, key, request, digests)
        result = known[1] if known is not None else self._responses.get(key)
        if result is None:
            self._pending[key] = (request_digest, request)
            return None
        try:
            answer = question.read(result)
        except InvalidAnswerError as error:
            if not error.is_form:
                raise ProtocolError(INVALID_PARAMS, f"inputResponses.{key}: {error}") from None
            self.forget(key)
            # With the digest of the original request, which is the same in the next round.
            self._pending[key] = (request_digest, repeat_form(request, error.problem))
            return None
        self._answered[key] = [request_digest, result]
        if key not in self._settled:  # else the expiry stays, so that no client keeps `once` values for ever
            self._expires = None
        return (answer,)

    def forget(self, key: str) -> None:
        """Discard an answer, so that the request is sent again."""
        self._answered.pop(key, None)
        self._responses.pop(key, None)

    def check_settled(self) -> None:
        """End the round if the handler has returned in spite of an open request."""
        if self._pending:
            logger.warning(
                "%s returned while its requests to the client %s are unanswered; they are sent all the same. Do not "
                "catch InputRequired, and await the request in the handler: not in a task of its own, nor in "
                "gather(..., return_exceptions=True)",
                _handler(self._call),
                ", ".join(map(repr, self._pending)),
            )
            raise InputRequired

    # The state between two rounds

    def result(self) -> Json:
        """Return the `InputRequiredResult`."""
        return {
            "resultType": "input_required",
            "inputRequests": {key: request for key, (_, request) in self._pending.items()},
            "requestState": self._dump(),
        }

    def _dump(self) -> str:
        runtime = self._call.runtime
        state = {
            "exp": self._expires or time.time() + runtime.timeouts.client_request,
            "of": self._subject,
            "id": self.call_id,
            "round": self._round + 1,  # so that no two states are equal
            "home": _home(runtime, self._epoch),
            "asked": {key: digest for key, (digest, _) in self._pending.items()},
            "answered": self._answered,
            "once": self._once,
            "until": self._until,
        }
        data, keys = to_json(state), runtime.keys
        is_secret = runtime.options.encrypt_state
        sealed = keys.encrypt(_PURPOSE, data) if is_secret else keys.sign(_PURPOSE, data) + data
        text = urlsafe_b64encode(sealed)
        if len(text) > MAX_STATE:
            raise ValueError(
                f"requestState would contain {len(text):,} bytes of answers and values of ctx.once, and the limit is "
                f"{MAX_STATE:,}. Store large values elsewhere, under ctx.idempotency_key"
            )
        return text.decode()

    def _load(self, text: Any) -> None:
        if not isinstance(text, str):
            raise MalformedError("requestState: expected the string from the input_required result")
        state = _opened(self._call.runtime, text)
        if state is None:
            raise _refused("this server did not issue it")
        if state["exp"] < time.time():
            raise _refused("it has expired")
        if state["of"] != self._subject:
            raise _refused("it belongs to another request")
        self._unclaimed = (hashlib.sha256(text.encode()).hexdigest(), state["home"], state["exp"])
        self.call_id = state["id"]
        self._round = state["round"]
        self._sent = state["asked"]
        self._expires = state["exp"]
        self._answered = state["answered"]
        self._settled = frozenset(self._answered)
        self._once = state["once"]
        self._until = state["until"]
        # Stored even if this round ends before the handler reads them.
        for key in self._sent.keys() & self._responses.keys():
            self._answered[key] = [self._sent[key], self._responses[key]]

    async def redeem(self) -> None:
        """Mark the received state as used, so that no other request can continue from it."""
        runtime = self._call.runtime
        try:
            self._epoch = _epochs.get(runtime) or await _latest_epoch(runtime)
            if self._unclaimed is None:
                return
            state, home, expires = self._unclaimed
            if home != _home(runtime, self._epoch):
                self._epoch = await _latest_epoch(runtime)
            if home == _home(runtime, self._epoch):
                ttl = max(0.0, expires - time.time()) + _CLOCK_SKEW
                if not await runtime.storage.claim(f"{runtime.name}/requestState/{state}", ttl):
                    raise _refused("it was used before")
                # A store that has lost its data meanwhile does not know of an earlier use.
                self._epoch = await _latest_epoch(runtime)
        except OSError:
            logger.exception(
                "the shared store does not answer: single-use requestStates are refused until it does. Check the store"
            )
            raise BusyError(
                "The server cannot check whether requestState was used before. Try again later"
            ) from None
        if home != _home(runtime, self._epoch):
            logger.warning(
                "rejected a single-use requestState: another process issued it, or this one before a restart, or the "
                "storage has lost its data. Share one storage between all processes with Server(storage=...)"
            )
            raise _refused("this process cannot check whether it was used before")
        self._unclaimed = None


def _opened(runtime: Runtime, text: str) -> Json | None:
    """Return a state of this server; None for any other text."""
    if len(text) > MAX_STATE or not text.isascii():
        return None
    try:
        packed = urlsafe_b64decode(text)
    except ValueError:
        return None
    # Decoding ignores characters outside the alphabet and wrong padding; encoding reveals them.
    if urlsafe_b64encode(packed) != text.encode():
        return None
    data: bytes | None
    if runtime.options.encrypt_state:
        data = runtime.keys.decrypt(_PURPOSE, packed)
    else:
        mac, data = packed[:_MAC_LENGTH], packed[_MAC_LENGTH:]
        if not runtime.keys.verify(_PURPOSE, data, mac):
            return None
    # As with ids of sessions, texts of clients are not kept in a cache of the parser.
    state: Json | None = None if data is None else from_json(data, cache_strings="none")
    return state


def _refused(why: str) -> MalformedError:
    return MalformedError(f"requestState is not accepted: {why}. Send the request again without it")


def _responses(value: Any) -> dict[str, Mapping[str, Any]]:
    if value is None:
        return {}
    if not is_object(value):
        raise MalformedError("inputResponses: expected an object")
    for key, response in value.items():
        if not is_object(response):
            raise MalformedError(f"inputResponses.{key[:100]}: expected an object")
    return dict(value)


def _subject(call: Call) -> str:
    """Return a digest of a request: caller, client, method and params.

    Params that differ between the rounds are left out.
    """
    params = {
        name: value for name, value in call.params.items() if name not in ROUND_PARAMS and name != "_meta"
    }
    who = call.principal
    caller = [who.id] if who.client_id is None or who.id is None else [who.id, who.client_id]
    text = json.dumps([call.method, params, *caller], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


# Equality of requests in different rounds


def digest(request: Mapping[str, Any]) -> str:
    """Return a short text that differs for different requests to the client."""
    text = json.dumps(request, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def not_deterministic(call: Call, key: str, request: Json, digests: Mapping[str, str]) -> ProtocolError:
    """Log that a handler sends another request than in an earlier round, and return the error for the client.

    Args:
        call: The call.
        key: The name of the request.
        request: The request of this round.
        digests: Digests of the requests of earlier rounds, by name.
    """
    request_digest = digest(request)
    other = next((name for name, before in digests.items() if before == request_digest), None)
    # Without texts, as they may contain answers.
    fields = request.get("params", {}).get("requestedSchema", {}).get("properties", {})
    logger.error(
        "%s is not deterministic: the request %r to the client is now %s(%s), and was another one in an earlier "
        "round, %s. Pass key= where the order of requests may differ, and use ctx.once for values that change",
        _handler(call),
        key,
        request["method"],
        ", ".join(fields),
        f"where this one had the key {other!r}" if other is not None else "which did not have this one",
        stack_info=True,
    )
    return ProtocolError(
        INVALID_PARAMS,
        f"The handler is not deterministic: the request {key!r} to the client was another one in an earlier round. "
        "The handler runs from the start in each round. Pass key= where the order of requests may differ",
    )


def _handler(call: Call) -> str:
    """Return the name of the handler, for the log."""
    return f"{call.method} {call.params.get('name') or call.params.get('uri')!r:.200}"


# The epoch of the shared store: it changes when the store loses its record of used states, which are then unknown

_EPOCH_TTL = 365 * 86_400.0

_epochs: WeakKeyDictionary[Runtime, str] = WeakKeyDictionary()  # the epochs that this process knows


async def _latest_epoch(runtime: Runtime) -> str:
    """Return the current epoch of the shared store.

    Raises:
        OSError: The store does not respond.
    """
    if runtime.is_alone:  # the store has the lifetime of the process
        return ""
    key = f"{runtime.name}/requestState/epoch"
    while (stored := await runtime.storage.get(key)) is None:
        await runtime.storage.put(key, os.urandom(16).hex().encode(), version=None, ttl=_EPOCH_TTL)
    epoch = _epochs[runtime] = stored.value.decode()
    return epoch


def _home(runtime: Runtime, epoch: str) -> str:
    """Return a digest of the store and its epoch. It does not reveal their names to a reader of the state."""
    return hashlib.sha256(f"{runtime.storage.store_id} {epoch}".encode()).hexdigest()[:16]
