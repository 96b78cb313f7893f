from __future__ import annotations

import json
from pathlib import Path

from tests.compat.fastmcp.told import account

EXPLAINED = {
    **{
        f"{each} call with another token": "it is the token of the call"
        for each in ("strict", "loose", "bare")
    },
    "sse paths routes": "messages are taken below mount_path as well, where clients are told to send them",
    "sse mounted routes": "the same",
    "stateless initialize": "without sessions nobody could be told of changes",
    "stateless subscribe": "the error says why",
}


def test_apps_over_http_answer_alike(tmp_path: Path) -> None:
    """Routes, sessions, mounts, middleware, custom routes, refusals and access tokens."""
    mcp, mcpkit = (account(library, "over_http.py", tmp_path) for library in ("mcp", "mcpkit"))
    assert list(mcpkit) == list(mcp)
    for each in ("strict", "loose", "bare"):
        (content,) = mcpkit[f"{each} call with another token"][1][0]["result"]["content"]
        assert json.loads(content["text"])[-1] == ["ada", ["read"]]
    different = {name for name in mcp if mcpkit[name] != mcp[name]}
    assert {name: (mcp[name], mcpkit[name]) for name in different - EXPLAINED.keys()} == {}
