"""Shows each message that a client sends and receives."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Final

from ..._utils.option_checks import check_function
from ..link.link import Direction, Link
from ..link.transport import secrets_of
from .masking import Mask
from .recording import Recorder

Trace = Callable[[Direction, str], object]
"""Called with the direction (`sent` or `received`) and the text of a message."""

LONGEST: Final = 4000
"""The most characters of a message that are printed to standard error."""

_ARROWS: Final = {"sent": "-->", "received": "<--"}


def look_at_frames(
    link: Link,
    trace: Trace | bool,
    record: str | os.PathLike[str] | None,
    options: Mapping[str, object],
) -> Recorder | None:
    """Show and record the messages of a link.

    Args:
        link: The link.
        trace: The function to call; True for standard error, False for none.
        record: The file to write to, or None.
        options: The options of the client for its server, which may contain secrets.

    Returns:
        The recorder, or None.

    Raises:
        TypeError: `trace` is not a function.
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
    """Passes each message to a function, with secrets masked.

    Args:
        trace: The function.
        mask: Masks the secrets.
    """

    def __init__(self, trace: Trace, mask: Mask) -> None:
        self._trace = trace
        self._mask = mask

    def __call__(self, direction: Direction, line: bytes) -> None:
        """Pass on a message."""
        self._trace(direction, self._mask.masked(line))


def to_standard_error(direction: Direction, text: str) -> None:
    """Print a message to standard error, cut off if it is long."""
    rest = len(text) - LONGEST
    shown = text if rest <= 0 else f"{text[:LONGEST]}... {rest:,} characters more"
    print(_ARROWS[direction], shown, file=sys.stderr, flush=True)
