"""Images, sounds, files and links, as content blocks."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Audio, EmbeddedResource, File, Image, ResourceLink, Server, Text, ToolError
from mcpkit.common.errors import OutputError
from mcpkit.content.values import to_content, to_contents
from mcpkit.testing import connect
from tests.helpers.contents import MAGIC, PNG, encoded


def test_an_image_is_read_when_it_is_converted(tmp_path: Path) -> None:
    path = tmp_path / "plot.png"
    path.write_bytes(b"")
    image = Image(path)
    path.unlink()
    with pytest.raises(
        OutputError, match=r"result could not be read: FileNotFoundError was raised"
    ) as raised:
        to_content(image)
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    path.write_bytes(PNG)
    assert to_content(image) == [{"type": "image", "data": encoded(PNG), "mimeType": "image/png"}]


@pytest.mark.parametrize("kind", [File, Image, Audio])
def test_a_file_that_cannot_be_read_is_an_error_when_it_is_named(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "circle").symlink_to("circle")
    for path, error in {
        "missing": FileNotFoundError,
        "": IsADirectoryError,
        "file/below": NotADirectoryError,
        "circle": OSError,
        "n" * 300: OSError,
    }.items():
        with pytest.raises(error, match=re.escape(repr(str(tmp_path / path)))):
            kind(tmp_path / path)
        with pytest.raises(error):
            kind(path=str(tmp_path / path))


@pytest.mark.skipif(sys.platform == "win32", reason="has other users")
def test_a_file_of_somebody_else_is_an_error_when_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.touch()
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(PermissionError):
            File(path)
    finally:
        os.seteuid(user)


@pytest.mark.anyio
async def test_an_author_may_catch_it() -> None:
    server = Server("s")

    @server.tool
    async def report(name: str) -> Any:
        try:
            return File(f"/nowhere/{name}")
        except OSError as error:
            raise ToolError(f"there is no report of that name ({type(error).__name__})") from None

    async with connect(server) as client:
        result = await client.call("report", {"name": "a"})
    assert result.is_error
    assert result.text == "there is no report of that name (FileNotFoundError)"


@pytest.mark.parametrize(
    ("name", "content", "mime_type"),
    [
        ("a.jpg", b"?", "image/jpeg"),
        ("a.webp", b"?", "image/webp"),
        ("A.SVG", b"?", "image/svg+xml"),
        ("no-suffix", PNG, "image/png"),
        ("wrong.txt", PNG, "image/png"),
    ],
)
def test_the_media_type_comes_from_the_name_then_from_the_bytes(
    tmp_path: Path, name: str, content: bytes, mime_type: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert to_content(Image(tmp_path / name))[0]["mimeType"] == mime_type
    assert to_content(Image(str(tmp_path / name), mime_type="image/x-own"))[0]["mimeType"] == "image/x-own"


@pytest.mark.parametrize("kind", [Image, Audio])
def test_an_unknown_kind_of_media_asks_for_its_type(kind: Any) -> None:
    name = kind.__name__.lower()
    with pytest.raises(OutputError, match=f'no known kind of {name}: give mime_type="{name}/'):
        to_content(kind(data=b"?"))
    assert to_contents(kind(data=b"?"), "a:b", f"{name}/x-own")[0]["mimeType"] == f"{name}/x-own"
    other = MAGIC["audio/flac"] if kind is Image else PNG
    with pytest.raises(OutputError, match="no known kind"):
        to_content(kind(data=other))


def test_audio_is_guessed_and_carries_annotations(tmp_path: Path) -> None:
    path = tmp_path / "a.m4a"
    path.write_bytes(b"?")
    assert to_content(Audio(path, annotations={"priority": 1}, meta={"k": "v"})) == [
        {
            "type": "audio",
            "data": encoded(b"?"),
            "mimeType": "audio/mp4",
            "annotations": {"priority": 1},
            "_meta": {"k": "v"},
        }
    ]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Image(), "either path= or data="),
        (lambda: Image("a.png", data=PNG), "either path= or data="),
        (lambda: Image(PNG), "give bytes as data="),  # type: ignore[arg-type]  # the mistake under test
        (lambda: Image(data="aGk="), "decode base64 first"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: Audio(data=3), "data must be bytes, got int"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: File(), "either path= or data="),
        (lambda: Text(3), "takes a str"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: EmbeddedResource("a:b"), "either text= or blob="),
        (lambda: EmbeddedResource("a:b", blob="aGk="), "decode base64 first"),  # type: ignore[arg-type]  # as above
    ],
)
def test_wrong_arguments_say_what_to_write(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Image(data=PNG, mime_type="png"), 'begin with "image/"'),
        (lambda: File(data=PNG, mime_type="png"), "must look like"),
        (lambda: File(data="", uri="no scheme"), "is no URI"),
        (lambda: ResourceLink("a://b c", "n"), "is no URI"),
        (lambda: ResourceLink("a://é", "n"), "is no URI"),
        (lambda: EmbeddedResource("/a", text=""), "is no URI"),
    ],
)
def test_wrong_values_say_what_is_expected(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("file", "resource"),
    [
        (
            File(data="a,b", name="x y.csv"),
            {"uri": "attachment:///x%20y.csv", "mimeType": "text/csv", "text": "a,b"},
        ),
        (
            File(data=b"# Hi", name="a.md"),
            {"uri": "attachment:///a.md", "mimeType": "text/markdown", "text": "# Hi"},
        ),
        (File(data=b"hi", uri="a:b"), {"uri": "a:b", "mimeType": "text/plain", "text": "hi"}),
        (
            File(data=b"hi", uri="a:b", mime_type="application/octet-stream"),
            {"uri": "a:b", "mimeType": "application/octet-stream", "blob": "aGk="},
        ),
        (
            File(data=b"a\0", uri="a:b"),
            {"uri": "a:b", "mimeType": "application/octet-stream", "blob": "YQA="},
        ),
        (
            File(data=b"\xe9", uri="a:b", name="a.txt"),
            {"uri": "a:b", "mimeType": "text/plain", "blob": "6Q=="},
        ),
        (
            File(data=b"hi", uri="a:b", name="a.pdf"),
            {"uri": "a:b", "mimeType": "application/pdf", "blob": "aGk="},
        ),
        (File(data=b"hi", uri="a:b", name="a.png"), {"uri": "a:b", "mimeType": "image/png", "blob": "aGk="}),
        (File(data=PNG, uri="a:b"), {"uri": "a:b", "mimeType": "image/png", "blob": encoded(PNG)}),
        (
            File(data=b"hi", uri="a:b", name="a.tar.gz"),
            {"uri": "a:b", "mimeType": "application/gzip", "text": "hi"},
        ),
        (
            File(data=b"<svg/>", uri="a:b", name="a.svg"),
            {"uri": "a:b", "mimeType": "image/svg+xml", "text": "<svg/>"},
        ),
    ],
)
def test_a_file_is_embedded_as_text_where_it_is_text(file: File, resource: dict[str, str]) -> None:
    assert to_content(file) == [{"type": "resource", "resource": resource}]


def test_a_file_from_a_path_shows_its_name_and_not_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "notes.md"
    path.write_text("# Notes", encoding="utf-8")
    [block] = to_content(File(path, meta={"k": 1}))
    assert block == {
        "type": "resource",
        "resource": {"uri": "attachment:///notes.md", "mimeType": "text/markdown", "text": "# Notes"},
        "_meta": {"k": 1},
    }
    assert to_contents(File(path), "docs://notes", None) == [
        {"uri": "docs://notes", "mimeType": "text/markdown", "text": "# Notes"}
    ]


def test_a_link_has_every_field_of_the_specification() -> None:
    link = ResourceLink(
        "weather://states",
        "states",
        title="States",
        description="All of them",
        mime_type="application/json",
        size=12,
        icons=[{"src": "https://example.com/i.png"}],
        annotations={"lastModified": "2026-07-28T00:00:00Z"},
        meta={"k": 1},
    )
    assert to_content(link) == [
        {
            "type": "resource_link",
            "uri": "weather://states",
            "name": "states",
            "title": "States",
            "description": "All of them",
            "mimeType": "application/json",
            "size": 12,
            "icons": [{"src": "https://example.com/i.png"}],
            "annotations": {"lastModified": "2026-07-28T00:00:00Z"},
            "_meta": {"k": 1},
        }
    ]
    assert to_content(ResourceLink("a:b", "n")) == [{"type": "resource_link", "uri": "a:b", "name": "n"}]


def test_an_embedded_resource_is_text_or_blob() -> None:
    assert to_content(EmbeddedResource("a:b", text="x", mime_type="text/html")) == [
        {"type": "resource", "resource": {"uri": "a:b", "mimeType": "text/html", "text": "x"}}
    ]
    assert to_content(EmbeddedResource("a:b", blob=b"x")) == [
        {"type": "resource", "resource": {"uri": "a:b", "blob": "eA=="}}
    ]
