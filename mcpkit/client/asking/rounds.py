"""Questions of the stateless era: a request is answered with them, and made again with the answers.

basic/patterns/mrtr, since 2026-07-28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ...common.errors import INTERNAL_ERROR, ProtocolError
from ...common.members import without
from ...protocol.jsonrpc import is_object
from ...protocol.revisions import ASKING, METHODS, ROUND_PARAMS
from ...protocol.types import Json
from ..link.answerer import Answerer
from ..link.answers import malformed

ROUNDS: Final = 10
"""As many as the official clients play."""

_FIRST_PAUSE: Final = 0.05
"""Seconds before a request is made again that was answered with nothing but a state: the server sheds its load."""


async def answered(
    request: Callable[[Json], Awaitable[Json]],
    method: str,
    params: Json,
    result: Json,
    answerer: Answerer,
    rounds: int,
) -> Json:
    """Answer what a server asks, and make the request again, until it asks nothing more.

    Forms and pages of one round are shown one after the other; other questions are answered meanwhile.

    Args:
        request: Makes it once, with these params, under an id of its own.
        method: Its method.
        params: Its params; left as they are.
        result: What it has been answered with, which asks.
        answerer: What answers.
        rounds: How many rounds it may take.

    Returns:
        The last result.

    Raises:
        ProtocolError: The server has answered with an error, asks what it may not, or asks once more after all rounds.
        BaseException: What the answerer has raised.
    """
    if method in METHODS and method not in ASKING:
        raise malformed(method, "a result, and no question: this method must not ask")
    pause = _FIRST_PAUSE
    for _ in range(rounds):
        if result.get("resultType") != "input_required":
            return result
        again = without(params, *ROUND_PARAMS)
        if not isinstance(result.get("requestState", ""), str):
            raise malformed(method, "a string as requestState")
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        if "inputRequests" in result:
            again["inputResponses"] = await _answers(_asked(result, method), answerer)
        elif "requestState" in result:
            await asyncio.sleep(pause)
            pause *= 2
        else:
            raise malformed(method, "inputRequests or requestState")
        result = await request(again)
    if result.get("resultType") != "input_required":
        return result
    raise ProtocolError(
        INTERNAL_ERROR,
        f"{method} has been answered with questions in {rounds} rounds, and asks again: clients give up after "
        f"{rounds}. Ask several questions at once with ctx.ask(...), or everything in one form",
    )


def _asked(result: Json, method: str) -> dict[str, tuple[str, Json]]:
    """Return the methods and params of the questions in a result, by key."""
    requests: object = result["inputRequests"]
    asked: dict[str, tuple[str, Json]] = {}
    for key, each in requests.items() if is_object(requests) else ():
        name: object = each.get("method") if is_object(each) else None
        params: object = each.get("params", {}) if is_object(each) else None
        if not isinstance(name, str) or not is_object(params):
            raise malformed(method, "requests with a method as inputRequests")
        asked[key] = (name, params)
    if not is_object(requests):
        raise malformed(method, "an object as inputRequests")
    return asked


async def _answers(asked: dict[str, tuple[str, Json]], answerer: Answerer) -> Json:
    answers: Json = dict.fromkeys(asked)

    async def answer(keys: list[str]) -> None:
        for key in keys:
            answers[key] = await answerer.answer(*asked[key])

    shown = [key for key, (method, _) in asked.items() if method == "elicitation/create"]
    chains = [*([shown] if shown else []), *([key] for key in asked if key not in shown)]
    if len(chains) == 1:
        await answer(chains[0])
    elif chains:
        await _all([answer(keys) for keys in chains])
    return answers


async def _all(chains: list[Awaitable[None]]) -> None:
    """Wait for all; the first that fails ends the others, and its exception is raised."""
    tasks = [asyncio.ensure_future(chain) for chain in chains]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
