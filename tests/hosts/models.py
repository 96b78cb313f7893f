"""Models that call tools, for hosts and agents."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

TOOL = "mcp__notes__whoami"


STEPS = [("tool_search", {"query": f"select:{TOOL}"}), ("tool_call", {"name": TOOL, "arguments": {}})]


class Call(NamedTuple):
    """A call of a tool, which a model wants.

    Attributes:
        name: The tool, as the host calls it.
        arguments: What it is given.
        number: What tells it from the other calls of a session.
    """

    name: str
    arguments: dict[str, Any]
    number: int


def _streamed(events: Iterable[dict[str, Any]], *, has_names: bool) -> Response:
    def lines() -> Iterable[str]:
        for event in events:
            name = f"event: {event['type']}\n" if has_names else ""
            yield f"{name}data: {json.dumps(event)}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


def message(model: str, text: str | Call) -> Response:
    """Return what a model says, or calls, as the Messages API of Anthropic does."""
    if isinstance(text, Call):
        block = {"type": "tool_use", "id": f"toolu_{text.number}", "name": text.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(text.arguments)}
        reason = "tool_use"
    else:
        block, reason = {"type": "text", "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": text}
    usage = {"input_tokens": 1, "output_tokens": 1}
    begun = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return _streamed(
        [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": usage,
            },
            {"type": "message_stop"},
        ],
        has_names=True,
    )


def completion(model: str, text: str | Call) -> Response:
    """Return what a model says, or calls, as the chat completions of OpenAI do."""
    delta: dict[str, Any] = {"role": "assistant"}
    if isinstance(text, Call):
        function = {"name": text.name, "arguments": json.dumps(text.arguments)}
        call = {"index": 0, "id": f"call_{text.number}", "type": "function", "function": function}
        delta["tool_calls"], reason = [call], "tool_calls"
    else:
        delta["content"], reason = text, "stop"
    chunk = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": model}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return _streamed(
        [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ],
        has_names=False,
    )


def messages(steps: Sequence[tuple[str, dict[str, Any]]]) -> Callable[[Request], Awaitable[Response]]:
    """Return what answers as the Messages API of Anthropic does: it calls tools in turn, then says what they said."""

    async def answer(request: Request) -> Response:
        asked = await request.json()
        contents = [each["content"] for each in asked["messages"] if isinstance(each["content"], list)]
        answered = [block for content in contents for block in content if block["type"] == "tool_result"]
        name, arguments = steps[len(answered)] if len(answered) < len(steps) else ("", {})
        if any(tool["name"] == name for tool in asked.get("tools", [])):
            return message(asked["model"], Call(name, arguments, len(answered)))
        return message(asked["model"], json.dumps([block["content"] for block in answered]))

    return answer


async def completions(request: Request) -> Response:
    """Answer as the chat completions of OpenAI do."""
    asked = await request.json()
    answered = [each["content"] for each in asked["messages"] if each["role"] == "tool"]
    # The host keeps the tools of servers behind two of its own.
    has_tools = any(tool["function"]["name"] == "tool_call" for tool in asked.get("tools", []))
    if has_tools and len(answered) < len(STEPS):
        return completion(asked["model"], Call(*STEPS[len(answered)], len(answered)))
    return completion(asked["model"], json.dumps(answered))


app = Starlette(
    routes=[
        Route("/v1/messages", messages([(TOOL, {})]), methods=["POST"]),
        Route("/v1/chat/completions", completions, methods=["POST"]),
    ]
)


"""It calls `whoami`."""


def calling(steps: Sequence[tuple[str, dict[str, Any]]]) -> Starlette:
    """Return a model of Anthropic's that calls these tools, one after the other."""
    return Starlette(routes=[Route("/v1/messages", messages(steps), methods=["POST"])])


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
