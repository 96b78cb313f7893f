"""What answers over HTTP in the place of a server whose code cannot run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..._utils.exceptions import ProtocolError
from ...protocol.jsonrpc import decode, is_id, is_object
from .answers import failed

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class Broken:
    """An ASGI app that answers each request with what is wrong: calls of tools with a result that a model reads.

    Args:
        problem: File, line and error.
    """

    def __init__(self, problem: str) -> None:
        self._problem = (
            f"The server cannot start: {problem}\nFix the code. The server restarts after the next edit."
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await (await self._answer(Request(scope, receive)))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        if request.method == "POST":
            try:
                message: object = decode(await request.body())
            except ProtocolError:
                message = None
            if is_object(message) and is_id(message.get("id")) and isinstance(message.get("method"), str):
                return JSONResponse(failed(message, self._problem))
            if is_object(message):  # a notification, or an answer
                return Response(status_code=202)
        return Response(self._problem, 503, {"Retry-After": "1"}, "text/plain")
