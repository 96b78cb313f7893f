"""What goes on while a server works: it asks, logs and tells how far it is, and somebody at a terminal answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.jsonrpc import Json
from ..console import ProgressDisplay, write_stderr
from ..exit_status import CommandError, Status
from .tasks import Answers
from .terminal import Terminal
from .values import Word, words_of

if TYPE_CHECKING:
    from ...client.asking.forms import FormRequest
    from ...client.asking.visits import UrlRequest


class Conversation:
    """Answers what a server asks, at the terminal or by what the command line says, and shows what it tells.

    Args:
        answers: Answers that are given beforehand, `key=value` each.
        sample_text: What a model says; None where none is offered.
        roots: The folders that the server is to stay within.
        log_level: The least severe of what it is to log; None for what it chooses.
        is_verbose: Whether progress is told by lines where there is no terminal.

    Attributes:
        answers: What answers the questions of one server; None where there are several.
        progress: Shows how far the server is.
        is_interrupted: Whether the user has cancelled a question by Ctrl+C.

    Raises:
        CommandError: An answer, or a folder, is none.
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
        self._answers: list[Word] = words_of(answers)
        self._sample_text = sample_text
        self._roots = [_folder(root) for root in roots]
        self.log_level = log_level
        self._terminal = Terminal()
        self._asking: asyncio.Lock | None = None
        self.answers: Answers | None = None
        self.progress = ProgressDisplay(is_verbose=is_verbose)
        self.is_interrupted = False

    def options(self, *, is_of_one: bool) -> Json:
        """Return the options of a client that hold it.

        Args:
            is_of_one: Whether the client is of one server, whose calls may become tasks.
        """
        sample = None if self._sample_text is None else self._sample
        roots = self._roots or None
        options: Json = {"log_handler": self._log}
        if is_of_one:
            self.answers = Answers(elicit=self._fill_in, elicit_url=self._visit, sample=sample, roots=roots)
            return options
        return {
            **options,
            "elicitation_handler": self._fill_in,
            "url_elicitation_handler": self._visit,
            "sampling_handler": sample,
            "roots": roots,
        }

    def _log(self, level: str, data: object, logger: str | None) -> None:
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        write_stderr(f"{level}{f' {logger}' if logger else ''}: {text}")

    def _sample(self, request: object) -> str | None:
        return self._sample_text

    async def _fill_in(self, form: FormRequest) -> object:
        from .forms import Filling

        filling = Filling(form, self._answers)
        if not filling.is_whole and not self._terminal.is_there:
            write_stderr(filling.unanswered())
            return form.cancel()
        if filling.is_whole:
            return filling.entries
        async with self._turn():
            try:
                if await filling.ask(self._terminal):
                    return filling.entries
            except KeyboardInterrupt:
                self.is_interrupted = True
                return form.cancel()
        return form.decline()

    async def _visit(self, page: UrlRequest) -> bool | None:
        who = str(page.server.get("title") or page.server.get("name") or "the server")
        async with self._turn():
            write_stderr(
                f"{who} requests: {page.message}\nIt wants you to open a page at {page.host}:\n  {page.url}"
            )
            if not self._terminal.is_there:
                write_stderr(
                    "mcpkit: no terminal to confirm this, so the request is cancelled. Run the command in a terminal"
                )
                return None
            try:
                is_wanted = await self._terminal.yes("Open it in the browser?")
            except KeyboardInterrupt:
                self.is_interrupted = True
                return None
        if is_wanted:
            import webbrowser

            if not await asyncio.to_thread(webbrowser.open, page.url):
                write_stderr("mcpkit: no browser found. Open the URL yourself")
        return is_wanted

    def _turn(self) -> asyncio.Lock:
        """Have questions wait for each other, and nothing be drawn meanwhile."""
        self.progress.close()
        if self._asking is None:
            self._asking = asyncio.Lock()
        return self._asking


def _folder(root: str) -> str:
    if "://" not in root and not Path(root).expanduser().exists():
        raise CommandError(f"--root: no such folder: {root}", Status.NO_SUCH_THING)
    return root
