"""A folder whose files are watched on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from mcpkit import RegistrationError, Server
from mcpkit.components.resource_dir import resource_dir
from mcpkit.engine.subscriptions import watching as module
from mcpkit.state.change import Change
from tests.helpers.pipe import Ear, settle, updated

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


class Folder:
    """A folder that is served and watched, and somebody who listens."""

    def __init__(self, root: Path, **options: Any) -> None:
        self.root = root
        self.server = Server("s")
        self.server.include(resource_dir(root, "docs://guide", watch=True, **options))
        self.ear = Ear()
        self.changes = self.server.engine.hubs.here()

    def want(self, *changes: Change) -> None:
        for change in changes:
            self.changes.want(self.ear, change)

    async def hears(self, *expected: Change, make: Callable[[], Any]) -> None:
        """Make a change, and wait until all that is expected has been heard."""
        self.ear.heard.clear()
        make()
        for _ in range(1000):
            if set(expected) <= set(self.ear.heard):
                break
            await asyncio.sleep(0.01)
        assert set(self.ear.heard) == set(expected)


LIST: Change = Change("resources")


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Folder]:
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("b")
    folder = Folder(tmp_path)
    yield folder
    folder.changes.forget(folder.ear)
    while any(task.get_name().startswith("mcpkit-watch") for task in asyncio.all_tasks()):
        await asyncio.sleep(0.01)


async def test_watched_folder_reports_written_added_and_removed_files(folder: Folder) -> None:
    a, b, new = (updated(f"docs://guide/{name}") for name in ("a.txt", "sub/b.txt", "new%20one.txt"))
    folder.want(LIST, a, b, new)
    await settle()
    root = folder.root
    await folder.hears(a, make=lambda: (root / "a.txt").write_text("changed"))
    await folder.hears(b, make=lambda: (root / "sub" / "b.txt").write_text("changed"))
    await folder.hears(LIST, new, make=lambda: (root / "new one.txt").write_text("new"))
    await folder.hears(LIST, a, make=(root / "a.txt").unlink)


async def test_hidden_files_are_not_reported(folder: Folder) -> None:
    folder.want(LIST, updated("docs://guide/.hidden"), updated("docs://guide/a.txt"))
    await settle()
    (folder.root / ".hidden").write_text("x")
    await folder.hears(
        updated("docs://guide/a.txt"), make=lambda: (folder.root / "a.txt").write_text("changed")
    )


async def test_removed_folder_is_reported_and_watched_again(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "FIRST_DELAY", 0.05)
    a = updated("docs://guide/a.txt")
    folder.want(a, LIST)
    await settle()
    (folder.root / "sub" / "b.txt").unlink()
    (folder.root / "sub").rmdir()
    await folder.hears(a, LIST, make=lambda: [(folder.root / "a.txt").unlink(), folder.root.rmdir()])
    for _ in range(1000):
        if "No path was found" in caplog.text:  # it has looked for the folder in vain
            break
        await asyncio.sleep(0.01)
    folder.root.mkdir()
    folder.ear.heard.clear()
    for number in range(1000):
        if a in folder.ear.heard:
            break
        (folder.root / "a.txt").write_text(str(number))
        await asyncio.sleep(0.01)
    assert a in folder.ear.heard


def test_watch_without_watchfiles_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RegistrationError, match=r"pip install .*\[watch\]"):
        resource_dir(tmp_path, "docs://guide", watch=True)
    assert resource_dir(tmp_path, "docs://guide").watch is None
