"""Handlers for requests, log messages and progress of a server while a command runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..protocol.jsonrpc import Json
from .console import ProgressDisplay, write_stderr
from .exit_status import CommandError, Status
from .key_values import parse_key_values
from .terminal_forms import FormPrompt, Terminal

if TYPE_CHECKING:
    from ..client.form_elicitation import FormRequest
    from ..client.url_elicitation import UrlRequest


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
        answers: Sequence[str] = (),
        sample_text: str | None = None,
        roots: Sequence[str] = (),
        log_level: str | None = None,
        is_verbose: bool = False,
    ) -> None:
        self._answers = parse_key_values(answers)
        self._sample_text = sample_text
        for root in roots:
            if "://" not in root and not Path(root).expanduser().exists():
                raise CommandError(f"--root: no such folder: {root}", Status.NO_SUCH_THING)
        self._roots = list(roots)
        self.log_level = log_level
        self._terminal = Terminal()
        self._lock: asyncio.Lock | None = None
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
        async with self._terminal_lock():
            try:
                if await prompt.prompt(self._terminal):
                    return prompt.values
            except KeyboardInterrupt:
                self.is_interrupted = True
                return form.cancel()
        return form.decline()

    async def _open_url(self, page: UrlRequest) -> bool | None:
        server = str(page.server.get("title") or page.server.get("name") or "the server")
        async with self._terminal_lock():
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

    def _terminal_lock(self) -> asyncio.Lock:
        """Remove the progress bar, and return the lock that lets one request at a time use the terminal."""
        self.progress.close()
        if self._lock is None:
            self._lock = asyncio.Lock()
        return self._lock
