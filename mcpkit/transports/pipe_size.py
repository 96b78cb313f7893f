"""Capacity of pipes."""

from __future__ import annotations

import sys
from contextlib import suppress

_PIPE_SIZE = 1024 * 1024
"""Capacity of enlarged pipes in bytes, the default maximum of Linux."""

if sys.platform == "linux":
    import fcntl

    def enlarge(descriptor: int) -> None:
        """Let a pipe hold `_PIPE_SIZE`, so that a long message goes through it in few pieces."""
        with suppress(OSError):  # it is no pipe, or this user's pipes hold too much already
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)

else:

    def enlarge(descriptor: int) -> None:
        """Leave it: only Linux can change the size of a pipe."""
