"""Handler of Python's `logging` that sends records to the client."""

from __future__ import annotations

import copy
import logging

from .._utils.concurrency import current
from ..protocol.revisions import SEVERITY
from .progress_and_logging import log_message
from .request_record import Call

# The specification's levels by the least number that stands for them; below them all is `debug`.
_LEVELS = (
    (70, "emergency"),
    (60, "alert"),
    (logging.CRITICAL, "critical"),
    (logging.ERROR, "error"),
    (logging.WARNING, "warning"),
    (25, "notice"),
    (logging.INFO, "info"),
)

_OWN = "mcpkit"  # the library's own logger, which is not sent to clients


class LogHandler(logging.Handler):
    """Logging handler that sends records to the client of the current request (server/utilities/logging).

    The client receives records of its minimum level and above. It sets that level in its session or, in the stateless
    era, in the request. A record belongs to the request of its thread or task. Records outside a request, or of an
    ended one, are dropped. So are records that a slow client does not read in time: logging never waits. The level is
    the name of the record's level, such as `NOTICE`, if the specification has it, or follows from its number: 25 is
    `notice`, 60 `alert`, 70 `emergency`.

    Tracebacks and stacks are removed, also from the output of a formatter, because they reveal internals of the server.

    Args:
        level: Minimum level, a number or name of Python's `logging`.
        with_tracebacks: Whether tracebacks and stacks are sent.
    """

    def __init__(self, level: int | str = logging.NOTSET, *, with_tracebacks: bool = False) -> None:
        super().__init__(level)
        self.with_tracebacks = with_tracebacks
        self._is_sending = False
        self._has_warned = False
        self.addFilter(_matches)  # before the lock is taken

    def emit(self, record: logging.LogRecord) -> None:
        """Send one record. It raises no exception.

        Args:
            record: The record.
        """
        if self._is_sending:  # a record that sending another one leads to is not sent
            return
        self._is_sending = True
        try:
            self._send(record)
        except Exception:  # noqa: BLE001 - as handlers do; it writes to standard error
            self.handleError(record)
        finally:
            self._is_sending = False

    def _send(self, record: logging.LogRecord) -> None:
        call = current.get()
        assert isinstance(call, Call), "the filter has checked it"
        if not call.runtime.declares("logging"):
            if not self._has_warned:
                self._has_warned = True
                logging.getLogger(_OWN).warning(
                    "log records of %r are not sent to clients: the server does not declare the logging capability, as "
                    "none of its handlers takes a Context. Write Server(..., "
                    'options=ServerOptions(capabilities={"logging"}))',
                    record.name,
                )
            return
        if self.with_tracebacks:
            text = self.format(record)
        elif self.formatter is None:
            text = record.getMessage()
        else:
            bare = copy.copy(record)
            bare.exc_info = bare.exc_text = bare.stack_info = None
            text = self.formatter.format(bare)
        call.open_reports().add_record(log_message(_level_of(record), text, record.name))


def _matches(record: logging.LogRecord) -> bool:
    """Return True if a record is not of mcpkit, and belongs to a request with this level or a lower one."""
    call = current.get(None)
    if not isinstance(call, Call) or call.is_over or record.name.partition(".")[0] == _OWN:
        return False
    least = call.envelope.log_level
    return least is not None and SEVERITY[_level_of(record)] >= SEVERITY[least]


def _level_of(record: logging.LogRecord) -> str:
    name = record.levelname.lower()
    if name in SEVERITY:
        return name
    return next((level for number, level in _LEVELS if record.levelno >= number), "debug")
