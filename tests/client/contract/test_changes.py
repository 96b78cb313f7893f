"""What has changed between two contracts: each kind of change is found, and told for what it does to clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpkit import Server
from mcpkit.client.contract.changes import changes, variables_of
from mcpkit.client.contract.lockfile import LockError, contract_of, read, text_of, write
from mcpkit.client.contract.surface import Surface, surface_of
from mcpkit.testing import connect

SCHEMA = {"type": "object", "properties": {"item": {"type": "string"}}, "required": ["item"]}
TOOL = {"name": "price", "description": "Say a price.", "inputSchema": SCHEMA, "outputSchema": SCHEMA,
        "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False},
        "execution": {"taskSupport": "optional"}}  # fmt: skip
RESOURCE = {"uri": "shop://menu", "name": "menu", "mimeType": "text/plain"}
TEMPLATE = {"uriTemplate": "shop://{shelf}/{item}", "name": "item"}
PROMPT = {"name": "order", "arguments": [{"name": "item", "required": True}, {"name": "milk"}]}


def contract(
    tool: Any = (), resource: Any = (), template: Any = (), prompt: Any = (), **more: Any
) -> dict[str, Any]:
    """Return a contract whose parts differ as is said; None leaves one out."""
    parts = [(TOOL, tool), (RESOURCE, resource), (TEMPLATE, template), (PROMPT, prompt)]
    lists = [[] if differing is None else [{**part, **dict(differing)}] for part, differing in parts]
    return contract_of([Surface("shop", "", "", *lists, **more)])


def annotated(**hints: bool) -> dict[str, Any]:
    return {"annotations": {**TOOL["annotations"], **hints}}


TOO_LONG = (
    "argument item: it has to have at most 5 characters"
    ' (a call with {"item": "text of several words"} is refused now)'
)
UNTOLD = "`if` cannot be compared (whether that breaks clients cannot be told)"
NULL = 'result item: null is not taken (the old schema does not allow {"item": null}, which the new one does)'
OTHER = {**SCHEMA, "properties": {"item": {"type": "string", "maxLength": 5}}}
WIDER = {**SCHEMA, "properties": {"item": {"type": ["string", "null"]}}}


@pytest.mark.parametrize(
    ("changed", "where", "what", "effect"),
    [
        ({"tool": None}, "tool price", "it is gone", "breaking"),
        ({"tool": {"name": "cost"}}, "tool price", "it is gone", "breaking"),
        ({"tool": {"name": "cost"}}, "tool cost", "it is new", "compatible"),
        ({"tool": {"description": "Say it."}}, "tool price", "its description changed", "compatible"),
        ({"tool": {"inputSchema": WIDER}}, "tool price", "the schema of its arguments changed", "compatible"),
        ({"tool": {"inputSchema": OTHER}}, "tool price", TOO_LONG, "breaking"),
        ({"tool": {"inputSchema": {**SCHEMA, "if": {}}}}, "tool price", UNTOLD, "untold"),
        ({"tool": {"outputSchema": OTHER}}, "tool price", "the schema of its results changed", "compatible"),
        ({"tool": {"outputSchema": WIDER}}, "tool price", NULL, "breaking"),
        ({"tool": {"outputSchema": None}}, "tool price", "its output schema is gone, and with it structured results",
         "breaking"),
        ({"tool": annotated(readOnlyHint=False)}, "tool price", "readOnlyHint is false now: it may change things now",
         "breaking"),
        ({"tool": annotated(destructiveHint=True)}, "tool price",
         "destructiveHint is true now: it may destroy things now", "breaking"),
        ({"tool": annotated(idempotentHint=False)}, "tool price",
         "idempotentHint is false now: calling it again may do more now", "breaking"),
        ({"tool": annotated(openWorldHint=True)}, "tool price",
         "openWorldHint is true now: it may reach the outside world now", "breaking"),
        ({"tool": {"execution": {"taskSupport": "required"}}}, "tool price",
         "taskSupport is required now, and was optional", "breaking"),
        ({"tool": {"execution": None}}, "tool price", "taskSupport is forbidden now, and was optional", "breaking"),
        ({"resource": None}, "resource shop://menu", "it is gone", "breaking"),
        ({"resource": {"mimeType": "text/html"}}, "resource shop://menu",
         'its mimeType is "text/html" now', "breaking"),
        ({"resource": {"name": "card"}}, "resource shop://menu", 'its name is "card" now', "compatible"),
        ({"template": None}, "template shop://{shelf}/{item}", "it is gone", "breaking"),
        ({"template": {"uriTemplate": "shop://{item}{?lang}"}}, "template shop://{shelf}/{item}",
         "it is shop://{item}{?lang} now; variable shelf is gone; variable lang is new", "breaking"),
        ({"prompt": None}, "prompt order", "it is gone", "breaking"),
        ({"prompt": {"arguments": [{"name": "item", "required": True}]}}, "prompt order", "argument milk is gone",
         "breaking"),
        ({"prompt": {"arguments": [*PROMPT["arguments"], {"name": "cup", "required": True}]}}, "prompt order",
         "argument cup is new, and required", "breaking"),
        ({"prompt": {"arguments": [*PROMPT["arguments"], {"name": "cup"}]}}, "prompt order", "argument cup is new",
         "compatible"),
        ({"prompt": {"arguments": [{"name": "item", "required": True}, {"name": "milk", "required": True}]}},
         "prompt order", "argument milk is required now", "breaking"),
        ({"prompt": {"arguments": [{"name": "item"}, {"name": "milk"}]}}, "prompt order",
         "argument item is no longer required", "compatible"),
        ({"prompt": {"arguments": [{"name": "item", "required": True}, {"name": "milk", "description": "Any."}]}},
         "prompt order, argument milk", "its description changed", "compatible"),
    ],
)  # fmt: skip
def test_each_change_is_found(changed: Any, where: str, what: str, effect: str) -> None:
    found = changes(contract(), contract(**changed))
    assert (where, what, effect) in [(each.where, each.what, each.effect.value) for each in found]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"tool": {"icons": [], "_meta": {"a": 1}}},
        {"resource": {"size": 5}},
        {"prompt": {"arguments": PROMPT["arguments"][::-1]}},
        {"tool": {"inputSchema": {**SCHEMA, "required": ["item"]}}},
    ],
)
def test_what_clients_do_not_rely_on_is_no_change(changed: Any) -> None:
    assert changes(contract(), contract(**changed)) == []


def test_what_may_be_relied_on_more_is_compatible() -> None:
    found = changes(contract({"annotations": {}}), contract())
    assert {each.effect.value for each in found} == {"compatible"}
    assert len(found) == 4


def test_what_breaks_comes_first() -> None:
    found = changes(contract(), contract({"title": "Price"}, None))
    assert [each.effect.value for each in found] == ["breaking", "compatible"]


def test_several_servers() -> None:
    shop, bank = Surface("shop", tools=[TOOL]), Surface("bank", tools=[TOOL])
    found = changes(contract_of([shop, bank]), contract_of([Surface("shop"), Surface("post")]))
    assert [(each.where, each.what) for each in found] == [
        ("shop: tool price", "it is gone"),
        ("server bank", "it is gone"),
        ("server post", "it is new"),
    ]


def test_the_names_of_variables() -> None:
    assert variables_of("a://{b}/{+c*}{?d,e:3}{&f}") == ["b", "c", "d", "e", "f"]


async def server_contract() -> dict[str, Any]:
    server = Server("shop", version="1")

    @server.tool
    def sell(item: str, count: int = 1) -> dict[str, int]:
        """Sell something."""
        return {item: count}

    @server.tool
    def buy(item: str) -> str:
        """Buy something."""
        return item

    async with connect(server) as client:
        return contract_of([await surface_of(client)])


@pytest.mark.anyio
async def test_a_file_says_the_same_whatever_the_order(tmp_path: Path) -> None:
    found = await server_contract()
    path = tmp_path / "mcp.lock.json"
    write(path, found)
    assert read(path) == found
    assert path.read_text() == text_of(found)
    assert [tool["name"] for tool in found["tools"]] == ["buy", "sell"]
    assert "shop" not in path.read_text()
    assert changes(read(path), found) == []


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "is no JSON"),
        ("[]", "is no contract: write it by `mcpkit lock`"),
        ('{"format": 9}', "has format 9, and this mcpkit knows 1"),
        ('{"format": 1, "tools": [{}]}', "has tools that are none"),
        ('{"format": 1, "prompts": 5}', "has prompts that are none"),
    ],
)
def test_what_is_no_contract_is_said(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "mcp.lock.json"
    path.write_text(text)
    with pytest.raises(LockError, match=told):
        read(path)
