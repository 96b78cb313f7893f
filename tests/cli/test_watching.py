"""Edits are seen as editors make them, and what is no code of the project is not watched."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest

from mcpkit.cli.reloading.watching import Project, roots_of
from mcpkit.cli.statuses import CommandError

pytestmark = pytest.mark.anyio


@pytest.fixture
async def edits(tmp_path: Path) -> AsyncIterator[AsyncGenerator[list[str]]]:
    (tmp_path / "server.py").write_text("first")
    for ignored in (".venv/lib", "node_modules", "__pycache__", ".git"):
        (tmp_path / ignored).mkdir(parents=True)
    (tmp_path / "shop").mkdir()
    async with aclosing(Project([tmp_path]).edits()) as edits:
        assert await anext(edits) == []
        yield edits


async def told(edits: AsyncGenerator[list[str]]) -> list[str]:
    return [Path(each).name for each in await asyncio.wait_for(anext(edits), 30)]


async def test_edits_report_written_renamed_and_removed_files(
    tmp_path: Path, edits: AsyncGenerator[list[str]]
) -> None:
    server = tmp_path / "server.py"
    server.write_text("second time")
    assert await told(edits) == ["server.py"]
    (tmp_path / "server.py.tmp").write_text("third")  # as editors do it that replace a file at once
    os.replace(tmp_path / "server.py.tmp", server)
    assert await told(edits) == ["server.py"]
    (tmp_path / "shop" / "prices.py").write_text("in a folder below")
    assert await told(edits) == ["prices.py"]
    (tmp_path / "shop" / "prices.py").unlink()
    assert await told(edits) == ["prices.py"]


async def test_edits_ignore_files_that_are_no_code(tmp_path: Path, edits: AsyncGenerator[list[str]]) -> None:
    for ignored in (
        *(".venv/lib/other.py", "node_modules/other.py", "__pycache__/other.py", ".git/other.py"),
        *("notes.txt", ".#server.py", "#server.py#", "server.py~", ".server.py.swp", "4913"),
    ):
        (tmp_path / ignored).write_text("")
    os.utime(tmp_path)
    (tmp_path / "a.py").write_text("seen")
    assert await told(edits) == ["a.py"]


def test_roots_of_server_are_its_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "project" / "src" / "shop"
    inner.mkdir(parents=True)
    (inner / "__init__.py").write_text("")
    (inner / "server.py").write_text("")
    assert roots_of(str(inner / "server.py")) == [inner.parent]
    (tmp_path / "project" / "pyproject.toml").write_text("")
    assert roots_of(f"{inner / 'server.py'}:mcp") == [tmp_path / "project"]
    monkeypatch.chdir(tmp_path / "project")
    assert roots_of("absent.server:mcp") == [tmp_path / "project"]
    monkeypatch.setenv("HOME", str(tmp_path / "project"))
    assert roots_of(str(inner / "server.py")) == [inner.parent]
    with pytest.raises(CommandError, match="the server must be"):
        roots_of("npx")
