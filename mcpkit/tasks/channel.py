"""Channel of a call that runs as a task: no client receives it, and its progress is stored."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress

from .._utils.errors import ChallengeError
from ..identity.principal import Principal
from ..protocol import jsonrpc
from ..protocol.types import Json
from ..requests.channel import StandaloneChannel
from ..requests.client_requests import OpenQuestions
from .ledger import TooLargeError
from .pen import LostError, Pen
from .record import Record

logger = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two writes of the progress."""


class TaskChannel:
    """Channel of one run. The latest progress is stored once a second, and other messages are dropped.

    Args:
        pen: Writer of the task record.
        principal: Principal that created the task.
    """

    standalone: StandaloneChannel | None = None
    questions: OpenQuestions | None = None
    caller: str | None = None
    is_local = False

    def __init__(self, pen: Pen, principal: Principal) -> None:
        self.principal = principal
        self.request_headers: Mapping[bytes, bytes] = {
            name.encode("latin-1"): value.encode("latin-1") for name, value in pen.record.headers.items()
        }
        self._pen = pen
        self._latest: Json | None = None
        self._writing: asyncio.Task[None] | None = None

    def send(self, message: bytes) -> None:
        """Handle a message, in the event loop's thread."""
        said = jsonrpc.decode(message)
        if said.get("method") == "notifications/progress":
            progress: Json = said["params"]
            self._latest = {name: value for name, value in progress.items() if name != "progressToken"}
            if self._writing is None:
                self._writing = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        try:
            while (progress := self._latest) is not None:
                await self._pen.write(self.note)
                if self._latest is progress:
                    self._latest = None
                await asyncio.sleep(INTERVAL)
        except (OSError, TooLargeError) as error:
            logger.debug(
                "the progress of a task was not saved, so clients receive it later or not at all: %s", error
            )
        except LostError:
            return
        finally:
            self._writing = None

    def note(self, record: Record) -> None:
        """Set progress that was not written yet in a record."""
        if self._latest is not None:
            record.progress = self._latest
            record.message = _sentence(self._latest)

    async def end(self) -> None:
        """Stop the writes of progress."""
        if (writing := self._writing) is not None:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing

    async def ready(self) -> None:
        """Return at once: there is no receiver."""

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return None: the client is not connected."""
        return None

    def defer_response(self) -> None:
        """Do nothing: there is no response."""

    async def _nothing(self) -> None:
        return

    def close(self) -> Awaitable[None]:
        """Do nothing: there is no connection."""
        return self._nothing()


def _sentence(progress: Json) -> str:
    """Return progress as a sentence, because the protocol of 2026-07-28 has no numbers for it."""
    done, total, message = progress["progress"], progress.get("total"), progress.get("message")
    counted = _written(done) if total is None else f"{_written(done)} of {_written(total)}"
    return counted if message is None else f"{message} ({counted})"


def _written(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6g}"
