"""Models whose fields have the names that pydantic's own schemas use, whichever way validators are built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from mcpkit import Server
from mcpkit.common import built
from mcpkit.testing import connect

pytestmark = pytest.mark.anyio


class Thing(BaseModel):
    type: str
    cls: int = 1
    extras_schema: str = "none"
    schema_like: dict[str, Any] = {"type": "model", "cls": "Thing"}


@dataclass
class Box:
    type: Thing
    more: dict[str, Any] = field(default_factory=lambda: {"type": "dataclass"})


@pytest.mark.parametrize("can_be_told", [True, False], ids=["of pydantic 2.13", "of older ones"])
async def test_fields_may_be_named_like_what_pydantic_says_of_schemas(
    can_be_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(built, "_CAN_BE_TOLD", can_be_told and built._CAN_BE_TOLD)
    server = Server("things")

    @server.tool
    def echo(box: Box) -> Box:
        return box

    sent = {"type": {"type": "model"}}
    async with connect(server) as client:
        echoed = await client.call("echo", {"box": sent})
        assert echoed.structured == {
            "type": {
                "type": "model",
                "cls": 1,
                "extras_schema": "none",
                "schema_like": {"type": "model", "cls": "Thing"},
            },
            "more": {"type": "dataclass"},
        }, echoed.text
        refused = await client.call("echo", {"box": {"type": {"type": True}}})
        assert refused.text == "box.type.type: expected a string, got true"
