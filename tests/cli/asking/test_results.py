"""Commands show what a server sent, also where a result deviates from the schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., tuple[int, str, str]]

SERVER = """
import json, sys
results = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    result = results.get(method)
    if method == "initialize":
        capabilities = {"tools": {}, "resources": {}, "prompts": {}}
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    answer = {"error": {"code": -32601, "message": "no"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""
LISTS = {
    "tools/list": {"tools": [{"name": "bake", "inputSchema": {"type": "object"}}]},
    "prompts/list": {"prompts": [{"name": "plan"}]},
}
IN_LINES = "aVZCT1J3\r\nMEtHZ28="


@pytest.mark.parametrize(
    ("command", "method", "result", "ended"),
    [
        (["call", "bake"], "tools/call", {"structuredContent": {"loaves": 3}}, (0, '{\n  "loaves": 3\n}\n', "")),
        (["call", "bake"], "tools/call", {"content": "bread"}, (0, "bread\n", "")),
        (["call", "bake"], "tools/call", {"structuredContent": {"code": 7}, "isError": True}, (5, "", '{"code": 7}\n')),
        (["read", "note://1"], "resources/read", {"contents": [{"text": "bread", "blob": None}]}, (0, "bread\n", "")),
        (["read", "note://1"], "resources/read", {"contents": [{"text": "bread", "blob": ""}]}, (0, "bread\n", "")),
        (["prompt", "plan"], "prompts/get", {"messages": "bread"}, (0, "user:\nbread\n", "")),
        (["prompt", "plan"], "prompts/get", {"messages": {"role": "user", "content": ["a", "b"]}},
         (0, "user:\na\nuser:\nb\n", "")),
    ],
)  # fmt: skip
def test_a_deviating_result_is_shown(
    mcpkit: Run, tmp_path: Path, command: list[str], method: str, result: Any, ended: tuple[int, str, str]
) -> None:
    target = _configured(tmp_path, {**LISTS, method: result})
    assert tuple(mcpkit(command[0], target, *command[1:])) == ended


def test_a_member_that_cannot_be_read_is_named(mcpkit: Run, tmp_path: Path) -> None:
    target = _configured(tmp_path, {**LISTS, "tools/call": {"content": [{"type": "image", "data": "?"}]}})
    status, out, err = mcpkit("call", target, "bake")
    assert (status, out) == (5, "")
    assert "base64 as content[0].data" in err


def test_base64_in_lines_is_saved_decoded(mcpkit: Run, tmp_path: Path) -> None:
    picture = {"type": "image", "mimeType": "image/png", "data": IN_LINES}
    target = _configured(tmp_path, {**LISTS, "tools/call": {"content": [picture]}})
    assert mcpkit("call", target, "bake", "--out", str(tmp_path / "out"))[0] == 0
    assert (tmp_path / "out" / "bake.png").read_bytes() == b"iVBORw0KGgo"


def _configured(folder: Path, results: dict[str, Any]) -> str:
    entry = {"command": sys.executable, "args": ["-c", SERVER, json.dumps(results)]}
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"deviating": entry}}))
    return str(folder / "mcp.json")
