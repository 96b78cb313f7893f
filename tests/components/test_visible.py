"""`visible=` hides components from principals: in lists, in use and in subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

import pytest

from mcpkit import (
    Access,
    CacheHint,
    Complete,
    Context,
    Principal,
    ProtocolError,
    RegistrationError,
    Registry,
    Server,
    ServerOptions,
)
from mcpkit.exceptions import MissingCapabilityError
from mcpkit.protocol.eras import Client as DeclaredClient
from mcpkit.protocol.revisions import LATEST, STATELESS
from mcpkit.testing import TestClient, connect
from tests.helpers.tables import each_row

pytestmark = pytest.mark.anyio


ADMIN = Principal("ada", {"admin"})


USER = Principal("bob", {"files:read"})


KEYS = {"tools": "name", "prompts": "name", "resources": "uri", "resourceTemplates": "uriTemplate"}


def is_admin(who: Principal) -> bool:
    return "admin" in who.scopes


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.tool
    def look(ctx: Context) -> str:
        """Look."""
        return f"{ctx.principal.id} {sorted(ctx.principal.scopes)}"

    @server.tool(access=Access(visible=is_admin))
    def erase() -> str:
        """Erase."""
        return "erased"

    @server.prompt
    def greet() -> str:
        """Greet."""
        return "hello"

    @server.prompt(access=Access(visible=is_admin))
    def shout(word: Annotated[str, Complete(["aloud"])]) -> str:
        """Shout."""
        return word.upper()

    @server.resource("data://open")
    def open_() -> str:
        """Open."""
        return "open"

    @server.resource("data://secret", access=Access(visible=is_admin))
    def secret() -> str:
        """Secret."""
        return "secret"

    @server.resource("open://{name}")
    def opens(name: str) -> str:
        """Open."""
        return name

    @server.resource("secret://{name}", access=Access(visible=is_admin))
    def secrets(name: str) -> str:
        """Secret."""
        return name

    return server


async def list_all(client: TestClient) -> dict[str, list[str]]:
    lists = {"tools": await client.list_tools(), "prompts": await client.list_prompts(),
        "resources": await client.list_resources(),
        "resourceTemplates": await client.list_resource_templates()}  # fmt: skip
    return {member: [entry[KEYS[member]] for entry in entries] for member, entries in lists.items()}


async def refusal(client: TestClient, method: str, params: dict[str, Any]) -> tuple[int, str, Any]:
    with pytest.raises(ProtocolError) as caught:
        await client.request(method, params)
    return caught.value.code, caught.value.message, caught.value.data


@pytest.mark.parametrize("revision", ["2025-11-25", LATEST])
async def test_visible_lists_contain_visible_components(server: Server, revision: str):
    async with connect(server, protocol_version=revision, principal=ADMIN) as admin:
        assert await list_all(admin) == {"tools": ["look", "erase"], "prompts": ["greet", "shout"],
            "resources": ["data://open", "data://secret"], "resourceTemplates": ["open://{name}",
            "secret://{name}"]}  # fmt: skip
    for principal in (USER, Principal()):
        async with connect(server, protocol_version=revision, principal=principal) as client:
            assert await list_all(client) == {"tools": ["look"], "prompts": ["greet"],
                "resources": ["data://open"], "resourceTemplates": ["open://{name}"]}  # fmt: skip


@pytest.mark.parametrize("revision", ["2025-11-25", LATEST])
async def test_visible_hidden_component_is_reported_as_unknown(server: Server, revision: str):
    def about(hidden: Any, missing: Any) -> list[tuple[str, dict[str, Any]]]:
        name, uri, template = hidden
        argument = {"name": "word", "value": "a"}
        return [("tools/call", {"name": name}), ("prompts/get", {"name": name}), ("resources/read",
            {"uri": uri}), ("completion/complete",
            {"ref": {"type": "ref/prompt", "name": name}, "argument": argument}), ("completion/complete",
            {"ref": {"type": "ref/resource", "uri": template}, "argument": argument})]  # fmt: skip

    async with connect(server, protocol_version=revision, principal=USER) as client:
        for names in (
            ({"tools/call": "erase"}.get("tools/call"), "data://secret", "secret://{name}"),
            ("shout", "secret://anything", "secret://{name}"),
        ):
            missing = ("x" * len(str(names[0])), "data://nothing", "nothing://{name}")
            for (method, hidden), (_, absent) in zip(about(names, None), about(missing, None), strict=True):
                actual, expected = (
                    await refusal(client, method, hidden),
                    await refusal(client, method, absent),
                )
                text = str(expected)
                for one, other in zip(names, missing, strict=True):
                    text = text.replace(str(other), str(one))
                assert str(actual) == text


@pytest.mark.parametrize("revision", ["2025-11-25", LATEST])
async def test_visible_updates_are_sent_to_permitted_principals(revision: str):
    server, watching = Server("s"), list[str]()

    async def watch() -> AsyncIterator[None]:
        watching.append("started")
        yield
        await asyncio.Event().wait()

    server.resource("data://secret", name="secret", access=Access(visible=is_admin), watch=watch)(
        lambda: "secret"
    )
    server.resource("data://open", name="open")(lambda: "open")
    server.resource("rows://{name}", name="rows", access=Access(visible=is_admin))(lambda name: name)
    uris = ["data://secret", "rows://{name}", "rows://7", "data://missing", "data://open"]
    updated = ["data://secret", "rows://7", "rows://8", "data://missing", "data://open"]

    async def received(changes: Any) -> list[str | None]:
        found: list[str | None] = []
        while not found or found[-1] != "data://open":
            found.append((await anext(changes)).uri)
        return found

    user_client = connect(server, protocol_version=revision, principal=USER)
    admin_client = connect(server, protocol_version=revision, principal=ADMIN)
    async with (
        user_client as user,
        admin_client as admin,
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
    @server.tool(access=Access(visible=lambda who: who.id.startswith("a")))  # type: ignore[union-attr]  # as authors would
    def named() -> str:
        return "named"

    @server.tool(access=Access(visible=lambda who: "admin"))  # type: ignore[arg-type, return-value]  # as authors would
    def truthy() -> str:
        return "truthy"

    async with connect(server, principal=Principal()) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["look"]
        for name in ("named", "truthy"):
            assert (await refusal(client, "tools/call", {"name": name}))[1] == f"Unknown tool: {name}"
        assert (await client.call_tool("look")).text == "None []"
    assert "visible= of <tool 'named'> raised an exception" in caplog.text
    assert "visible= of <tool 'truthy'> returned 'admin' instead of True or False" in caplog.text
    async with connect(server, principal=ADMIN) as client:
        assert (await client.call_tool("named")).text == "named"


def test_visible_wrong_predicate_is_refused():
    async def slow(who: Principal) -> bool:
        return True

    registry = Registry()
    for wrong in (slow, partial(slow)):
        with pytest.raises(RegistrationError, match=r"Access\(visible=...\) must not be async"):
            registry.tool(name="t", access=Access(visible=wrong))(lambda: "")  # type: ignore[arg-type]  # as authors would
    with pytest.raises(
        RegistrationError, match='must be a function of the principal, such as lambda principal: "'
    ):
        registry.resource("data://x", access=Access(visible={"admin"}))(lambda: "")  # type: ignore[typeddict-item]  # as authors would


MISSING = -32021


INVALID_PARAMS = -32602


def client_with(capabilities: dict[str, Any]) -> DeclaredClient:
    return DeclaredClient({"name": "test", "version": "1"}, capabilities)


@each_row(
    ("capabilities", "name", "is_supported"),
    [
        ({}, "sampling", False), ({"sampling": {}}, "sampling", True),
        ({"sampling": {}}, "sampling.tools", False), ({"sampling": {"tools": {}}}, "sampling.tools", True),
        ({"sampling": {"tools": {}}}, "sampling.context", False),
        ({"sampling": {"tools": None}}, "sampling.tools", False), ({"sampling": None}, "sampling", False),
        ({"sampling": True}, "sampling", False), ({"roots": {"listChanged": True}}, "roots", True),
        ({"elicitation": {}}, "elicitation", True), ({"elicitation": {}}, "elicitation.form", True),
        ({"elicitation": {}}, "elicitation.url", False),
        ({"elicitation": {"form": {}}}, "elicitation.form", True),
        ({"elicitation": {"form": {}, "url": {}}}, "elicitation.url", True),
        ({"elicitation": {"url": {}}}, "elicitation", True),
        ({"elicitation": {"url": {}}}, "elicitation.form", False),
        ({"extensions": {"com.example/x.y": {}}}, "extensions.com.example/x.y", True),
        ({"extensions": {"com.example/x": {}}}, "extensions.com.example/x.y", False),
        ({"experimental": {"thing": {"a": 1}}}, "experimental.thing", True),
    ],
)  # fmt: skip
def test_client_supports_declared_capabilities(
    capabilities: dict[str, Any], name: str, is_supported: bool
) -> None:
    client = client_with(capabilities)
    assert client.supports(name) is is_supported
    if is_supported:
        client.require(name)
    else:
        with pytest.raises(MissingCapabilityError, match=f"required capability {name}$"):
            client.require(name)


@pytest.fixture
def requiring() -> Server:
    server = Server("asking")

    @server.tool(access=Access(requires_capabilities="sampling"))
    async def ask(count: int) -> str:
        return "asked"

    @server.tool
    async def ask_within(ctx: Context) -> str:
        ctx.client.require("sampling", "elicitation.url")
        return "asked"

    @server.tool
    def ask_in_a_thread(ctx: Context) -> str:
        ctx.client.require("sampling")
        return "asked"

    @server.resource("asking://fixed", access=Access(requires_capabilities=["sampling"]))
    async def fixed() -> str:
        return "asked"

    @server.resource(
        "asking://{number}", access=Access(requires_capabilities="sampling"), complete={"number": ["1"]}
    )
    async def templated(number: int) -> str:
        return "asked"

    @server.resource("asking://within/{name}")
    async def within(name: str, ctx: Context) -> str:
        ctx.client.require("sampling")
        return "asked"

    @server.prompt(
        access=Access(requires_capabilities=("sampling", "sampling.tools")), complete={"city": ["Bern"]}
    )
    async def plan(city: str) -> str:
        return "asked"

    return server


# Each with arguments that would be refused, if they were looked at first.
REQUESTS = [
    ("resources/read", {"uri": "asking://fixed"}, {"sampling": {}}),
    ("resources/read", {"uri": "asking://seven"}, {"sampling": {}}),
    ("resources/read", {"uri": "asking://within/x"}, {"sampling": {}}),
    ("prompts/get", {"name": "plan", "arguments": {"wrong": "1"}}, {"sampling": {"tools": {}}}),
    ("completion/complete",
     {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "no", "value": ""}},
     {"sampling": {"tools": {}}}),
    ("completion/complete",
     {"ref": {"type": "ref/resource", "uri": "asking://{number}"},
     "argument": {"name": "number", "value": ""}}, {"sampling": {}}),
]  # fmt: skip


@pytest.mark.parametrize("revision", ["2025-11-25", LATEST])
@each_row(("method", "params", "required"), REQUESTS)
async def test_requires_missing_capability_is_protocol_error(
    requiring: Server, revision: str, method: str, params: dict[str, Any], required: dict[str, Any]
) -> None:
    async with connect(requiring, protocol_version=revision) as client:
        with pytest.raises(
            ProtocolError, match=r"The client does not declare the required capabilit.* sampling"
        ) as caught:
            await client.request(method, params)
    assert caught.value.code == (MISSING if revision in STATELESS else INVALID_PARAMS)
    assert caught.value.data["requiredCapabilities"].keys() == required.keys()


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

    @server.resource("data://a", access=Access(visible=is_admin))
    def a() -> str:
        return "for admins"

    @server.resource("data://{name}", cache=CacheHint(60))
    def any_(name: str) -> str:
        return f"for all: {name}"

    @server.resource("open://a")
    def open_() -> str:
        return "open"

    async def scope(principal: Principal, uri: str) -> tuple[str, str]:
        async with connect(server, principal=principal) as client:
            result = await client.request("resources/read", {"uri": uri})
            return result["contents"][0]["text"], result["cacheScope"]

    assert await scope(ADMIN, "data://a") == ("for admins", "private")
    assert await scope(USER, "data://a") == ("for all: a", "private")  # others read something else there
    assert await scope(USER, "data://b") == (
        "for all: b",
        "private",
    )  # or it would tell that there is data://a
    assert await scope(USER, "open://a") == ("open", "public")
