"""Input rounds: the client provides the input that a result requires, and sends the request again.

basic/patterns/mrtr, since 2026-07-28.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container
from typing import Final

from .._utils.exceptions import INTERNAL_ERROR, ProtocolError
from ..protocol.jsonrpc import Json, is_object, without
from ..protocol.revisions import ASKING, METHODS, ROUND_PARAMS
from .call_results import malformed
from .client_session import RequestHandler

_MIN_PAUSE: Final = 0.05
"""Seconds before a request is sent again whose result has only a request state, as from a server under load."""


async def complete_input_rounds(
    send: Callable[[Json], Awaitable[Json]],
    method: str,
    params: Json,
    result: Json,
    handler: RequestHandler,
    rounds: int,
) -> Json:
    """Provide the input that a server requires and send the request again, until the result is complete.

    Args:
        send: Sends the request once with the given params, under a new id.
        method: The method of the request.
        params: Its params, which are not changed.
        result: The result that requires input.
        handler: The handler of input requests.
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
    pause = _MIN_PAUSE
    for _ in range(rounds):
        if result.get("resultType") != "input_required":
            return result
        again = without(params, *ROUND_PARAMS)
        if not isinstance(result.get("requestState", ""), str):
            raise malformed(method, "a string as requestState")
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        if "inputRequests" in result:
            again["inputResponses"] = await input_responses(result["inputRequests"], method, handler)
        elif "requestState" in result:
            await asyncio.sleep(pause)
            pause *= 2
        else:
            raise malformed(method, "inputRequests or requestState")
        result = await send(again)
    if result.get("resultType") != "input_required":
        return result
    raise ProtocolError(
        INTERNAL_ERROR,
        f"{method} has been answered with questions in {rounds} rounds, and asks again: clients give up after "
        f"{rounds}. Ask several questions at once with ctx.ask(...), or everything in one form",
    )


async def input_responses(
    requests: object, method: str, handler: RequestHandler, skip: Container[str] = ()
) -> Json:
    """Return the responses to input requests, by key.

    Forms and pages are shown one after the other. Other requests are handled concurrently; if one fails, the others
    are cancelled.

    Args:
        requests: The member `inputRequests` of a result.
        method: The method of the result, for errors.
        handler: The handler of input requests.
        skip: The keys of requests that have been handled before.

    Raises:
        ProtocolError: The requests are malformed.
        BaseException: A handler failed.
    """
    if not is_object(requests):
        raise malformed(method, "an object as inputRequests")
    pending: dict[str, tuple[str, Json]] = {}
    for key, request in requests.items():
        name: object = request.get("method") if is_object(request) else None
        params: object = request.get("params", {}) if is_object(request) else None
        if not isinstance(name, str) or not is_object(params):
            raise malformed(method, "requests with a method as inputRequests")
        if key not in skip:
            pending[key] = name, params
    responses: Json = dict.fromkeys(pending)

    async def respond(keys: list[str]) -> None:
        for key in keys:
            responses[key] = await handler.answer(*pending[key])

    elicitations = [key for key, (name, _) in pending.items() if name == "elicitation/create"]
    groups = [[key] for key in pending if key not in elicitations]
    if elicitations:
        groups.insert(0, elicitations)
    if len(groups) == 1:
        await respond(groups[0])
        return responses
    tasks = [asyncio.ensure_future(respond(keys)) for keys in groups]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise
    return responses
