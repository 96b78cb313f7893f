"""Providers: wrong lists and items, filters, pages, prefixes, and completion of what they provide."""

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
from tests.helpers.tables import each_row
from tests.helpers.waiting import until

KINDS: Any = frozenset({"tools", "resources", "resource_templates", "prompts"})


class Table(Provider):
    """A provider of fixed lists by kind; functions are called instead."""

    kinds = KINDS

    def __init__(self, **lists: Any) -> None:
        self.lists = lists  # and no super().__init__()

    async def list(self, kind: str, ctx: Context) -> Any:
        items = self.lists.get(kind, ())
        return await items(ctx) if callable(items) else items

    async def find(self, kind: str, key: str, ctx: Context) -> Any:
        return next((each for each in await self.list(kind, ctx) if each.key == key), None)


class ToolTable(Table):
    kinds = frozenset({"tools"})


async def region(region: Annotated[str, ParamHeader("Region")]) -> str:
    return region


def tool(name: str, **options: Any) -> Tool:
    async def text() -> str:
        return name

    return Tool(text, name=name, **options)


def serving(*providers: Provider, **options: Any) -> Server:
    server = Server("s", **options)
    server.tool(name="own")(lambda: "own")
    for provider in providers:
        server.include(provider)
    return server


async def names(client: TestClient) -> list[str]:
    return [each["name"] for each in await client.list_tools()]


@each_row("kinds", [(), "tools", None, {"tools", "roots"}, 5])
def test_provider_without_kinds_is_refused(kinds: Any) -> None:
    provider = Table()
    provider.kinds = kinds  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(RegistrationError, match=r"Table.kinds must be a set of .*, such as `kinds = fro"):
        Server("s").include(provider)


def returning(value: Any) -> Any:
    async def call(_: Any) -> Any:
        return value

    return call


def raising(error: BaseException) -> Any:
    async def call(_: Any) -> Any:
        raise error

    return call


def unreadable(value: Any) -> list[Provider]:
    return [Table(tools=value)]


@each_row(("providers", "logged"), [
    (unreadable(returning(None)), "Table.list('tools') returned a NoneType. Return a list"),
    (unreadable(returning("tools")), "returned a str. Return a list"),
    (unreadable(["add"]), "Table returned 'add' for tools, which is not a tool"),
    (unreadable([Prompt(lambda: "", name="p")]), "for tools, which is not a tool"),
    (unreadable([Tool(lambda c: c, name="u", output_schema={"type": "x"})]), "tool 'u'"),
    (unreadable([Tool(lambda: "", name="u", task=True)]), "returned <tool 'u'> with task=, which providers do not"),
    (unreadable(raising(ValueError("no database"))), "no database"),
])  # fmt: skip
async def test_provider_wrong_list_is_an_internal_error_and_logged(revision, providers, logged, caplog):
    caplog.clear()
    async with connect(serving(*providers), protocol_version=revision) as client:
        with caplog.at_level(logging.ERROR, "mcpkit"), pytest.raises(ProtocolError) as caught:
            await client.list_tools()
        assert (await client.call_tool("own")).text == "own"
        assert await client.list_prompts() == []
    assert logged in caplog.text
    assert caught.value.code == -32603
    assert "Internal error" in caught.value.message


@each_row(("providers", "listed", "logged"), [
    ([Table(tools=[tool("a"), tool("a")])], ["own", "a"], "two tools are named 'a': the second is of Table"),
    ([Table(tools=[tool("a")]), ToolTable(tools=[tool("a")])], ["own", "a"], "the second is of ToolTable"),
    ([Table(tools=[tool("own")])], ["own"], "two tools are named 'own': "),
])  # fmt: skip
async def test_provider_duplicate_is_logged_once_and_the_first_is_served(providers, listed, logged, caplog):
    caplog.clear()
    async with connect(serving(*providers)) as client:
        for _ in range(2):
            assert await names(client) == listed
    assert [logged in record.getMessage() for record in caplog.records] == [True]


async def test_provider_that_only_lists_serves_what_it_lists() -> None:
    class Lister(Provider):
        kinds = frozenset({"tools"})

        async def list(self, kind: str, ctx: Context) -> Any:
            return [tool("a")]

    async with connect(serving(Lister())) as client:
        assert (await client.call_tool("a")).text == "a"
        with pytest.raises(ProtocolError, match="Unknown tool: b"):
            await client.call_tool("b")


async def test_provider_list_that_is_the_same_tuple_is_rendered_once() -> None:
    described: list[str] = []

    class Counted(Tool):
        def describe(self, revision: str) -> Any:
            described.append(self.key)
            return super().describe(revision)

    async def observe(ctx: Context) -> Any:
        return lists[ctx.principal.id]

    hidden = Access(visible=lambda principal: principal.id == "ann")
    common = Counted(lambda: "", name="common")
    lists: Any = {"ann": (common, Counted(lambda: "", name="secret", access=hidden)), "bob": (common,)}
    server = serving(Table(tools=observe))
    async with (
        connect(server, principal=Principal("ann")) as ann,
        connect(server, principal=Principal("bob")) as bob,
    ):
        for _ in range(2):
            assert await names(ann) == ["own", "common", "secret"]
            assert await names(bob) == ["own", "common"]
        assert described == ["common", "secret", "common"]
        lists["bob"] = lists["ann"]
        assert await names(bob) == ["own", "common"]
        server.disable(tags={"none"})
        server.tool(name="late")(lambda: "late")
        assert await names(bob) == ["own", "late", "common"]


async def test_provider_find_with_another_name_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    class Careless(ToolTable):
        async def find(self, kind: str, key: str, ctx: Context) -> Any:
            return tool(key.lower())

    async with connect(serving(Careless())) as client:
        with caplog.at_level(logging.ERROR, "mcpkit"), pytest.raises(ProtocolError, match="Internal error"):
            await client.call_tool("Add")
    assert "Careless.find('tools', 'Add') returned <tool 'add'>, which has a different name" in caplog.text


async def test_provider_protocol_error_is_the_response() -> None:
    provider = Table(tools=raising(ProtocolError(-32001, "The library is closed")))
    async with connect(serving(provider)) as client:
        for request in (client.list_tools(), client.call_tool("any")):
            with pytest.raises(ProtocolError, match="The library is closed"):
                await request


async def test_provider_visible_tags_and_required_capabilities_apply() -> None:
    hidden = tool("hidden", access=Access(visible=lambda principal: principal.id == "ann"))
    sampling = tool("sampling", access=Access(requires_capabilities="sampling"))
    table = Table(tools=[hidden, tool("old", tags={"old"}), sampling])
    never = ToolTable(tools=[tool("hidden", access=Access(visible=lambda principal: False))])
    server = serving(table, never)
    server.disable(tags={"old"})
    async with connect(server) as client:
        assert await names(client) == ["own", "sampling"]
        for name, message in (("hidden", "Unknown tool"), ("old", "Unknown tool"), ("sampling", "sampling")):
            with pytest.raises(ProtocolError, match=message):
                await client.call_tool(name)
    async with connect(server, principal=Principal("ann")) as client:
        assert await names(client) == ["own", "hidden", "sampling"]
        assert (await client.call_tool("hidden")).text == "hidden"


async def test_provider_prompts_and_templates_are_served_and_completed() -> None:
    async def plan(city: Literal["Graz", "Rome"]) -> str:
        return f"Plan a day in {city}"

    async def street(name: Literal["Ring", "Via"]) -> str:
        return name

    server = Server("s")
    template = ResourceTemplate(street, "street://{name}")
    server.include(Table(prompts=[Prompt(plan)], resource_templates=[template]))
    async with connect(server) as client:

        async def complete(argument: str, **ref: str) -> list[str]:
            params = {"ref": ref, "argument": {"name": argument, "value": "R"}}
            return (await client.request("completion/complete", params))["completion"]["values"]

        assert [each["name"] for each in await client.list_prompts()] == ["plan"]
        assert "Rome" in str(await client.get_prompt("plan", {"city": "Rome"}))
        templates = (await client.request("resources/templates/list"))["resourceTemplates"]
        assert [each["uriTemplate"] for each in templates] == ["street://{name}"]
        assert await complete("city", type="ref/prompt", name="plan") == ["Rome", "Graz"]
        assert await complete("name", type="ref/resource", uri="street://{name}") == ["Ring"]
        with pytest.raises(ProtocolError, match="Unknown prompt: other"):
            await client.get_prompt("other")
        with pytest.raises(ProtocolError, match="Unknown resource template: a://"):
            await complete("a", type="ref/resource", uri="a://{a}")


@each_row(("now", "rest"), [
    ("abcd", "cd"), ("aBcd", "Bcd"), ("dcba", "a"), ("", ""),
    ("xabcd", "cd"),  # a new item before the cursor
    ("acd", "cd"),  # the cursor names a removed item
])  # fmt: skip
async def test_provider_pages_continue_after_the_last_item(now: str, rest: str) -> None:
    items = list("abcd")

    async def tools(_: Any) -> list[Tool]:
        return [tool(name) for name in items]

    server = Server("s", limits=Limits(page_size=2))
    server.include(Table(tools=tools))
    async with connect(server) as client:
        cursor = (await client.request("tools/list"))["nextCursor"]
        items[:] = now
        server.tool(name="late")(lambda: "late")  # after the own tools, and before the provided ones
        found = ""
        while cursor is not None:
            page = await client.request("tools/list", {"cursor": cursor})
            found += "".join(each["name"] for each in page["tools"])
            cursor = page.get("nextCursor")
    assert found == rest


async def test_provider_of_an_included_registry_is_served_under_its_prefix() -> None:
    table = Table(tools=[tool("a")], resources=[Resource(lambda: "text", "note://x", name="n")])
    inner, middle = Registry(), Registry()
    outer = Server("outer", options=ServerOptions(capabilities={"tools"}))
    middle.include(inner, prefix="in")
    outer.include(middle, prefix="mid")
    async with connect(outer, protocol_version="2025-11-25") as client:
        included = inner.include(table)  # after it was included itself
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


async def test_provider_tool_headers_that_differ_from_arguments_are_refused(schema_dir: Path) -> None:
    server = serving(ToolTable(tools=[Tool(region)]))
    async with serving_http(server, schema_dir) as client:
        for header, code in (("eu", None), ("us", -32020), (None, -32020)):
            headers = {"mcp-param-region": header}
            answer = await client.call_tool("region", {"region": "eu"}, headers=headers).whole()
            assert answer.status == (200 if code is None else 400)
            assert answer.json().get("error", {}).get("code") == code


async def test_provider_is_not_called_for_names_above_limit() -> None:
    keys: list[str] = []

    class Recorder(ToolTable):
        async def find(self, kind: str, key: str, ctx: Context) -> Any:
            keys.append(key)

    async with connect(serving(Recorder())) as client:
        for name in ("short", "x" * 100_000):
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call_tool(name)
    assert keys == ["short"]


def test_provider_included_twice_under_a_prefix_is_refused() -> None:
    provider, server = Table(), Server("s")
    server.include(provider)
    server.include(provider, prefix="other")
    with pytest.raises(RegistrationError, match="is already included"):
        server.include(provider)
