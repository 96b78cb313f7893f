"""The channel of a call that is run as a task: nobody is at its other end, and its progress is written down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress

from ..calls.asking.pending import OpenQuestions
from ..calls.channel import StandaloneChannel
from ..common.errors import ChallengeError
from ..protocol import jsonrpc
from ..protocol.types import Json
from ..state.principal import Principal
from .ledger import TooLargeError
from .pen import LostError, Pen
from .record import Record

logger = logging.getLogger(__name__)

INTERVAL = 1.0
"""Seconds between two times that progress is written down."""


class TaskChannel:
    """What one run says: of its progress the latest is written down, once a second; all else is dropped.

    Args:
        pen: Writes it.
        principal: Who has asked.
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
        """Take a message; in the event loop's thread."""
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
            logger.debug("the progress of a task was not saved: %s", error)
        except LostError:
            return
        finally:
            self._writing = None

    def note(self, record: Record) -> None:
        """Have a record say what has not been written of the progress."""
        if self._latest is not None:
            record.progress = self._latest
            record.message = _sentence(self._latest)

    async def end(self) -> None:
        """Write no more by itself."""
        if (writing := self._writing) is not None:
            writing.cancel()
            with suppress(asyncio.CancelledError):
                await writing

    async def ready(self) -> None:
        """Return: nobody reads."""

    def challenge(self, scopes: Sequence[str], revision: str) -> ChallengeError | None:
        """Return None: whoever has asked is not there."""
        return None

    def defer_response(self) -> None:
        """Do nothing: there is no answer that could begin."""

    async def _nothing(self) -> None:
        return

    def close(self) -> Awaitable[None]:
        """Do nothing: there is no connection."""
        return self._nothing()


def _sentence(progress: Json) -> str:
    """Return in words how far a task is, as clients of 2026-07-28 hear of no numbers."""
    done, total, message = progress["progress"], progress.get("total"), progress.get("message")
    counted = _written(done) if total is None else f"{_written(done)} of {_written(total)}"
    return counted if message is None else f"{message} ({counted})"


def _written(number: float) -> str:
    return f"{number:,}" if isinstance(number, int) else f"{number:,.6g}"
