"""`visible=` hides components from principals: in lists, in use and in subscriptions."""

import asyncio
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

import pytest

from mcpkit import Access, CacheHint, Complete, Context, Principal, ProtocolError, Server, ServerOptions
from mcpkit.exceptions import MissingCapabilityError, RegistrationError
from mcpkit.protocol.revisions import LATEST
from mcpkit.protocol.revisions import Client as DeclaredClient
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row

ADMIN = Principal("ada", {"admin"})
USER = Principal("bob", {"files:read"})


def is_admin(principal: Principal) -> bool:
    return "admin" in principal.scopes


SECRET = Access(visible=is_admin)


@pytest.fixture
def server() -> Server:
    server = Server("s")
    server.tool(lambda: "looked", name="look")
    server.tool(lambda: "erased", name="erase", access=SECRET)
    server.prompt(lambda: "hello", name="greet")
    server.resource("data://open", name="open")(lambda: "open")
    server.resource("data://secret", name="secret", access=SECRET)(lambda: "secret")
    server.resource("open://{name}", name="opens")(lambda name: name)
    server.resource("secret://{name}", name="secrets", access=SECRET)(lambda name: name)

    @server.prompt(access=SECRET)
    def shout(word: Annotated[str, Complete(["aloud"])]) -> str:
        return word.upper()

    return server


async def list_all(client: TestClient) -> list[str]:
    """Return the names of all components that a client lists."""
    lists = [await client.list_tools(), await client.list_prompts(), await client.list_resources(),
        await client.list_resource_templates()]  # fmt: skip
    return [entry["name"] for entries in lists for entry in entries]


async def refusal(client: TestClient, method: str, params: dict[str, Any]) -> tuple[int, str, Any]:
    with pytest.raises(ProtocolError) as caught:
        await client.request(method, params)
    return caught.value.code, caught.value.message, caught.value.data


async def test_visible_lists_contain_visible_components(server: Server, revision: str) -> None:
    everything = ["look", "erase", "greet", "shout", "open", "secret", "opens", "secrets"]
    for principal, names in [(ADMIN, everything), (USER, everything[::2]), (Principal(), everything[::2])]:
        async with connect(server, protocol_version=revision, principal=principal) as client:
            assert await list_all(client) == names


def complete(**ref: str) -> dict[str, Any]:
    return {"ref": ref, "argument": {"name": "word", "value": "a"}}


@each_row(("method", "hidden", "missing"), [
    ("tools/call", {"name": "erase"}, {"name": "nothing"}),
    ("prompts/get", {"name": "shout"}, {"name": "nothing"}),
    ("resources/read", {"uri": "data://secret"}, {"uri": "data://nothing"}),
    ("resources/read", {"uri": "secret://anything"}, {"uri": "nothing://anything"}),
    ("completion/complete", complete(type="ref/prompt", name="shout"), complete(type="ref/prompt", name="nothing")),
    ("completion/complete", complete(type="ref/resource", uri="secret://{name}"),
     complete(type="ref/resource", uri="nothing://{name}")),
])  # fmt: skip
async def test_visible_hidden_component_is_reported_as_unknown(server, revision, method, hidden, missing):
    async with connect(server, protocol_version=revision, principal=USER) as client:
        actual, expected = (
            str(await refusal(client, method, hidden)),
            str(await refusal(client, method, missing)),
        )
    for name in ("erase", "shout", "secret"):
        actual = actual.replace(name, "nothing")
    assert actual == expected
    assert "nothing" in actual


async def test_visible_updates_are_sent_to_permitted_principals(revision: str):
    server, watching = Server("s"), list[str]()

    async def watch() -> AsyncIterator[None]:
        watching.append("started")
        yield
        await asyncio.Event().wait()

    server.resource("data://secret", name="secret", access=SECRET, watch=watch)(lambda: "secret")
    server.resource("data://open", name="open")(lambda: "open")
    server.resource("rows://{name}", name="rows", access=SECRET)(lambda name: name)
    uris = ["data://secret", "rows://{name}", "rows://7", "data://missing", "data://open"]
    updated = ["data://secret", "rows://7", "rows://8", "data://missing", "data://open"]

    async def received(changes: Any) -> list[str | None]:
        found: list[str | None] = []
        while not found or found[-1] != "data://open":
            found.append((await anext(changes)).uri)
        return found

    async with (
        connect(server, protocol_version=revision, principal=USER) as user,
        connect(server, protocol_version=revision, principal=ADMIN) as admin,
        user.listen(resource_subscriptions=uris) as user_changes,
    ):
        assert watching == []  # not started for a principal that may not see the resource
        async with admin.listen(resource_subscriptions=uris) as admin_changes:
            for uri in updated:
                server.notify_resource_updated(uri)
            assert await received(user_changes) == ["data://missing", "data://open"]
            assert set(await received(admin_changes)) == set(updated)
            assert watching == ["started"]


async def test_visible_failing_predicate_hides(server: Server, caplog: pytest.LogCaptureFixture):
    by_name: Any = lambda principal: principal.id.startswith("a")  # noqa: E731
    server.tool(lambda: "named", name="named", access=Access(visible=by_name))
    admin: Any = lambda principal: "admin"  # noqa: E731
    server.tool(lambda: "truthy", name="truthy", access=Access(visible=admin))
    async with connect(server, principal=Principal()) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["look"]
        for name in ("named", "truthy"):
            assert (await refusal(client, "tools/call", {"name": name}))[1] == f"Unknown tool: {name}"
    assert "visible= of <tool 'named'> raised an exception" in caplog.text
    assert "visible= of <tool 'truthy'> returned 'admin' instead of True or False" in caplog.text
    async with connect(server, principal=ADMIN) as client:
        assert (await client.call_tool("named")).text == "named"


async def slow(principal: Principal) -> bool:
    return True


@each_row(("predicate", "message"), [
    (slow, r"Access\(visible=...\) must not be async"), (partial(slow), r"Access\(visible=...\) must not be async"),
    ({"admin"}, 'must be a function of the principal, such as lambda principal: "'),
])  # fmt: skip
def test_visible_wrong_predicate_is_refused(predicate: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        Server("s").tool(lambda: "", name="t", access=Access(visible=predicate))


# Capabilities that a component requires


@each_row(("capabilities", "name", "is_supported"), [
    ({}, "sampling", False), ({"sampling": {}}, "sampling", True), ({"sampling": None}, "sampling", False),
    ({"sampling": {}}, "sampling.tools", False), ({"sampling": {"tools": {}}}, "sampling.tools", True),
    ({"sampling": {"tools": None}}, "sampling.tools", False), ({"roots": {"listChanged": True}}, "roots", True),
    ({"elicitation": {}}, "elicitation.form", True), ({"elicitation": {}}, "elicitation.url", False),
    ({"elicitation": {"form": {}, "url": {}}}, "elicitation.url", True),
    ({"elicitation": {"url": {}}}, "elicitation", True), ({"elicitation": {"url": {}}}, "elicitation.form", False),
    ({"extensions": {"com.example/x.y": {}}}, "extensions.com.example/x.y", True),
    ({"extensions": {"com.example/x": {}}}, "extensions.com.example/x.y", False),
])  # fmt: skip
def test_client_supports_capabilities(capabilities: dict[str, Any], name: str, is_supported: bool) -> None:
    client = DeclaredClient({"name": "test", "version": "1"}, capabilities)
    assert client.supports(name) is is_supported
    if is_supported:
        client.require(name)
    else:
        with pytest.raises(MissingCapabilityError, match=f"required capability {name}$"):
            client.require(name)


@pytest.fixture
def requiring() -> Server:
    server = Server("asking")
    required: Any = Access(requires_capabilities="sampling")
    server.resource("asking://fixed", name="fixed", access=required)(lambda: "")
    options: Any = {"access": required, "complete": {"number": ["1"]}}
    server.resource("asking://{number}", name="templated", **options)(lambda number: "")
    both: Any = Access(requires_capabilities=("sampling", "sampling.tools"))
    server.prompt(lambda city: "", name="plan", access=both, complete={"city": ["Bern"]})

    @server.resource("asking://within/{name}")
    async def within(name: str, ctx: Context) -> str:
        ctx.client.require("sampling")
        return ""

    return server


@each_row(
    ("method", "params", "required"),
    [  # each with arguments that would be refused if they were checked first
        ("resources/read", {"uri": "asking://fixed"}, {"sampling": {}}),
        ("resources/read", {"uri": "asking://seven"}, {"sampling": {}}),
        ("resources/read", {"uri": "asking://within/x"}, {"sampling": {}}),
        ("prompts/get", {"name": "plan", "arguments": {"wrong": "1"}}, {"sampling": {"tools": {}}}),
        ("completion/complete", complete(type="ref/prompt", name="plan"), {"sampling": {"tools": {}}}),
        ("completion/complete", complete(type="ref/resource", uri="asking://{number}"), {"sampling": {}}),
    ],
)  # fmt: skip
async def test_requires_missing_capability_is_protocol_error(requiring, revision, method, params, required):
    async with connect(requiring, protocol_version=revision) as client:
        code, message, data = await refusal(client, method, params)
    assert code == (-32021 if revision == LATEST else -32602)
    assert re.match(r"The client does not declare the required capabilit.* sampling", message)
    assert data["requiredCapabilities"].keys() == required.keys()


# Caching


async def test_visible_list_pages_are_cached_privately(server: Server):
    server.page_size = 1
    server.engine.runtime.cache["tools/list"] = CacheHint(300)
    for principal in (ADMIN, USER):
        async with connect(server, principal=principal) as client:
            page = await client.request("tools/list")
            assert (page["cacheScope"], page["ttlMs"]) == ("private", 300_000)
            while "nextCursor" in page:
                page = await client.request("tools/list", {"cursor": page["nextCursor"]})
                assert (page["cacheScope"], page["ttlMs"]) == ("private", 300_000)
    server.catalog.tools.disable("erase")
    async with connect(server, principal=USER) as client:
        assert (await client.request("tools/list"))["cacheScope"] == "public"
        assert (await client.request("prompts/list"))["cacheScope"] == "private"


async def test_visible_resource_read_is_cached_privately():
    server = Server("s", options=ServerOptions(cache={"resources/read": CacheHint(60)}))
    server.resource("data://a", name="a", access=SECRET)(lambda: "for admins")
    server.resource("data://{name}", name="any", cache=CacheHint(60))(lambda name: f"for all: {name}")
    server.resource("open://a", name="open")(lambda: "open")
    for principal, uri, expected in [
        (ADMIN, "data://a", ("for admins", "private")),
        (USER, "data://a", ("for all: a", "private")),  # others read something else there
        (USER, "data://b", ("for all: b", "private")),  # else it would show that data://a exists
        (USER, "open://a", ("open", "public")),
    ]:
        async with connect(server, principal=principal) as client:
            result = await client.request("resources/read", {"uri": uri})
            assert (result["contents"][0]["text"], result["cacheScope"]) == expected
