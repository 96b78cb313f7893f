"""Servers with `single_use_state=True`: each `requestState` is accepted once, in one process or in several."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from mcpkit import Access, Context, ProtocolError, Server, ServerOptions
from mcpkit.storage import Memory
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio

SECRET = "a secret of the tests"
RESPONSES = {"size": {"action": "accept", "content": {"value": 7}}}
REQUESTS = {
    "tool": ("tools/call", {"name": "order", "arguments": {}}),
    "prompt": ("prompts/get", {"name": "order"}),
    "resource": ("resources/read", {"uri": "orders://all"}),
    "resource template": ("resources/read", {"uri": "orders://of/ada"}),
}
USED = "requestState is not accepted: it was used before. Send the request again without it"


class Shop:
    """A server of which each kind of component asks for a size.

    Attributes:
        sold: The sizes of the calls that completed.
    """

    def __init__(self, is_single_use: bool = True, **options: Any) -> None:
        self.sold: list[int] = []
        self.server = server = Server(
            "shop",
            secret_key=SECRET,
            options=ServerOptions(single_use_state=is_single_use),
            **options,
        )

        async def order(ctx: Context) -> str:
            size = (await ctx.elicit("Size?", int, key="size")).value
            self.sold.append(size)
            return f"size {size}"

        async def orders_of(who: str, ctx: Context) -> str:
            return await order(ctx)

        server.tool(order)
        server.prompt(order)
        server.resource("orders://all")(order)
        server.resource("orders://of/{who}")(orders_of)

    async def round(self, kind: str = "tool", state: str | None = None, **more: Any) -> dict[str, Any]:
        """Make one round of a request on a connection of its own."""
        method, params = REQUESTS[kind]
        if state is not None:
            more = {"inputResponses": RESPONSES, "requestState": state, **more}
        async with connect(self.server, capabilities={"elicitation": {}}) as client:
            return await client.request(method, {**params, **more})

    async def state(self, kind: str = "tool") -> str:
        return str((await self.round(kind))["requestState"])


class RecordingMemory(Memory):
    """Records claims, which fail while `is_broken`, and wait until `expected` of them have come."""

    def __init__(self, expected: int = 1, *, is_broken: bool = False) -> None:
        super().__init__()
        self.claims: list[tuple[str, float]] = []
        self.is_broken = is_broken
        self.expected = expected
        self.all_there = asyncio.Event()

    @property
    def store_id(self) -> str:
        return "db.internal:6379/0"

    async def claim(self, key: str, ttl: float) -> bool:
        if self.is_broken:
            raise TimeoutError("the store at 10.0.0.1")
        self.claims.append((key, ttl))
        if len(self.claims) >= self.expected:
            self.all_there.set()
        await self.all_there.wait()
        return await super().claim(key, ttl)


@pytest.mark.parametrize("kind", REQUESTS)
async def test_state_is_accepted_once_with_single_use_only(kind: str) -> None:
    shop, plain = Shop(), Shop(is_single_use=False)
    state, plain_state = await shop.state(kind), await plain.state(kind)
    assert (await shop.round(kind, state))["resultType"] == "complete"
    for _ in range(2):
        assert (await plain.round(kind, plain_state))["resultType"] == "complete"
        with pytest.raises(ProtocolError) as error:
            await shop.round(kind, state)
        assert (error.value.code, error.value.message) == (-32602, USED)
    assert (shop.sold, plain.sold) == ([7], [7, 7])
    await shop.round(kind, await shop.state(kind))
    await shop.round(kind, inputResponses=RESPONSES)
    assert shop.sold == [7, 7, 7]


async def test_state_of_a_refused_request_is_not_used_up() -> None:
    shop = Shop()
    server = shop.server

    @server.tool(access=Access(requires_capabilities="elicitation"))
    async def needs_forms(ctx: Context) -> str:
        return str((await ctx.elicit("Size?", int, key="size")).value)

    state = await shop.state()
    with pytest.raises(ProtocolError, match="inputResponses"):
        await shop.round(state=state, inputResponses=5)
    with pytest.raises(ProtocolError, match="another request"):
        await shop.round("prompt", state)
    with pytest.raises(ProtocolError, match="this server did not issue it"):
        await shop.round(state=state + "x")
    await shop.round(state=state)
    assert shop.sold == [7]
    call = {"name": "needs_forms", "arguments": {}}
    async with connect(server) as unable, connect(server, capabilities={"elicitation": {}}) as able:
        state = (await able.request("tools/call", call))["requestState"]
        call |= {"inputResponses": RESPONSES, "requestState": state}
        with pytest.raises(ProtocolError) as error:
            await unable.request("tools/call", call)
        assert error.value.code == -32021
        assert (await able.request("tools/call", call))["content"][0]["text"] == "7"


async def test_state_in_concurrent_requests_is_accepted_once() -> None:
    shop = Shop(storage=RecordingMemory(expected=5))
    state = await shop.state()
    outcomes = await asyncio.gather(*(shop.round(state=state) for _ in range(5)), return_exceptions=True)
    refused = [each for each in outcomes if isinstance(each, ProtocolError)]
    assert [each.message for each in refused] == [USED] * 4
    assert shop.sold == [7]


async def test_state_is_refused_while_the_store_fails(caplog: pytest.LogCaptureFixture) -> None:
    store = RecordingMemory(is_broken=True)
    shop = Shop(storage=store)
    state = await shop.state()
    with caplog.at_level(logging.ERROR, "mcpkit"), pytest.raises(ProtocolError) as error:
        await shop.round(state=state)
    assert error.value.code == -32603
    assert (
        error.value.message == "The server cannot check whether requestState was used before. Try again later"
    )
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
        with pytest.raises(ProtocolError, match="used before"):
            await shop.round(state=state)
    assert (first.sold, second.sold) == ([], [7])
