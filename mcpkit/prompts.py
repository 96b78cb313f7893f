"""Prompts: message templates that a user picks (server/prompts)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import Unpack

from .completion import Completable, Completers
from .component import ComponentOptions, function_name, optional
from .content.values import to_content
from .context import Context
from .errors import RegistrationError
from .protocol.revisions import narrow

Role = Literal["user", "assistant"]


class Message:
    """A message of a prompt.

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


class Prompt(Completable):
    """A prompt: its arguments, and how its function is called.

    Args:
        function: The author's function.
        name: Its name; the function's when None.
        complete: Completions by argument name: a list of strings, or `fn(value, arguments)`.
        options: `title`, `description` and what else every component has, as the decorator takes it.

    Raises:
        RegistrationError: The definition cannot be served; the message says what to change.
    """

    kind = "prompt"
    wire = "Prompt"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        complete: Completers | None = None,
        **options: Unpack[ComponentOptions],
    ) -> None:
        name = name if name is not None else function_name(function)
        if not name:
            raise RegistrationError("a prompt needs a name that is not empty")
        super().__init__(function, name, complete, **options)

    @property
    def name(self) -> str:
        """The name by which it is got."""
        return self.key

    def build(self) -> None:
        """Build the arguments from the type hints."""
        if self.signature.extra is not inspect.Parameter.empty:
            raise RegistrationError(
                f"prompt {self.key!r}: the arguments of a prompt are listed by name; "
                "name each one instead of **kwargs"
            )
        super().build()

    def describe(self, revision: str) -> dict[str, Any]:
        """Return the `Prompt` of the specification."""
        schema = self.arguments.schema
        required = schema.get("required", ())
        arguments = [
            narrow(
                "PromptArgument",
                optional(
                    name=name,
                    title=definition.get("title"),
                    description=definition.get("description"),
                    required=True if name in required else None,
                ),
                revision,
            )
            for name, definition in schema["properties"].items()
        ]
        return optional(
            name=self.key,
            title=self.title,
            description=self.description,
            arguments=arguments or None,
            icons=self.icons,
            _meta=self.meta,
        )

    async def get(self, arguments: Mapping[str, str], ctx: Context[Any]) -> dict[str, Any]:
        """Parse the arguments, run the function and render its messages.

        Args:
            arguments: Text by name; parsed to each parameter's type.
            ctx: The request.

        Returns:
            A `GetPromptResult` of the newest revision.

        Raises:
            ArgumentsError: The arguments do not fit.
            Exception: Whatever the function raises.
        """
        kwargs = self.arguments.validate_strings(arguments)
        messages = await self.run(kwargs, ctx, to_messages)
        return optional(description=self.description, messages=messages)


def to_messages(value: Any) -> list[dict[str, Any]]:
    """Return what a prompt's function returned as messages of the newest revision.

    Args:
        value: A string, a `Message`, content of any kind, or a list of these. What is no
            `Message` is said by the user.

    Raises:
        TypeError: It has no JSON form, or is a message written as a dict.
        ValueError: A string in it has no JSON form.
    """
    parts: Sequence[Any] = value if type(value) in {list, tuple} else [value]
    messages: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, dict) and part.keys() == {"role", "content"}:
            raise TypeError(
                'a prompt returned a dict with role and content: write user("...") or assistant("...")'
            )
        message = part if isinstance(part, Message) else Message("user", part)
        messages += [{"role": message.role, "content": block} for block in to_content(message.content)]
    return messages
