"""Prompts, resources and templates: arguments, messages, URIs and media types."""

import base64
import json
from datetime import date
from enum import Enum, IntEnum
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from mcpkit import Context, Image, ProtocolError, Resource, ResourceLink, Server, assistant, user
from mcpkit._utils.exceptions import OutputError
from mcpkit.components.prompts_and_completion import to_messages
from mcpkit.exceptions import RegistrationError
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


class Scale(Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


@pytest.fixture
def server() -> Server:
    return Server("s")


def empty() -> str:
    return ""


async def test_prompt_arguments_are_listed_and_converted(server: Server) -> None:
    @server.prompt(title="Plan")
    def plan(
        days: int,
        start: Annotated[date, Field(title="Start")],
        unit: Scale,
        kind: Literal["short", 1],
        warm: bool = False,
        tags: list[str] = [],
    ) -> str:
        """Plan a trip.

        Args:
            days: How long.
        """
        return f"{days + 1} {start.year} {unit.name} {kind!r} {warm} {tags}"

    arguments = {
        "days": "3", "start": "2026-01-02", "unit": "celsius", "kind": "1", "warm": "true", "tags": '["a"]',
    }  # fmt: skip
    async with connect(server) as client:
        (prompt,) = await client.list_prompts()
        assert (prompt["name"], prompt["title"], prompt["description"]) == ("plan", "Plan", "Plan a trip.")
        assert prompt["arguments"][:2] == [
            {"name": "days", "description": "How long.", "required": True},
            {"name": "start", "title": "Start", "required": True},
        ]
        assert [each.get("required", False) for each in prompt["arguments"]] == [True] * 4 + [False] * 2
        (message,) = await client.get_prompt("plan", arguments)
        assert message["content"]["text"] == "4 2026 CELSIUS 1 True ['a']"
        for wrong in ({"days": "three"}, {"days": "3.5"}, {"dayz": "4"}):
            with pytest.raises(ProtocolError, match=next(iter(wrong))) as caught:
                await client.get_prompt("plan", arguments | wrong)
            assert caught.value.code == -32602
        with pytest.raises(ProtocolError, match="days: expected"):
            await client.get_prompt("plan")


def text_message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": {"type": "text", "text": text}}


IMAGE = {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"}


RESOURCE = {"type": "resource", "resource": {"uri": "a:b", "text": "c"}}


LINK = {"type": "resource_link", "uri": "a:b", "name": "c"}


@each_row(("value", "messages"), [
    ("a", [text_message("user", "a")]),
    ({"role": "assistant", "content": "a"}, [text_message("assistant", "a")]),
    (["a", {"role": "assistant", "content": "b"}, user("c")],
     [text_message("user", "a"), text_message("assistant", "b"), text_message("user", "c")]),
    ({"role": "user", "content": IMAGE}, [{"role": "user", "content": IMAGE}]),
    ({"role": "user", "content": RESOURCE}, [{"role": "user", "content": RESOURCE}]),
    ({"role": "user", "content": LINK}, [{"role": "user", "content": LINK}]),
    ({"role": "user", "content": ["a", {"type": "text", "text": "b"}, Image(data=PNG)]},
     [text_message("user", "a"), text_message("user", "b"), {"role": "user", "content": IMAGE}]),
    ({"role": "user", "content": ResourceLink("a:b", "c")}, [{"role": "user", "content": LINK}]),
    ({"role": "user", "content": {"days": 3}}, [text_message("user", '{"days":3}')]),
    # What has no role and content is data.
    ({"content": "a"}, [text_message("user", '{"content":"a"}')]),
    ([{"role": "admin", "name": "Ada"}], [text_message("user", '{"role":"admin","name":"Ada"}')]),
    (iter(["a", assistant("b")]), [text_message("user", "a"), text_message("assistant", "b")]), ([], []),
    (None, []),
])  # fmt: skip
def test_prompt_messages(value: Any, messages: list[Any]) -> None:
    assert to_messages(value) == messages


@each_row(("value", "message"), [
    ([{"role": "system", "content": "a"}],
     r'result\[0\]\.role: expected "user" or "assistant", got "system". Put the text of a system prompt'),
    ({"role": 1, "content": "a"}, r'result\.role: expected "user" or "assistant", got an int'),
    ({"role": "user"}, r"result\.content: expected text or other content, but it is missing"),
    ({"role": "user", "content": "a", "name": "b"}, r'result\.name: unknown key. A message has "role" and'),
    (["x", {"role": "user", "content": {"type": "image_url", "url": "u"}}],
     r'result\[1\]\.content\.type: expected one of text, image, .*, got "image_url"'),
    ({"role": "user", "content": [{"type": "text"}]},
     r"result\.content\[0\]\.text: expected a string, but it is missing"),
    ({"role": "user", "content": {"type": "image", "data": PNG, "mimeType": "image/png"}},
     r"result\.content\.data: expected a string, got a bytes"),
    ({"role": "user", "content": {"type": "resource"}}, r"result\.content\.resource: expected an object"),
    ({"role": "user", "content": {"type": "resource", "resource": {"text": ""}}},
     r"result\.content\.resource\.uri: expected a string, but it is missing"),
    ({"role": "user", "content": {"type": "resource", "resource": {"uri": "a:b"}}},
     r"result\.content\.resource: expected text, or blob in base64"),
    ({"role": "user", "content": {"type": "text", "text": "a", "_meta": {"a": object()}}},
     r"result\.content\._meta\.a cannot be converted to JSON: an object"),
])  # fmt: skip
def test_prompt_wrong_message_is_reported_at_its_place(value: Any, message: str) -> None:
    with pytest.raises(OutputError, match=message):
        to_messages(value)


async def test_template_values_are_converted(server: Server) -> None:
    @server.resource("data://{station}/{day}/{unit}{?limit,exact}")
    def read(
        station: str, day: Annotated[int, Field(ge=1)], unit: Scale, limit: float = 1.5, exact: bool = False
    ) -> list[Any]:
        return [station, day + 1, unit.name, limit, exact]

    async with connect(server) as client:
        (contents,) = await client.read_resource("data://KNYC/3/celsius?limit=2&exact=true")
        assert json.loads(contents["text"]) == ["KNYC", 4, "CELSIUS", 2.0, True]
        (contents,) = await client.read_resource("data://a%20b/3/celsius")
        assert json.loads(contents["text"])[0] == "a b"
        for wrong in ("x", "0", "1.5"):
            with pytest.raises(ProtocolError, match="day") as caught:
                await client.read_resource(f"data://KNYC/{wrong}/celsius")
            assert (caught.value.code, caught.value.data) == (-32602, {"uri": f"data://KNYC/{wrong}/celsius"})


@each_row("value", ["..", "%2e%2e", "a%2Fb", "%00", "%2Fetc", "..%5Cx", "C%3A%5Cx"])
async def test_template_path_traversal_is_not_found(value: str) -> None:
    server = Server("s")

    @server.resource("data://files/{name}")
    def read(name: str) -> str:
        pytest.fail("the handler must not see it")

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match="not found"):
            await client.read_resource(f"data://files/{value}")


async def test_resource_precedence_over_templates(server: Server) -> None:
    server.resource("data://{name}", name="first")(lambda name: f"first {name}")
    server.resource("data://{other}", name="second")(lambda other: f"second {other}")
    server.resource("data://fixed", name="fixed")(lambda: "fixed")
    async with connect(server) as client:
        assert (await client.read_resource("data://fixed"))[0]["text"] == "fixed"
        assert (await client.read_resource("data://x"))[0]["text"] == "first x"
        server.catalog.resource_templates.disable("data://{name}")
        assert (await client.read_resource("data://x"))[0]["text"] == "second x"


async def test_template_entries_are_listed(server: Server) -> None:
    items = ["b", "a"]

    def entries() -> list[Any]:
        return [{"uri": f"data://items/{item}", "name": item} for item in items]

    server.resource("data://items/{name}", name="item", list_entries=entries)(lambda name: name)
    server.resource("data://last")(empty)
    async with connect(server) as client:
        assert [each["name"] for each in await client.list_resources()] == ["a", "b", "empty"]
        items.append("c")
        assert [each["name"] for each in await client.list_resources()] == ["a", "b", "c", "empty"]


@each_row(("uri", "function", "options", "message"), [
    ("data://stations", lambda station: station, {}, r"\{station\}"),
    ("data://stations/{id}", lambda id, station: station, {}, r"\{station\}"),
    ("data://{name}", empty, {"size": 3}, "size="), ("data://x", empty, {"complete": {}}, "complete="),
])  # fmt: skip
def test_resource_wrong_parameter_or_option_is_refused(uri, function, options, message) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").resource(uri, name="x", **options)(function)


async def test_unknown_uri_is_shortened_in_the_error(server: Server) -> None:
    server.include(Resource(empty, "data://known", name="known"))
    async with connect(server) as client:
        assert (await client.read_resource("data://known"))[0]["text"] == ""
        with pytest.raises(ProtocolError) as caught:
            await client.read_resource("data://" + "a" * 300)
    assert caught.value.message == "Resource not found: data://" + "a" * 193


async def complete(client: TestClient, argument: str, value: str) -> dict[str, Any]:
    ref, sent = {"type": "ref/prompt", "name": "plan"}, {"name": argument, "value": value}
    return (await client.request("completion/complete", {"ref": ref, "argument": sent}))["completion"]


class Size(IntEnum):
    SMALL = 1
    BIG = 12


async def test_completion_of_choices(server: Server) -> None:
    @server.prompt
    def plan(
        unit: Scale,
        size: Size,
        kind: Literal["short", "long"] | None = None,
        exact: Annotated[Literal[True, False], "exactly"] = True,
    ) -> str:
        return ""

    async with connect(server) as client:
        for argument, value, expected in [
            ("unit", "", ["celsius", "fahrenheit"]), ("unit", "F", ["fahrenheit"]), ("size", "1", ["1", "12"]),
            ("kind", "lo", ["long"]), ("exact", "t", ["true"]),
        ]:  # fmt: skip
            assert (await complete(client, argument, value))["values"] == expected
        assert (await complete(client, "kind", "x")) == {"values": [], "total": 0, "hasMore": False}


@each_row(("count", "has_more"), [(0, False), (100, False), (101, True)])
async def test_completion_sends_no_more_than_100_values(count: int, has_more: bool) -> None:
    server = Server("s")
    server.prompt(lambda n: "", name="plan", complete={"n": lambda value: map(str, range(count))})
    async with connect(server) as client:
        values = [str(number) for number in range(min(count, 100))]
        assert await complete(client, "n", "") == {"values": values, "total": count, "hasMore": has_more}


PLAN = {"type": "ref/prompt", "name": "plan"}


@each_row("params", [
    {}, {"ref": {}}, {"ref": {"type": "ref/prompt"}}, {"ref": {**PLAN, "name": "unheard"}},
    {"ref": {"type": "ref/resource", "uri": "data://unheard/{x}"}}, {"ref": {**PLAN, "type": "ref/tool"}},
    {"ref": PLAN, "argument": {"name": "town", "value": ""}}, {"ref": PLAN, "argument": {"name": "city"}},
    {"ref": PLAN, "argument": {"name": "city", "value": 3}}, {"ref": PLAN, "argument": []},
    {"ref": PLAN, "context": []}, {"ref": PLAN, "context": {"arguments": {"x": 3}}},
    {"ref": PLAN, "context": {"arguments": []}},
])  # fmt: skip
async def test_completion_malformed_request_is_invalid_params(params: dict[str, Any]) -> None:
    server = Server("s")
    server.prompt(lambda city: "", name="plan", complete={"city": ["Rome"]})
    given: dict[str, Any] = {"argument": {"name": "city", "value": ""}}
    async with connect(server) as client:
        with pytest.raises(ProtocolError) as caught:
            await client.request("completion/complete", given | params)
        assert caught.value.code == -32602


async def test_context_of_request(server: Server, revision: str) -> None:
    seen: list[Context] = []

    @server.tool
    async def observe(ctx: Context, x: int) -> None:
        seen.append(ctx)

    info = {"name": "tests", "version": "1.2"}
    options = {"protocol_version": revision, "client_info": info, "capabilities": {"roots": {}}}
    async with connect(server, **options) as client:
        call = {"name": "observe", "arguments": {"x": 1}, "_meta": {"example.com/trace": "abc"}}
        await client.request("tools/call", call)
    (ctx,) = seen
    assert (ctx.method, ctx.params["arguments"], ctx.request_id) == ("tools/call", {"x": 1}, 2)
    assert ctx.meta["example.com/trace"] == "abc"
    assert (ctx.client.info, ctx.client.name, ctx.client.version) == (info, "tests", "1.2")
    assert ctx.client.capabilities == {"roots": {}}
    assert ctx.protocol_version == revision
    assert (ctx.server, ctx.state) == (server, None)
