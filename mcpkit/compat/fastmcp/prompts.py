"""Prompts and their messages."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable

from pydantic import BaseModel, PydanticSchemaGenerationError, TypeAdapter
from pydantic import ValidationError as PydanticValidationError
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic_core import to_json
from typing_extensions import Self

from ...protocol.jsonrpc import Json
from ...protocol.objects import Incomplete
from ..sdk_models import is_kind, to_json_object
from .components import Change, Component
from .exceptions import FastMCPError, PromptError
from .functions import Function
from .refusing import Refuses


class Message(Refuses):
    """A message of a prompt: a text, a content block, or any other value as JSON."""

    def __init__(self, content: Incomplete, role: str = "user") -> None:
        self.role = role
        if not isinstance(content, BaseModel) or not hasattr(content, "type"):
            text = content if isinstance(content, str) else to_json(content, fallback=str).decode()
            self.content: Json = {"type": "text", "text": text}
        else:
            self.content = to_json_object(content)

    def said(self) -> Json:
        """Return the message in the form of `prompts/get`."""
        return {"role": self.role, "content": self.content}


class PromptResult(Refuses):
    """All messages of a prompt."""

    def __init__(
        self, messages: str | list[Incomplete], description: str | None = None, meta: Json | None = None
    ) -> None:
        given: list[Incomplete] = [messages] if isinstance(messages, str) else messages
        self.messages = [_message(at, each) for at, each in enumerate(given)]
        self.description, self.meta = description, meta

    def answer(self) -> Json:
        """Return the result of `prompts/get`."""
        said: Json = {"messages": [each.said() for each in self.messages]}
        if self.description is not None:
            said["description"] = self.description
        return {**said, "_meta": self.meta} if self.meta else said


def _message(at: int, value: Incomplete) -> Message:
    if isinstance(value, Message):
        return value
    if isinstance(value, str):
        return Message(value)
    if isinstance(value, BaseModel) and is_kind(type(value), "PromptMessage", "Message"):
        return Message(value.content, value.role)  # type: ignore[attr-defined]  # of whichever package
    raise TypeError(
        f"messages[{at}] must be Message or str, got {type(value).__name__}. Use Message({value!r}) to wrap the value."
    )


class Prompt(Component):
    """A function that returns messages for a model."""

    kind = "prompt"

    def __init__(self, fn: Callable[..., Incomplete], **said: Incomplete) -> None:
        self.fn = fn
        self.function = Function(fn, "prompts")
        super().__init__(self.function.name, self.function.description, said)
        schema = self.function.schema()
        required = schema.get("required", [])
        self.arguments = [
            {
                "name": name,
                "description": self._text(name, each.get("description")),
                "required": name in required,
            }
            for name, each in schema.get("properties", {}).items()
        ]

    @classmethod
    def from_function(cls, fn: Callable[..., Incomplete], **said: Incomplete) -> Self:
        """Create a prompt from a function."""
        return cls(fn, **said)

    def _text(self, name: str, said: str | None) -> str | None:
        """Return the description of an argument; for one that is not a string, with its JSON Schema."""
        hint = self.function.hints[name]
        if hint in (str, inspect.Parameter.empty):
            return said
        try:
            schema = json.dumps(TypeAdapter(hint).json_schema(), separators=(",", ":"))
        except (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema):
            return said
        note = (
            f"Provide a value matching the following JSON schema: {schema}. Encode non-string values as JSON."
        )
        return f"{said}\n\n{note}" if said else note

    def listed(self, change: Change | None = None) -> Json:
        """Return the list entry."""
        arguments = [
            {name: said for name, said in each.items() if said is not None} for each in self.arguments
        ]
        return super().said(arguments=arguments)

    async def render(self, arguments: Json | None = None) -> PromptResult:
        """Return the messages. Raises PromptError if that fails; ValueError if an argument is missing."""
        given = arguments or {}
        if missing := {each["name"] for each in self.arguments if each["required"]} - given.keys():
            raise ValueError(f"Missing required arguments: {missing}")
        try:
            known = {name: self._read(name, given[name]) for name in self.function.hints if name in given}
            found: Incomplete = await self.function.call(self.function.validated(known))
            if isinstance(found, PromptResult):
                return found
            if not isinstance(found, str | list | tuple):
                kind = type(found).__name__
                raise TypeError(f"Prompt must return str, list[Message], or PromptResult, got {kind}")
            messages: list[Incomplete] = [found] if isinstance(found, str) else [*found]
            return PromptResult(messages, self.description, self.meta)
        except FastMCPError:
            raise
        except Exception as error:
            raise PromptError(f"Error rendering prompt {self.name!r}: {error}") from error

    def _read(self, name: str, value: Incomplete) -> Incomplete:
        """Return an argument with the type of its parameter: parsed JSON, unless the text itself is valid."""
        hint = self.function.hints[name]
        if hint is inspect.Parameter.empty or hint is str or not isinstance(value, str):
            return value
        adapter: TypeAdapter[Incomplete] = TypeAdapter(hint)
        try:
            try:
                found = adapter.validate_python(value)
            except PydanticValidationError:
                return adapter.validate_json(value)
            if isinstance(found, str):
                return found
            try:
                return adapter.validate_json(value)
            except PydanticValidationError:
                return found
        except PydanticValidationError as error:
            raise PromptError(
                f"Could not convert argument '{name}' with value '{value}' to expected type {hint}. Error: {error}"
            ) from error
