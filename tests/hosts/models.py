"""Models that call tools, for hosts and agents."""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
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
        number: Its number in the session.
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
    """Return a text or a call in the form of Anthropic's Messages API."""
    if isinstance(text, Call):
        block = {"type": "tool_use", "id": f"toolu_{text.number}", "name": text.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(text.arguments)}
        reason = "tool_use"
    else:
        block, reason = {"type": "text", "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": text}
    usage = {"input_tokens": 1, "output_tokens": 1}
    stop = {"stop_reason": None, "stop_sequence": None}
    begun = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage,
    }  # fmt: skip
    events = [
        {"type": "message_start", "message": {**begun, **stop}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {**stop, "stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]
    return _streamed(events, has_names=True)


def completion(model: str, text: str | Call) -> Response:
    """Return a text or a call in the form of OpenAI's chat completions."""
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
    """Return an endpoint of Anthropic's Messages API: it calls tools in turn, then returns their results."""

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
