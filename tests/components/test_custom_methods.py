"""Methods outside the core protocol: their names, their params, their results, and who may call them."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from mcpkit import (
    Cache,
    Context,
    Extension,
    Method,
    Principal,
    ProtocolError,
    RegistrationError,
    Registry,
    Server,
    ToolError,
)
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

ID = "com.example/thing"
KNOWS = {"extensions": {ID: {}}}
HANDSHAKE = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
EVERY = [*HANDSHAKE, "2026-07-28"]


def nothing() -> dict[str, int]:
    return {}


async def refusal(server: Server, method: str, params: Any = None, **options: Any) -> ProtocolError:
    async with connect(server, **options) as client:
        with pytest.raises(ProtocolError) as raised:
            await client.request(method, params)
    return raised.value


def spared(result: dict[str, Any]) -> dict[str, Any]:
    """Return a result without what the stateless era adds."""
    return {name: value for name, value in result.items() if name not in {"resultType", "_meta"}}


# Names


@pytest.mark.parametrize(
    "name",
    [
        "tools/call",
        "initialize",
        "ping",
        "server/discover",
        "subscriptions/listen",
        "logging/setLevel",
        "elicitation/create",
        "roots/list",
        "notifications/thing",
        "notifications/cancelled",
        "rpc.discover",
        "",
        "thing do",
        "thing/dö",
        "thing\n",
        "x" * 129,
        None,
    ],
)
def test_names_of_others_are_refused(name: Any) -> None:
    for registry in (Server("s"), Extension(ID)):
        with pytest.raises(RegistrationError):
            registry.method(name)


def test_the_name_must_be_written() -> None:
    server = Server("s")
    with pytest.raises(RegistrationError, match=r"@server\.method\('thing/do'\)"):
        server.method(nothing)  # type: ignore[arg-type]  # the mistake that is tested


def test_there_is_one_of_each_name() -> None:
    server = Server("s")
    server.method("thing/do")(nothing)

    def other() -> dict[str, int]:
        return {}

    with pytest.raises(RegistrationError, match="two methods 'thing/do'"):
        server.method("thing/do")(other)
    assert server.method("thing/do", replace=True)(other) is other
    assert server.methods["thing/do"].function is other


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"revisions": ["2026-07-28", "2027-01-01"]}, "unknown '2027-01-01'"),
        ({"revisions": []}, "nobody could call it"),
        ({"revisions": "2026-07-28"}, "revisions is a list"),
        ({"revisions": 2026}, "revisions is a list"),
        ({"named_by": "other"}, "named_by is one of its parameters"),
        ({"named_by": "number"}, "annotate 'number' as `str`"),
        ({"requires": "flying"}, "'flying' is no capability"),
        ({"requires": 7}, "requires is a list of strings"),
        ({"output": 7}, "there is no option output=.*revisions"),
        ({"timeout": -1}, "timeout"),
        ({"single_use": True}, "single_use= is for tools, resources and prompts"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    def do(id: str, number: int = 0) -> dict[str, str]:
        return {"id": id}

    for registry in (Server("s"), Extension(ID)):
        with pytest.raises(RegistrationError, match=message):
            registry.method("thing/do", **options)(do)


@pytest.mark.parametrize("annotation", [int, str, list[int], "int | str", bool])
def test_a_result_that_is_no_object_is_refused_when_it_is_registered(annotation: Any) -> None:
    async def do() -> Any:
        return 1

    do.__annotations__["return"] = annotation
    server = Server("s")
    if annotation == "int | str":  # promises no one type, so what it returns is looked at
        server.method("thing/do")(do)
    else:
        with pytest.raises(RegistrationError, match="JSON object"):
            server.method("thing/do")(do)


# Calls


class Place(TypedDict):
    row: int


@dataclass
class Found:
    id: str
    place: Place
    notes: list[str]


class Model(BaseModel):
    total: Annotated[int, Field(ge=0)]


@pytest.fixture
def server() -> Server:
    server = Server("s")

    @server.method("thing/find")
    async def find(id: str, place: Place | None = None, notes: list[str] | None = None) -> Found:
        return Found(id, place or Place(row=1), notes or [])

    @server.method("thing/find_in_thread")
    def find_in_thread(id: str, ctx: Context) -> Model:
        assert ctx.method == "thing/find_in_thread"
        return Model(total=len(id))

    @server.method("thing/forget")
    async def forget(id: str) -> None:
        return None

    @server.method("thing/all")
    async def take_all(**members: Any) -> dict[str, Any]:
        return {"got": members}

    return server


@pytest.mark.parametrize("revision", EVERY)
async def test_it_is_served_in_every_revision(server: Server, revision: str) -> None:
    async with connect(server, revision=revision) as client:
        found = await client.request("thing/find", {"id": "a", "place": {"row": 3}})
        assert spared(found) == {"id": "a", "place": {"row": 3}, "notes": []}
        assert spared(await client.request("thing/find_in_thread", {"id": "abc"})) == {"total": 3}
        assert spared(await client.request("thing/forget", {"id": "a"})) == {}
        assert ("resultType" in found) is (revision == "2026-07-28")
        if revision == "2026-07-28":
            assert found["resultType"] == "complete"
            assert found["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "0.0.0"}}


@pytest.mark.parametrize("revision", EVERY)
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (None, "id: expected a string, but it is missing"),
        ({}, "id: expected a string, but it is missing"),
        ({"id": True}, "id: expected a string, got true"),
        ({"id": None}, "id: expected a string, got null"),
        ({"id": "a", "place": {}}, "place.row"),
        ({"id": "a", "place": {"row": "x"}}, "place.row"),
        ({"id": "a", "notes": [1.5]}, r"notes\[0\]"),
    ],
)
async def test_params_that_do_not_fit_are_refused(
    server: Server, revision: str, params: Any, message: str
) -> None:
    error = await refusal(server, "thing/find", params, revision=revision)
    assert error.code == -32602
    assert message.replace("\\", "") in error.message


async def test_members_that_it_does_not_have_are_ignored(server: Server) -> None:
    async with connect(server) as client:
        params = {"id": "a", "later": 1, "_meta": {"com.example/a": 1}}
        assert (await client.request("thing/find", params))["id"] == "a"
        assert (await client.request("thing/all", params))["got"] == {"id": "a", "later": 1}


@pytest.mark.parametrize("revision", EVERY)
async def test_others_stay_unknown(server: Server, revision: str) -> None:
    error = await refusal(server, "thing/other", revision=revision)
    assert (error.code, error.message) == (-32601, "Method not found: thing/other")


@pytest.mark.parametrize("revision", EVERY)
async def test_it_belongs_to_the_revisions_that_it_names(revision: str) -> None:
    server = Server("s")

    @server.method("thing/do", revisions=["2025-06-18", "2026-07-28"])
    async def do() -> dict[str, int]:
        return {"done": 1}

    if revision in {"2025-06-18", "2026-07-28"}:
        async with connect(server, revision=revision) as client:
            assert (await client.request("thing/do"))["done"] == 1
    else:
        assert (await refusal(server, "thing/do", revision=revision)).code == -32601


async def test_it_comes_and_goes(server: Server) -> None:
    async with connect(server) as client:
        server.methods.disable("thing/find")
        with pytest.raises(ProtocolError, match="Method not found"):
            await client.request("thing/find", {"id": "a"})
        server.methods.enable("thing/find")
        assert (await client.request("thing/find", {"id": "a"}))["id"] == "a"
        server.methods.remove("thing/find")
        with pytest.raises(ProtocolError, match="Method not found"):
            await client.request("thing/find", {"id": "a"})
        await asyncio.sleep(0)
        assert client.notifications == []


async def test_it_declares_no_list(server: Server) -> None:
    async with connect(server) as client:
        assert client.server_capabilities == {"logging": {}}


async def test_it_is_included_under_its_own_name(server: Server) -> None:
    outer, registry = Server("outer"), Registry()
    registry.add(Method(nothing, "thing/empty"))
    outer.include(server, prefix="in")
    outer.include(registry, prefix="more")
    async with connect(outer) as client:
        assert (await client.request("thing/find", {"id": "a"}))["id"] == "a"
        assert spared(await client.request("thing/empty")) == {}


# Results and errors


@pytest.mark.parametrize("revision", EVERY)
async def test_errors_are_those_of_the_protocol(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    server = Server("s")

    @server.method("thing/refuse")
    async def refuse() -> dict[str, int]:
        raise ProtocolError(-32602, "There is no such thing", {"id": 1})

    @server.method("thing/say")
    async def say() -> dict[str, int]:
        raise ToolError("It is closed")

    @server.method("thing/fail")
    async def fail() -> dict[str, int]:
        raise KeyError("secret")

    @server.method("thing/wrong")
    async def wrong() -> Found:
        return "wrong"  # type: ignore[return-value]  # the mistake that is tested

    @server.method("thing/number")
    async def number() -> Any:
        return 7

    @server.method("thing/surrogate")
    async def surrogate() -> dict[str, str]:
        return {"text": "\ud800"}

    refused = await refusal(server, "thing/refuse", revision=revision)
    assert (refused.code, refused.message, refused.data) == (-32602, "There is no such thing", {"id": 1})
    said = await refusal(server, "thing/say", revision=revision)
    assert (said.code, said.message) == (-32603, "It is closed")
    for method, message in {
        "thing/fail": r"Internal error \(ref ",
        "thing/wrong": "the method ran, but result: expected an object, got",
        "thing/number": "the method ran, but result is an int; return a JSON object",
        "thing/surrogate": "the method ran, but result.text has no form in JSON: half of a surrogate pair",
    }.items():
        error = await refusal(server, method, revision=revision)
        assert error.code == -32603
        assert re.match(message, error.message)
    assert "thing/number: the method ran, but result is an int" in caplog.text


async def test_its_result_may_say_how_long_it_may_be_kept() -> None:
    server = Server("s")
    mine = Principal("ada")
    server.method("thing/list", cache=Cache(ttl=60))(lambda: {"things": []})
    server.method("thing/mine", cache=Cache(ttl=60), visible=lambda who: who.id == "ada")(nothing)
    server.method("thing/now")(lambda: {"things": []})
    async with connect(server, principal=mine) as client:
        listed = await client.request("thing/list")
        assert (listed["ttlMs"], listed["cacheScope"]) == (60_000, "public")
        assert (await client.request("thing/mine"))["cacheScope"] == "private"
        assert "ttlMs" not in await client.request("thing/now")


async def test_who_may_not_see_it_finds_no_such_method() -> None:
    server = Server("s")

    @server.method("thing/do", visible=lambda who: "admin" in who.scopes)
    async def do(ctx: Context) -> dict[str, Any]:
        return {"who": ctx.principal.id}

    async with connect(server, principal=Principal("ada", {"admin"})) as client:
        assert (await client.request("thing/do"))["who"] == "ada"
    hidden = await refusal(server, "thing/do", principal=Principal("bob"))
    assert (hidden.code, hidden.message) == (-32601, "Method not found: thing/do")


# Of an extension


@pytest.fixture
def extended() -> Server:
    server = Server("s")
    thing = server.extension(ID)

    @thing.method("thing/do")
    async def do(id: str) -> dict[str, str]:
        return {"id": id}

    @thing.method("thing/sample", requires="sampling")
    async def sample() -> dict[str, str]:
        return {}

    @thing.method("thing/old", revisions=EVERY)
    async def old() -> dict[str, int]:
        return {"done": 1}

    return server


async def test_clients_must_have_declared_the_extension(extended: Server) -> None:
    async with connect(extended, capabilities=KNOWS) as client:
        assert (await client.request("thing/do", {"id": "a"}))["id"] == "a"
    for params in ({"id": "a"}, {}, {"id": 7}):  # before anything is looked at
        error = await refusal(extended, "thing/do", params)
        assert (error.code, error.data) == (-32021, {"requiredCapabilities": KNOWS})


async def test_it_may_require_more(extended: Server) -> None:
    error = await refusal(extended, "thing/sample", capabilities=KNOWS)
    assert error.data == {"requiredCapabilities": {"sampling": {}}}
    error = await refusal(extended, "thing/sample")
    assert error.data == {"requiredCapabilities": {"sampling": {}, **KNOWS}}
    async with connect(extended, capabilities={"sampling": {}, **KNOWS}) as client:
        assert spared(await client.request("thing/sample")) == {}


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_older_revisions_do_not_have_it(extended: Server, revision: str) -> None:
    error = await refusal(extended, "thing/do", {"id": "a"}, revision=revision, capabilities=KNOWS)
    assert error.code == -32601


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_older_revisions_have_it_where_it_says_so(extended: Server, revision: str) -> None:
    async with connect(extended, revision=revision, capabilities=KNOWS) as client:
        assert await client.request("thing/old") == {"done": 1}
    error = await refusal(extended, "thing/old", revision=revision)
    assert (error.code, error.data) == (-32602, {"requiredCapabilities": KNOWS})


# Whatever is sent


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.text(st.characters(codec="utf-8"), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
PARAMS = st.fixed_dictionaries({}, optional={"id": JSON, "place": JSON, "notes": JSON, "more": JSON})


@settings(max_examples=100, deadline=None)
@given(params=PARAMS)
def test_any_params_are_served_or_refused(params: dict[str, Any]) -> None:
    async def run() -> None:
        server = Server("s")

        @server.method("thing/find")
        async def find(id: str, place: Place | None = None, notes: list[str] | None = None) -> Found:
            return Found(id, place or Place(row=1), notes or [])

        refused: ProtocolError | None = None
        found: dict[str, Any] = {}
        async with connect(server) as client:
            try:
                found = await client.request("thing/find", params)
            except ProtocolError as error:
                refused = error
        assert found["id"] == params["id"] if refused is None else refused.code == -32602

    asyncio.run(run())
