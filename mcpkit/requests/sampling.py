"""Requests of a handler to the client's model (client/sampling)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, cast

from typing_extensions import TypedDict, Unpack

from .._utils.errors import InvalidAnswerError, OutputError
from ..content.lazy import LeaveLoop
from ..content.messages import Message
from ..content.values import to_content
from ..protocol.jsonrpc import is_array, is_object
from ..protocol.revisions import SAMPLING_CONTENT, knows
from ..protocol.types import Json
from .elicitation import Question


class SamplingResult:
    """Message of the client's model.

    Attributes:
        content: Content blocks of the message, as in the specification.
        role: Usually `assistant`.
        model: Name of the model.
        stop_reason: Reason why the model stopped, such as `endTurn`, `maxTokens` or `toolUse`; None if unknown.
    """

    __slots__ = ("content", "model", "role", "stop_reason")

    def __init__(self, content: list[Json], role: str, model: str, stop_reason: str | None) -> None:
        self.content = content
        self.role = role
        self.model = model
        self.stop_reason = stop_reason

    @property
    def text(self) -> str:
        """The text blocks of the message, joined."""
        return "".join(block["text"] for block in self.content if block.get("type") == "text")

    def __repr__(self) -> str:
        """Show the text."""
        return f"Sampled({self.text!r}, model={self.model!r})"


class SampleOptions(TypedDict, total=False):
    """Optional parameters of a sampling request (client/sampling, "Creating Messages")."""

    system: str | None
    """A system prompt; the client may change it."""
    temperature: float | None
    """Sampling temperature."""
    stop_sequences: Sequence[str] | None
    """Texts at which the model stops."""
    model_preferences: Mapping[str, Any] | None
    """`hints` and priorities, as in the specification."""
    include_context: Literal["none", "thisServer", "allServers"] | None
    """Context that the client adds to the prompt (deprecated)."""
    tools: Sequence[Mapping[str, Any]] | None
    """Tools that the model may use, in the form of a `tools/list` result (since 2025-11-25)."""
    tool_choice: Literal["auto", "required", "none"] | None
    """Whether the model must use a tool."""
    metadata: Mapping[str, Any] | None
    """Metadata for the provider of the model."""
    key: str | None
    """Name of the request; see `Question`."""


_WIRE = {
    "system": "systemPrompt",
    "temperature": "temperature",
    "stop_sequences": "stopSequences",
    "model_preferences": "modelPreferences",
    "include_context": "includeContext",
    "tools": "tools",
    "metadata": "metadata",
}


class SamplingRequest(Question[SamplingResult]):
    """Request to the client's model to generate a message (client/sampling; deprecated since 2026-07-28).

    Args:
        messages: A text, or messages made by `user(...)` and `assistant(...)`.
        max_tokens: Maximum number of tokens to generate.
        options: Optional parameters; see `SampleOptions`.

    Raises:
        TypeError: Messages or tools have the wrong form, contain content that sampling does not support, or an option
            is unknown.
        ValueError: There are no messages, or max_tokens is below 1.
    """

    method = "sampling/createMessage"

    def __init__(
        self, messages: str | Sequence[Any], *, max_tokens: int, **options: Unpack[SampleOptions]
    ) -> None:
        if unknown := options.keys() - SampleOptions.__annotations__.keys():
            known = ", ".join(SampleOptions.__annotations__)
            raise TypeError(f"unknown option {min(unknown)}=. The options are {known}")
        if max_tokens < 1:
            raise ValueError(f"max_tokens must be at least 1, got {max_tokens!r}")
        self._given = messages
        self._read_messages: list[Json] | None = None
        with suppress(LeaveLoop):  # a file in them is read when the client is asked
            self._read_messages = _messages(messages)
        self._params: Json = {"maxTokens": max_tokens}
        for name, wire in _WIRE.items():
            if (value := options.get(name)) is not None:
                self._params[wire] = value
        if (choice := options.get("tool_choice")) is not None:
            self._params["toolChoice"] = {"mode": choice}
        for tool in self._params.get("tools", ()):
            if not is_object(tool):
                raise TypeError(f"tools must be dicts in the form of a tools/list result, got {tool!r}")
        needed = ["sampling"]
        if not self._params.keys().isdisjoint({"tools", "toolChoice"}):
            needed.append("sampling.tools")
        super().__init__(options.get("key"), *needed)

    def params(self, revision: str) -> Json:
        """Return the params, in the form of the protocol version.

        Raises:
            LeaveLoop: A message contains a file, and this is the thread of an event loop.
        """
        if self._read_messages is None:
            self._read_messages = _messages(self._given)
        messages = self._read_messages
        for name in ("tools", "toolChoice"):
            if name in self._params and not knows(revision, "CreateMessageRequestParams", name):
                raise ValueError(
                    f"protocol version {revision} has no {name} in sampling; omit it for this client"
                )
        for kind in sorted({block["type"] for message in messages for block in _blocks(message)}):
            if SAMPLING_CONTENT[kind] > revision:
                raise ValueError(
                    f"protocol version {revision} has no {kind} in sampling; omit it for this client"
                )
        if knows(revision, "CreateMessageRequestParams", "tools"):
            return {"messages": messages, **self._params}
        # Before there were tools, a message had one block of content.
        apart = [{**message, "content": block} for message in messages for block in _blocks(message)]
        return {"messages": apart, **self._params}

    def read(self, result: Mapping[str, Any]) -> SamplingResult:
        """Return the message of the model."""
        content, role, model = result.get("content"), result.get("role"), result.get("model")
        blocks: list[Any] = content if is_array(content) else [content]
        if not all(is_object(block) and isinstance(block.get("type"), str) for block in blocks):
            raise InvalidAnswerError("content: expected a content block or an array of content blocks")
        if not all(isinstance(block.get("text"), str) for block in blocks if block["type"] == "text"):
            raise InvalidAnswerError("content.text: expected a string")
        if not isinstance(role, str) or not isinstance(model, str):
            raise InvalidAnswerError("role and model: expected strings")
        stop_reason = result.get("stopReason")
        return SamplingResult(blocks, role, model, stop_reason if isinstance(stop_reason, str) else None)


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content")
    return content if is_array(content) else [content]


def _content(message: Message, place: str) -> list[Json]:
    try:
        return to_content(message.content, place)
    except OutputError as error:  # it is no result here
        raise ValueError(str(error)) from error.__cause__


def _messages(messages: object) -> list[Json]:
    if isinstance(messages, str):
        return [{"role": "user", "content": {"type": "text", "text": messages}}]
    if not isinstance(messages, Sequence):
        raise TypeError(
            f'messages must be a string, or a list of user("...") and assistant("..."), got {messages!r}'
        )
    found: list[Json] = []
    for index, message in enumerate(cast("Sequence[object]", messages)):
        if isinstance(message, Message):
            blocks = _content(message, f"messages[{index}].content")
            found.append({"role": message.role, "content": blocks[0] if len(blocks) == 1 else blocks})
        elif is_object(message) and all(is_object(block) for block in _blocks(message)):
            found.append(message)
        else:
            raise TypeError(f'each message must be user("...") or assistant("..."), got {message!r}')
        for block in _blocks(found[-1]):
            if block.get("type") not in SAMPLING_CONTENT:
                kinds, type_ = ", ".join(SAMPLING_CONTENT), block.get("type")
                raise TypeError(
                    f"the content of a sampling message must be {kinds}, got {type_!r} in {message!r}"
                )
    if not found:
        raise ValueError("messages must contain at least one message")
    return found
