"""What authors return, as content blocks."""

from __future__ import annotations

import datetime as dt
import enum
import io
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Audio, EmbeddedResource, File, Image, ResourceLink, Text, ToolResult
from mcpkit.common.errors import OutputError
from mcpkit.content.values import holds_content, to_content, to_contents
from tests.helpers.contents import MAGIC, PNG, Point, Shape, Station, encoded, shows, text


class Color(enum.Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sunny", "sunny"),
        ("", ""),
        (5, "5"),
        (2.5, "2.5"),
        (True, "true"),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        ([], "[]"),
        ([1, "a"], '[1,"a"]'),
        (("a", "b"), '["a","b"]'),
        (["a", "b"], '["a","b"]'),
        # A dict that looks like a block is data all the same.
        ({"type": "text", "text": "x"}, '{"type":"text","text":"x"}'),
        (Point(x=1, label="q"), '{"x":1.0,"label":"q"}'),
        (Station("KSEA", (47.4, -122.3)), '{"id":"KSEA","position":[47.4,-122.3]}'),
        ({"café": "été"}, '{"café":"été"}'),
        # JSON strings are text without quotes.
        (Color.RED, "red"),
        (Shape.ROUND, "round"),
        (dt.date(2026, 7, 28), "2026-07-28"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Decimal("1.10"), "1.10"),
        (Path("a"), "a"),
        ({"text": "NaN and Infinity"}, '{"text":"NaN and Infinity"}'),
        ("NaN", "NaN"),
    ],
)
def test_values_are_text(value: Any, expected: str) -> None:
    assert to_content(value) == text(expected)


def test_none_is_no_content() -> None:
    assert to_content(None) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (float("nan"), "null"),
        (float("-inf"), "null"),
        ({"a": [float("inf")]}, '{"a":[null]}'),
        ([1.0, float("nan"), "NaN"], '[1.0,null,"NaN"]'),
    ],
)
def test_numbers_that_json_does_not_know_are_null(value: Any, expected: str) -> None:
    assert to_content(value) == text(expected)


@pytest.mark.parametrize(
    "value",
    [
        "a\ud800",
        {"a": "\udfff"},
        ["\ud800"],
        Text("\ud800"),
        File(data="\ud800"),
        EmbeddedResource("a:b", text="\ud800"),
    ],
)
def test_lone_surrogates_are_refused(value: Any) -> None:
    with pytest.raises(OutputError, match=r"^result.*surrogate.*decode with errors"):
        to_content(value)
    with pytest.raises(OutputError, match=r"^result.*surrogate.*decode with errors"):
        to_contents(value, "a:b", None)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (object(), "result has no form in JSON: an object; return a dict"),
        ({"a": object()}, r"result\.a has no form in JSON: an object; return a dict"),
        ({"plot": Image(data=PNG)}, r"result\.plot has no form in JSON: an Image, .* return a list of both"),
        (ToolResult("x"), "result has no form in JSON: a ToolResult, which is a whole result"),
        (["x", b"", ToolResult("x")], r"result\[2\] has no form in JSON: a ToolResult"),
    ],
)
def test_what_has_no_json_form_says_what_to_return_instead(value: Any, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        to_content(value)


@pytest.mark.parametrize("mime_type", MAGIC)
def test_bytes_of_an_image_or_a_sound_are_that(mime_type: str) -> None:
    data = MAGIC[mime_type]
    block = {"type": mime_type.partition("/")[0], "data": encoded(data), "mimeType": mime_type}
    for value in (data, bytearray(data), memoryview(data)):
        assert to_content(value) == [block]
    assert to_contents(data, "a:b", None) == [{"uri": "a:b", "mimeType": mime_type, "blob": encoded(data)}]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"BM" + b"x" * 20,
        b"\0" * 20,
        b"8 bytes.WEBP",
        b"8 bytes.WAVE",
        b"RIFF....AVI ",
        b"\xff\xfeU\0T\0F",
        b"<html><svg>",
        b"<!---->" * 200,
        b"%PDF-1.7",
    ],
)
def test_bytes_that_only_look_like_media_are_not(data: bytes) -> None:
    assert to_content(data)[0]["type"] == "resource"


def test_other_bytes_are_a_blob_whose_uri_follows_from_them() -> None:
    [block] = to_content(b"\xff\xfe\0")
    assert block["type"] == "resource"
    assert block["resource"]["mimeType"] == "application/octet-stream"
    assert block["resource"]["blob"] == encoded(b"\xff\xfe\0")
    assert to_content(b"\xff\xfe\0") == [block]
    assert to_content(b"plain")[0]["resource"]["uri"] != block["resource"]["uri"]


def test_a_list_with_content_becomes_blocks_in_order() -> None:
    blocks = to_content(["Seattle", Image(data=PNG), {"t": 3}, None, [Text("a"), "b"], ("x", "y"), 7])
    assert [block.get("text", block["type"]) for block in blocks] == [
        "Seattle",
        "image",
        '{"t":3}',
        "a",
        "b",
        '["x","y"]',
        "7",
    ]
    assert to_content([b"\xff", "x"])[1:] == text("x")


def test_text_carries_annotations_and_meta() -> None:
    block = Text("hi", annotations={"audience": ["user"], "priority": 0.5}, meta={"a/b": 1})
    assert to_content(block) == [
        {
            "type": "text",
            "text": "hi",
            "annotations": {"audience": ["user"], "priority": 0.5},
            "_meta": {"a/b": 1},
        }
    ]
    assert to_contents(block, "a:b", None) == [
        {"uri": "a:b", "mimeType": "text/plain", "text": "hi", "_meta": {"a/b": 1}}
    ]


@pytest.mark.parametrize(
    ("annotations", "message"),
    [
        ({"audience": "user"}, "audience"),
        ({"audience": ["model"]}, "audience"),
        ({"priority": 2}, "priority"),
    ],
)
def test_wrong_annotations_are_refused(annotations: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Text("hi", annotations=annotations)


# Structured data and results


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ({"a": 1}, False),
        ([1], False),
        ([], False),
        ((1, 2), False),
        ({1, 2}, False),
        (Point(x=1), False),
        (Station("a", (1, 2)), False),
        ("a", False),
        (3, False),
        (None, False),
        (dt.date(2026, 1, 1), False),
        ({"a": b""}, False),
        (b"a", True),
        (io.BytesIO(), True),
        (Text("a"), True),
        (["a", Text("b")], True),
        (["a", [1, ("b", [Text("b")])]], True),
        (shows(png=PNG), True),
    ],
)
def test_content_is_told_from_data(value: Any, answer: bool) -> None:
    assert holds_content(value) is answer


def test_a_list_in_itself_is_told_from_content() -> None:
    circle: list[Any] = []
    circle += [circle, circle]
    assert not holds_content(circle)


def test_a_tool_result_keeps_what_it_is_given() -> None:
    result = ToolResult(["a"], structured=None, is_error=True, meta={"k": 1})
    assert (result.content, result.structured, result.is_error, result.meta) == (["a"], None, True, {"k": 1})
    assert ToolResult().structured is ToolResult.ABSENT
    assert repr(result) == "ToolResult(['a'], structured=None, is_error=True)"
    assert repr(ToolResult("a")) == "ToolResult('a', is_error=False)"


@pytest.mark.parametrize("kind", [Text, Image, Audio, File, ResourceLink, EmbeddedResource, ToolResult])
def test_content_classes_are_marked_and_slotted(kind: Any) -> None:
    assert kind.__mcp_content__ is True
    assert not hasattr(kind, "__dict__") or "__dict__" not in kind.__dict__


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Text("a"), "Text('a')"),
        (Image("/dev/null"), "Image(path='/dev/null', mime_type=None)"),
        (File(data=b"abc"), "File(data=<3>, mime_type=None)"),
        (ResourceLink("a:b", "n"), "ResourceLink('a:b', 'n')"),
        (EmbeddedResource("a:b", text=""), "EmbeddedResource('a:b', mime_type=None)"),
    ],
)
def test_repr_is_short(value: Any, shown: str) -> None:
    assert repr(value) == shown
