"""A folder served as resources: the files that are listed, read and refused."""

import os
import socket
import sys
from pathlib import Path

import pytest

from mcpkit._utils.exceptions import RegistrationError, ResourceNotFoundError
from mcpkit.content.blocks import File
from mcpkit.content.results_to_blocks import to_contents
from mcpkit.providers.directory import ResourceDir, resource_dir
from tests.helpers.tables import each_row

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="needs links, pipes and permissions of POSIX")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder beside a file that must never be served."""
    (tmp_path / "secret.txt").write_text("secret")
    folder = tmp_path / "docs"
    (folder / "guide" / "deep").mkdir(parents=True)
    (folder / "readme.md").write_text("# Read me")
    (folder / "guide" / "a.txt").write_text("caf\u00e9", encoding="utf-8")
    (folder / "guide" / "deep" / "b.bin").write_bytes(b"\xff\0")
    (folder / "zebra").write_text("stripes")
    return folder


def open_file(folder: ResourceDir, uri: str) -> File | None:
    """Return the file that the template of a folder serves at a URI, or None."""
    values = folder.template.match(uri)
    try:
        return folder.open(str(values["path"])) if values else None
    except ResourceNotFoundError:
        return None


def read(folder: ResourceDir, uri: str) -> str | None:
    if (file := open_file(folder, uri)) is None:
        return None
    [contents] = to_contents(file, uri, None)
    assert contents["uri"] == uri
    return contents.get("text", contents.get("blob"))


def test_resource_dir_lists_files_in_order_and_reads_them(root: Path) -> None:
    os.utime(root / "readme.md", (1_785_196_800, 1_785_196_800.9))
    folder = ResourceDir(root, "docs://x")
    entries = folder.listed()
    assert [(entry["uri"], entry.get("mimeType"), entry["size"]) for entry in entries] == [
        ("docs://x/guide/a.txt", "text/plain", 5), ("docs://x/guide/deep/b.bin", "application/octet-stream", 2),
        ("docs://x/readme.md", "text/markdown", 9), ("docs://x/zebra", None, 7),
    ]  # fmt: skip
    assert entries[2] == {
        "uri": "docs://x/readme.md", "name": "readme.md", "mimeType": "text/markdown", "size": 9,
        "annotations": {"lastModified": "2026-07-28T00:00:00Z"},
    }  # fmt: skip
    for name in (
        "50%41 off.txt",
        "a#b?c.txt",
        "caf\u00e9 \u2603.txt",
        "a{b}.txt",
        "a+b&c=d;e.txt",
        "'q'.txt",
    ):
        (root / name).write_text(name, encoding="utf-8")
    uris = [entry["uri"] for entry in folder.listed()]
    assert len(uris) == 10
    assert all(uri.isascii() and read(folder, uri) is not None for uri in uris)
    assert read(folder, "docs://x/50%2541%20off.txt") == "50%41 off.txt"


@each_row("uri", [
    "docs://x/../secret.txt", "docs://x/%2e%2e/secret.txt", "docs://x/guide/..%2F..%2Fsecret.txt",
    "docs://x/guide/../readme.md", "docs://x/..\\secret.txt", "docs://x//etc/passwd", "docs://x/%2Fetc/passwd",
    "docs://x/readme.md%00.txt", "docs://x/C:/secret.txt", "docs://x/./readme.md", "docs://x/guide//a.txt",
    "docs://x/readme.md/", "docs://x/readme.md/more", "docs://x/guide", "docs://x/", "docs://x",
    "docs://x/" + "a" * 5000, "docs://x/" + "a/" * 3000 + "b", "docs://x/%FF", "docs://x/\ud800",
    "docs://y/readme.md", "",
])  # fmt: skip
def test_resource_dir_other_uris_are_not_found(root: Path, uri: str) -> None:
    assert open_file(ResourceDir(root, "docs://x", hidden=True), uri) is None


def test_resource_dir_hidden_files(root: Path) -> None:
    (root / ".env").write_text("KEY")
    (root / ".git").mkdir()
    (root / ".git" / "config").write_text("c")
    default, hidden = ResourceDir(root, "docs://x"), ResourceDir(root, "docs://x", hidden=True)
    for uri, text in (("docs://x/.env", "KEY"), ("docs://x/.git/config", "c")):
        assert read(default, uri) is None
        assert read(hidden, uri) == text
    assert not any(entry["name"].startswith(".") for entry in default.listed())
    assert [entry["name"] for entry in hidden.listed()][:2] == [".env", ".git/config"]


@posix_only
def test_resource_dir_links(root: Path) -> None:
    (root / "inside.txt").symlink_to("guide/a.txt")
    (root / "inside").symlink_to("guide")
    (root / "outside.txt").symlink_to(root.parent / "secret.txt")
    (root / "outside").symlink_to(root.parent)
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("nowhere")
    (root / ".hidden").write_text("hidden")
    (root / "shown").symlink_to(".hidden")
    folder = ResourceDir(root, "docs://x")
    assert read(folder, "docs://x/inside.txt") == "caf\u00e9"
    assert read(folder, "docs://x/inside/a.txt") == "caf\u00e9"
    assert read(folder, "docs://x/shown") is None
    for path in ("outside.txt", "outside/secret.txt", "loop", "dangling"):
        assert open_file(folder, f"docs://x/{path}") is None
        assert open_file(ResourceDir(root, "docs://x", hidden=True), f"docs://x/{path}") is None
    assert [entry["name"] for entry in folder.listed()] == ["guide/a.txt", "guide/deep/b.bin", "inside.txt",
        "readme.md", "zebra"]  # fmt: skip


@posix_only
@pytest.mark.parametrize("swapped", ["guide", "guide/a.txt"])
def test_resource_dir_link_created_after_check_is_not_followed(root, monkeypatch, swapped) -> None:
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("secret")
    folder = ResourceDir(root, "docs://x")
    check = folder._inside

    def check_then_swap(path: str) -> tuple[str, ...] | None:
        parts = check(path)
        (root / swapped).rename(root / "away")
        (root / swapped).symlink_to(outside if swapped == "guide" else outside / "a.txt")
        return parts

    monkeypatch.setattr(folder, "_inside", check_then_swap)
    assert open_file(folder, "docs://x/guide/a.txt") is None
    assert (root / "guide" / "a.txt").read_text() == "secret"


@posix_only
def test_resource_dir_special_files_are_not_served(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(root / "pipe")
    monkeypatch.chdir(root)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    folder = ResourceDir(root, "docs://x")
    for name in ("pipe", "socket"):
        assert open_file(folder, f"docs://x/{name}") is None
        assert name not in [entry["name"] for entry in folder.listed()]


@each_row(
    ("prefix", "message"),
    [("docs://x/", "ends with a slash"), ("docs", "is not a URI"), ("docs://{x}", "is not a URI")],
)
def test_resource_dir_wrong_prefix_is_refused(root: Path, prefix: str, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        ResourceDir(root, prefix)


def test_resource_dir_renamed_template(root: Path) -> None:
    template = resource_dir(root, "docs://x").renamed("docs://team/x/{+path}")
    assert template.list_entries is not None
    uris = [entry["uri"] for entry in template.list_entries()]
    assert uris[0] == "docs://team/x/guide/a.txt"
    assert all(template.template.match(uri) for uri in uris)
    with pytest.raises(ResourceNotFoundError, match="docs://team/x/missing"):
        template.function(path="missing")
    bare = resource_dir(root, "docs://").renamed("docs://{+path}").renamed("docs://team/{+path}")
    assert bare.list_entries is not None
    assert next(iter(bare.list_entries()))["uri"] == "docs://team/guide/a.txt"
