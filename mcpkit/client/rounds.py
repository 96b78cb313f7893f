"""Questions of the stateless era: a request is answered with them, and made again with the answers.

basic/patterns/mrtr, since 2026-07-28.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from ..errors import INTERNAL_ERROR, ProtocolError
from ..protocol.types import Json
from .link import Answerer

ROUNDS: Final = 10
"""As many as the official clients play."""


async def answered(
    request: Callable[[Json], Awaitable[Json]], method: str, params: Json, result: Json, answerer: Answerer
) -> Json:
    """Answer what a server asks, and make the request again, until it asks nothing more.

    Args:
        request: Makes it once, with these params, under an id of its own.
        method: Its method, for messages.
        params: Its params; left as they are.
        result: What it has been answered with, which asks.
        answerer: What answers.

    Returns:
        The last result.

    Raises:
        ProtocolError: The server has answered with an error, or asks after ten rounds.
        BaseException: What the answerer has raised.
    """
    for _ in range(ROUNDS):
        if result.get("resultType") != "input_required":
            return result
        asked: Json = result.get("inputRequests") or {}
        answers = {
            key: await answerer.answer(each["method"], each.get("params", {})) for key, each in asked.items()
        }
        again = {**params, "inputResponses": answers}
        if "requestState" in result:
            again["requestState"] = result["requestState"]
        result = await request(again)
    if result.get("resultType") != "input_required":
        return result
    raise ProtocolError(
        INTERNAL_ERROR,
        f"{method} has been answered with questions in {ROUNDS} rounds, and asks again: clients give up after "
        f"{ROUNDS}. Ask several questions at once with ctx.ask(...), or everything in one form",
    )
