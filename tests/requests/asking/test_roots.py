"""The path of a root: from the URIs that clients send, to where the files are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.calls.asking.roots import Root, file_path
from mcpkit.testing import connect

POSIX = {
    "file:///srv/ada": "/srv/ada",
    "file:///srv/ada/": "/srv/ada/",
    "FILE:///srv/ada": "/srv/ada",
    "file:/srv/ada": "/srv/ada",
    "file://localhost/srv/ada": "/srv/ada",
    "file:///srv/ada/my%20notes/100%25/%C3%A9t%C3%A9": "/srv/ada/my notes/100%/été",
    "file:///srv/ada/été": "/srv/ada/été",
    "file:///a%23b%3Fc": "/a#b?c",
    "file:///": "/",
    "file:///not%zzencoded": "/not%zzencoded",
}
WINDOWS = {
    "file:///C:/Users/ada": "C:/Users/ada",
    "file:///c%3A/Users/Ada%20L": "c:/Users/Ada L",
    "file:///C:": "C:/",
    "file:///C:/": "C:/",
    "file://localhost/C:/x": "C:/x",
    "file://server/share/x": "//server/share/x",
    "file:////server/share/x": "//server/share/x",
}
NOWHERE = [
    "https://example.com/srv/ada",
    "git+ssh://example.com/x",
    "/srv/ada",
    "file:",
    "file:ada",
    "file://",
    "file:///srv/ada?version=1",
    "file:///srv/ada#L1",
    "file:///home/%00ada",
    "",
]


@pytest.mark.parametrize(("uri", "path"), POSIX.items())
def test_the_path_of_a_file_uri(uri: str, path: str) -> None:
    assert file_path(uri, is_windows=False) == path


@pytest.mark.parametrize(("uri", "path"), WINDOWS.items())
def test_the_path_with_a_drive_or_a_machine_on_windows(uri: str, path: str) -> None:
    assert file_path(uri, is_windows=True) == path


@pytest.mark.parametrize("uri", NOWHERE)
@pytest.mark.parametrize("is_windows", [False, True])
def test_what_is_no_file_here_has_no_path(uri: str, is_windows: bool) -> None:
    assert file_path(uri, is_windows=is_windows) is None


def test_the_files_of_another_machine_are_not_here() -> None:
    assert file_path("file://server/share/x", is_windows=False) is None
    assert file_path("file:///srv/ada", is_windows=True) is None


@pytest.mark.skipif(os.name == "nt", reason="file names are bytes on POSIX alone")
def test_a_name_that_is_no_utf8_is_the_name_in_the_file_system(tmp_path: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    odd.mkdir()
    path = Root(odd.as_uri()).path
    assert path is not None
    assert path.is_dir()


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_handler_lists_the_files_of_the_roots(tmp_path: Path, revision: str) -> None:
    (tmp_path / "my notes").mkdir()
    (tmp_path / "my notes" / "a.txt").write_text("a")
    server = Server("files")

    @server.tool
    async def files(ctx: Context) -> list[str]:
        paths = [root.path for root in await ctx.list_roots()]
        return [file.name for path in paths if path is not None for file in path.iterdir()]

    def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"roots": [{"uri": (tmp_path / "my notes").as_uri()}, {"uri": "https://example.com"}]}

    async with connect(server, revision=revision, answers=answer) as client:
        assert "a.txt" in (await client.call("files")).text
