"""Scripted answers to the requests of a server, and a server with one tool that sends such requests."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mcpkit import ProtocolError, Server
from mcpkit.testing import connect

REVISIONS = ["2025-11-25", "2026-07-28"]


@dataclass
class City:
    name: str
    days: int


class ScriptedAnswers:
    """Answers requests from the server in order, and records them. The content of a form stands for its acceptance."""

    def __init__(self, *answers: Any) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self._answers = list(answers)

    def __call__(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.requests.append((method, params))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if method == "elicitation/create" and "action" not in answer:
            return {"action": "accept", "content": answer}
        return answer

    @property
    def messages(self) -> list[str]:
        return [params["message"] for _, params in self.requests]


def sampling_result(text: str) -> dict[str, Any]:
    content = {"type": "text", "text": text}
    return {"role": "assistant", "content": content, "model": "m", "stopReason": "endTurn"}


def make_server(
    function: Callable[..., Any], secret: str = "a secret of the tests", **options: Any
) -> Server:
    """Return a server with one tool."""
    server = Server("asking", secret_key=secret)
    server.tool(function, **options)
    return server


async def call_tool(server: Server, answers: ScriptedAnswers | None, revision: str, **options: Any) -> str:
    """Call the server's one tool; return the text of the result, or the error with its code or `error: ` in front."""
    async with connect(server, protocol_version=revision, request_handler=answers, **options) as client:
        (name,) = [each["name"] for each in await client.list_tools()]
        try:
            result = await client.call_tool(name)
        except ProtocolError as error:
            return f"{error.code}: {error.message}"
        return f"error: {result.text}" if result.is_error else result.text
