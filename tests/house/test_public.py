"""What is public is a list; pages and examples use nothing else, and the rest says that it is internal."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path
from typing import Final

import pytest

import mcpkit
from imports import PACKAGE, ROOT

PUBLIC: Final = (
    "mcpkit",
    "mcpkit.auth",
    "mcpkit.compat",
    "mcpkit.compat.agent_sdk",
    "mcpkit.compat.fastmcp",
    "mcpkit.compat.lowlevel",
    "mcpkit.compat.standalone",
    "mcpkit.compat.types",
    "mcpkit.middleware",
    "mcpkit.middlewares",
    "mcpkit.protocol.revisions",
    "mcpkit.testing",
    "mcpkit.transports",
    "mcpkit.transports.stdio",
)
"""What authors import."""

INSIDE: Final = {"architecture.md"}
"""Pages about the inside."""

_IMPORT: Final = re.compile(r"^ *from (mcpkit[\w.]*) import ((?:\w|, |\(|\n    |,\n)+)", re.MULTILINE)

PAGES: Final = [
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name not in INSIDE),
    ROOT / "README.md",
    *sorted((ROOT / "examples").rglob("*.py")),
]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_pages_and_examples_use_what_is_public(path: Path) -> None:
    for module, names in _IMPORT.findall(path.read_text("utf-8")):
        assert module in PUBLIC, f"{path.name} imports {module}"
        public = importlib.import_module(module)
        for name in re.findall(r"\w+", names):
            assert hasattr(public, name), f"{module} has no {name}"
            assert not name.startswith("_")


def test_the_package_names_its_public_modules() -> None:
    told = mcpkit.__doc__ or ""
    assert [name for name in PUBLIC if f"`{name}`" not in told] == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("__init__.py")), ids=lambda path: path.parent.name)
def test_every_other_folder_says_that_it_is_internal(path: Path) -> None:
    name = ".".join(path.parent.relative_to(ROOT).parts)
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    is_public = name in PUBLIC
    assert ("Internal:" in told) is not is_public
