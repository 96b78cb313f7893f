"""The files of a project that go into a bundle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ..exit_status import CommandError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

IGNORED: Final = (
    ".*", "!.mcpbignore", "__pycache__/", "*.py[cod]", "*.egg-info/", "/build/", "/dist/", "/site/", "node_modules/",
    "venv/", "env/", "*.mcpb", "*.pem", "*.key", "*.log", "/tests/", "/test/", "*.bak", "/server.json",
)  # fmt: skip
"""Files that never belong in a bundle, and secrets, as `.gitignore` patterns."""

LARGE: Final = 5_000_000
"""Largest size of a file in bytes without `--large`."""

_MOST: Final = 20_000


class _Rules(NamedTuple):
    """Patterns that hold below a folder.

    Attributes:
        folder: The folder.
        patterns: The patterns.
    """

    folder: Path
    patterns: GitIgnoreSpec


class ProjectFiles:
    """The files of a project that belong to its server.

    Left out is what `IGNORED`, each `.gitignore` of the repository, and `.mcpbignore` name. By `!` a later one of them
    takes back what an earlier one leaves out; inner folders come after outer ones, and `.mcpbignore` last.

    Args:
        folder: The folder of the project.
        takes_large: Whether files above `LARGE` go in.

    Attributes:
        paths: The files, relative to the folder and in order.
        large: Files that are left out because of their size.

    Raises:
        CommandError: There are so many that the folder can hardly be a project.
    """

    def __init__(self, folder: Path, *, takes_large: bool = False) -> None:
        self._takes_large = takes_large
        self._own = _rules(folder, ".mcpbignore")
        self.paths: list[Path] = []
        self.large: list[Path] = []
        above = [rules for each in _above(folder) for rules in _rules(each, ".gitignore")]
        above = [
            rules for rules in above if not _is_ignored(folder, [rules])
        ]  # an ignored project is packed all the same
        for path in self._walk(folder, [_rules_of(folder, IGNORED), *above]):
            if len(self.paths) == _MOST:
                raise CommandError(
                    f"{folder} has more than {_MOST:,} files. Move the server to its own folder, or exclude files in "
                    ".mcpbignore"
                )
            self.paths.append(path.relative_to(folder))

    def _walk(self, folder: Path, rules: Sequence[_Rules]) -> Iterator[Path]:
        rules = [*rules, *_rules(folder, ".gitignore")]
        for path in sorted(folder.iterdir()):
            is_ignored = _is_ignored(path, [*rules, *self._own])
            if is_ignored:
                continue
            if path.is_dir():
                is_loop = path.is_symlink() and folder.resolve().is_relative_to(path.resolve())
                if not is_loop:
                    yield from self._walk(path, rules)
            elif path.is_file():
                is_asked_for = self._takes_large or is_ignored is False
                if is_asked_for or path.stat().st_size <= LARGE:
                    yield path
                else:
                    self.large.append(path)


def _above(folder: Path) -> list[Path]:
    """Return the folders above one that are in its repository, the outermost first; none outside of a repository."""
    folders = (folder, *folder.parents)
    roots = [index for index, each in enumerate(folders) if (each / ".git").exists()]
    return list(reversed(folders[1 : roots[0] + 1])) if roots else []


def _rules(folder: Path, name: str) -> list[_Rules]:
    file = folder / name
    return [_rules_of(folder, file.read_text(encoding="utf-8").splitlines())] if file.is_file() else []


def _rules_of(folder: Path, lines: Sequence[str]) -> _Rules:
    from pathspec import GitIgnoreSpec

    # To Git `src/**` is all that is in src, and not src itself, which pathspec would leave out with it.
    inner = (line[:-1] if line.endswith("/**") else line for line in map(str.rstrip, lines))
    return _Rules(folder, GitIgnoreSpec.from_lines(inner))


def _is_ignored(path: Path, rules: Sequence[_Rules]) -> bool | None:
    """Return whether the last rule for a path leaves it out; None if there is none."""
    for each in reversed(rules):
        name = path.relative_to(each.folder).as_posix() + ("/" if path.is_dir() else "")
        if (is_ignored := each.patterns.check_file(name).include) is not None:
            return is_ignored
    return None
