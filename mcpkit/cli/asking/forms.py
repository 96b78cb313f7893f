"""Forms of a server, filled in by answers that are given beforehand and by questions at the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from ...client.asking.forms import FormField, FormRequest
from ...client.tools.schemas import ServerSchema
from ...protocol.jsonrpc import Json
from ..console import write_stderr
from .schemas import type_words
from .terminal import Terminal
from .values import UnfitError, Word, converted, parsed

_LIMITS: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "{}",
}


class Filling:
    """A form that is being filled in.

    Args:
        form: The form.
        answers: What has been answered beforehand, whatever form asks for it.

    Attributes:
        entries: What has been entered.

    Raises:
        ValueError: An answer does not fit; the message says what is taken.
    """

    def __init__(self, form: FormRequest, answers: Sequence[Word]) -> None:
        self.entries: Json = {}
        self._form = form
        self._is_answered = False
        for field in form.fields:
            words = [word for word in answers if word.key == field.name]
            if words:
                self._is_answered = True
                try:
                    self.entries[field.name] = self._value(field, words)
                except UnfitError as error:
                    raise ValueError(f"--answer {field.name}: {error}") from None

    @property
    def is_whole(self) -> bool:
        """Whether nothing has to be asked: an answer is given, and all else has a default or may be left out."""
        return self._is_answered and not any(
            field.is_required and field.default is None and field.name not in self.entries
            for field in self._form.fields
        )

    def unanswered(self) -> str:
        """Say what is asked, and how it is answered without a terminal."""
        fields = [field for field in self._form.fields if field.name not in self.entries]
        named = ", ".join(f"{field.name} ({_kind(field)})" for field in fields)
        first = next((field.name for field in fields if field.is_required), fields[0].name if fields else "")
        hint = f"Add --answer {first}=VALUE" if fields else "Run the command in a terminal"
        return (
            f"mcpkit: {_who(self._form)} requests: {self._form.message}\n"
            f"mcpkit: no terminal to enter {named or 'yes or no'}, so the request is cancelled. {hint}"
        )

    async def ask(self, terminal: Terminal) -> bool:
        """Ask for all that is left, field by field, and say whether the user has agreed to answer.

        Raises:
            KeyboardInterrupt: The user has pressed Ctrl+C.
        """
        write_stderr(f"{_who(self._form)} requests: {self._form.message}")
        if not self._form.fields:
            return await terminal.yes("Agree?")
        write_stderr("(Ctrl+D declines, Ctrl+C cancels)")
        for field in self._form.fields:
            if field.name not in self.entries and not await self._ask(field, terminal):
                return False
        return True

    async def _ask(self, field: FormField, terminal: Terminal) -> bool:
        notes = [
            template.format(field.schema[key]) for key, template in _LIMITS.items() if key in field.schema
        ]
        about = f": {field.description}" if field.description else ""
        write_stderr(f"{field.title} ({', '.join([_kind(field), *notes])}){about}")
        for number, choice in enumerate(field.choices, 1):
            shown = choice.title if choice.title == choice.value else f"{choice.title} ({choice.value})"
            write_stderr(f"  {number}  {shown}")
        default = "" if field.default is None else f" [{_shown(field.default)}]"
        while True:
            line = await terminal.line(f"{field.name}{default}> ")
            if line is None:
                return False
            if not line.strip() and (field.default is not None or not field.is_required):
                return True
            try:
                self.entries[field.name] = self._typed(field, line)
            except UnfitError as error:
                write_stderr(f"  {error}")
            else:
                return True

    def _typed(self, field: FormField, line: str) -> object:
        """Return what a line means: a choice by its number, its title or its value; several behind commas.

        Raises:
            UnfitError: It does not fit the field.
        """
        if field.kind == "choices":
            parts = [part.strip() for part in line.split(",") if part.strip()]
            return self._checked(field, [_chosen(field, part) for part in parts])
        if field.kind == "choice":
            return self._checked(field, _chosen(field, line.strip()))
        if field.kind == "boolean":
            line = {"y": "true", "yes": "true", "n": "false", "no": "false"}.get(
                line.strip().casefold(), line
            )
        if not line.strip():
            raise UnfitError("a value is required")
        return self._value(field, [Word(field.name, line, is_json=False)])

    def _value(self, field: FormField, words: list[Word]) -> object:
        if words[0].is_json:
            return self._checked(field, parsed(words[0].text))
        texts = [word.text for word in words]
        if field.kind in ("choice", "choices"):
            texts = [_chosen(field, text) for text in texts]
        return self._checked(field, converted(texts, field.schema, self._form.schema))

    def _checked(self, field: FormField, value: object) -> object:
        schema: Json = {**self._form.schema, "properties": {field.name: field.schema}, "required": []}
        problems = ServerSchema(schema, asserts_formats=True).problems({field.name: value})
        if problems:
            raise UnfitError("; ".join(problem.message for problem in problems))
        return value


def _chosen(field: FormField, text: str) -> str:
    values = [choice.value for choice in field.choices]
    if text in values:
        return text
    for choice in field.choices:
        if choice.title.casefold() == text.casefold():
            return choice.value
    if text.isdecimal() and 1 <= int(text) <= len(values):
        return values[int(text) - 1]
    raise UnfitError(f"must be one of {', '.join(values)}")


def _kind(field: FormField) -> str:
    words = {
        "choice": "one of these",
        "choices": "several of these, separated by commas",
        "boolean": "y or n",
    }
    if field.kind in ("choice", "choices") and not field.choices:
        return type_words(field.schema, {})
    kind = words.get(field.kind, field.kind)
    return kind if field.is_required else f"{kind}, optional"


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _who(form: FormRequest) -> str:
    return str(form.server.get("title") or form.server.get("name") or "the server")
