"""What has `single_use=True` goes on from a `requestState` once, in one process or in several."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from base64 import urlsafe_b64decode
from typing import Any

import pytest

from mcpkit import Context, Memory, ProtocolError, RegistrationError, Server
from mcpkit.middleware import CallNext, Request, Result
from mcpkit.testing import connect
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio

SECRET = "a secret of the tests"
ANSWERS = {"size": {"action": "accept", "content": {"value": 7}}}
REQUESTS = {
    "tool": ("tools/call", {"name": "order", "arguments": {}}),
    "prompt": ("prompts/get", {"name": "order"}),
    "resource": ("resources/read", {"uri": "orders://all"}),
    "resource template": ("resources/read", {"uri": "orders://of/ada"}),
}
USED = "requestState cannot be taken: it has been used already. Make the request again without it"


class Shop:
    """A server of which each kind of component asks for a size, and the runs that have come so far.

    Args:
        single_use: Whether each state is taken once.
        options: Of the server.
    """

    def __init__(self, single_use: bool = True, **options: Any) -> None:
        self.sold: list[int] = []
        self.server = Server("shop", secret=SECRET, **options)
        server = self.server

        async def sell(ctx: Context) -> str:
            size = (await ctx.elicit("Size?", int, key="size")).value
            self.sold.append(size)
            return f"size {size}"

        @server.tool(single_use=single_use)
        async def order(ctx: Context) -> str:
            return await sell(ctx)

        @server.prompt(name="order", single_use=single_use)
        async def order_prompt(ctx: Context) -> str:
            return await sell(ctx)

        @server.resource("orders://all", single_use=single_use)
        async def orders(ctx: Context) -> str:
            return await sell(ctx)

        @server.resource("orders://of/{who}", single_use=single_use)
        async def orders_of(who: str, ctx: Context) -> str:
            return await sell(ctx)

    async def round(self, kind: str = "tool", state: str | None = None, **more: Any) -> dict[str, Any]:
        """Make one round of a request, over a pipe of its own."""
        method, params = REQUESTS[kind]
        if state is not None:
            more = {"inputResponses": ANSWERS, "requestState": state, **more}
        async with connect(self.server, capabilities={"elicitation": {}}) as client:
            return await client.request(method, {**params, **more})

    async def state(self, kind: str = "tool") -> str:
        """Make the first round, and return the state that comes of it."""
        return str((await self.round(kind))["requestState"])


@pytest.mark.parametrize("kind", REQUESTS)
async def test_a_state_is_taken_once(kind: str) -> None:
    shop = Shop()
    state = await shop.state(kind)
    assert (await shop.round(kind, state))["resultType"] == "complete"
    for _ in range(2):
        with pytest.raises(ProtocolError) as error:
            await shop.round(kind, state)
        assert (error.value.code, error.value.message) == (-32602, USED)
    assert shop.sold == [7]


@pytest.mark.parametrize("kind", REQUESTS)
async def test_otherwise_it_is_taken_as_often_as_it_comes(kind: str) -> None:
    shop = Shop(single_use=False)
    state = await shop.state(kind)
    for _ in range(2):
        assert (await shop.round(kind, state))["resultType"] == "complete"
    assert shop.sold == [7, 7]


async def test_the_request_can_be_made_again_without_it() -> None:
    shop = Shop()
    await shop.round(state=await shop.state())
    await shop.round(state=await shop.state())
    await shop.round(inputResponses=ANSWERS)
    assert shop.sold == [7, 7, 7]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_call_of_several_questions_is_none_the_wiser(revision: str) -> None:
    server = Server("shop", secret=SECRET)

    @server.tool(single_use=True)
    async def order(ctx: Context) -> str:
        size = (await ctx.elicit("Size?", int)).value
        return f"{size} {(await ctx.elicit('Pieces?', int)).value}"

    def user(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"action": "accept", "content": {"value": len(params["message"])}}

    async with connect(server, revision=revision, answers=user) as client:
        for _ in range(2):
            assert (await client.call("order")).text == "5 7"


async def test_a_state_that_says_the_same_as_the_one_before_is_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop()
    monkeypatch.setattr("time.time", lambda: 1e9)
    entries = {"size": {"action": "accept", "content": {"value": "large"}}}
    state = await shop.state()
    again = (await shop.round(state=state, inputResponses=entries))["requestState"]
    last = (await shop.round(state=again, inputResponses=entries))["requestState"]
    assert (await shop.round(state=last))["resultType"] == "complete"
    for used in (state, again, last):
        with pytest.raises(ProtocolError, match="used already"):
            await shop.round(state=used)


# What uses a state up, and what does not


async def test_what_is_refused_for_another_reason_is_not_used_up() -> None:
    shop = Shop()
    state = await shop.state()
    with pytest.raises(ProtocolError, match="inputResponses"):
        await shop.round(state=state, inputResponses=5)
    with pytest.raises(ProtocolError, match="another request"):
        await shop.round("prompt", state)
    with pytest.raises(ProtocolError, match="none that this server has given"):
        await shop.round(state=state + "x")
    await shop.round(state=state)
    assert shop.sold == [7]


async def test_a_client_that_lacks_what_is_required_does_not_use_it_up() -> None:
    server = Server("shop", secret=SECRET)

    @server.tool(single_use=True, requires="elicitation")
    async def order(ctx: Context) -> str:
        return str((await ctx.elicit("Size?", int, key="size")).value)

    method, params = REQUESTS["tool"]
    async with (
        connect(server) as unable,
        connect(server, capabilities={"elicitation": {}}) as able,
    ):
        state = (await able.request(method, params))["requestState"]
        more = {"inputResponses": ANSWERS, "requestState": state}
        with pytest.raises(ProtocolError) as error:
            await unable.request(method, {**params, **more})
        assert error.value.code == -32021
        assert (await able.request(method, {**params, **more}))["content"][0]["text"] == "7"


@pytest.mark.parametrize("ending", ["fails", "is cancelled"])
async def test_however_the_handler_ends_the_state_is_used_up(ending: str) -> None:
    server = Server("shop", secret=SECRET)
    runs = 0
    reached = asyncio.Event()

    @server.tool(single_use=True)
    async def order(ctx: Context) -> str:
        await ctx.elicit("Size?", int, key="size")
        nonlocal runs
        runs += 1
        reached.set()
        if ending == "fails":
            raise LookupError
        await asyncio.Event().wait()
        return ""

    method, params = REQUESTS["tool"]
    async with connect(server, capabilities={"elicitation": {}}) as client:
        state = (await client.request(method, params))["requestState"]
        params = {**params, "inputResponses": ANSWERS, "requestState": state}
        call = asyncio.ensure_future(client.request(method, params))
        await reached.wait()
        if ending == "fails":
            assert (await call)["isError"]
        else:
            call.cancel()
        with pytest.raises(ProtocolError, match="used already"):
            await client.request(method, params)
    assert runs == 1


async def test_a_middleware_that_tries_again_goes_on_from_the_same_state() -> None:
    shop = Shop()

    @shop.server.middleware
    async def twice(request: Request, call_next: CallNext) -> Result:
        await call_next(request)
        return await call_next(request)

    state = await shop.state()
    assert (await shop.round(state=state))["content"][0]["text"] == "size 7"
    assert shop.sold == [7, 7]
    with pytest.raises(ProtocolError, match="used already"):
        await shop.round(state=state)


# At the same time


class Slow(Memory):
    """Answers claims when as many have come as were expected."""

    def __init__(self, expected: int) -> None:
        super().__init__()
        self.expected = expected
        self.all_there = asyncio.Event()

    async def claim(self, key: str, ttl: float) -> bool:
        self.expected -= 1
        if self.expected == 0:
            self.all_there.set()
        await self.all_there.wait()
        return await super().claim(key, ttl)


async def test_of_requests_at_the_same_time_one_runs() -> None:
    shop = Shop(shared=Slow(5))
    state = await shop.state()
    outcomes = await asyncio.gather(*(shop.round(state=state) for _ in range(5)), return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, ProtocolError)]
    assert [each.message for each in refused] == [USED] * 4
    assert shop.sold == [7]


# The broker


class Noting(Memory):
    """Notes what is claimed."""

    def __init__(self) -> None:
        super().__init__()
        self.claimed: list[tuple[str, float]] = []

    async def claim(self, key: str, ttl: float) -> bool:
        self.claimed.append((key, ttl))
        return await super().claim(key, ttl)


async def test_the_broker_learns_a_digest_of_the_state_and_how_long_it_is_good(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Noting()
    shop = Shop(shared=broker, question_timeout=100)
    now = Clock()
    monkeypatch.setattr("time.time", now)
    state = await shop.state()
    now.now += 30
    await shop.round(state=state)
    digest = hashlib.sha256(state.encode()).hexdigest()
    assert broker.claimed == [(f"shop/requestState/{digest}", 70 + 300)]


async def test_whoever_brings_no_state_claims_nothing() -> None:
    broker = Noting()
    shop = Shop(shared=broker)
    await shop.state()
    await shop.round(inputResponses=ANSWERS)
    await shop.round(inputResponses=ANSWERS, requestState=None)
    plain = Shop(single_use=False, shared=broker)
    await plain.round(state=await plain.state())
    assert broker.claimed == []


class Elsewhere(Memory):
    """Says where it is, as a store does that processes share."""

    @property
    def home(self) -> str:
        return "db.internal:6379/0"


async def test_where_the_broker_is_does_not_stand_in_the_state() -> None:
    shop = Shop(shared=Elsewhere())
    state = await shop.state()
    assert b"internal" not in urlsafe_b64decode(state)
    await shop.round(state=state)


async def test_a_state_outlives_no_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("time.time", clock)
    shop = Shop(shared=Memory(clock), question_timeout=100)
    state = await shop.state()
    await shop.round(state=state)
    while clock.now < 1100:
        clock.now += 1
        with pytest.raises(ProtocolError, match=r"used already|expired"):
            await shop.round(state=state)


class Broken(Memory):
    """Does not answer until it is mended."""

    is_broken = True

    async def claim(self, key: str, ttl: float) -> bool:
        if self.is_broken:
            raise TimeoutError("the store at 10.0.0.1")
        return await super().claim(key, ttl)


async def test_what_cannot_be_claimed_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broken()
    shop = Shop(shared=broker)
    state = await shop.state()
    with caplog.at_level(logging.ERROR, "mcpkit"), pytest.raises(ProtocolError) as error:
        await shop.round(state=state)
    assert error.value.code == -32603
    assert error.value.message == "It cannot be told whether requestState has been used; try again later"
    assert "the shared store does not answer" in caplog.text
    assert shop.sold == []
    broker.is_broken = False
    await shop.round(state=state)
    assert shop.sold == [7]


# Several processes, each of which is a server with the same secret here


async def test_a_shared_broker_lets_any_process_take_the_state_once() -> None:
    broker = Memory()
    here, there = Shop(shared=broker), Shop(shared=broker)
    state = await here.state()
    await there.round(state=state)
    for shop in (here, there):
        with pytest.raises(ProtocolError, match="used already"):
            await shop.round(state=state)
    assert (here.sold, there.sold) == ([], [7])


async def test_without_one_the_state_is_for_the_process_that_has_given_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here, there = Shop(), Shop()
    state = await here.state()
    with caplog.at_level(logging.WARNING, "mcpkit"), pytest.raises(ProtocolError) as error:
        await there.round(state=state)
    assert error.value.code == -32602
    assert "this process cannot tell whether it has been used. Make the request again" in error.value.message
    assert "Server(shared=...)" in caplog.text
    assert there.sold == []
    await here.round(state=state)
    assert here.sold == [7]


async def test_what_may_be_used_again_goes_on_in_any_process() -> None:
    here, there = Shop(single_use=False), Shop(single_use=False)
    await there.round(state=await here.state())
    assert there.sold == [7]


# The option


@pytest.mark.parametrize("single_use", [1, None, "yes"])
def test_the_option_is_true_or_false(single_use: Any) -> None:
    server = Server("shop")
    with pytest.raises(RegistrationError, match="single_use is True or False"):

        @server.tool(single_use=single_use)
        async def order() -> str:
            return ""


async def test_it_goes_along_when_a_server_is_included() -> None:
    shop = Shop()
    outer = Server("mall", secret=SECRET)
    outer.include(shop.server, prefix="shop")
    method, params = "tools/call", {"name": "shop_order", "arguments": {}}
    async with connect(outer, capabilities={"elicitation": {}}) as client:
        state = (await client.request(method, params))["requestState"]
        params = {**params, "inputResponses": ANSWERS, "requestState": state}
        await client.request(method, params)
        with pytest.raises(ProtocolError, match="used already"):
            await client.request(method, params)
