"""The official Python client uses the extension of an example."""

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

from tests.helpers.serving import ROOT, Served, serving

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
    """Turns receipts into the results of tools."""

    identifier = ID

    def __init__(self) -> None:
        self.receipts: list[Receipt] = []
        self.opened: list[str] = []
        self.is_notified = anyio.Event()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return [ResultClaim(result_type="receipt", model=Receipt, resolve=self.resolve)]

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return [
            NotificationBinding(
                method="notifications/receipts/opened", params_type=Opened, handler=self.handle
            )
        ]

    async def resolve(self, receipt: Receipt, context: ClaimContext) -> CallToolResult:
        self.receipts.append(receipt)
        return CallToolResult.model_validate(receipt.outcome)

    async def handle(self, opened: Opened) -> None:
        self.opened.append(opened.id)
        self.is_notified.set()


@pytest.fixture(scope="module")
def example() -> Iterator[Served]:
    """The example over HTTP."""
    with serving([*COMMAND, "--http", "0"]) as served:
        yield served


@asynccontextmanager
async def connected(transport: str, request: pytest.FixtureRequest, **options: Any) -> AsyncIterator[Client]:
    if transport == "stdio":
        target: Any = StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
    else:
        target = request.getfixturevalue("example").origin + "/mcp"
    with anyio.fail_after(60):
        async with Client(target, **options) as client:
            yield client


BOUGHT = {"fruit": "pear", "count": 2, "total": 80}
ORDER = {"fruit": "pear", "count": 2}


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_extension_client_with_support_receives_receipt(
    transport: str, request: pytest.FixtureRequest
) -> None:
    receipts = Receipts()
    async with connected(transport, request, extensions=[receipts]) as client:
        assert client.server_capabilities.extensions == {ID: {"kept": 100}}
        assert (await client.call_tool("buy", ORDER)).structured_content == BOUGHT
        (receipt,) = receipts.receipts
        await receipts.is_notified.wait()
        assert receipts.opened == [receipt.id]
        again = await client.session.send_request(GetReceipt(params=IdParams(id=receipt.id)), Found)
        assert (again.tool, again.outcome) == ("buy", receipt.outcome)
        with pytest.raises(MCPError, match="There is no receipt") as error:
            await client.session.send_request(GetReceipt(params=IdParams(id="other")), Found)
        assert error.value.error.code == -32602


@pytest.mark.parametrize(
    ("transport", "mode", "is_known", "code"),
    [("stdio", "auto", False, -32021), ("http", "legacy", False, -32601), ("http", "legacy", True, -32601)],
)
async def test_extension_client_without_support_receives_plain_result(
    transport: str, mode: str, is_known: bool, code: int, request: pytest.FixtureRequest
) -> None:
    """Also a client that supports the extension and negotiates an older version."""
    receipts = Receipts()
    extensions = {"extensions": [receipts]} if is_known else {}
    async with connected(transport, request, mode=mode, **extensions) as client:
        assert (await client.call_tool("buy", ORDER)).structured_content == BOUGHT
        with pytest.raises(MCPError) as error:
            await client.session.send_request(GetReceipt(params=IdParams(id="other")), Found)
        assert error.value.error.code == code
    assert receipts.receipts == []
