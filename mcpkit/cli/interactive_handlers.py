"""Input from the user at the terminal: lines, yes-or-no questions, elicitation forms."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..protocol.jsonrpc import Json
from .console import ProgressDisplay, write_stderr
from .exit_status import CommandError, Status
from .key_values_and_usage import (
    ConversionError,
    KeyValue,
    convert,
    parse_json,
    parse_key_values,
    type_summary,
)

if TYPE_CHECKING:
    from ..client.elicitation_and_input_rounds import FormField, FormRequest, UrlRequest


_MAX_LINE: Final = 64 * 1024
"""Bytes of a line."""

_LIMITS: Final = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "format": "{}",
}

_TYPES: Final = {
    "choice": "one of these",
    "choices": "several of these, separated by commas",
    "boolean": "y or n",
}


class Terminal:
    """The terminal of the command, read without blocking the event loop."""

    @property
    def is_interactive(self) -> bool:
        """True if standard input and standard error are a terminal."""
        return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()

    async def read_line(self, prompt: str) -> str | None:
        """Read a line.

        Args:
            prompt: The text before the cursor.

        Returns:
            The line without its end; None at the end of the input (Ctrl+D).

        Raises:
            KeyboardInterrupt: The user has pressed Ctrl+C.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[bytes | None] = loop.create_future()
        descriptor = sys.stdin.fileno()

        def set_line(line: bytes | None) -> None:
            if not future.done():
                future.set_result(line)

        def read() -> None:
            loop.call_soon_threadsafe(set_line, os.read(descriptor, _MAX_LINE))

        def interrupt(number: int, frame: object) -> None:
            """End the question alone, and not the command."""
            loop.call_soon_threadsafe(set_line, None)

        is_main = threading.current_thread() is threading.main_thread()
        handler = signal.signal(signal.SIGINT, interrupt) if is_main else None
        if os.name == "nt":  # event loops of Windows cannot wait for consoles
            threading.Thread(target=read, name="mcpkit-terminal", daemon=True).start()
        else:
            loop.add_reader(descriptor, read)
        try:
            sys.stderr.write(prompt)
            sys.stderr.flush()
            line = await future
        finally:
            if os.name != "nt":
                loop.remove_reader(descriptor)
            if is_main:
                signal.signal(signal.SIGINT, handler)
        if line is None:
            sys.stderr.write("\n")
            raise KeyboardInterrupt
        if not line:
            sys.stderr.write("\n")
            return None
        return line.decode(sys.stdin.encoding or "utf-8", "replace").rstrip("\r\n")

    async def confirm(self, question: str) -> bool:
        """Read y or n until the user enters one of them; the end of the input means no.

        Raises:
            KeyboardInterrupt: The user has pressed Ctrl+C.
        """
        while True:
            line = await self.read_line(f"{question} [y/n] ")
            if line is None:
                return False
            if line.strip().casefold() in ("y", "yes", "n", "no"):
                return line.strip().casefold().startswith("y")
            write_stderr("  enter y or n")


class FormPrompt:
    """A form of a server, filled in from `--answer` options and at the terminal.

    Args:
        form: The form.
        answers: The `--answer` options; those without a field in this form are ignored.

    Attributes:
        values: The values so far, by name of the field.

    Raises:
        ValueError: An answer does not match its field.
    """

    def __init__(self, form: FormRequest, answers: Sequence[KeyValue]) -> None:
        self.values: Json = {}
        self._form = form
        self._server = str(form.server.get("title") or form.server.get("name") or "the server")
        for field in form.fields:
            pairs = [pair for pair in answers if pair.key == field.name]
            if pairs:
                try:
                    self.values[field.name] = self._convert(field, pairs)
                except ConversionError as error:
                    raise ValueError(f"--answer {field.name}: {error}") from None
        self._has_answers = bool(self.values)

    @property
    def is_complete(self) -> bool:
        """True if there is an answer, and each other field has a default or is optional."""
        return self._has_answers and not any(
            field.is_required and field.default is None and field.name not in self.values
            for field in self._form.fields
        )

    def no_terminal_message(self) -> str:
        """Return the message for a form that is cancelled as there is no terminal."""
        fields = [field for field in self._form.fields if field.name not in self.values]
        names = ", ".join(f"{field.name} ({_type_of_field(field)})" for field in fields)
        first = next((field.name for field in fields if field.is_required), fields[0].name if fields else "")
        hint = f"Add --answer {first}=VALUE" if fields else "Run the command in a terminal"
        return (
            f"mcpkit: {self._server} requests: {self._form.message}\n"
            f"mcpkit: no terminal to enter {names or 'yes or no'}, so the request is cancelled. {hint}"
        )

    async def prompt(self, terminal: Terminal) -> bool:
        """Prompt for each field without a value, and return False if the user declines.

        Raises:
            KeyboardInterrupt: The user has pressed Ctrl+C.
        """
        write_stderr(f"{self._server} requests: {self._form.message}")
        if not self._form.fields:
            return await terminal.confirm("Agree?")
        write_stderr("(Ctrl+D declines, Ctrl+C cancels)")
        for field in self._form.fields:
            if field.name not in self.values and not await self._prompt_for_field(field, terminal):
                return False
        return True

    async def _prompt_for_field(self, field: FormField, terminal: Terminal) -> bool:
        limits = [text.format(field.schema[key]) for key, text in _LIMITS.items() if key in field.schema]
        about = f": {field.description}" if field.description else ""
        write_stderr(f"{field.title} ({', '.join([_type_of_field(field), *limits])}){about}")
        for number, choice in enumerate(field.choices, 1):
            label = choice.title if choice.title == choice.value else f"{choice.title} ({choice.value})"
            write_stderr(f"  {number}  {label}")
        default = ""
        if field.default is not None:
            is_text = isinstance(field.default, str)
            default = f" [{field.default if is_text else json.dumps(field.default, ensure_ascii=False)}]"
        while True:
            line = await terminal.read_line(f"{field.name}{default}> ")
            if line is None:
                return False
            if not line.strip() and (field.default is not None or not field.is_required):
                return True
            try:
                self.values[field.name] = self._convert_line(field, line)
            except ConversionError as error:
                write_stderr(f"  {error}")
            else:
                return True

    def _convert_line(self, field: FormField, line: str) -> object:
        """Convert a line: choices by number, title or value, and several of them separated by commas."""
        if field.kind == "choices":
            parts = [part.strip() for part in line.split(",") if part.strip()]
            return self._validate(field, [_choice_value(field, part) for part in parts])
        if field.kind == "choice":
            return self._validate(field, _choice_value(field, line.strip()))
        if not line.strip():
            raise ConversionError("a value is required")
        if field.kind == "boolean":
            words = {"y": "true", "yes": "true", "n": "false", "no": "false"}
            line = words.get(line.strip().casefold(), line)
        return self._convert(field, [KeyValue(field.name, line, is_json=False)])

    def _convert(self, field: FormField, pairs: list[KeyValue]) -> object:
        if pairs[0].is_json:
            return self._validate(field, parse_json(pairs[0].text))
        texts = [pair.text for pair in pairs]
        if field.kind in ("choice", "choices"):
            texts = [_choice_value(field, text) for text in texts]
        return self._validate(field, convert(texts, field.schema, self._form.schema))

    def _validate(self, field: FormField, value: object) -> object:
        from ..client.server_schemas_and_typed_results import ServerSchema  # only for forms, as it takes time

        schema: Json = {**self._form.schema, "properties": {field.name: field.schema}, "required": []}
        problems = ServerSchema(schema, asserts_formats=True).problems({field.name: value})
        if problems:
            raise ConversionError("; ".join(problem.message for problem in problems))
        return value


def _choice_value(field: FormField, text: str) -> str:
    values = [choice.value for choice in field.choices]
    if text in values:
        return text
    for choice in field.choices:
        if choice.title.casefold() == text.casefold():
            return choice.value
    if text.isdecimal() and 1 <= int(text) <= len(values):
        return values[int(text) - 1]
    raise ConversionError(f"must be one of {', '.join(values)}")


def _type_of_field(field: FormField) -> str:
    if field.kind in ("choice", "choices") and not field.choices:
        return type_summary(field.schema, {})
    name = _TYPES.get(field.kind, field.kind)
    return name if field.is_required else f"{name}, optional"


# Handlers of the client


class InteractiveHandlers:
    """Handles requests of a server at the terminal or from options, and writes its log messages.

    Args:
        answers: The `--answer` options, `key=value` each.
        sample_text: The response to sampling requests; None if the client does not declare sampling.
        roots: The folders for `roots/list`.
        log_level: The minimum level of log messages; None for the server's default.
        is_verbose: Whether progress is written as lines if there is no terminal.

    Attributes:
        request_handler: Handles the requests of one server; None for a configuration of several servers.
        progress: Shows the progress of the server.
        is_interrupted: Whether the user has cancelled a request with Ctrl+C.

    Raises:
        CommandError: An answer is not `key=value`, or a folder does not exist.
    """

    def __init__(
        self,
        *,
        answers: Sequence[str],
        sample_text: str | None,
        roots: Sequence[str],
        log_level: str | None,
        is_verbose: bool,
    ) -> None:
        self._answers = parse_key_values(answers)
        self._sample_text = sample_text
        for root in roots:
            if "://" not in root and not Path(root).expanduser().exists():
                raise CommandError(f"--root: no such folder: {root}", Status.NO_SUCH_THING)
        self._roots = list(roots)
        self.log_level = log_level
        self._terminal = Terminal()
        self._lock = asyncio.Lock()
        self.progress = ProgressDisplay(is_verbose=is_verbose)
        self.is_interrupted = False

    def client_options(self) -> Json:
        """Return the options of the client that uses these handlers."""
        return {
            "log_handler": self._log,
            "elicitation_handler": self._fill_in,
            "url_elicitation_handler": self._open_url,
            "sampling_handler": None if self._sample_text is None else self._sample,
            "roots": self._roots or None,
        }

    def _log(self, level: str, data: object, logger: str | None) -> None:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        write_stderr(f"{level}{f' {logger}' if logger else ''}: {text}")

    def _sample(self, request: object) -> str | None:
        return self._sample_text

    async def _fill_in(self, form: FormRequest) -> object:
        prompt = FormPrompt(form, self._answers)
        if prompt.is_complete:
            return prompt.values
        if not self._terminal.is_interactive:
            write_stderr(prompt.no_terminal_message())
            return form.cancel()
        self.progress.close()
        async with self._lock:  # one request at a time uses the terminal
            try:
                if await prompt.prompt(self._terminal):
                    return prompt.values
            except KeyboardInterrupt:
                self.is_interrupted = True
                return form.cancel()
        return form.decline()

    async def _open_url(self, page: UrlRequest) -> bool | None:
        server = str(page.server.get("title") or page.server.get("name") or "the server")
        self.progress.close()
        async with self._lock:
            write_stderr(
                f"{server} requests: {page.message}\nIt wants you to open a page at {page.host}:\n  {page.url}"
            )
            if not self._terminal.is_interactive:
                write_stderr(
                    "mcpkit: no terminal to confirm this, so the request is cancelled. Run the command in a terminal"
                )
                return None
            try:
                is_confirmed = await self._terminal.confirm("Open it in the browser?")
            except KeyboardInterrupt:
                self.is_interrupted = True
                return None
        if is_confirmed:
            import webbrowser

            if not await asyncio.to_thread(webbrowser.open, page.url):
                write_stderr("mcpkit: no browser found. Open the URL yourself")
        return is_confirmed
