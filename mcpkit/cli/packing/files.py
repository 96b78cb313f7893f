"""Which files of a project go into a bundle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..statuses import CommandError

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec as Pattern

IGNORED: Final = (
    ".*", "!.mcpbignore", "__pycache__/", "*.py[cod]", "*.egg-info/", "/build/", "/dist/", "/site/", "node_modules/",
    "venv/", "env/", "*.mcpb", "*.pem", "*.key", "*.log", "/tests/", "/test/", "*.bak", "/server.json",
)  # fmt: skip
"""What is no part of a server, or a secret; in the patterns of `.gitignore`."""

_SAID: Final = (".gitignore", ".mcpbignore")
_MOST: Final = 20_000


def files_of(folder: Path) -> Iterator[Path]:
    """Yield the files of a project that belong to its server, relative to its folder and in order.

    Left out is what `IGNORED`, `.gitignore` and `.mcpbignore` name; by `!` the last takes back what others leave out.

    Raises:
        CommandError: There are so many that the folder can hardly be a project.
    """
    ignored = _ignored(folder)
    for count, path in enumerate(_walk(folder, folder, ignored)):
        if count == _MOST:
            raise CommandError(
                f"{folder} has more than {_MOST:,} files: move the server into a folder of its own, or name what to "
                "leave out in .mcpbignore"
            )
        yield path


def _walk(folder: Path, root: Path, ignored: Pattern) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        relative = path.relative_to(root)
        if path.is_dir():
            if not ignored.match_file(f"{relative.as_posix()}/"):
                yield from _walk(path, root, ignored)
        elif path.is_file() and not ignored.match_file(relative.as_posix()):
            yield relative


def _ignored(folder: Path) -> Pattern:
    from pathspec import GitIgnoreSpec

    patterns = list(IGNORED)
    for name in _SAID:
        if (folder / name).is_file():
            patterns += (folder / name).read_text(encoding="utf-8").splitlines()
    return GitIgnoreSpec.from_lines(patterns)
