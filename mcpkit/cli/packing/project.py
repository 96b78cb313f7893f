"""The project that a server belongs to, as its `pyproject.toml` or the head of its file describes it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from ...content.blocks import described
from ...protocol.jsonrpc import Json, is_array, is_object
from ..exit_status import CommandError
from ..targets.folders import projects_of

_SCRIPT: Final = re.compile(r"(?m)^# /// script\n(?P<lines>(?:^#(?:| .*)\n)+?)^# ///$")
"""A `# /// script` block (PyPA specifications, inline script metadata)."""

_WITHOUT_SAYING: Final = ("mcpkit",)
"""Dependencies of a server that declares none."""


class Project(NamedTuple):
    """What is known of a project.

    Attributes:
        folder: Where it is.
        has_pyproject: Whether it has a `pyproject.toml`.
        name: Its name, or None.
        version: Its version, or None.
        description: What it is, in a line, or None.
        author: Who wrote it, or None.
        email: The author's address, or None.
        license: Its license, or None.
        python: The versions of Python that it runs on, or None.
        dependencies: The distributions that it needs, as requirements.
        keywords: What it is found by.
        urls: Its pages by what they are called, in lower case.
    """

    folder: Path
    has_pyproject: bool
    name: str | None
    version: str | None
    description: str | None
    author: str | None
    email: str | None
    license: str | None
    python: str | None
    dependencies: Sequence[str]
    keywords: Sequence[str]
    urls: dict[str, str]


def project_of(file: Path) -> Project:
    """Return the project that a file belongs to: the nearest `pyproject.toml` that describes one, or its own head.

    Raises:
        CommandError: The description cannot be read.
    """
    parent = file.absolute().parent
    for folder in projects_of(parent):
        pyproject = folder / "pyproject.toml"
        told = _toml(pyproject.read_text(encoding="utf-8"), str(pyproject)).get("project")
        if is_object(told):
            return _project(folder, told, has_pyproject=True)
    return _project(parent, _of_script(file), has_pyproject=False)


def _of_script(file: Path) -> Json:
    head = _SCRIPT.search(file.read_text(encoding="utf-8"))
    if head is None:
        return {"dependencies": list(_WITHOUT_SAYING)}
    lines = "".join(f"{line[2:]}\n" for line in head["lines"].splitlines())
    return _toml(lines, f"the script metadata of {file}")


def _toml(text: str, place: str) -> Json:
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        return tomlkit.parse(text).unwrap()
    except TOMLKitError as error:
        raise CommandError(f"{place} is not valid TOML: {error}") from None


def _project(folder: Path, told: Json, *, has_pyproject: bool) -> Project:
    authors: object = told.get("authors")
    author: Json = next(filter(is_object, authors), Json()) if is_array(authors) else {}
    urls = told.get("urls")
    return Project(
        folder,
        has_pyproject,
        _text(told, "name"),
        _text(told, "version"),
        _text(told, "description"),
        _text(author, "name"),
        _text(author, "email"),
        _license(told.get("license")),
        _text(told, "requires-python"),
        _texts(told, "dependencies"),
        _texts(told, "keywords"),
        {key.casefold(): str(url) for key, url in urls.items()} if is_object(urls) else {},
    )


def _license(told: object) -> str | None:
    if is_object(told):  # as it was written before SPDX expressions
        return _text(told, "text")
    return told if isinstance(told, str) else None


def _text(told: Json, key: str) -> str | None:
    value = told.get(key)
    if value is not None and not isinstance(value, str):
        raise CommandError(f"{key} in [project] must be a string, got {described(value)}")
    return value


def _texts(told: Json, key: str) -> Sequence[str]:
    value: object = told.get(key, [])
    if not is_array(value) or not all(isinstance(each, str) for each in value):
        raise CommandError(f"{key} in [project] must be a list of strings, got {described(value)}")
    return list(map(str, value))
