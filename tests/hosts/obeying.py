"""A model that calls the tool that its user names, and remembers what hosts have offered to it and what came back."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any

from models import Call, completion, message
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_ORDER = re.compile(r"Step (\d+): call (\w+) with (\{.*?\})$", re.MULTILINE)
_NOTHING = "nothing to say"


@dataclass
class Step:
    """What has come of an order of a user's.

    Attributes:
        offered: The tools of the server that the host named to the model, and tools of its own.
        results: What each call has answered, in turn.
        is_over: Set when the model has said its last word.
    """

    offered: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)


class Obeying:
    """A model for all hosts: `Step 3: call add with {"a": 1}` makes it call the tool `add` of the server.

    Args:
        server: What the server is called at the hosts.
    """

    def __init__(self, server: str) -> None:
        self._server = server
        self.steps: dict[int, Step] = {}
        self.app = Starlette(
            routes=[
                Route("/v1/messages", self._answer_claude, methods=["POST"]),
                Route("/v1/chat/completions", self._answer_openai, methods=["POST"]),
            ]
        )

    async def _answer_claude(self, request: Request) -> Response:
        asked = await request.json()
        turns = [each for each in asked["messages"] if each["role"] == "user"]
        blocks = [block for turn in turns if isinstance(turn["content"], list) for block in turn["content"]]
        results = {
            block["tool_use_id"].removeprefix("toolu_"): _text(block["content"])
            for block in blocks
            if block["type"] == "tool_result"
        }
        offered = [tool["name"] for tool in asked.get("tools", [])]
        return message(asked["model"], self._said(turns, offered, results))

    async def _answer_openai(self, request: Request) -> Response:
        asked = await request.json()
        turns = [each for each in asked["messages"] if each["role"] == "user"]
        results = {
            each["tool_call_id"].removeprefix("call_"): _text(each["content"])
            for each in asked["messages"]
            if each["role"] == "tool"
        }
        offered = [tool["function"]["name"] for tool in asked.get("tools", [])]
        return completion(asked["model"], self._said(turns, offered, results))

    def _said(self, turns: list[dict[str, Any]], offered: list[str], known: dict[str, str]) -> str | Call:
        """Return what is said to the last order of a user's.

        Args:
            turns: What the user has said; hosts add to it, and may repeat it.
            offered: The tools.
            known: What calls have answered, by their numbers.
        """
        orders = [order for turn in turns for order in _ORDER.findall(_text(turn["content"]))]
        if not orders or not offered:  # what hosts ask beside, such as a title
            return _NOTHING
        number, tool, arguments = orders[-1]
        calls = self._calls(f"mcp__{self._server}__{tool}", json.loads(arguments), offered)
        numbers = [int(number) * 10 + place for place in range(len(calls))]
        results = [known[str(each)] for each in numbers if str(each) in known]
        step = self.steps.setdefault(int(number), Step())
        step.offered, step.results = offered, results
        if len(results) < len(calls):
            return Call(*calls[len(results)], numbers[len(results)])
        step.is_over.set()
        return f"End of step {number}."

    def _calls(self, tool: str, arguments: dict[str, Any], offered: list[str]) -> list[tuple[str, Any]]:
        """Return what is to be called, which is nothing where the host has no such tool."""
        if tool in offered:
            return [(tool, arguments)]
        if "tool_call" in offered:  # a host that keeps the tools of servers behind two of its own
            search = ("tool_search", {"query": f"select:{tool}"})
            return [search, ("tool_call", {"name": tool, "arguments": arguments})]
        return []


def _text(content: str | list[dict[str, Any]]) -> str:
    """Return the text of a message, or of a result."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in content if "text" in block)
