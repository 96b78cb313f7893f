"""mcp-remote, the bridge of hosts that speak stdio alone, logs in by the browser that it opens, and again for more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.helpers.node import node_search_path

BRIDGE = Path(__file__).parents[3] / "node_modules" / "mcp-remote" / "dist" / "proxy.js"
TIME_OUT = 90


async def journey(parameters: StdioServerParameters, mode: str) -> dict[str, Any]:
    with anyio.fail_after(TIME_OUT):
        async with Client(parameters, mode=mode, cache=None) as client:
            seen = {"before": (await client.call_tool("whoami")).structured_content}
            seen["added"] = (await client.call_tool("add_note", {"text": "a"})).content[0].text
            seen["after"] = (await client.call_tool("whoami")).structured_content
    return seen


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_logs_in_and_steps_up(guarded, user, launched, tmp_path, mode):
    environment = {
        "HOME": str(tmp_path),
        "MCP_REMOTE_CONFIG_DIR": str(tmp_path / "kept"),
        "PATH": launched.path(node_search_path()),
        **launched.environment,
    }
    command = StdioServerParameters(command="node", args=[str(BRIDGE), guarded.url], env=environment)
    with user.answering(launched):
        seen = anyio.run(journey, command, mode)
    assert seen == {
        "before": {"subject": "bob", "scopes": ["notes:read"]},
        "added": "added",
        "after": {"subject": "bob", "scopes": ["notes:read", "notes:write"]},
    }
    assert guarded.notes == ["a"]
    assert len(user.logins) == 2
    assert [each.message for each in guarded.exchanges if each.status == 403] == ["tools/call add_note"]
