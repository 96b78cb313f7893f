"""Prompts: message templates that users select (server/prompts)."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from typing_extensions import Unpack

from .._utils.exceptions import OutputError, RegistrationError
from ..content.blocks import BLOCKS, Message, check_block, quoted
from ..content.json_encoding import json_value
from ..content.results_to_blocks import to_content
from ..protocol.jsonrpc import Json, is_array, is_object
from ..protocol.revisions import narrow
from ..requests.request_record import Call
from .completion import Completable, Completers
from .component import FunctionOptions, function_name, optional

_ROLES = ("user", "assistant")


class Prompt(Completable):
    """A prompt made from a function.

    Args:
        function: Function that returns the messages: a string, `Message` objects, or content of any kind.
        name: Name of the prompt; None takes the name of the function.
        complete: Completions by argument name: a list of strings, or `fn(value, arguments)`.
        options: See `FunctionOptions`.

    Raises:
        RegistrationError: The definition cannot be served. The message contains the remedy.
        TypeError: There is no such option.
    """

    kind = "prompt"
    wire = "Prompt"

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        complete: Completers | None = None,
        **options: Unpack[FunctionOptions],
    ) -> None:
        name = name if name is not None else function_name(function)
        if not name:
            raise RegistrationError("the name of a prompt must not be empty")
        super().__init__(function, name, complete, **options)

    @property
    def name(self) -> str:
        """Name of the prompt."""
        return self.key

    def build(self) -> None:
        """Build the arguments from the type hints."""
        if self.signature.extra is not inspect.Parameter.empty:
            raise RegistrationError(
                f"prompt {self.key!r}: clients need the name of each argument. "
                "Replace **kwargs by named parameters"
            )
        super().build()

    def describe(self, revision: str) -> Json:
        """Return the `Prompt` object of the specification, with fields of every protocol version."""
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
        return self._entry({"name": self.key}, arguments=arguments or None)

    async def get(self, arguments: Mapping[str, str], call: Call) -> Json:
        """Parse the arguments, run the function and return the messages.

        Args:
            arguments: Strings by argument name; each is parsed to the type of its parameter.
            call: The request.

        Returns:
            A `GetPromptResult` of the newest protocol version.

        Raises:
            ArgumentsError: The arguments do not match the parameters.
            Exception: Raised by the function.
        """
        kwargs = self.arguments.validate_strings(arguments)
        messages = await self.run(kwargs, call, to_messages)
        return optional(description=self.description, messages=messages)


def to_messages(value: Any) -> list[Json]:
    """Convert the value of a prompt's function to messages of the newest protocol version.

    Args:
        value: A string, a `Message`, a message as a dict (`{"role": ..., "content": ...}`), content of any kind, or a
            list of these. Content that is not a message becomes a message of the user.

    Raises:
        OutputError: A part is not a message, or cannot be converted to JSON. The message has its place.
        HandlerError: Code of the prompt raised an exception while the value was read.
    """
    if isinstance(value, Iterator):
        from ..content.json_encoding import unrolled

        value = unrolled(value)
    if not isinstance(value, (list, tuple)):
        return _messages(value, "result")
    parts = cast("Sequence[Any]", value)
    return [message for index, part in enumerate(parts) for message in _messages(part, f"result[{index}]")]


def _messages(part: Any, place: str) -> list[Json]:
    """Return the messages of one part of the value: one for each content block."""
    role = "user"
    if isinstance(part, Message):
        role, blocks = part.role, to_content(part.content, f"{place}.content")
    # A dict is a message, or data: a role that is none of ours makes it data, unless there is content too.
    elif is_object(part) and (
        part.keys() >= {"role", "content"} or (part.keys() == {"role"} and part["role"] in _ROLES)
    ):
        role = part["role"]
        if role not in _ROLES:
            hint = '. Put the text of a system prompt into a message of the "user"' * (role == "system")
            raise OutputError(f'{place}.role: expected "user" or "assistant", got {quoted(role)}{hint}')
        if "content" not in part:
            raise OutputError(f"{place}.content: expected text or other content, but it is missing")
        if others := [name for name in part if name not in ("role", "content")]:
            raise OutputError(f'{place}.{others[0]}: unknown key. A message has "role" and "content"')
        blocks = _blocks(part["content"], f"{place}.content")
    else:
        blocks = to_content(part, place)
    return [{"role": role, "content": block} for block in blocks]


def _blocks(content: Any, place: str) -> list[Json]:
    """Return the content of a message that is a dict: as the specification writes a block, or as for a `Message`."""
    if is_array(content):
        return [block for index, item in enumerate(content) for block in _blocks(item, f"{place}[{index}]")]
    if not is_object(content) or "type" not in content:
        return to_content(content, place)
    kind = content["type"]
    if kind not in BLOCKS:
        raise OutputError(f"{place}.type: expected one of {', '.join(BLOCKS)}, got {quoted(kind)}")
    check_block(content, place)
    return [json_value(content, place)]
