"""The messages of prompts."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, TypeAdapter
from pydantic_core import to_json

from ..types import ContentBlock, TextContent


class Message(BaseModel, defer_build=True):
    """Base class for all prompt messages."""

    role: Literal["user", "assistant"]
    content: ContentBlock

    def __init__(self, content: str | ContentBlock, **kwargs: object) -> None:
        """Take a text, or content of another kind."""
        block = TextContent(type="text", text=content) if isinstance(content, str) else content
        super().__init__(content=block, **kwargs)


class UserMessage(Message):
    """A message from the user."""

    role: Literal["user", "assistant"] = "user"

    def __init__(self, content: str | ContentBlock, **kwargs: object) -> None:
        """Take a text, or content of another kind."""
        super().__init__(content, **kwargs)


class AssistantMessage(Message):
    """A message from the assistant."""

    role: Literal["user", "assistant"] = "assistant"

    def __init__(self, content: str | ContentBlock, **kwargs: object) -> None:
        """Take a text, or content of another kind."""
        super().__init__(content, **kwargs)


Spoken: TypeAlias = UserMessage | AssistantMessage
message_validator: TypeAdapter[Spoken] = TypeAdapter(Spoken, config=ConfigDict(defer_build=True))


def message_of(value: object) -> Message:
    """Return the return value of a prompt, or a part of it, as a message."""
    try:
        if isinstance(value, Message):
            return value
        if isinstance(value, dict):
            return message_validator.validate_python(value)
        text = value if isinstance(value, str) else to_json(value, fallback=str, indent=2).decode()
        return UserMessage(text)
    except Exception as error:
        raise ValueError(f"Could not convert prompt result to message: {value}") from error
