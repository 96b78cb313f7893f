"""One `subscriptions/listen` stream (basic/patterns/subscriptions, 2026-07-28)."""

from __future__ import annotations

from ...engine.subscriptions.listen import Listen
from ...engine.subscriptions.mailbox import Pending
from ...errors import MalformedError
from ...state.change import Change
from ...state.principal import Principal
from .environment import Environment
from .exchange import Exchange, Source, event


class Listener(Source):
    """One stream.

    Args:
        environment: What it lives in.
        listeners: Those that are open; it is one of them until it ends.
        listen: The request.
        exchange: Its stream.

    Raises:
        BusyError: Too many streams are open.
        ProtocolError: -32602, where the client takes no event stream.

    Attributes:
        is_local: Never; see `Channel`.
    """

    is_local = False

    def __init__(
        self, environment: Environment, listeners: set[Listener], listen: Listen, exchange: Exchange
    ) -> None:
        if not exchange.may_stream:
            raise MalformedError(
                "subscriptions/listen is answered with an event stream: accept text/event-stream"
            )
        environment.check_room(exchange.caller)
        self._environment = environment
        self._listeners = listeners
        self._listen = listen
        self._exchange = exchange
        self._pending = Pending()
        exchange.attach(self)
        exchange.push(event(listen.acknowledged()))
        listeners.add(self)
        environment.streams.take(exchange.caller)
        for change in listen.wanted:
            environment.changes.want(self, change)
        self._let_go = environment.hold(exchange, self.end)

    @property
    def principal(self) -> Principal:
        """Who listens."""
        return self._exchange.principal

    def changed(self, change: Change) -> None:
        """Take a change; a stream that falls too far behind is ended, so that nobody waits for it."""
        if self._pending.add(change):
            self._exchange.wake()
        else:
            self._exchange.push(event(self._listen.cancelled("too many changes wait to be read")))
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
        """Listen no more."""
        if self in self._listeners:
            self._listeners.remove(self)
            self._let_go()
            self._environment.streams.give_back(exchange.caller)
            self._environment.changes.forget(self)

    def refill(self) -> list[bytes]:
        """Return what has changed."""
        return [event(self._listen.notification(change)) for change in self._pending.take()]
