"""What a provider finds is served as what is registered is."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

from mcpkit import Context, Header, ProtocolError, Provider, Server, Tool
from mcpkit.testing import connect
from tests.helpers.raw_client import serving

pytestmark = pytest.mark.anyio


async def region(region: Annotated[str, Header("Region")]) -> str:
    return region


class Regions(Provider):
    kinds = frozenset({"tools"})

    async def find(self, kind: str, key: str, ctx: Context) -> Any:
        return Tool(region)


def serving_with(provider: Provider) -> Server:
    server = Server("s")
    server.include(provider)
    return server


async def test_headers_are_held_against_the_arguments_of_its_tools(schema_dir: Path) -> None:
    async with serving(serving_with(Regions()), schema_dir) as client:
        for told, status in (("eu", 200), ("us", 400), (None, 400)):
            answer = await client.call("region", {"region": "eu"}, headers={"mcp-param-region": told}).whole()
            assert answer.status == status
            assert status == 200 or answer.error()["code"] == -32020


async def test_long_names_are_not_asked_for() -> None:
    asked: list[str] = []

    class Asked(Regions):
        async def find(self, kind: str, key: str, ctx: Context) -> Any:
            asked.append(key)

    async with connect(serving_with(Asked())) as client:
        for name in ("short", "x" * 100_000):
            with pytest.raises(ProtocolError, match="Unknown tool"):
                await client.call(name)
    assert asked == ["short"]
