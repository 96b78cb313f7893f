"""Prompts: message templates that a user picks (server/prompts)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from .completion import Completer, Completers, completers_of
from .component import Component, optional
from .content import to_content
from .context import Context
from .errors import INVALID_PARAMS, ArgumentsError, ProtocolError, RegistrationError
from .protocol.revisions import narrow
from .protocol.types import Icon
from .schema import Arguments
from .tools import function_name

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


class PromptOptions(TypedDict, total=False):
    """The keyword arguments of `Prompt`, as `@prompt(...)` takes them."""

    name: str | None
    title: str | None
    description: str | None
    icons: Sequence[Icon] | None
    meta: Mapping[str, Any] | None
    tags: Collection[str]
    complete: Completers | None


class Prompt(Component):
    """A prompt: its arguments, and how its function is called.

    Args:
        function: The author's function.
        name: Its name; the function's when None.
        title: A name for people.
        description: What it is for; the docstring's summary and body when None.
        icons: Pictures that a host may show.
        meta: The `_meta` of its listed form.
        tags: Free words, never sent.
        complete: Completions by argument name: a list of strings, or `fn(value, arguments)`.

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
        title: str | None = None,
        description: str | None = None,
        icons: Sequence[Icon] | None = None,
        meta: Mapping[str, Any] | None = None,
        tags: Collection[str] = (),
        complete: Completers | None = None,
    ) -> None:
        name = name if name is not None else function_name(function)
        if not name:
            raise RegistrationError("a prompt needs a name that is not empty")
        super().__init__(
            function, key=name, title=title, description=description, icons=icons, meta=meta, tags=tags
        )
        self._complete = complete
        self._arguments: Arguments | None = None
        self._completers: dict[str, Completer] = {}

    @property
    def name(self) -> str:
        """The name by which it is got."""
        return self.key

    @property
    def arguments(self) -> Arguments:
        """The validator of its arguments."""
        if self._arguments is None:
            self.resolve()
        assert self._arguments is not None
        return self._arguments

    @property
    def completers(self) -> Mapping[str, Completer]:
        """What completes each argument that can be completed."""
        if self._arguments is None:
            self.resolve()
        return self._completers

    def build(self) -> None:
        """Build the arguments from the type hints."""
        signature = self.signature
        if signature.extra is not inspect.Parameter.empty:
            raise RegistrationError(
                f"prompt {self.key!r}: the arguments of a prompt are listed by name; "
                "name each one instead of **kwargs"
            )
        self._completers = completers_of(self, signature.parameters, self._complete)
        self._arguments = Arguments.of(signature)

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
            ProtocolError: -32602, when the arguments do not fit.
            Exception: Whatever the function raises.
        """
        try:
            kwargs = self.arguments.validate_strings(arguments)
        except ArgumentsError as error:
            raise ProtocolError(INVALID_PARAMS, str(error)) from None
        messages = to_messages(await self.run(kwargs, ctx))
        return optional(description=self.description, messages=messages)


def to_messages(value: Any) -> list[dict[str, Any]]:
    """Return what a prompt's function returned as messages of the newest revision.

    Args:
        value: A string, a `Message`, content of any kind, or a list of these. What is no
            `Message` is said by the user.

    Raises:
        ValueError: It has no JSON form.
    """
    parts: Sequence[Any] = value if type(value) in {list, tuple} else [value]
    messages: list[dict[str, Any]] = []
    for part in parts:
        message = part if isinstance(part, Message) else Message("user", part)
        messages += [{"role": message.role, "content": block} for block in to_content(message.content)]
    return messages
