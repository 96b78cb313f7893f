"""Sampling: requests from a server to the client's model (client/sampling; deprecated since 2026-07-28)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal

from ..._utils.exceptions import MalformedError, ProtocolError
from ..._utils.option_checks import check_function
from ...protocol.jsonrpc import Json, is_array, is_object
from ...requests.elicitation_and_sampling import SamplingResult

_REJECTED: Final = -1
"""The error code of a rejection by the user, from the specification's example."""
_UNNAMED: Final = "unknown"


class SampleRequest:
    """A sampling request: a server requests a message from the client's model.

    Args:
        params: The params of the request.
        server: The server's `Implementation`.

    Attributes:
        messages: The conversation, each with `role` and `content`: one content block or several.
        max_tokens: The most tokens to generate.
        system: The system prompt, or None.
        temperature: The temperature, or None.
        stop_sequences: Texts at which the model stops.
        model_preferences: `hints` and priorities; empty if the server sends none.
        include_context: `none`, `thisServer` or `allServers`.
        tools: Definitions of tools that the model may use, as in `tools/list`. They need not be tools of the server.
        tool_choice: `auto`, `required` or `none`.
        metadata: Metadata for the model's provider; empty if the server sends none.
        params: All params of the request.
        server: The server's `Implementation` (`name`, `title`). Show the user which server sends the request.

    Raises:
        MalformedError: The params are malformed.
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
        """The text of the last message; text blocks are joined by newlines."""
        blocks = _blocks(self.messages[-1]) if self.messages else []
        return "\n".join(str(block.get("text")) for block in blocks if block.get("type") == "text")

    def result(self, answer: object) -> Json:
        """Return the `CreateMessageResult` to send to the server.

        Args:
            answer: The generated text; a `SamplingResult`; a `CreateMessageResult` as a dict with at least `content`;
                or None if the user declined.

        Raises:
            ProtocolError: The user declined.
            TypeError: The answer is none of these.
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
        """Return a representation with the text of the last message."""
        return f"SampleRequest({self.text!r}, max_tokens={self.max_tokens})"


SamplingFunction = Callable[
    [SampleRequest],
    "str | SamplingResult | Mapping[str, Any] | Awaitable[str | SamplingResult | Mapping[str, Any] | None] | None",
]
"""Generates a message with a model; see `SampleRequest.result` for its return value. It may be `async`."""


class SamplingHandler:
    """A sampling function with the sampling capabilities that it supports.

    Args:
        handler: Called with a `SampleRequest`; see `SampleRequest.result` for its return value.
        tools: Whether it passes the tools of a request to the model and returns tool uses (since 2025-11-25).
        context: Whether it supports `include_context` (deprecated).

    Attributes:
        handler: The function.
        tools: Whether it supports tools.
        context: Whether it supports `include_context`.

    Raises:
        TypeError: `handler` is not a function.
    """

    def __init__(self, handler: SamplingFunction, *, tools: bool = False, context: bool = False) -> None:
        check_function("sampling_handler", handler, "a SampleRequest", or_else="or a SamplingHandler")
        self.handler = handler
        self.tools = tools
        self.context = context


def _member(params: Json, name: str, kinds: Any, default: Any) -> Any:
    value = params.get(name, default)
    if value is not None and not isinstance(value, kinds):
        expected = {dict: "an object", list: "an array", str: "a string"}.get(kinds, "a number")
        raise MalformedError(f"{name}: expected {expected}")
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
