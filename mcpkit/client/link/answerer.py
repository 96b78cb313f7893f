"""What a link asks to answer a server's questions."""

from __future__ import annotations

from typing import Protocol

from ...protocol.types import Json


class Answerer(Protocol):
    """What answers a server's questions."""

    def capabilities(self, revision: str) -> Json:
        """Return what the client declares in a revision: what it can answer."""
        ...

    async def answer(self, method: str, params: Json) -> Json:
        """Answer a question: take its method and params, and return the result.

        Raises:
            ProtocolError: This is the answer.
            BaseException: There is none; the calls that wait raise it.
        """
        ...
