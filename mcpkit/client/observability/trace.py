"""Shows every message that a client sends and gets."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from ...common.functions import check_function
from ..link.link import Direction, Link
from ..link.transport import secrets_of
from .masking import Mask
from .recording import Recorder

Trace = Callable[[Direction, str], object]
"""Called with whether a message was sent or came, and with its text."""

LONGEST: Final = 4000
"""Characters of a message that are shown on standard error."""

_ARROWS: Final = {"sent": "-->", "received": "<--"}


def look_at_frames(
    link: Link,
    trace: Trace | bool,
    record: str | os.PathLike[str] | None,
    options: Mapping[str, object],
) -> Recorder | None:
    """Show the messages of a link, and write them down.

    Args:
        link: The link.
        trace: Who is told; True for standard error, False for nobody.
        record: The file to write to, or None.
        options: What the client was given to reach its server, among it secrets.

    Returns:
        What writes them down.

    Raises:
        TypeError: What is to be told is no function.
    """
    if not isinstance(trace, bool):
        check_function(
            "trace",
            trace,
            "a direction (`sent` or `received`) and a string",
            or_else="or True",
            may_be_async=False,
        )
    mask = Mask.of(options, lambda: secrets_of(link.transport))
    if trace:
        link.frames.append(Tracer(to_standard_error if trace is True else trace, mask))
    if record is None:
        return None
    recorder = Recorder(record, mask)
    link.frames.append(recorder)
    return recorder


class Tracer:
    """Tells of each message, without its secrets.

    Args:
        trace: Who is told.
        mask: What hides the secrets.
    """

    def __init__(self, trace: Trace, mask: Mask) -> None:
        self._trace = trace
        self._mask = mask

    def __call__(self, direction: Direction, line: bytes) -> None:
        """Tell of a message."""
        self._trace(direction, self._mask.masked(line))


def to_standard_error(direction: Direction, text: str) -> None:
    """Show a message on standard error, cut off where it is long."""
    rest = len(text) - LONGEST
    shown = text if rest <= 0 else f"{text[:LONGEST]}... {rest:,} characters more"
    print(_ARROWS[direction], shown, file=sys.stderr, flush=True)
