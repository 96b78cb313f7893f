"""Messages of prompts and of sampling requests."""

from __future__ import annotations

from typing import Any, Literal

Role = Literal["user", "assistant"]


class Message:
    """A message of a prompt or of a sampling request.

    Args:
        role: `user` or `assistant`.
        content: A string or other content (`Image`, `File`, a dict, ...). Several parts become several messages, as a
            message of the protocol has one part.

    Raises:
        ValueError: `role` is another word.
    """

    __slots__ = ("content", "role")

    def __init__(self, role: Role, content: Any) -> None:
        if role not in {"user", "assistant"}:
            raise ValueError(f"role must be 'user' or 'assistant', got {role!r}")
        self.role = role
        self.content = content

    def __repr__(self) -> str:
        """Show role and content."""
        return f"Message({self.role!r}, {self.content!r})"


def user(content: Any) -> Message:
    """Return a message with the role `user`.

    Args:
        content: Content of the message, see `Message`.
    """
    return Message("user", content)


def assistant(content: Any) -> Message:
    """Return a message with the role `assistant`.

    Args:
        content: Content of the message, see `Message`.
    """
    return Message("assistant", content)
