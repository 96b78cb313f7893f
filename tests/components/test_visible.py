"""`visible=`: what one may not see is unknown to one, in lists, in use and in subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

import pytest

from mcpkit import (
    Cache,
    Complete,
    Context,
    Principal,
    ProtocolError,
    RegistrationError,
    Registry,
    Server,
    resource_dir,
)
from mcpkit.protocol.revisions import ALL, HANDSHAKE, LATEST
from mcpkit.testing import Client, connect

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

    @server.tool(visible=is_admin)
    def erase() -> str:
        """Erase."""
        return "erased"

    @server.prompt
    def greet() -> str:
        """Greet."""
        return "hello"

    @server.prompt(visible=is_admin)
    def shout(word: Annotated[str, Complete(["aloud"])]) -> str:
        """Shout."""
        return word.upper()

    @server.resource("data://open")
    def open_() -> str:
        """Open."""
        return "open"

    @server.resource("data://secret", visible=is_admin)
    def secret() -> str:
        """Secret."""
        return "secret"

    @server.resource("open://{name}")
    def opens(name: str) -> str:
        """Open."""
        return name

    @server.resource("secret://{name}", visible=is_admin)
    def secrets(name: str) -> str:
        """Secret."""
        return name

    return server


async def everything(client: Client) -> dict[str, list[str]]:
    lists = {
        "tools": await client.list_tools(),
        "prompts": await client.list_prompts(),
        "resources": await client.list_resources(),
        "resourceTemplates": await client.list_resource_templates(),
    }
    return {member: [entry[KEYS[member]] for entry in entries] for member, entries in lists.items()}


async def refusal(client: Client, method: str, params: dict[str, Any]) -> tuple[int, str, Any]:
    with pytest.raises(ProtocolError) as caught:
        await client.request(method, params)
    return caught.value.code, caught.value.message, caught.value.data


@pytest.mark.parametrize("revision", ALL)
async def test_lists_hold_what_one_may_see(server: Server, revision: str):
    async with connect(server, revision=revision, principal=ADMIN) as admin:
        assert await everything(admin) == {
            "tools": ["look", "erase"],
            "prompts": ["greet", "shout"],
            "resources": ["data://open", "data://secret"],
            "resourceTemplates": ["open://{name}", "secret://{name}"],
        }
    for principal in (USER, Principal()):
        async with connect(server, revision=revision, principal=principal) as client:
            assert await everything(client) == {
                "tools": ["look"],
                "prompts": ["greet"],
                "resources": ["data://open"],
                "resourceTemplates": ["open://{name}"],
            }


@pytest.mark.parametrize("revision", ALL)
async def test_what_one_may_not_see_is_as_if_it_were_not_there(server: Server, revision: str):
    def about(hidden: Any, missing: Any) -> list[tuple[str, dict[str, Any]]]:
        name, uri, template = hidden
        argument = {"name": "word", "value": "a"}
        return [
            ("tools/call", {"name": name}),
            ("prompts/get", {"name": name}),
            ("resources/read", {"uri": uri}),
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": name}, "argument": argument}),
            ("completion/complete", {"ref": {"type": "ref/resource", "uri": template}, "argument": argument}),
        ]

    async with connect(server, revision=revision, principal=USER) as client:
        for names in (
            ({"tools/call": "erase"}.get("tools/call"), "data://secret", "secret://{name}"),
            ("shout", "secret://anything", "secret://{name}"),
        ):
            missing = ("x" * len(str(names[0])), "data://nothing", "nothing://{name}")
            for (method, hidden), (_, absent) in zip(about(names, None), about(missing, None), strict=True):
                if method == "completion/complete" and revision == "2024-11-05":
                    continue  # it has no completions to declare
                told, expected = await refusal(client, method, hidden), await refusal(client, method, absent)
                text = str(expected)
                for one, other in zip(names, missing, strict=True):
                    text = text.replace(str(other), str(one))
                assert str(told) == text


async def test_who_may_see_it_uses_it(server: Server):
    async with connect(server, principal=ADMIN) as admin:
        assert (await admin.call("erase")).text == "erased"
        assert (await admin.get_prompt("shout", {"word": "a"}))[0]["content"]["text"] == "A"
        assert (await admin.read("data://secret"))[0]["text"] == "secret"
        assert (await admin.read("secret://x"))[0]["text"] == "x"
        assert await admin.complete("shout", "word", "a") == ["aloud"]
        assert (await admin.call("look")).text == "ada ['admin']"


async def test_lists_with_such_a_component_are_private_on_all_pages(server: Server):
    server.page_size = 1
    server.engine.runtime.cache["tools/list"] = Cache(300)
    for principal in (ADMIN, USER):
        async with connect(server, principal=principal) as client:
            page = await client.request("tools/list")
            assert (page["cacheScope"], page["ttlMs"]) == ("private", 300_000)
            while "nextCursor" in page:
                page = await client.request("tools/list", {"cursor": page["nextCursor"]})
                assert (page["cacheScope"], page["ttlMs"]) == ("private", 300_000)
    server.tools.disable("erase")
    async with connect(server, principal=USER) as client:
        assert (await client.request("tools/list"))["cacheScope"] == "public"
        assert (await client.request("prompts/list"))["cacheScope"] == "private"


async def test_pages_follow_each_other_without_a_gap_for_each_audience(server: Server):
    server.page_size = 1
    for number in range(6):
        server.tool(name=f"t{number}", visible=(is_admin, None)[number % 2])(lambda: "")
    async with connect(server, principal=ADMIN) as admin, connect(server, principal=USER) as user:
        odd = ["look", "t1", "t3", "t5"]
        for _ in range(2):  # once rendered, once kept
            assert [tool["name"] for tool in await user.list_tools()] == odd
            assert [tool["name"] for tool in await admin.list_tools()] == [
                "look", "erase", "t0", "t1", "t2", "t3", "t4", "t5"
            ]  # fmt: skip


async def test_what_is_read_through_it_is_private():
    server = Server("s", cache={"resources/read": Cache(60)})

    @server.resource("data://a", visible=is_admin)
    def a() -> str:
        return "for admins"

    @server.resource("data://{name}", cache=Cache(60))
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


async def test_the_entries_of_a_hidden_template_are_hidden(tmp_path: Any):
    (tmp_path / "a.txt").write_text("a")
    server = Server("s")
    server.include(resource_dir(tmp_path, "files://here", visible=is_admin))
    async with connect(server, principal=ADMIN) as admin, connect(server, principal=USER) as user:
        assert [each["uri"] for each in await admin.list_resources()] == ["files://here/a.txt"]
        assert await user.list_resources() == []
        with pytest.raises(ProtocolError):
            await user.read("files://here/a.txt")


async def test_what_is_added_while_a_list_is_made_is_not_seen():
    server = Server("s")

    def hidden() -> str:
        return ""

    def adding(who: Principal) -> bool:
        server.tool(hidden, replace=True, visible=is_admin)
        return True

    @server.tool(visible=adding)
    def look() -> str:
        return ""

    async with connect(server, principal=USER) as user:
        assert [each["name"] for each in await user.list_tools()] == ["look"]


async def test_it_comes_along_with_what_is_included(server: Server):
    outer = Server("outer")
    outer.include(server, prefix="inner")
    async with connect(outer, principal=USER) as user, connect(outer, principal=ADMIN) as admin:
        assert [tool["name"] for tool in await user.list_tools()] == ["inner_look"]
        assert (await admin.call("inner_erase")).text == "erased"
        assert (await refusal(user, "tools/call", {"name": "inner_erase"}))[1] == "Unknown tool: inner_erase"


@pytest.mark.parametrize("revision", ["2025-11-25", LATEST])
async def test_updates_reach_who_may_see_what_changed(revision: str):
    server = Server("s")
    watching: list[str] = []

    async def watch() -> AsyncIterator[None]:
        watching.append("begun")
        yield
        await asyncio.Event().wait()

    @server.resource("data://secret", visible=is_admin, watch=watch)
    def secret() -> str:
        return "secret"

    @server.resource("data://open")
    def open_() -> str:
        return "open"

    @server.resource("rows://{name}", visible=is_admin)
    def rows(name: str) -> str:
        return name

    uris = ["data://secret", "rows://{name}", "rows://7", "data://nobody-serves-it", "data://open"]

    async def subscribed(client: Client) -> None:
        if revision in HANDSHAKE:
            for uri in uris:
                assert await client.request("resources/subscribe", {"uri": uri}) == {}
        else:
            listen = {"notifications": {"resourceSubscriptions": uris}}
            task = asyncio.create_task(client.request("subscriptions/listen", listen))
            tasks.append(task)
            told = await client.notification("notifications/subscriptions/acknowledged")
            assert told["notifications"] == listen["notifications"]  # as if nothing were hidden

    async def heard(client: Client) -> list[str]:
        found = []
        while not found or found[-1] != "data://open":
            found.append((await client.notification("notifications/resources/updated"))["uri"])
        return found

    tasks: list[asyncio.Task[Any]] = []
    async with (
        connect(server, revision=revision, principal=USER) as user,
        connect(server, revision=revision, principal=ADMIN) as admin,
    ):
        await subscribed(user)
        assert watching == []  # it does not work for who may not hear
        await subscribed(admin)
        for uri in ("data://secret", "rows://7", "rows://8", "data://nobody-serves-it", "data://open"):
            server.resource_updated(uri)
        assert await heard(user) == ["data://nobody-serves-it", "data://open"]
        assert set(await heard(admin)) == {
            "data://secret", "rows://7", "rows://8", "data://nobody-serves-it", "data://open"
        }  # fmt: skip
        assert watching == ["begun"]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_predicate_that_fails_hides(server: Server, caplog: pytest.LogCaptureFixture):
    @server.tool(visible=lambda who: who.id.startswith("a"))  # type: ignore[union-attr]  # as authors would
    def named() -> str:
        return "named"

    @server.tool(visible=lambda who: "admin")  # type: ignore[arg-type, return-value]  # as authors would
    def truthy() -> str:
        return "truthy"

    async with connect(server, principal=Principal()) as client:
        assert [tool["name"] for tool in await client.list_tools()] == ["look"]
        for name in ("named", "truthy"):
            assert (await refusal(client, "tools/call", {"name": name}))[1] == f"Unknown tool: {name}"
        assert (await client.call("look")).text == "None []"
    assert "visible= of <tool 'named'> failed" in caplog.text
    assert "visible= of <tool 'truthy'> returned 'admin', neither True nor False" in caplog.text
    async with connect(server, principal=ADMIN) as client:
        assert (await client.call("named")).text == "named"


async def test_it_is_held_against_each_use(server: Server):
    answers = [True, False]
    server.tool(name="once", visible=lambda who: answers.pop(0))(lambda: "done")
    async with connect(server) as client:
        assert (await client.call("once")).text == "done"
        assert (await refusal(client, "tools/call", {"name": "once"}))[0] == -32602


def test_what_cannot_be_asked_is_refused():
    async def slow(who: Principal) -> bool:
        return True

    registry = Registry()
    for wrong in (slow, partial(slow)):
        with pytest.raises(
            RegistrationError, match="tool 't': visible= is asked for each list and each use, so"
        ):
            registry.tool(name="t", visible=wrong)(lambda: "")  # type: ignore[arg-type]  # as authors would
    with pytest.raises(
        RegistrationError, match='visible= needs a function of the principal, such as lambda who: "'
    ):
        registry.resource("data://x", visible={"admin"})(lambda: "")  # type: ignore[typeddict-item]  # as authors would


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"id": ""}, ValueError, "id must not be empty; None stands for nobody"),
        ({"id": 7}, TypeError, "id must be text, or None for nobody, got 7"),
        (
            {"scopes": "admin"},
            TypeError,
            "scopes must be a set of texts such as {\"files:read\"}, got 'admin'",
        ),
        ({"scopes": [1]}, TypeError, 'scopes must be a set of texts such as {"files:read"}, got [1]'),
    ],
)
def test_what_is_no_principal(arguments: dict[str, Any], error: type[Exception], text: str):
    with pytest.raises(error) as caught:
        Principal(**arguments)
    assert str(caught.value) == text


def test_principals_are_values():
    assert Principal("ada", ["a", "b"]) == Principal("ada", {"b", "a"}) != Principal("ada")
    assert len({Principal("ada"), Principal("ada"), Principal()}) == 2
    with pytest.raises(AttributeError):
        Principal("ada").id = "bob"  # type: ignore[misc]  # that is what is tested


async def test_the_rounds_of_one_are_not_those_of_another():
    server = Server("s")

    @server.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("Name?", str)).value

    call = {"name": "ask", "arguments": {}}
    capabilities = {"elicitation": {}}
    async with connect(server, principal=ADMIN, capabilities=capabilities) as admin:
        asked = await admin.request("tools/call", call)
        answer = {
            "inputResponses": {
                next(iter(asked["inputRequests"])): {"action": "accept", "content": {"value": "x"}}
            },
            "requestState": asked["requestState"],
        }
        async with connect(server, principal=USER, capabilities=capabilities) as user:
            code, message, _ = await refusal(user, "tools/call", call | answer)
            assert (code, "it belongs to another request" in message) == (-32602, True)
        assert (await admin.request("tools/call", call | answer))["content"][0]["text"] == "x"
