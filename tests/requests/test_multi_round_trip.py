"""Rounds of stateless requests: what `requestState` carries, what runs in each round, and which questions are sent."""

import asyncio
import json
import sys
from base64 import urlsafe_b64decode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcpkit import Context, ProtocolError, Server, ServerOptions, Timeouts
from mcpkit._utils.package import install_command
from mcpkit.elicitation import ElicitRequest
from mcpkit.storage import Memory
from mcpkit.testing import connect
from tests.helpers.elicitation import City, ScriptedAnswers, call_tool, make_server
from tests.helpers.waiting import Clock

SECRET = "a secret of the tests"
OLD = "an older secret of the tests"
NAME = {"name": {"action": "accept", "content": {"value": "Ada Lovelace"}}}
PIN = {"pin": {"action": "accept", "content": {"value": 1815}}}
NOT_ISSUED = "requestState is not accepted: this server did not issue it. Send the request again without it"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("mcpkit.requests.multi_round_trip.time.time", clock)
    return clock


def login_server(secret: str | list[str] = SECRET, **options: Any) -> Server:
    server = Server("login", secret_key=secret, **options)

    @server.tool
    async def sign_in(ctx: Context) -> str:
        name = (await ctx.elicit("Who?", str, key="name")).value
        ticket = await ctx.once("ticket", lambda: "ticket-4711")
        pin = (await ctx.elicit("PIN?", int, key="pin")).value
        return f"{name} {ticket} {pin}"

    @server.tool
    async def long(ctx: Context, size: int) -> str:
        await ctx.once("long", lambda: "x" * size)
        return (await ctx.elicit("Who?", str)).value

    return server


def encrypting(is_encrypted: bool) -> ServerOptions:
    return ServerOptions(encrypt_state=is_encrypted)


async def refusal(request: Any) -> tuple[int, str]:
    """Return code and message of the error that a request ends with."""
    with pytest.raises(ProtocolError) as error:
        await request
    return error.value.code, error.value.message


async def make_round(server: Server, name: str = "sign_in", **more: Any) -> dict[str, Any]:
    async with connect(server, capabilities={"elicitation": {}}) as client:
        return await client.request("tools/call", {"name": name, "arguments": {}, **more})


async def second_state(server: Server) -> str:
    """Return a state with an answer and the value of `once`."""
    return str((await make_round(server, inputResponses=NAME))["requestState"])


# States


async def test_responses_without_a_state_are_used_and_unknown_keys_ignored() -> None:
    server = login_server()
    result = await make_round(server, inputResponses={**NAME, **PIN, "other": {"x": 1}})
    assert result["content"][0]["text"] == "Ada Lovelace ticket-4711 1815"
    result = await make_round(server, inputResponses={"other": {}})
    assert (result["resultType"], list(result["inputRequests"])) == ("input_required", ["name"])
    for responses in (5, [], "x", {"name": 5}, {"name": None}):
        assert (await refusal(make_round(server, inputResponses=responses)))[0] == -32602, responses


@pytest.mark.parametrize("encrypt_state", [False, True])
async def test_state_is_accepted_by_servers_with_the_secret(encrypt_state: bool) -> None:
    def make(secret: Any, is_encrypted: bool = encrypt_state) -> Server:
        return login_server(secret, options=encrypting(is_encrypted))

    old = await second_state(make(OLD))
    result = await make_round(make([SECRET, OLD]), inputResponses=PIN, requestState=old)
    assert result["content"][0]["text"] == "Ada Lovelace ticket-4711 1815"
    new = await second_state(make([SECRET, OLD]))
    assert (await make_round(make(SECRET), inputResponses=PIN, requestState=new))["resultType"] == "complete"
    for server in (make(SECRET), make(OLD, not encrypt_state)):
        round = make_round(server, inputResponses=PIN, requestState=old)
        assert await refusal(round) == (-32602, NOT_ISSUED)


async def test_state_expires_after_question_timeout(clock: Clock) -> None:
    clock.now = 1000.9
    server = login_server(timeouts=Timeouts(client_request=0.5))
    state = (await make_round(server))["requestState"]
    clock.now = 1001.3
    assert "inputRequests" in await make_round(server, inputResponses=NAME, requestState=state)
    for clock.now in (1001.5, 4e9):
        assert "expired" in (await refusal(make_round(server, inputResponses=NAME, requestState=state)))[1]


async def test_state_encrypted_is_unreadable_and_plain_is_json() -> None:
    plain = json.loads(urlsafe_b64decode(await second_state(login_server()))[32:])
    assert sorted(plain) == ["answered", "asked", "exp", "home", "id", "of", "once", "round", "until"]
    assert (plain["answered"]["name"][1], plain["once"]) == (NAME["name"], {"ticket": "ticket-4711"})
    server = login_server(options=encrypting(True))
    packed = urlsafe_b64decode(await second_state(server))
    assert not any(text in packed for text in (b"Ada", b"Lovelace", b"ticket", b"4711", b"answered", b"name"))
    first = (await make_round(server))["requestState"]
    states = [(await make_round(server, requestState=first))["requestState"] for _ in range(10)]
    assert len({state[:16] for state in states}) == 10


@pytest.mark.parametrize("encrypt_state", [False, True])
async def test_state_is_limited_to_16_kib(encrypt_state: bool) -> None:
    server = login_server(options=encrypting(encrypt_state))
    state = (await make_round(server, "long", arguments={"size": 11_900}))["requestState"]
    assert 15_000 < len(state) <= 16 * 1024
    again = await make_round(server, "long", arguments={"size": 11_900}, requestState=state)
    assert again["resultType"] == "input_required"
    assert (await refusal(make_round(server, "long", arguments={"size": 12_200})))[0] == -32603


def test_encrypt_state_without_cryptography_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    login_server()
    with pytest.raises(ImportError) as error:
        login_server(options=encrypting(True))
    assert str(error.value) == f"encryption needs cryptography. Run: {install_command('crypto')}"


# What runs in a round


async def test_question_that_differs_between_rounds_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    rounds: list[int] = []

    async def fickle(ctx: Context) -> str:
        rounds.append(1)
        name = (await ctx.elicit("Who?", str)).value
        home, age = ElicitRequest(f"Where does {name} live?", City), ElicitRequest(f"How old is {name}?", int)
        if len(rounds) < 3:
            await ctx.ask(home, age)
        await ctx.ask(age, home)
        return ""

    answers = ScriptedAnswers({"value": "Ada L."}, {"name": "London", "days": 1}, {"value": 36})
    text = await call_tool(make_server(fickle), answers, "2026-07-28")
    refused = "-32602: The handler is not deterministic: the request '#2' to the client was another one"
    assert text.startswith(refused)
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    now = "(value), and was another one in an earlier round, where this one had the key '#3'. Pass key="
    assert f"the request '#2' to the client is now elicitation/create{now}" in record.getMessage()
    assert "in fickle" in str(record.stack_info)
    assert "Ada" not in caplog.text
    assert "London" not in caplog.text


# Questions of which the handler catches the end of the round


async def gather(ctx: Context) -> str:
    both = [ctx.elicit("Who?", str), ctx.elicit("Whose?", str)]
    return " ".join([repr(each) for each in await asyncio.gather(*both, return_exceptions=True)])


async def catch_everything(ctx: Context) -> str:
    try:
        return repr(await ctx.elicit("Who?", str))
    except BaseException:
        return "none"


def leave_to_a_thread(ctx: Context) -> str:
    with ThreadPoolExecutor() as pool:
        future = pool.submit(ctx.sync.elicit, "Who?", str)
    return "none" if future.exception() else repr(future.result())


ADA = "ElicitationResult('accept', 'Ada')"


@pytest.mark.parametrize("function", [gather, catch_everything, leave_to_a_thread])
@pytest.mark.parametrize(("revision", "options"), [("2025-11-25", {}), ("2026-07-28", {"timeout": 60.0})])
async def test_question_that_a_tool_catches_is_sent(revision, function, options, caplog) -> None:
    server = make_server(function, name="work", **options)
    answers = ScriptedAnswers({"value": "Ada"}, {"value": "Ada"})
    expected = f"{ADA} {ADA}" if function is gather else ADA
    assert await call_tool(server, answers, revision) == expected
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    keys = "'#1', '#2'" if function is gather else "'#1'"
    warning = f"tools/call 'work' returned while its requests to the client {keys} are unanswered; they are sent all"
    is_stateless = revision == "2026-07-28"
    assert [each[: len(warning)] for each in warnings] == ([warning] if is_stateless else [])


# States that are used once

RESPONSES = {"size": {"action": "accept", "content": {"value": 7}}}
REQUESTS = {
    "tool": ("tools/call", {"name": "order", "arguments": {}}),
    "prompt": ("prompts/get", {"name": "order"}),
    "resource": ("resources/read", {"uri": "orders://all"}),
}
USED = "requestState is not accepted: it was used before. Send the request again without it"


class Shop:
    """A server of which each kind of component asks for a size.

    Attributes:
        sold: The sizes of the calls that completed.
    """

    def __init__(self, is_single_use: bool = True, **options: Any) -> None:
        self.sold: list[int] = []
        options["options"] = ServerOptions(single_use_state=is_single_use)
        self.server = server = Server("shop", secret_key=SECRET, **options)

        async def order(ctx: Context) -> str:
            size = (await ctx.elicit("Size?", int, key="size")).value
            self.sold.append(size)
            return f"size {size}"

        server.tool(order)
        server.prompt(order)
        server.resource("orders://all")(order)

    async def round(self, kind: str = "tool", state: str | None = None, **more: Any) -> dict[str, Any]:
        """Make one round of a request on a connection of its own."""
        method, params = REQUESTS[kind]
        if state is not None:
            more = {"inputResponses": RESPONSES, "requestState": state, **more}
        async with connect(self.server, capabilities={"elicitation": {}}) as client:
            return await client.request(method, {**params, **more})

    async def state(self, kind: str = "tool") -> str:
        return str((await self.round(kind))["requestState"])


class GatedMemory(Memory):
    """Storage with claims that fail while `is_broken`, and wait until `expected` of them have come."""

    def __init__(self, expected: int = 1, *, is_broken: bool = False) -> None:
        super().__init__()
        self.is_broken = is_broken
        self._gate = asyncio.Event()
        self._missing = expected

    async def claim(self, key: str, ttl: float) -> bool:
        if self.is_broken:
            raise TimeoutError("the store at 10.0.0.1")
        self._missing -= 1
        if self._missing <= 0:
            self._gate.set()
        await self._gate.wait()
        return await super().claim(key, ttl)


@pytest.mark.parametrize("kind", REQUESTS)
async def test_state_is_accepted_once_with_single_use_only(kind: str) -> None:
    shop, plain = Shop(), Shop(is_single_use=False)
    state, plain_state = await shop.state(kind), await plain.state(kind)
    assert (await shop.round(kind, state))["resultType"] == "complete"
    for _ in range(2):
        assert (await plain.round(kind, plain_state))["resultType"] == "complete"
        assert await refusal(shop.round(kind, state)) == (-32602, USED)
    assert (shop.sold, plain.sold) == ([7], [7, 7])
    await shop.round(kind, await shop.state(kind))
    await shop.round(kind, inputResponses=RESPONSES)
    assert shop.sold == [7, 7, 7]


async def test_state_of_a_refused_request_is_not_used_up() -> None:
    shop = Shop()
    state = await shop.state()
    for request, message in [
        (shop.round(state=state, inputResponses=5), "inputResponses"), (shop.round("prompt", state), "another request"),
        (shop.round(state=state + "x"), "this server did not issue it"),
    ]:  # fmt: skip
        assert message in (await refusal(request))[1]
    await shop.round(state=state)
    assert shop.sold == [7]


async def test_state_in_concurrent_requests_is_accepted_once() -> None:
    shop = Shop(storage=GatedMemory(expected=5))
    state = await shop.state()
    outcomes = await asyncio.gather(*(shop.round(state=state) for _ in range(5)), return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, ProtocolError)]
    assert [each.message for each in refused] == [USED] * 4
    assert shop.sold == [7]


async def test_state_is_refused_while_the_store_fails(caplog: pytest.LogCaptureFixture) -> None:
    store = GatedMemory(is_broken=True)
    shop = Shop(storage=store)
    state = await shop.state()
    message = "The server cannot check whether requestState was used before. Try again later"
    assert await refusal(shop.round(state=state)) == (-32603, message)
    assert "the shared store does not answer" in caplog.text
    assert shop.sold == []
    store.is_broken = False
    await shop.round(state=state)
    assert shop.sold == [7]


async def test_state_is_accepted_once_by_servers_with_a_shared_store() -> None:
    store = Memory()
    first, second = Shop(storage=store), Shop(storage=store)
    state = await first.state()
    await second.round(state=state)
    for shop in (first, second):
        assert await refusal(shop.round(state=state)) == (-32602, USED)
    assert (first.sold, second.sold) == ([], [7])


@pytest.mark.usefixtures("clock")  # the time in the state has fewer digits now and then
async def test_request_state_of_exactly_its_limit_is_sent(monkeypatch, caplog) -> None:
    server = login_server()
    async with connect(server, protocol_version="2026-07-28", capabilities={"elicitation": {}}) as client:
        params = {"name": "long", "arguments": {"size": 100}}
        state = (await client.request("tools/call", params))["requestState"]
        monkeypatch.setattr("mcpkit.requests.multi_round_trip.MAX_STATE", len(state))
        assert len((await client.request("tools/call", params))["requestState"]) == len(state)
        monkeypatch.setattr("mcpkit.requests.multi_round_trip.MAX_STATE", len(state) - 1)
        with pytest.raises(ProtocolError, match="Internal error"):
            await client.request("tools/call", params)
    assert "requestState would contain" in caplog.text
