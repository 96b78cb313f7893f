"""What has changed since the contract was written."""

from __future__ import annotations

from collections.abc import Iterator

from ....client.contract.verdict import Effect
from ..finding import Found, Looked, rule


@rule("contract-broken", "error")
def broken(looked: Looked) -> Iterator[Found]:
    """A change against `mcp.lock.json` breaks clients that keep to it."""
    return _changed(
        looked, Effect.BREAKING, "take it back, or accept it by --update and tell those who use it"
    )


@rule("contract-untold", "warning")
def untold(looked: Looked) -> Iterator[Found]:
    """Whether a change against `mcp.lock.json` breaks clients cannot be told."""
    return _changed(looked, Effect.UNTOLD, "look at it, and accept it by --update")


@rule("contract-changed", "advice")
def changed(looked: Looked) -> Iterator[Found]:
    """A change against `mcp.lock.json` breaks no client."""
    return _changed(looked, Effect.COMPATIBLE, "accept it by --update")


def _changed(looked: Looked, effect: Effect, cure: str) -> Iterator[Found]:
    return (Found(change.where, change.what, cure) for change in looked.changes if change.effect is effect)
