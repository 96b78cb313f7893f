"""One `subscriptions/listen` stream (basic/patterns/subscriptions, 2026-07-28)."""

from __future__ import annotations

from ..._utils.exceptions import MalformedError, ProtocolError
from ...engine.changes_between_processes import ChangeQueue
from ...engine.subscription_filters_and_delivery import LOST, Listen
from ...identity.principals_and_scopes import Change, Principal
from ...protocol import jsonrpc
from .exchange import Exchange, Source, event
from .sessions.loop_state import LoopState


class Listener(Source):
    """One `subscriptions/listen` stream.

    Args:
        state: State of the app in the event loop.
        listeners: The open streams. This one is in the set until it ends.
        listen: The request.
        exchange: The exchange of the request.

    Raises:
        BusyError: Too many streams are open.
        ProtocolError: -32602, if the client does not accept an event stream.

    Attributes:
        is_local: Always False; see `Channel`.
    """

    is_local = False

    def __init__(
        self, state: LoopState, listeners: set[Listener], listen: Listen, exchange: Exchange
    ) -> None:
        if not exchange.may_stream:
            raise MalformedError(
                "the response to subscriptions/listen is an event stream. Send the header Accept: "
                "text/event-stream"
            )
        state.check_stream_room(exchange.caller)
        self._state = state
        self._listeners = listeners
        self._listen = listen
        self._exchange = exchange
        self._pending = ChangeQueue()
        self._is_acknowledged = False
        exchange.attach(self)
        listeners.add(self)
        state.stream_shares.take(exchange.caller)
        for change in listen.changes:
            state.hub.subscribe(self, change)
        self._let_go = state.end_with_token(exchange, self.end)
        state.hub.when_listening(self._acknowledge, self._refuse)

    def _acknowledge(self) -> None:
        if self in self._listeners:
            self._is_acknowledged = True
            self._exchange.push(event(self._listen.acknowledged()))

    def _refuse(self, problem: ProtocolError) -> None:
        if self in self._listeners:
            self._exchange.reply(jsonrpc.error(self._listen.request_id, problem), problem)
            self.lost(self._exchange)

    @property
    def principal(self) -> Principal:
        """Principal of the client."""
        return self._exchange.principal

    def changed(self, change: Change) -> None:
        """Queue a change. A stream that falls too far behind is ended, so that it blocks no other."""
        if change.is_lost:
            self._drop(LOST)
        elif self._pending.add(change):
            self._exchange.wake()
        else:
            self._drop("the client does not read its stream fast enough")

    def _drop(self, reason: str) -> None:
        self._exchange.push(event(self._listen.cancelled(reason)))
        self._finish()

    def end(self) -> None:
        """End the stream gracefully, with its result."""
        for chunk in self.refill():
            self._exchange.push(chunk)
        self._exchange.push(event(self._listen.result()))
        self._finish()

    def _finish(self) -> None:
        self._exchange.finish()
        self.lost(self._exchange)

    def lost(self, exchange: Exchange) -> None:
        """Stop listening."""
        if self in self._listeners:
            self._listeners.remove(self)
            self._let_go()
            self._state.stream_shares.release(exchange.caller)
            self._state.hub.unsubscribe_all(self)

    def refill(self) -> list[bytes]:
        """Return the events of queued changes."""
        if not self._is_acknowledged:
            return []
        return [event(self._listen.notification(change)) for change in self._pending.take()]
