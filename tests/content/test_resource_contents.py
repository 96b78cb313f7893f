"""What functions of resources return, as the contents of resources."""

from __future__ import annotations

from typing import Any

import pytest

from mcpkit import EmbeddedResource, File, Image, ResourceLink, ToolResult
from mcpkit.common.errors import OutputError
from mcpkit.content.values import to_contents
from tests.helpers.contents import PNG, Point, Shape, encoded


@pytest.mark.parametrize(
    ("value", "declared", "contents"),
    [
        ("hi", None, {"mimeType": "text/plain", "text": "hi"}),
        ("# hi", "text/markdown", {"mimeType": "text/markdown", "text": "# hi"}),
        (b"hi", None, {"mimeType": "application/octet-stream", "blob": "aGk="}),
        (b"hi", "text/plain", {"mimeType": "text/plain", "blob": "aGk="}),
        ({"a": 1}, None, {"mimeType": "application/json", "text": '{"a":1}'}),
        ([1], "application/x-own", {"mimeType": "application/x-own", "text": "[1]"}),
        (Point(x=1), None, {"mimeType": "application/json", "text": '{"x":1.0,"label":"p"}'}),
        (3, None, {"mimeType": "application/json", "text": "3"}),
        (Shape.ROUND, None, {"mimeType": "text/plain", "text": "round"}),
        (Image(data=PNG), "image/jpeg", {"mimeType": "image/png", "blob": encoded(PNG)}),
        (File(data="x", name="a.csv"), None, {"mimeType": "text/csv", "text": "x"}),
        (File(data="x", name="a.csv"), "text/x-own", {"mimeType": "text/x-own", "text": "x"}),
    ],
)
def test_contents_of_a_resource(value: Any, declared: str | None, contents: dict[str, str]) -> None:
    assert to_contents(value, "data://x", declared) == [{"uri": "data://x", **contents}]


def test_several_contents_keep_their_own_uris() -> None:
    value = [
        File(data="a", uri="d://a"),
        EmbeddedResource("d://b", blob=b"b", meta={"k": 1}),
        File(data="c"),
        "d",
        {"e": 1},
    ]
    assert to_contents(value, "d://all", None) == [
        {"uri": "d://a", "mimeType": "text/plain", "text": "a"},
        {"uri": "d://b", "blob": "Yg==", "_meta": {"k": 1}},
        {"uri": "d://all", "mimeType": "text/plain", "text": "c"},
        {"uri": "d://all", "mimeType": "text/plain", "text": "d"},
        {"uri": "d://all", "mimeType": "application/json", "text": '{"e":1}'},
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "result is None; return the contents, or raise ResourceNotFoundError"),
        (ResourceLink("a:b", "n"), "result cannot be sent: it is a ResourceLink.*return a File"),
        (ToolResult("x"), "a ToolResult, which is a whole result"),
    ],
)
def test_what_is_no_contents_is_refused(value: Any, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        to_contents(value, "data://x", None)
