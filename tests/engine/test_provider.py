"""What providers may get wrong, what holds of all that they have, and where they are included."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from mcpkit import (
    Access,
    Context,
    Limits,
    Principal,
    Prompt,
    ProtocolError,
    Provider,
    RegistrationError,
    Registry,
    Resource,
    ResourceTemplate,
    Server,
    ServerOptions,
    Tool,
)
from mcpkit.extensions import ParamHeader
from mcpkit.testing import TestClient, connect
from tests.helpers.raw_client import serving as serving_http
from tests.helpers.waiting import until

pytestmark = pytest.mark.anyio

ERAS = ["2025-11-25", "2026-07-28"]
KINDS: Any = frozenset({"tools", "resources", "resource_templates", "prompts"})


class Table(Provider):
    """Has what it is given, by kind; functions are called instead."""

    kinds = KINDS

    def __init__(self, **given: Any) -> None:
        self.given = given  # and no super().__init__()

    async def list(self, kind: str, ctx: Context) -> Any:
        given = self.given.get(kind, ())
        return await given(ctx) if callable(given) else given

    async def find(self, kind: str, key: str, ctx: Context) -> Any:
        found = await self.list(kind, ctx)
        return next((each for each in found if each.key == key), None)


class ToolsAlone(Table):
    kinds = frozenset({"tools"})


def says(name: str, **options: Any) -> Tool:
    async def say() -> str:
        return name

    return Tool(say, name=name, **options)


def serving(*providers: Provider, **options: Any) -> Server:
    server = Server("s", **options)
    server.tool(name="own")(lambda: "own")
    for provider in providers:
        server.include(provider)
    return server


async def names(client: TestClient) -> list[str]:
    return [each["name"] for each in await client.list_tools()]


@pytest.mark.parametrize("kinds", [(), "tools", None, {"tools", "roots"}, 5])
def test_provider_without_kinds_is_refused(kinds: Any) -> None:
    provider = Table()
    provider.kinds = kinds  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(
        RegistrationError, match=r"Table.kinds must be a set of .*, such as `kinds = frozenset"
    ):
        Server("s").include(provider)


async def of(value: Any) -> Any:
    return value


def raising(error: BaseException) -> Any:
    async def call(_: Any) -> Any:
        raise error

    return call


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("value", "logged"),
    [
        (lambda _: of(None), "Table.list('tools') returned a NoneType. Return a list"),
        (lambda _: of("tools"), "returned a str. Return a list"),
        (["add"], "Table returned 'add' for tools, which is not a tool"),
        ([Prompt(lambda: "", name="p")], "for tools, which is not a tool"),
        ([Resource(lambda: "", "a://b", name="r")], "for tools, which is not a tool"),
        ([Tool(lambda x: x, name="t"), Tool(lambda c: c, name="u", output_schema={"type": "x"})], "tool 'u'"),
        (
            [Tool(lambda: "", name="u", task=True)],
            "Table returned <tool 'u'> with task=, which providers do not support",
        ),
        (raising(ValueError("no database")), "no database"),
    ],
)
async def test_provider_wrong_list_is_an_internal_error_and_logged(
    revision: str, value: Any, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(serving(Table(tools=value)), protocol_version=revision) as client:
        with caplog.at_level(logging.ERROR, "mcpkit"):
            with pytest.raises(ProtocolError, match="Internal error") as caught:
                await client.list_tools()
            with pytest.raises(ProtocolError):
                await client.call_tool("u")
        assert caught.value.code == -32603
        assert logged in caplog.text
        assert (await client.call_tool("own")).text == "own"
        assert await client.list_prompts() == []


async def test_provider_find_with_another_name_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    class Careless(ToolsAlone):
        async def find(self, kind: str, key: str, ctx: Context) -> Any:
            return says(key.lower())

    async with connect(serving(Careless())) as client:
        with caplog.at_level(logging.ERROR, "mcpkit"), pytest.raises(ProtocolError, match="Internal error"):
            await client.call_tool("Add")
    assert "Careless.find('tools', 'Add') returned <tool 'add'>, which has a different name" in caplog.text


@pytest.mark.parametrize("revision", ERAS)
async def test_provider_protocol_error_is_the_response(revision: str) -> None:
    provider = Table(tools=raising(ProtocolError(-32001, "The library is closed")))
    async with connect(serving(provider), protocol_version=revision) as client:
        with pytest.raises(ProtocolError, match="The library is closed"):
            await client.list_tools()
        with pytest.raises(ProtocolError, match="The library is closed"):
            await client.call_tool("any")


@pytest.mark.parametrize(
    ("providers", "logged"),
    [
        ([Table(tools=[says("a"), says("a")])], "two tools are named 'a': one of Table and one of Table"),
        ([Table(tools=[says("a")]), ToolsAlone(tools=[says("a")])], "one of Table and one of ToolsAlone"),
        ([Table(tools=[says("own")])], "two tools are named 'own': "),
    ],
)
async def test_two_of_one_name_refuse_the_list(
    providers: list[Provider], logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(serving(*providers)) as client:
        with (
            caplog.at_level(logging.ERROR, "mcpkit"),
            pytest.raises(ProtocolError, match="are named") as caught,
        ):
            await client.list_tools()
        assert caught.value.code == -32603
        assert logged in caplog.text
        assert ".py" not in caught.value.message  # where it was registered is nobody's business
        assert (await client.call_tool("own")).text == "own"


async def test_visible_tags_and_requires_apply() -> None:
    hidden = says("hidden", access=Access(visible=lambda principal: principal.id == "ann"))
    table = Table(
        tools=[
            hidden,
            says("old", tags={"old"}),
            says("asks", access=Access(requires_capabilities="sampling")),
        ]
    )
    server = serving(
        table, ToolsAlone(tools=[says("hidden", access=Access(visible=lambda principal: False))])
    )
    server.disable(tags={"old"})
    async with connect(server) as client:
        assert await names(client) == ["own", "asks"]
        for name in ("hidden", "old"):
            with pytest.raises(ProtocolError, match=f"Unknown tool: {name}"):
                await client.call_tool(name)
        with pytest.raises(ProtocolError, match="sampling"):
            await client.call_tool("asks")
    async with connect(server, principal=Principal("ann")) as client:
        assert await names(client) == ["own", "hidden", "asks"]
        assert (await client.call_tool("hidden")).text == "hidden"


@pytest.mark.parametrize("revision", ERAS)
async def test_prompts_templates_and_completion(revision: str) -> None:
    async def plan(city: Literal["Graz", "Rome"]) -> str:
        return f"Plan a day in {city}"

    async def street(name: Literal["Ring", "Via"]) -> str:
        return name

    given = Table(prompts=[Prompt(plan)], resource_templates=[ResourceTemplate(street, "street://{name}")])
    server = Server("s")
    server.include(given)
    async with connect(server, protocol_version=revision) as client:
        assert [each["name"] for each in await client.list_prompts()] == ["plan"]
        assert "Rome" in str(
            await client.request("prompts/get", {"name": "plan", "arguments": {"city": "Rome"}})
        )
        templates = await client.request("resources/templates/list")
        assert [each["uriTemplate"] for each in templates["resourceTemplates"]] == ["street://{name}"]
        for ref in (
            {"type": "ref/prompt", "name": "plan"},
            {"type": "ref/resource", "uri": "street://{name}"},
        ):
            name = "city" if "name" in ref else "name"
            argument = {"name": name, "value": "R"}
            answer = await client.request("completion/complete", {"ref": ref, "argument": argument})
            assert answer["completion"]["values"] == (["Rome", "Graz"] if name == "city" else ["Ring"])
        with pytest.raises(ProtocolError, match="Unknown prompt: other"):
            await client.request("prompts/get", {"name": "other"})
        argument, ref = {"name": "a", "value": ""}, {"type": "ref/resource", "uri": "a://{a}"}
        with pytest.raises(ProtocolError, match="Unknown resource template: a://"):
            await client.request("completion/complete", {"ref": ref, "argument": argument})


@pytest.mark.parametrize(
    ("now", "rest"),
    [
        (["a", "b", "c", "d"], ["c", "d"]),
        (["x", "a", "b", "c", "d"], ["c", "d"]),  # one has come before
        (["a", "c", "d"], ["c", "d"]),  # what the cursor names has gone
        (["a", "B", "c", "d"], ["B", "c", "d"]),
        (["d", "c", "b", "a"], ["a"]),
        ([], []),
    ],
)
async def test_pages_continue_after_the_last_item(now: list[str], rest: list[str]) -> None:
    has = ["a", "b", "c", "d"]
    table = Table(tools=lambda _: of(list(map(says, has))))
    server = Server("s", limits=Limits(page_size=2))
    server.include(table)
    async with connect(server) as client:
        cursor = (await client.request("tools/list"))["nextCursor"]
        has[:] = now
        server.tool(name="late")(lambda: "late")  # behind what was there, and before what is provided
        found: list[str] = []
        while cursor is not None:
            page = await client.request("tools/list", {"cursor": cursor})
            found += [each["name"] for each in page["tools"]]
            cursor = page.get("nextCursor")
    assert found == rest


async def test_provider_of_an_included_registry_is_served_under_its_prefix() -> None:
    table = Table(tools=[says("a")], resources=[Resource(lambda: "text", "note://x", name="n")])
    inner, middle, outer = (
        Registry(),
        Registry(),
        Server("outer", options=ServerOptions(capabilities={"tools"})),
    )
    middle.include(inner, prefix="in")
    outer.include(middle, prefix="mid")
    async with connect(outer, protocol_version="2025-11-25") as client:
        included = inner.include(table)  # later
        assert await names(client) == ["mid_in_a"]
        assert (await client.call_tool("mid_in_a")).text == "a"
        assert [each["uri"] for each in await client.list_resources()] == ["note://mid/in/x"]
        (contents,) = await client.read_resource("note://mid/in/x")
        assert contents["uri"] == "note://mid/in/x"
        for name in ("a", "in_a", "mid_a", "mid_in_b"):
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call_tool(name)
        client.notifications.clear()
        table.changed("tools")
        await until(lambda: bool(client.notifications))
        included.remove()
        included.remove()
        assert await names(client) == []
        assert outer.catalog.providers == ()


async def region(region: Annotated[str, ParamHeader("Region")]) -> str:
    return region


class Regions(Provider):
    kinds = frozenset({"tools"})

    async def find(self, kind: str, key: str, ctx: Context) -> Any:
        return Tool(region)


async def test_headers_that_differ_from_arguments_of_a_provided_tool_are_refused(schema_dir: Path) -> None:
    async with serving_http(serving(Regions()), schema_dir) as client:
        for header, status in (("eu", 200), ("us", 400), (None, 400)):
            answer = await client.call_tool(
                "region", {"region": "eu"}, headers={"mcp-param-region": header}
            ).whole()
            assert answer.status == status
            assert status == 200 or answer.error()["code"] == -32020


async def test_provider_is_not_called_for_names_above_limit() -> None:
    asked: list[str] = []

    class Asked(Regions):
        async def find(self, kind: str, key: str, ctx: Context) -> Any:
            asked.append(key)

    async with connect(serving(Asked())) as client:
        for name in ("short", "x" * 100_000):
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call_tool(name)
    assert asked == ["short"]


def test_provider_included_twice_under_a_prefix_is_refused() -> None:
    provider, server = Table(), Server("s")
    server.include(provider)
    server.include(provider, prefix="other")
    with pytest.raises(RegistrationError, match="is already included"):
        server.include(provider)
