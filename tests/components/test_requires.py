"""What a component needs of its client: `requires=` before the call, `ctx.client.require` in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import Context, MissingCapabilityError, ProtocolError, RegistrationError, Server
from mcpkit.protocol.eras import Client
from mcpkit.protocol.revisions import ALL, HANDSHAKE, STATELESS
from mcpkit.testing import connect
from tests.helpers.pipe import open_pipe

MISSING = -32021
INVALID_PARAMS = -32602


def client_with(capabilities: dict[str, Any]) -> Client:
    return Client({"name": "test", "version": "1"}, capabilities)


@pytest.mark.parametrize(
    ("capabilities", "name", "is_supported"),
    [
        ({}, "sampling", False),
        ({"sampling": {}}, "sampling", True),
        ({"sampling": {}}, "sampling.tools", False),
        ({"sampling": {"tools": {}}}, "sampling.tools", True),
        ({"sampling": {"tools": {}}}, "sampling.context", False),
        ({"sampling": {"tools": None}}, "sampling.tools", False),
        ({"sampling": None}, "sampling", False),
        ({"sampling": True}, "sampling", False),
        ({"roots": {"listChanged": True}}, "roots", True),
        ({"elicitation": {}}, "elicitation", True),
        ({"elicitation": {}}, "elicitation.form", True),
        ({"elicitation": {}}, "elicitation.url", False),
        ({"elicitation": {"form": {}}}, "elicitation.form", True),
        ({"elicitation": {"form": {}, "url": {}}}, "elicitation.url", True),
        ({"elicitation": {"url": {}}}, "elicitation", True),
        ({"elicitation": {"url": {}}}, "elicitation.form", False),
        ({"extensions": {"com.example/x.y": {}}}, "extensions.com.example/x.y", True),
        ({"extensions": {"com.example/x": {}}}, "extensions.com.example/x.y", False),
        ({"experimental": {"thing": {"a": 1}}}, "experimental.thing", True),
    ],
)
def test_a_client_supports_what_it_declares(
    capabilities: dict[str, Any], name: str, is_supported: bool
) -> None:
    client = client_with(capabilities)
    assert client.supports(name) is is_supported
    if is_supported:
        client.require(name)
    else:
        with pytest.raises(MissingCapabilityError, match=f"capability that this needs: {name}$"):
            client.require(name)


@pytest.mark.parametrize(
    "name", ["sampilng", "", "sampling.", "sampling.tool", "extensions", "extensions.", "tools", "Sampling"]
)
def test_a_capability_that_does_not_exist_is_no_question(name: str) -> None:
    with pytest.raises(
        ValueError, match=r"is no capability of a client; there are elicitation, elicitation\.form"
    ):
        client_with({}).supports(name)
    with pytest.raises(ValueError, match="is no capability"):
        client_with({"sampling": {}}).require(name)


def test_only_what_is_missing_is_asked_for() -> None:
    client = client_with({"sampling": {}, "elicitation": {}})
    client.require()
    client.require("sampling", "elicitation.form")
    with pytest.raises(
        MissingCapabilityError, match=r"capabilities that this needs: sampling.tools, "
    ) as caught:
        client.require(
            "sampling",
            "sampling.tools",
            "elicitation.url",
            "roots",
            "sampling.context",
            "extensions.com.example/a",
        )
    assert caught.value.required == {
        "sampling": {"tools": {}, "context": {}},
        "elicitation": {"url": {}},
        "roots": {},
        "extensions": {"com.example/a": {}},
    }


@pytest.mark.parametrize(
    ("requires", "message"),
    [
        ("sampilng", "tool 'ask': requires: 'sampilng' is no capability of a client; there are elicitation"),
        (["sampling", "tools"], "tool 'ask': requires: 'tools' is no capability"),
        ("extensions.", "tool 'ask': requires: 'extensions.' is no capability"),
        ([7], "tool 'ask': requires is a list of strings, not"),
        (7, "tool 'ask': requires is a list of strings, not 7"),
        ({"sampling": {}}, "tool 'ask': requires is a list of strings, not"),
    ],
)
def test_a_requirement_that_nobody_can_meet_is_refused(requires: Any, message: str) -> None:
    server = Server("asking")

    def ask() -> None: ...

    with pytest.raises(RegistrationError, match=message):
        server.tool(ask, requires=requires)
    assert len(server.tools) == 0


@pytest.fixture
def server() -> Server:
    server = Server("asking")

    @server.tool(requires="sampling")
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

    @server.resource("asking://fixed", requires=["sampling"])
    async def fixed() -> str:
        return "asked"

    @server.resource("asking://{number}", requires="sampling", complete={"number": ["1"]})
    async def templated(number: int) -> str:
        return "asked"

    @server.resource("asking://within/{name}")
    async def within(name: str, ctx: Context) -> str:
        ctx.client.require("sampling")
        return "asked"

    @server.prompt(requires=("sampling", "sampling.tools"), complete={"city": ["Bern"]})
    async def plan(city: str) -> str:
        return "asked"

    return server


# Each with arguments that would be refused, if they were looked at first.
REQUESTS = [
    ("resources/read", {"uri": "asking://fixed"}, {"sampling": {}}),
    ("resources/read", {"uri": "asking://seven"}, {"sampling": {}}),
    ("resources/read", {"uri": "asking://within/x"}, {"sampling": {}}),
    ("prompts/get", {"name": "plan", "arguments": {"wrong": "1"}}, {"sampling": {"tools": {}}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "plan"}, "argument": {"name": "no", "value": ""}},
        {"sampling": {"tools": {}}},
    ),
    (
        "completion/complete",
        {
            "ref": {"type": "ref/resource", "uri": "asking://{number}"},
            "argument": {"name": "number", "value": ""},
        },
        {"sampling": {}},
    ),
]


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ALL)
@pytest.mark.parametrize(("method", "params", "required"), REQUESTS)
async def test_what_is_no_tool_answers_with_an_error(
    server: Server, revision: str, method: str, params: dict[str, Any], required: dict[str, Any]
) -> None:
    async with connect(server, revision=revision) as client:
        with pytest.raises(
            ProtocolError, match=r"The client lacks the capabilit.* this needs: sampling"
        ) as caught:
            await client.request(method, params)
    assert caught.value.code == (MISSING if revision in STATELESS else INVALID_PARAMS)
    assert caught.value.data["requiredCapabilities"].keys() == required.keys()


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "arguments", "required"),
    [
        ("ask", {"count": "three"}, {"sampling": {}}),
        ("ask_within", {}, {"sampling": {}, "elicitation": {"url": {}}}),
        ("ask_in_a_thread", {}, {"sampling": {}}),
    ],
)
async def test_a_stateless_tool_answers_with_an_error(
    server: Server, schema_dir: Path, name: str, arguments: dict[str, Any], required: dict[str, Any]
) -> None:
    async with open_pipe(server, "2026-07-28", schema_dir) as pipe:  # which judges the error by the schema
        response = await pipe.request("tools/call", {"name": name, "arguments": arguments})
    assert response["error"]["code"] == MISSING
    assert response["error"]["data"] == {"requiredCapabilities": required}
    assert all(name in response["error"]["message"] for name in required)


@pytest.mark.anyio
@pytest.mark.parametrize("revision", HANDSHAKE)
@pytest.mark.parametrize("name", ["ask", "ask_within", "ask_in_a_thread"])
async def test_a_tool_in_a_session_tells_the_model(server: Server, revision: str, name: str) -> None:
    async with connect(server, revision=revision) as client:
        result = await client.call(name, {})
    assert result.is_error
    assert "lacks the capabilit" in result.text
    assert "sampling" in result.text


@pytest.mark.anyio
@pytest.mark.parametrize("revision", ALL)
async def test_a_client_with_the_capability_is_served(server: Server, revision: str) -> None:
    capabilities: dict[str, Any] = {"sampling": {"tools": {}}, "elicitation": {"url": {}}}
    async with connect(server, revision=revision, capabilities=capabilities) as client:
        assert (await client.call("ask", {"count": 3})).text == "asked"
        assert (await client.call("ask_within")).text == "asked"
        assert (await client.read("asking://fixed"))[0]["text"] == "asked"
        assert (await client.read("asking://7"))[0]["text"] == "asked"
        assert (await client.get_prompt("plan", {"city": "Bern"}))[0]["content"]["text"] == "asked"


@pytest.mark.anyio
async def test_requirements_do_not_hide_a_component(server: Server) -> None:
    async with connect(server) as client:
        assert [tool["name"] for tool in await client.list_tools()] == [
            "ask",
            "ask_within",
            "ask_in_a_thread",
        ]
        assert [prompt["name"] for prompt in await client.list_prompts()] == ["plan"]


@pytest.mark.anyio
async def test_requirements_go_where_the_component_goes(server: Server) -> None:
    outer = Server("outer")
    outer.include(server, prefix="inner")
    async with connect(outer) as client:
        with pytest.raises(ProtocolError, match="sampling"):
            await client.call("inner_ask", {"count": 3})
