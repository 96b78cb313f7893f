"""Files without a server of mcpkit: scripts, that say themselves how they serve, and servers of other SDKs."""

from __future__ import annotations

import inspect
import re
import runpy
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

from ..exit_status import CommandError
from ..targets.served import broken

_GUARD: Final = re.compile(
    rb"^if\s*\(?\s*(__name__\s*==\s*['\"]__main__|['\"]__main__['\"]\s*==\s*__name__)", re.MULTILINE
)

_OURS: Final = re.compile(rb"^\s*(from|import)\s+mcpkit\b", re.MULTILINE)

_NAMES: Final = ("mcp", "server", "app")
"""What a server is called in a file that does not run it, as the command lines of other SDKs have it."""


def is_script(path: Path) -> bool:
    """Say whether a file runs something where it is started: it has `if __name__ == "__main__"`."""
    return _GUARD.search(path.read_bytes()) is not None


def is_foreign(path: Path) -> bool:
    """Say whether a script does not name mcpkit, so that it need not be imported to see that it has no server of it."""
    return is_script(path) and not names_mcpkit(path)


def names_mcpkit(path: Path) -> bool:
    """Say whether a file imports mcpkit by name."""
    return _OURS.search(path.read_bytes()) is not None


def run_script(path: Path, arguments: Sequence[str]) -> None:
    """Run a file as `python FILE ARGUMENTS` does.

    Raises:
        CommandError: It raises; the message has file, line and error.
        SystemExit: It ends with a status.
    """
    sys.path.insert(0, str(path.parent))
    with given(str(path), arguments), told():
        runpy.run_path(str(path), run_name="__main__")


def run_object(module: ModuleType) -> bool:
    """Run the server of another SDK that a module has, called `mcp`, `server` or `app`, by its `run()`.

    Returns:
        Whether there was one.

    Raises:
        CommandError: It raises; the message has file, line and error.
    """
    for value in map(vars(module).get, _NAMES):
        run = getattr(value, "run", None)
        if inspect.ismethod(run) and not inspect.iscoroutinefunction(run):
            with told():
                run()
            return True
    return False


@contextmanager
def given(program: str, arguments: Sequence[str]) -> Generator[None]:
    """Let code find its own arguments in `sys.argv`, inside the block."""
    before, sys.argv = sys.argv, [program, *arguments]
    try:
        yield
    finally:
        sys.argv = before


@contextmanager
def told() -> Generator[None]:
    """Say of an author's error in the block where it is.

    Raises:
        CommandError: In the place of any other error.
    """
    try:
        yield
    except CommandError:
        raise
    except Exception as error:
        raise CommandError(broken(error)) from error
