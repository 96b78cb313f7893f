"""What has changed since the contract was written."""

from __future__ import annotations

from collections.abc import Iterator

from ....client.contract.verdict import Effect
from ..finding import Found, Looked, rule


@rule("contract-broken", "error")
def broken(looked: Looked) -> Iterator[Found]:
    """A change against `mcp.lock.json` breaks clients that keep to it."""
    return _changed(
        looked, Effect.BREAKING, "revert the change, or accept it with --update and announce it to users"
    )


@rule("contract-untold", "warning")
def untold(looked: Looked) -> Iterator[Found]:
    """A change against `mcp.lock.json` may break clients."""
    return _changed(looked, Effect.UNTOLD, "check the change, and accept it with --update")


@rule("contract-changed", "advice")
def changed(looked: Looked) -> Iterator[Found]:
    """A change against `mcp.lock.json` breaks no client."""
    return _changed(looked, Effect.COMPATIBLE, "accept it with --update")


def _changed(looked: Looked, effect: Effect, cure: str) -> Iterator[Found]:
    return (Found(change.where, change.what, cure) for change in looked.changes if change.effect is effect)
