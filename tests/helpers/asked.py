"""What the tests of questions have in common: who answers them, and what a tool that asks comes to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcpkit import ProtocolError, Server
from mcpkit.testing import connect

ELICITING = ["2025-06-18", "2025-11-25", "2026-07-28"]
EVERY = ["2024-11-05", "2025-03-26", *ELICITING]


@dataclass
class City:
    name: str
    days: int


class Person:
    """Whoever answers, and remembers what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answers = list(answers)

    def __call__(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((method, params))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if method == "elicitation/create" and "action" not in answer:
            return {"action": "accept", "content": answer}
        return answer


def said(text: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": {"type": "text", "text": text},
        "model": "m",
        "stopReason": "endTurn",
    }


def tool(function: Callable[..., Any], secret: str = "a secret of the tests") -> Server:
    """Return a server with one tool."""
    server = Server("asking", secret=secret)
    server.tool(function)
    return server


async def outcome(server: Server, person: Person | None, revision: str, **options: Any) -> str:
    """Call the server's one tool, and return what it says, with what it failed with in front."""
    async with connect(server, revision=revision, answers=person, **options) as client:
        (name,) = [each["name"] for each in await client.list_tools()]
        try:
            result = await client.call(name)
        except ProtocolError as error:
            return f"{error.code}: {error.message}"
        return f"error: {result.text}" if result.is_error else result.text
