"""A title and a picture on the pages of an authorization server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit.auth.authority.look import Look, look_of
from mcpkit.auth.authority.pages import error_page, page

PNG = b"\x89PNG\r\n\x1a\n and so on"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"/>'


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (PNG, "png"),
        (b"\xff\xd8\xff\xe0", "jpeg"),
        (b"GIF89a", "gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "webp"),
        (SVG, "svg+xml"),
        (b"<?xml version='1.0'?>" + SVG, "svg+xml"),
    ],
)
def test_a_picture_stands_in_the_page_by_its_format(data: bytes, kind: str, tmp_path: Path) -> None:
    look = look_of("Notes", data)
    assert look.picture is not None
    assert look.picture.startswith(f"data:image/{kind};base64,")
    (tmp_path / "picture").write_bytes(data)
    assert look_of("Notes", tmp_path / "picture") == look_of("Notes", str(tmp_path / "picture")) == look
    for shown in (page("A title", "", look=look), error_page("no", look=look)):
        text = bytes(shown.body).decode()
        assert f'<img src="{look.picture}" alt="">' in text
        assert "<p>Notes</p></header>" in text
        assert "img-src data:;" in shown.headers["content-security-policy"]


def test_a_page_without_a_picture_shows_none_and_may_show_none() -> None:
    for look in (Look(), look_of("Notes", None)):
        shown = page("A title", "", look=look)
        assert b"<img" not in shown.body
        assert "img-src" not in shown.headers["content-security-policy"]


@pytest.mark.limit("picture on the pages of `OAuthProxy`")
def test_a_picture_has_a_size() -> None:
    look_of("Notes", PNG.ljust(256 * 1024, b"x"))
    with pytest.raises(ValueError, match="make it smaller"):
        look_of("Notes", PNG.ljust(256 * 1024 + 1, b"x"))


@pytest.mark.parametrize(
    ("title", "picture", "error"),
    [
        ("", None, ValueError),
        (" ", None, ValueError),
        ("x" * 101, None, ValueError),
        ("a\nb", None, ValueError),
        (7, None, TypeError),
        ("Notes", b"", ValueError),
        ("Notes", b"<html>", ValueError),
        ("Notes", b"RIFF\x00\x00\x00\x00WAVE", ValueError),
        ("Notes", Path("/nowhere/at/all.png"), OSError),
    ],
)
def test_what_is_no_look_is_refused(title: Any, picture: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        look_of(title, picture)


def test_a_title_is_text_and_no_markup() -> None:
    shown = page("<b>", "", look=Look("<i>&"))
    assert b"<title>&lt;b&gt;</title>" in shown.body
    assert b"<p>&lt;i&gt;&amp;</p>" in shown.body
