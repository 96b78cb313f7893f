"""A protocol extension: receipts for tool calls, with which a client can get a result again.

`com.example/receipts`, for clients that declare it:

- The notification `notifications/receipts/opened` has the id of the receipt and is sent before the tool runs.
- The result of a tool is in a result of the type `receipt`, with the members `id`, `tool`, `issued` and `outcome`.
- `receipts/get` returns a receipt again, for example after a lost connection; `receipts/void` deletes it.
- The resource `receipts://terms` describes how long receipts are kept. Every client can read it.

Other clients get the results of tools unchanged.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from mcpkit import Extension, ProtocolError
from mcpkit.middleware import CallTool, ToolCall


@dataclass
class Receipt:
    """A result of the type `receipt`, and of the method `receipts/get`."""

    id: str
    tool: str
    issued: datetime
    outcome: dict[str, Any]


def make_receipts(kept: int = 100) -> Extension:
    """Return the extension, with receipts in the memory of this process.

    Args:
        kept: How many receipts are kept; the oldest is deleted first.
    """
    receipts = Extension("com.example/receipts", {"kept": kept})
    issued: dict[str, Receipt] = {}

    @receipts.middleware("tools/call")
    async def issue(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
        if not receipts.is_supported(call.ctx):
            return await call_next(call)
        id_ = secrets.token_urlsafe()  # a client that knows it can read the receipt
        await receipts.notify(call.ctx, "notifications/receipts/opened", {"id": id_})
        result = await call_next(call)
        outcome = {
            name: result[name] for name in ("content", "structuredContent", "isError") if name in result
        }
        receipt = Receipt(id_, call.name, datetime.now(timezone.utc), outcome)
        issued[id_] = receipt
        if len(issued) > kept:
            del issued[next(iter(issued))]
        return receipts.result(call.ctx, "receipt", receipt)

    @receipts.method("receipts/get", name_param="id")
    async def get(id: str) -> Receipt:  # noqa: A002 - the member's name
        if id not in issued:
            raise ProtocolError(-32602, f"There is no receipt {id[:100]!r}")
        return issued[id]

    @receipts.method("receipts/void", name_param="id")
    async def void(id: str) -> None:  # noqa: A002 - the member's name
        issued.pop(id, None)

    @receipts.resource("receipts://terms", mime_type="text/plain")
    async def terms() -> str:
        """Say how long receipts are kept."""
        return f"The last {kept} receipts are kept, until the server ends."

    return receipts
