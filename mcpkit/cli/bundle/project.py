"""The project of a server: its metadata in `pyproject.toml` or in the script, and its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from ...content.blocks import described
from ...protocol.jsonrpc import Json, is_array, is_object
from ..exit_status import CommandError
from ..script_metadata import read_script_metadata
from ..server_loader import projects_of

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


class Project(NamedTuple):
    """Metadata of a project.

    Attributes:
        folder: The folder.
        has_pyproject: Whether it has a `pyproject.toml`.
        name: The name, or None.
        version: The version, or None.
        description: The description in one line, or None.
        author: The name of the first author, or None.
        email: The address of the author, or None.
        license: The license, or None.
        python: The versions of Python, or None.
        dependencies: The requirements (PEP 508).
        keywords: The keywords.
        urls: The URLs by name in lower case.
    """

    folder: Path
    has_pyproject: bool
    name: str | None = None
    version: str | None = None
    description: str | None = None
    author: str | None = None
    email: str | None = None
    license: str | None = None
    python: str | None = None
    dependencies: Sequence[str] = ()
    keywords: Sequence[str] = ()
    urls: Mapping[str, str] = MappingProxyType({})


def project_of(file: Path) -> Project:
    """Return the project of a file: of the nearest `pyproject.toml` with metadata, or of its `# /// script` block.

    Raises:
        CommandError: The metadata is invalid.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    parent = file.absolute().parent
    for folder in projects_of(parent):
        path = folder / "pyproject.toml"
        try:
            metadata: object = tomlkit.parse(path.read_text(encoding="utf-8")).unwrap().get("project")
        except TOMLKitError as error:
            raise CommandError(f"{path} is not valid TOML: {error}") from None
        if is_object(metadata):
            return _project(folder, metadata)
    script = read_script_metadata(file)
    if script is None:
        return Project(parent, has_pyproject=False, dependencies=["mcpkit"])
    return Project(parent, has_pyproject=False, python=script.python, dependencies=script.dependencies)


def _project(folder: Path, metadata: Json) -> Project:
    authors: object = metadata.get("authors")
    author: Json = next(filter(is_object, authors), Json()) if is_array(authors) else {}
    license_: object = metadata.get("license")
    if is_object(license_):  # the format before SPDX expressions
        license_ = _string(license_, "text")
    urls = metadata.get("urls")
    return Project(
        folder,
        has_pyproject=True,
        name=_string(metadata, "name"),
        version=_string(metadata, "version"),
        description=_string(metadata, "description"),
        author=_string(author, "name"),
        email=_string(author, "email"),
        license=license_ if isinstance(license_, str) else None,
        python=_string(metadata, "requires-python"),
        dependencies=_strings(metadata, "dependencies"),
        keywords=_strings(metadata, "keywords"),
        urls={key.casefold(): str(url) for key, url in urls.items()} if is_object(urls) else {},
    )


def _string(metadata: Json, key: str) -> str | None:
    value = metadata.get(key)
    if value is not None and not isinstance(value, str):
        raise CommandError(f"{key} in [project] must be a string, got {described(value)}")
    return value


def _strings(metadata: Json, key: str) -> Sequence[str]:
    value: object = metadata.get(key, [])
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise CommandError(f"{key} in [project] must be a list of strings, got {described(value)}")
    return list(map(str, value))


# Files

IGNORED: Final = (
    ".*", "!.mcpbignore", "__pycache__/", "*.py[cod]", "*.egg-info/", "/build/", "/dist/", "/site/", "node_modules/",
    "venv/", "env/", "*.mcpb", "*.pem", "*.key", "*.log", "/tests/", "/test/", "*.bak", "/server.json",
)  # fmt: skip
"""Files that never belong in a bundle, and secrets, as `.gitignore` patterns."""

MAX_FILE_SIZE: Final = 5_000_000
"""Maximum size of a file in bytes without `--large`."""

_MAX_FILES: Final = 20_000


class _IgnoreRules(NamedTuple):
    """Patterns for the paths in a folder."""

    folder: Path
    patterns: GitIgnoreSpec


class ProjectFiles:
    """The files of a project for a bundle.

    `IGNORED`, each `.gitignore` of the repository and `.mcpbignore` exclude files, in this order, inner folders after
    outer ones. A pattern with `!` includes files again that an earlier pattern excludes.

    Args:
        folder: The folder of the project.
        includes_large: Whether files above `MAX_FILE_SIZE` are included.

    Attributes:
        paths: The files, relative to the folder, sorted.
        large: Files that are excluded because of their size.

    Raises:
        CommandError: The folder has too many files for a project.
    """

    def __init__(self, folder: Path, *, includes_large: bool = False) -> None:
        self._includes_large = includes_large
        self._mcpbignore = _ignore_rules(folder, ".mcpbignore")
        self.paths: list[Path] = []
        self.large: list[Path] = []
        folders = (folder, *folder.parents)
        repository = next((index for index, each in enumerate(folders) if (each / ".git").exists()), 0)
        outer = [rules for each in reversed(folders[1 : repository + 1]) for rules in _ignore_rules(each)]
        # A project that the repository ignores as a whole is packed anyway.
        outer = [rules for rules in outer if not _is_ignored(folder, [rules])]
        for path in self._walk(folder, [_parse_rules(folder, IGNORED), *outer]):
            if len(self.paths) == _MAX_FILES:
                raise CommandError(
                    f"{folder} has more than {_MAX_FILES:,} files. Move the server to its own folder, or exclude files "
                    "in .mcpbignore"
                )
            self.paths.append(path.relative_to(folder))

    def _walk(self, folder: Path, rules: Sequence[_IgnoreRules]) -> Iterator[Path]:
        rules = [*rules, *_ignore_rules(folder)]
        for path in sorted(folder.iterdir()):
            is_ignored = _is_ignored(path, [*rules, *self._mcpbignore])
            if is_ignored:
                continue
            if path.is_dir():
                is_loop = path.is_symlink() and folder.resolve().is_relative_to(path.resolve())
                if not is_loop:
                    yield from self._walk(path, rules)
            elif path.is_file():
                # A pattern with `!` also includes a large file.
                is_included = self._includes_large or is_ignored is False
                if is_included or path.stat().st_size <= MAX_FILE_SIZE:
                    yield path
                else:
                    self.large.append(path)


def _ignore_rules(folder: Path, name: str = ".gitignore") -> list[_IgnoreRules]:
    file = folder / name
    return [_parse_rules(folder, file.read_text(encoding="utf-8").splitlines())] if file.is_file() else []


def _parse_rules(folder: Path, lines: Sequence[str]) -> _IgnoreRules:
    from pathspec import GitIgnoreSpec

    # To Git `src/**` is everything in src, and not src itself, which pathspec would exclude with it.
    patterns = (line[:-1] if line.endswith("/**") else line for line in map(str.rstrip, lines))
    return _IgnoreRules(folder, GitIgnoreSpec.from_lines(patterns))


def _is_ignored(path: Path, rules: Sequence[_IgnoreRules]) -> bool | None:
    """Return whether the last rule for a path excludes it; None if there is none."""
    for each in reversed(rules):
        name = path.relative_to(each.folder).as_posix() + ("/" if path.is_dir() else "")
        if (is_ignored := each.patterns.check_file(name).include) is not None:
            return is_ignored
    return None
