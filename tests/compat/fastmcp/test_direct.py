from __future__ import annotations

from typing import Any

import pytest

from tests.compat.fastmcp.told import account

Account = dict[str, Any]

EXPLAINED = {"FastMCP(dependencies of another type)": ["invalid", "TypeError"]}
"""What is refused in another way, as it says more of what is wrong."""


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Account]:
    folder = tmp_path_factory.mktemp("direct")
    return {library: account(library, "direct.py", folder) for library in ("mcp", "mcpkit")}


def test_all_that_is_asked_without_a_client_is_answered_alike(accounts: dict[str, Account]) -> None:
    mcp, mcpkit = accounts["mcp"], accounts["mcpkit"]
    assert list(mcpkit) == list(mcp)
    different = {name for name in mcp if mcpkit[name] != mcp[name]}
    assert {name: (mcp[name], mcpkit[name]) for name in different - EXPLAINED.keys()} == {}
    assert {name: [mcpkit[name][0], mcp[name][0]] for name in different} == EXPLAINED
