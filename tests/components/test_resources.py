"""Resources and templates: what they return, how URIs find them, and what they refuse."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from mcpkit import (
    Complete,
    Context,
    EmbeddedResource,
    File,
    ProtocolError,
    RegistrationError,
    ResourceLink,
    Server,
    Text,
)
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


@pytest.fixture
def server() -> Server:
    return Server("s")


class Kind(Enum):
    RAIN = "rain"


@dataclass
class Station:
    name: str
    height: float


def nothing() -> str:
    return ""


@pytest.mark.parametrize(
    ("value", "mime_type", "text"),
    [
        ("plain", "text/plain", "plain"),
        ({"a": [1, None]}, "application/json", '{"a":[1,null]}'),
        ([1, 2], "application/json", "[1,2]"),
        (Station("x", 2.5), "application/json", '{"name":"x","height":2.5}'),
        (3, "application/json", "3"),
        (Text("text"), "text/plain", "text"),
    ],
)
async def test_values_become_text(server: Server, value: Any, mime_type: str, text: str) -> None:
    server.resource("data://x", name="x")(lambda: value)
    async with connect(server) as client:
        assert await client.read("data://x") == [{"uri": "data://x", "mimeType": mime_type, "text": text}]


async def test_bytes_become_a_blob(server: Server) -> None:
    server.resource("data://x", name="x")(lambda: b"\0\1")
    async with connect(server) as client:
        (contents,) = await client.read("data://x")
        assert base64.b64decode(contents["blob"]) == b"\0\1"
        assert contents["mimeType"] == "application/octet-stream"


async def test_a_file_is_read(server: Server, tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text("# Note")
    server.resource("data://x", name="x")(lambda: File(path))
    async with connect(server) as client:
        (contents,) = await client.read("data://x")
        assert contents["text"] == "# Note"
        assert contents["mimeType"] == "text/markdown"


async def test_a_declared_media_type_wins(server: Server) -> None:
    server.resource("data://x", name="x", mime_type="text/csv")(lambda: "a,b")
    async with connect(server) as client:
        assert (await client.read("data://x"))[0]["mimeType"] == "text/csv"


async def test_several_contents_have_their_own_uris(server: Server) -> None:
    server.resource("data://x", name="x")(lambda: [EmbeddedResource("data://x/1", text="one"), Text("two")])
    async with connect(server) as client:
        assert [(each["uri"], each["text"]) for each in await client.read("data://x")] == [
            ("data://x/1", "one"),
            ("data://x", "two"),
        ]


@pytest.mark.parametrize("value", [None, ResourceLink("data://y", "y"), object()])
async def test_what_cannot_be_read_is_an_internal_error(server: Server, value: Any) -> None:
    server.resource("data://x", name="x")(lambda: value)
    async with connect(server) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.read("data://x")
        assert caught.value.code == -32603


# Templates


async def test_a_templates_values_are_parsed_to_their_types(server: Server) -> None:
    @server.resource("data://{station}/{day}/{kind}{?limit,exact}")
    def observations(
        station: str, day: int, kind: Kind, limit: float = 1.5, exact: bool = False
    ) -> dict[str, Any]:
        return {"station": station, "day": day + 1, "kind": kind.name, "limit": limit, "exact": exact}

    async with connect(server) as client:
        (contents,) = await client.read("data://KNYC/3/rain?limit=2&exact=true")
        assert json.loads(contents["text"]) == {
            "station": "KNYC",
            "day": 4,
            "kind": "RAIN",
            "limit": 2.0,
            "exact": True,
        }
        (contents,) = await client.read("data://a%20b/3/rain")
        assert json.loads(contents["text"])["station"] == "a b"


async def test_a_value_of_the_wrong_type_is_invalid_params_that_name_it(server: Server) -> None:
    @server.resource("data://days/{day}")
    def day(day: Annotated[int, Field(ge=1)]) -> str:
        return str(day)

    async with connect(server) as client:
        for wrong in ("x", "0", "1.5"):
            with pytest.raises(ProtocolError, match="day") as caught:
                await client.read(f"data://days/{wrong}")
            assert caught.value.code == -32602
            assert caught.value.data == {"uri": f"data://days/{wrong}"}


@pytest.mark.parametrize("value", ["..", "%2e%2e", "a%2Fb", "%00", "%2Fetc", "..%5Cx", "C%3A%5Cx"])
async def test_path_traversal_finds_nothing(server: Server, value: str) -> None:
    @server.resource("data://files/{name}")
    def read(name: str) -> str:
        pytest.fail("the handler must not see it")

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="not found"):
            await client.read(f"data://files/{value}")


async def test_a_static_resource_wins_over_a_template_and_the_first_template_over_the_next(
    server: Server,
) -> None:
    @server.resource("data://{name}")
    def first(name: str) -> str:
        return f"first {name}"

    @server.resource("data://{other}", replace=False)
    def second(other: str) -> str:
        return f"second {other}"

    server.resource("data://fixed", name="fixed")(lambda: "fixed")
    async with connect(server) as client:
        assert (await client.read("data://fixed"))[0]["text"] == "fixed"
        assert (await client.read("data://x"))[0]["text"] == "first x"
        server.resource_templates.disable("data://{name}")
        assert (await client.read("data://x"))[0]["text"] == "second x"


async def test_disabled_resources_are_not_found(server: Server) -> None:
    server.resource("data://x")(nothing)
    server.resources.disable("data://x")
    async with connect(server) as client:
        assert await client.list_resources() == []
        with pytest.raises(ProtocolError, match="not found"):
            await client.read("data://x")


async def test_the_context_knows_which_uri_is_read(server: Server) -> None:
    @server.resource("data://{name}")
    async def read(name: str, ctx: Context) -> str:
        return ctx.params["uri"]

    async with connect(server) as client:
        assert (await client.read("data://x"))[0]["text"] == "data://x"


async def test_a_lists_entries_may_come_from_the_template(server: Server) -> None:
    items = ["b", "a"]

    @server.resource(
        "data://items/{name}",
        entries=lambda: [{"uri": f"data://items/{item}", "name": item} for item in items],
    )
    def item(name: str) -> str:
        return name

    server.resource("data://last")(nothing)
    async with connect(server) as client:
        assert [each["name"] for each in await client.list_resources()] == ["a", "b", "nothing"]
        items.append("c")
        assert [each["name"] for each in await client.list_resources()] == ["a", "b", "c", "nothing"]


# Definitions that cannot be served


def test_a_uri_needs_a_scheme(server: Server) -> None:
    with pytest.raises(RegistrationError, match="scheme"):
        server.resource("stations")(nothing)


def test_a_parameter_without_an_expression_says_where_to_write_it(server: Server) -> None:
    def station(station_id: str) -> str:
        return station_id

    with pytest.raises(RegistrationError, match=r"\{station_id\}"):
        server.resource("data://stations")(station)
    with pytest.raises(RegistrationError, match=r"\{station_id\}"):
        server.resource("data://stations/{id}", name="x")(lambda id, station_id: station_id)


def test_an_expression_without_a_parameter_is_named(server: Server) -> None:
    with pytest.raises(RegistrationError, match="no parameter 'station_id'"):
        server.resource("data://stations/{station_id}")(nothing)


def test_options_of_the_one_are_refused_for_the_other(server: Server) -> None:
    with pytest.raises(RegistrationError, match="size="):
        server.resource("data://{name}", size=3)(nothing)
    with pytest.raises(RegistrationError, match="complete="):
        server.resource("data://x", complete={})(nothing)


async def test_parameters_with_defaults_need_no_expression(server: Server) -> None:
    @server.resource("data://x")
    def x(limit: int = 3) -> str:
        return str(limit)

    async with connect(server) as client:
        assert (await client.read("data://x"))[0]["text"] == "3"


async def test_template_variables_complete(server: Server) -> None:
    @server.resource("data://{unit}/{city}/{street}", complete={"street": ["Main St"]})
    def x(
        unit: Literal["c", "f"], city: Annotated[str, Complete(lambda value: [value + "ville"])], street: str
    ) -> str:
        return ""

    async with connect(server) as client:
        uri = "data://{unit}/{city}/{street}"
        assert await client.complete(uri, "unit", "f") == ["f"]
        assert await client.complete(uri, "city", "Ash") == ["Ashville"]
        assert await client.complete(uri, "street", "main") == ["Main St"]
