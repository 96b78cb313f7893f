"""Models that do what a script says, for hosts that need one: they call `whoami`, and repeat what it has answered."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

TOOL = "mcp__notes__whoami"
STEPS = [("tool_search", {"query": f"select:{TOOL}"}), ("tool_call", {"name": TOOL, "arguments": {}})]


def _streamed(events: Iterable[dict[str, Any]], *, has_names: bool) -> Response:
    def lines() -> Iterable[str]:
        for event in events:
            name = f"event: {event['type']}\n" if has_names else ""
            yield f"{name}data: {json.dumps(event)}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


async def messages(request: Request) -> Response:
    """Answer as the Messages API of Anthropic does."""
    asked = await request.json()
    contents = [message["content"] for message in asked["messages"] if isinstance(message["content"], list)]
    answered = [block for content in contents for block in content if block["type"] == "tool_result"]
    has_tool = any(tool["name"] == TOOL for tool in asked.get("tools", []))
    if has_tool and not answered:
        block = {"type": "tool_use", "id": "toolu_1", "name": TOOL, "input": {}}
        delta, reason = {"type": "input_json_delta", "partial_json": "{}"}, "tool_use"
    else:
        block = {"type": "text", "text": ""}
        text = json.dumps([block["content"] for block in answered])
        delta, reason = {"type": "text_delta", "text": text}, "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": asked["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    return _streamed(
        [
            {"type": "message_start", "message": message},
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


async def completions(request: Request) -> Response:
    """Answer as the chat completions of OpenAI do."""
    asked = await request.json()
    answered = [message["content"] for message in asked["messages"] if message["role"] == "tool"]
    # The host keeps the tools of servers behind two of its own.
    has_tools = any(tool["function"]["name"] == "tool_call" for tool in asked.get("tools", []))
    delta: dict[str, Any] = {"role": "assistant"}
    if has_tools and len(answered) < len(STEPS):
        name, arguments = STEPS[len(answered)]
        function = {"name": name, "arguments": json.dumps(arguments)}
        call = {"index": 0, "id": f"call_{len(answered)}", "type": "function", "function": function}
        delta["tool_calls"], reason = [call], "tool_calls"
    else:
        delta["content"], reason = json.dumps(answered), "stop"
    chunk = {"id": "chat_1", "object": "chat.completion.chunk", "created": 1, "model": asked["model"]}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return _streamed(
        [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage},
        ],
        has_names=False,
    )


app = Starlette(
    routes=[
        Route("/v1/messages", messages, methods=["POST"]),
        Route("/v1/chat/completions", completions, methods=["POST"]),
    ]
)
