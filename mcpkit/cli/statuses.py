"""What the status of the process says, and errors that know theirs."""

from __future__ import annotations

from enum import IntEnum


class Status(IntEnum):
    """How a command has ended."""

    DONE = 0
    USAGE = 1
    NO_SUCH_THING = 2
    NOT_AUTHORIZED = 3
    NOT_REACHED = 4
    TOOL_ERROR = 5
    FINDINGS = 6
    INTERRUPTED = 130


class CommandError(Exception):
    """A command cannot do what it was asked.

    Args:
        message: What is wrong, and what to write instead.
        status: The status of the process.
    """

    def __init__(self, message: str, status: Status = Status.USAGE) -> None:
        super().__init__(message)
        self.status = status
