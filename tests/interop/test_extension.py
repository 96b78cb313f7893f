"""The official Python client with an extension of its own meets the example's."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.extension import ClaimContext, ClientExtension, NotificationBinding, ResultClaim
from mcp.types import CallToolResult, NotificationParams, Request, RequestParams, Result

from tests.helpers.serving import Served, serving
from tests.interop.conftest import ROOT

COMMAND = [sys.executable, str(ROOT / "examples" / "extension" / "server.py")]
ID = "com.example/receipts"

pytestmark = pytest.mark.anyio


class Receipt(Result):
    """A result of the type `receipt`."""

    result_type: Literal["receipt"] = "receipt"
    id: str
    tool: str
    outcome: dict[str, Any]


class Found(Result):
    """The result of `receipts/get`."""

    id: str
    tool: str
    outcome: dict[str, Any]


class IdParams(RequestParams):
    id: str


class GetReceipt(Request[IdParams, Literal["receipts/get"]]):
    method: Literal["receipts/get"] = "receipts/get"
    params: IdParams
    name_param = "id"


class Opened(NotificationParams):
    id: str


class Receipts(ClientExtension):
    """Takes receipts, and turns them into the results of tools again."""

    identifier = ID

    def __init__(self) -> None:
        self.taken: list[Receipt] = []
        self.opened: list[str] = []
        self.has_heard = anyio.Event()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="receipt", model=Receipt, resolve=self.take)]

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return [
            NotificationBinding(method="notifications/receipts/opened", params_type=Opened, handler=self.hear)
        ]

    async def take(self, receipt: Receipt, context: ClaimContext) -> CallToolResult:
        self.taken.append(receipt)
        return CallToolResult.model_validate(receipt.outcome)

    async def hear(self, opened: Opened) -> None:
        self.opened.append(opened.id)
        self.has_heard.set()


@pytest.fixture(scope="module")
def shop() -> Iterator[Served]:
    """The example over HTTP."""
    with serving([*COMMAND, "--http", "0"]) as served:
        yield served


@asynccontextmanager
async def connected(transport: str, request: pytest.FixtureRequest, **options: Any) -> AsyncIterator[Client]:
    if transport == "stdio":
        target: Any = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    else:
        target = request.getfixturevalue("shop").origin + "/mcp"
    with anyio.fail_after(60):
        async with Client(target, **options) as client:
            yield client


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_that_knows_the_extension(transport: str, request: pytest.FixtureRequest) -> None:
    receipts = Receipts()
    async with connected(transport, request, extensions=[receipts]) as client:
        assert client.server_capabilities.extensions == {ID: {"kept": 100}}
        result = await client.call_tool("buy", {"fruit": "pear", "count": 2})
        assert result.structured_content == {"fruit": "pear", "count": 2, "total": 80}
        (receipt,) = receipts.taken
        await receipts.has_heard.wait()
        assert receipts.opened == [receipt.id]
        again = await client.session.send_request(GetReceipt(params=IdParams(id=receipt.id)), Found)
        assert (again.tool, again.outcome) == ("buy", receipt.outcome)
        with pytest.raises(MCPError, match="There is no receipt") as raised:
            await client.session.send_request(GetReceipt(params=IdParams(id="other")), Found)
        assert raised.value.error.code == -32602


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_does_not(transport: str, mode: str, request: pytest.FixtureRequest) -> None:
    async with connected(transport, request, mode=mode) as client:
        result = await client.call_tool("buy", {"fruit": "pear", "count": 2})
        assert result.structured_content == {"fruit": "pear", "count": 2, "total": 80}
        with pytest.raises(MCPError) as raised:
            await client.session.send_request(GetReceipt(params=IdParams(id="other")), Found)
        assert raised.value.error.code == (-32021 if mode == "auto" else -32601)


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_of_an_older_revision_that_knows_it(
    transport: str, request: pytest.FixtureRequest
) -> None:
    receipts = Receipts()
    async with connected(transport, request, mode="legacy", extensions=[receipts]) as client:
        result = await client.call_tool("buy", {"fruit": "pear", "count": 2})
        assert result.structured_content == {"fruit": "pear", "count": 2, "total": 80}
    assert receipts.taken == []
