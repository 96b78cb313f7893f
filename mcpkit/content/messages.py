"""Messages that a user or a model says: of prompts, and of what a client's model is asked."""

from __future__ import annotations

from typing import Any, Literal

Role = Literal["user", "assistant"]


class Message:
    """A message of a prompt, or of what a client's model is asked.

    Args:
        role: `user` or `assistant`.
        content: A string or any other content (`Image`, `File`, a dict, …). Content of several
            parts becomes several messages, as a message of the protocol holds one part.
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
    """Return a message that the user says; see `Message`."""
    return Message("user", content)


def assistant(content: Any) -> Message:
    """Return a message that the assistant says; see `Message`."""
    return Message("assistant", content)
