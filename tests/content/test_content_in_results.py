"""Content that a tool returns where its annotation leaves open what comes; and bytes inside of data."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import pandas as pd
import pytest
from PIL import Image as Pillow
from pydantic import BaseModel
from typing_extensions import TypedDict

from mcpkit import Audio, File, Image, Server, ToolResult
from mcpkit.testing import connect
from tests.helpers.contents import PNG, encoded, shows

pytestmark = pytest.mark.anyio
ERAS = pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
OPEN = [
    *(list, list[Any], list[object], tuple, tuple[Any, ...], Any, object, Sequence[Any], Iterable[Any]),
    *(Optional[list], list[Any] | dict[str, Any], list[list[Any]], Iterator[Any], list[Any] | str),  # noqa: UP045
]


def tool_returning(server: Server, annotation: Any, value: Any) -> None:
    def give() -> Any:
        return value

    give.__annotations__["return"] = annotation
    server.tool(give)


@ERAS
@pytest.mark.parametrize("annotation", OPEN)
async def test_content_wins_where_the_annotation_leaves_open_what_comes(
    annotation: Any, revision: str
) -> None:
    server = Server("s")
    frame = pd.DataFrame({"a": [1]})
    value = [
        {"n": 1},
        "text",
        Image(data=PNG),
        [1, 2],
        ["deep", (frame, 5)],
        Pillow.new("RGB", (1, 1)),
        Audio(data=b"ID3"),
        None,
        shows(markdown="**m**"),
    ]
    tool_returning(server, annotation, value)
    async with connect(server, revision=revision) as client:
        (tool,) = await client.list_tools()
        assert "outputSchema" not in tool
        result = await client.call("give")
    assert not result.is_error
    assert result.structured is None
    assert [block.get("text", block["type"]) for block in result.content] == [
        *('{"n":1}', "text", "image", "[1,2]", "deep", "a\n1\n", "5", "image", "audio", "**m**")
    ]


@pytest.mark.parametrize("annotation", OPEN)
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_data_alone_is_structured_all_the_same(annotation: Any, revision: str) -> None:
    server = Server("s")
    tool_returning(server, annotation, [1, {"a": ["b"]}])
    async with connect(server, revision=revision) as client:
        result = await client.call("give")
    data = [1, {"a": ["b"]}]
    assert result.structured == (data if revision == "2026-07-28" else {"result": data})
    assert result.text == '[1,{"a":["b"]}]'


@pytest.mark.parametrize(
    "annotation", [list[int], list[str], tuple[int, str], dict[str, Any], list[dict[str, Any]]]
)
async def test_what_promises_data_keeps_its_schema(annotation: Any) -> None:
    server = Server("s")
    tool_returning(server, annotation, None)
    async with connect(server) as client:
        (tool,) = await client.list_tools()
    assert "outputSchema" in tool


async def test_open_files_are_what_is_in_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("first\nsecond\n")
    (tmp_path / "a.png").write_bytes(PNG)
    server = Server("s")

    @server.tool
    def text() -> Any:
        return (tmp_path / "a.txt").open()

    @server.tool
    def image() -> Any:
        return (tmp_path / "a.png").open("rb")

    @server.tool
    def in_memory() -> Any:
        file = io.BytesIO()
        file.write(PNG)
        return ["drawn", file]

    @server.tool
    def nested() -> Any:
        return {"text": io.StringIO("a"), "bytes": io.BytesIO(b"\xfb\xff")}

    @server.tool
    def closed() -> Any:
        with (tmp_path / "a.txt").open() as file:
            return [1, file]

    @server.resource("data://text")
    def read() -> Any:
        return (tmp_path / "a.txt").open()

    picture = {"type": "image", "data": encoded(PNG), "mimeType": "image/png"}
    async with connect(server) as client:
        assert (await client.call("text")).content == [{"type": "text", "text": "first\nsecond\n"}]
        assert (await client.call("image")).content == [picture]
        assert (await client.call("in_memory")).content == [{"type": "text", "text": "drawn"}, picture]
        assert (await client.call("nested")).structured == {"text": "a", "bytes": "+/8="}
        told = await client.call("closed")
        assert told.text.startswith(
            "the tool ran, but result[1] has no form in JSON: a file that is closed; return"
        )
        assert (await client.read("data://text"))[0]["text"] == "first\nsecond\n"


class Parcel(TypedDict):
    data: bytes
    more: Any


class Letter(BaseModel):
    data: bytes
    more: Any = None


@dataclass
class Card:
    data: bytes
    more: Any = None


BYTES = b"\xfb\xff\xfe\x00"
HOLDING_BYTES = [
    {"data": BYTES, "more": [BYTES]},
    {"data": bytearray(BYTES), "more": [memoryview(BYTES)]},
    Letter(data=BYTES, more=[BYTES]),
    Card(BYTES, [BYTES]),
    {"data": io.BytesIO(BYTES), "more": (BYTES,)},
]


@ERAS
@pytest.mark.parametrize("value", HOLDING_BYTES)
async def test_bytes_in_data_are_of_one_alphabet_and_come_back(value: Any, revision: str) -> None:
    server = Server("s")
    typed = {dict: Parcel, Letter: Letter, Card: Card}[type(value)]
    for name, annotation in {"open": Any, "object": dict[str, Any], "typed": typed}.items():

        def give() -> Any:
            return value

        give.__annotations__["return"] = annotation
        server.tool(give, name=name)
    kept: list[Any] = []

    @server.tool
    def take(parcel: Parcel, letter: Letter, card: Card) -> None:
        kept.extend([parcel["data"], letter.data, card.data])

    text = base64.b64encode(BYTES).decode()
    async with connect(server, revision=revision) as client:
        for name in ("open", "object", "typed"):
            result = await client.call(name)
            assert not result.is_error, result.text
            assert result.structured == {"data": text, "more": [text]}
            again = await client.call("take", dict.fromkeys(("parcel", "letter", "card"), result.structured))
            assert not again.is_error, again.text
    assert kept == [BYTES] * 9


async def test_a_file_and_data_go_together_in_a_tool_result() -> None:
    server = Server("s")

    @server.tool
    def both() -> dict[str, int]:
        content = [File(data="a,b\n", name="a.csv"), "done"]
        return ToolResult(content, structured={"rows": 1})  # type: ignore[return-value]  # a whole result

    async with connect(server) as client:
        result = await client.call("both")
    assert [block["type"] for block in result.content] == ["resource", "text"]
    assert result.structured == {"rows": 1}
