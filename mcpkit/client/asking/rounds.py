"""Input rounds: the client provides the input that a result requires, and sends the request again.

basic/patterns/mrtr, since 2026-07-28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from ..._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ...protocol.jsonrpc import Json, is_object, without
from ...protocol.revisions import ASKING, METHODS, ROUND_PARAMS
from ..call_results import malformed
from ..client_session import RequestHandler

_FIRST_PAUSE: Final = 0.05
"""Seconds before a request is sent again whose result has only a request state, as from a server under load."""


async def answered(
    request: Callable[[Json], Awaitable[Json]],
    method: str,
    params: Json,
    result: Json,
    answerer: RequestHandler,
    rounds: int,
) -> Json:
    """Provide the input that a server requires and send the request again, until the result is complete.

    Forms and pages of one round are shown one after the other. Other input requests are handled concurrently.

    Args:
        request: Sends the request once with the given params, under a new id.
        method: The method of the request.
        params: Its params, which are not changed.
        result: The result that requires input.
        answerer: The handler of input requests.
        rounds: The most rounds.

    Returns:
        The last result.

    Raises:
        ProtocolError: The server responded with an error or an invalid input request, or requires input after the last
            round.
        BaseException: A handler failed.
    """
    if method in METHODS and method not in ASKING:
        raise malformed(method, "a result other than input_required, which this method does not allow")
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
    """Return the methods and params of the input requests in a result, by key."""
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


async def _answers(asked: dict[str, tuple[str, Json]], answerer: RequestHandler) -> Json:
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
    """Wait for all; the first failure cancels the others and is raised."""
    tasks = [asyncio.ensure_future(chain) for chain in chains]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
