"""What a word of a command line means as the server that a client asks."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Final

from ..._utils.python_safe_path import mcpkit_command
from ...client.targets.infer_target import Target
from ..exit_status import CommandError, Status
from .configured import configured, is_at_host
from .served import place_of

_SCRIPTS: Final = (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts")


def target_of(word: str) -> Target:
    """Return what a client is to connect to.

    Args:
        word: A URL; a file with a server, or `FILE.py:OBJECT`; `MODULE:OBJECT`; a folder; a script for Node.js; a
            configuration of servers, or `FILE.json:NAME` for one in it; a command, as one word; or the name of a server
            in the configuration of a host, or `HOST:NAME`.

    Raises:
        CommandError: It means nothing; the message says what may be meant.
        FileNotFoundError: There is no such file.
        ValueError: A configuration is broken.
    """
    if not word.strip():
        raise CommandError("the target is empty. Name a file, a URL, a command or a server")
    scheme, separator, _ = word.partition("://")
    if separator and scheme.isalnum():
        return word
    path = Path(word).expanduser()
    if path.is_dir():
        return _run(str(path / "server.py")) if (path / "server.py").is_file() else str(path)
    if path.is_file() and path.suffix.casefold() != ".py":
        return str(path)
    return configured(word) if is_at_host(word) else _here(word, path)


def _here(word: str, path: Path) -> Target:
    """Return what is meant by a word that names no host, nor anything that there is but a file of Python's."""
    if not path.is_file() and any(letter.isspace() for letter in word):
        return _words(word)
    if place_of(word) is not None:
        return _run(word)
    return word if path.suffix.casefold() in _SCRIPTS else configured(word)


def _run(word: str) -> list[str]:
    return mcpkit_command("run", word)


def _words(command: str) -> list[str]:
    """Split a command into its words, as a shell of this system would."""
    is_posix = sys.platform != "win32"
    try:
        words = shlex.split(command, posix=is_posix)
    except ValueError as error:
        raise CommandError(
            f"the command cannot be split into words: {error}. Check its quotes and backslashes"
        ) from None
    if not is_posix:  # where a backslash is part of a path
        words = [word[1:-1] if word[:1] == word[-1:] == '"' else word for word in words]
    if not words:
        raise CommandError("the command is empty. Name a program and its arguments", Status.USAGE)
    return words
