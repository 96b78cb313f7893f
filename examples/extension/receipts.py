"""An extension of one's own: tool calls that leave a receipt, with which the result can be had again.

`com.example/receipts`, for clients that have declared it:

- The notification `notifications/receipts/opened` tells the receipt's id before the tool runs.
- A tool's result comes in a result of the type `receipt`, with the members `id`, `tool`, `issued` and `outcome`.
- `receipts/get` returns a receipt again, for example after the connection has broken; `receipts/void` forgets it.
- The resource `receipts://terms` says how long receipts are kept, for anybody.

Every other client gets the results of tools as they are.
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
    """What is sent as a result of the type `receipt`, and by `receipts/get`."""

    id: str
    tool: str
    issued: datetime
    outcome: dict[str, Any]


def make_receipts(kept: int = 100) -> Extension:
    """Return the extension, which keeps its receipts in the memory of this process.

    Args:
        kept: How many receipts are kept; then the oldest one is forgotten.
    """
    receipts = Extension("com.example/receipts", {"kept": kept})
    issued: dict[str, Receipt] = {}

    @receipts.middleware("tools/call")
    async def issue(call: ToolCall, call_next: CallTool) -> Mapping[str, Any]:
        if not receipts.is_supported(call.ctx):
            return await call_next(call)
        id_ = secrets.token_urlsafe()  # whoever knows it may see the receipt
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

    @receipts.method("receipts/get", named_by="id")
    async def get(id: str) -> Receipt:  # noqa: A002 - the member's name
        if id not in issued:
            raise ProtocolError(-32602, f"There is no receipt {id[:100]!r}")
        return issued[id]

    @receipts.method("receipts/void", named_by="id")
    async def void(id: str) -> None:  # noqa: A002 - the member's name
        issued.pop(id, None)

    @receipts.resource("receipts://terms", mime_type="text/plain")
    async def terms() -> str:
        """Say how long receipts are kept."""
        return f"The last {kept} receipts are kept, until the server ends."

    return receipts
