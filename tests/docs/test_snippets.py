"""Every example of the README and of the documentation runs, and prints what the page shows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import mcpkit

from .pages import ROOT, SHOWN_ONLY, Runner, blocks_of

DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]

_LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)")
_REFERENCE = re.compile(r"^::: (mcpkit[\w.]*)$", re.MULTILINE)


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_examples_do_what_the_page_says(page: Path, tmp_path: Path) -> None:
    text = page.read_text()

    count = Runner(_name(page), tmp_path).run(text)

    runnable = [block for block in blocks_of(text) if block.is_run and block.language not in SHOWN_ONLY]
    assert count == len([block for block in runnable if not block.is_output])


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)

    missing = [link for link in _LINK.findall(prose) if not (page.parent / link).exists()]

    assert not missing


def test_the_reference_has_every_public_name() -> None:
    described = {
        name for page in (DOCS / "reference").glob("*.md") for name in _REFERENCE.findall(page.read_text())
    }

    missing = [name for name in mcpkit.__all__ if f"mcpkit.{name}" not in described]

    assert not missing


def test_the_architecture_page_shows_every_file_of_the_package() -> None:
    house = next(
        block.text
        for block in blocks_of((DOCS / "architecture.md").read_text())
        if block.title == "The house"
    )
    package = ROOT / "mcpkit"
    files = {
        path.relative_to(package).as_posix() for path in package.rglob("*.py") if path.name != "__init__.py"
    }

    shown = set()
    folder = ""
    for line in house.splitlines():
        name = line.split()[0]
        if name.endswith("/"):
            folder = name
        elif name != "__init__.py":
            shown.add(folder + name if line.startswith("  ") else name)

    assert shown == files
