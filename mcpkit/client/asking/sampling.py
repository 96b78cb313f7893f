"""Words that a server wants of the client's model (client/sampling; deprecated since 2026-07-28)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from ...calls.asking.sampling import SamplingResult
from ...common.errors import MalformedError, ProtocolError
from ...common.functions import check_function
from ...protocol.jsonrpc import is_array, is_object
from ...protocol.types import Json

_REJECTED: Final = -1
"""What the specification's example of a user's no has as code."""
_UNNAMED: Final = "unknown"


class SampleRequest:
    """What a server wants to have said by the client's model.

    Attributes:
        messages: The conversation, as the specification has it: `role`, and `content`, a block or several.
        max_tokens: The most tokens that may be said.
        system: A system prompt, or None.
        temperature: How freely to speak, or None.
        stop_sequences: Texts at which to stop.
        model_preferences: `hints` and priorities; empty where there are none.
        include_context: `none`, `thisServer` or `allServers`.
        tools: Tools that the model may use, as `tools/list` shows them; those of the server's own making.
        tool_choice: Whether it must use one: `auto`, `required` or `none`.
        metadata: For the model's provider; empty where there is none.
        params: All params of the request.
        server: What the server says it is (`name`, `title`); people should see who asks.
    """

    def __init__(self, params: Json, server: Json) -> None:
        messages: object = params.get("messages")
        if not is_array(messages) or not all(_is_message(each) for each in messages):
            raise MalformedError("messages: expected an array of messages with role and content")
        if type(params.get("maxTokens")) is not int:
            raise MalformedError("maxTokens: expected an integer")
        choice = _member(params, "toolChoice", dict, {})
        self.params = params
        self.server = server
        self.messages: list[Json] = messages
        self.max_tokens: int = params["maxTokens"]
        self.system: str | None = _member(params, "systemPrompt", str, None)
        self.temperature: float | None = _member(params, "temperature", (int, float), None)
        self.stop_sequences: list[str] = _member(params, "stopSequences", list, [])
        self.model_preferences: Json = _member(params, "modelPreferences", dict, {})
        self.include_context: str = _member(params, "includeContext", str, "none")
        self.tools: list[Json] = _member(params, "tools", list, [])
        self.tool_choice: Literal["auto", "required", "none"] = choice.get("mode", "auto")
        self.metadata: Json = _member(params, "metadata", dict, {})

    @property
    def text(self) -> str:
        """All that is text in the last message."""
        blocks = _blocks(self.messages[-1]) if self.messages else []
        return "\n".join(str(block.get("text")) for block in blocks if block.get("type") == "text")

    def result(self, answer: object) -> Json:
        """Return the result that tells the server what the model has said.

        Args:
            answer: A text; a `SamplingResult`; a `CreateMessageResult` of the specification with at least `content`;
                or None where the user declined.

        Raises:
            ProtocolError: The user has said no.
            TypeError: It is none of them.
        """
        if answer is None:
            raise ProtocolError(_REJECTED, "The user has rejected the sampling request")
        if isinstance(answer, SamplingResult):
            stopped = {} if answer.stop_reason is None else {"stopReason": answer.stop_reason}
            answer = {"content": answer.content, "role": answer.role, "model": answer.model, **stopped}
        elif isinstance(answer, str):
            answer = {"content": answer, "stopReason": "endTurn"}
        content: object = answer.get("content") if is_object(answer) else None
        if isinstance(content, str):
            content = {"type": "text", "text": content}
        if is_array(content) and len(content) == 1:
            content = content[0]  # before 2025-11-25 there is no other form
        if not is_object(answer) or not all(_is_block(each) for each in _blocks({"content": content})):
            raise TypeError(
                "sampling_handler must return a string, a SamplingResult, or a dict with `content`: a string, "
                "a content block or a list of "
                f"them, not {answer!r}"
            )
        return {"role": "assistant", "model": _UNNAMED, **answer, "content": content}

    def __repr__(self) -> str:
        """Show the last text."""
        return f"SampleRequest({self.text!r}, max_tokens={self.max_tokens})"


SamplingFunction = Callable[
    [SampleRequest],
    "str | SamplingResult | Mapping[str, Any] | Awaitable[str | SamplingResult | Mapping[str, Any] | None] | None",
]
"""The model's result for a server's request; see `SampleRequest.result`."""


class SamplingHandler:
    """A handler of a server's requests for a model, and what it can do besides speaking.

    Args:
        handler: Takes a `SampleRequest`, and returns what the model has said.
        tools: Whether it gives the model the tools of a request, and returns what it wants to use (since 2025-11-25).
        context: Whether it heeds `include_context` (deprecated).
    """

    def __init__(self, handler: SamplingFunction, *, tools: bool = False, context: bool = False) -> None:
        check_function("sampling_handler", handler, "a SampleRequest", or_else="or a SamplingHandler")
        self.handler = handler
        self.tools = tools
        self.context = context


def _member(params: Json, name: str, kinds: Any, default: Any) -> Any:
    value = params.get(name, default)
    if value is not None and not isinstance(value, kinds):
        raise MalformedError(f"{name}: not of the type that it has")
    return value


def _is_message(message: object) -> bool:
    return (
        is_object(message) and isinstance(message.get("role"), str) and all(map(_is_block, _blocks(message)))
    )


def _is_block(block: object) -> bool:
    return is_object(block) and isinstance(block.get("type"), str)


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if is_array(content) else [content]
