"""Files that are made of what servers send, and texts of theirs at a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit.cli.output.files import decoded, name_of, saved
from mcpkit.cli.output.written import printable
from mcpkit.cli.statuses import CommandError, Status


@pytest.mark.parametrize(
    ("name", "mime_type", "written"),
    [
        ("chart", "image/png", "chart.png"),
        ("chart.svg", "image/svg+xml", "chart.svg"),
        ("photo", "image/jpeg; q=1", "photo.jpg"),
        ("notes", None, "notes.bin"),
        ("make.order", "image/png", "make.order"),
        ("../../etc/passwd", "text/plain", "_.._etc_passwd.txt"),
        ("C:\\windows\\x", "image/png", "C__windows_x.png"),
        ("..", None, "content.bin"),
        ("", "audio/wav", "content.wav"),
        ("CON", "image/png", "_CON.png"),
        ("nul.txt", None, "_nul.txt"),
        ("a" * 300, "image/png", "a" * 80 + ".png"),
        ("snow ☃", "image/png", "snow__.png"),
        ("x", "no/such-type", "x.bin"),
    ],
)
def test_names_stay_in_their_folder(tmp_path: Path, name: str, mime_type: str | None, written: str) -> None:
    path = saved(b"content", tmp_path / "new", name, mime_type)
    assert path == tmp_path / "new" / written
    assert path.read_bytes() == b"content"


def test_nothing_is_overwritten_and_no_link_is_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine.txt"
    mine.write_text("mine")
    (tmp_path / "chart.png").symlink_to(mine)
    assert saved(b"1", tmp_path, "chart", "image/png").name == "chart-2.png"
    assert saved(b"2", tmp_path, "chart", "image/png").name == "chart-3.png"
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("file:///a/b/c.txt", "c.txt"),
        ("note://hello", "hello"),
        ("data:abc", "abc"),
        ("x://h/%2e%2e%2fevil", "../evil"),
        ("http://[broken", "resource"),
        ("", "resource"),
    ],
)
def test_resources_give_names(uri: str, name: str) -> None:
    assert name_of(uri) == name


@pytest.mark.parametrize("data", ["***", "abcde", None, 5])
def test_what_is_no_base64_is_the_servers_fault(data: object) -> None:
    with pytest.raises(CommandError, match="the picture is no base64") as caught:
        decoded(data, "the picture")
    assert caught.value.status == Status.TOOL_ERROR


def test_control_characters_do_nothing_to_a_terminal() -> None:
    assert printable("plain ☃\n\ttext") == "plain ☃\n\ttext"
    assert printable("\x1b[31mred\x07\r\u202e") == "\\x1b[31mred\\x07\\r\\u202e"
