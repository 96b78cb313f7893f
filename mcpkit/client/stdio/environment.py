"""The environment of a child process: inherited variables that it needs, without secrets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Final

INHERITED: Final = (
    (
        "APPDATA",
        "HOMEDRIVE",
        "HOMEPATH",
        "LOCALAPPDATA",
        "PATH",
        "PATHEXT",
        "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE",
        "SYSTEMROOT",
        "TEMP",
        "USERNAME",
        "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)
"""The variables that are inherited; the official SDKs have the same."""


def environment(own: Mapping[str, str] | None) -> dict[str, str]:
    """Return the environment of a child process.

    Shell functions, with values that begin with `()`, are left out.

    Args:
        own: Variables to add or replace.
    """
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    variables = {name: value for name, value in inherited.items() if not value.startswith("()")}
    for name, value in (own or {}).items():
        variables[name.upper() if sys.platform == "win32" else name] = value  # there, case says nothing
    return variables
