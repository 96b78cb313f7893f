"""Interface between a link and the handlers of requests from the server."""

from __future__ import annotations

from typing import Protocol

from ...protocol.jsonrpc import Json


class Answerer(Protocol):
    """Handles requests from the server."""

    def capabilities(self, revision: str) -> Json:
        """Return the capabilities that the client declares in a revision."""
        ...

    async def answer(self, method: str, params: Json) -> Json:
        """Handle a request from the server and return its result.

        Args:
            method: The method of the request.
            params: Its params.

        Raises:
            ProtocolError: The error to respond with.
            BaseException: The handler failed; pending calls raise this exception.
        """
        ...
