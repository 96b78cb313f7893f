"""`mcpkit migrate` is `python -m mcpkit.compat.migrate`: its options, its help, its statuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpkit.cli.app import run

BEFORE = """from mcp.server.fastmcp import FastMCP

mcp = FastMCP("shop")


@mcp.tool()
def price(item: str) -> float:
    return 3.5
"""


def test_migrate_shows_checks_and_writes(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "server.py"
    file.write_text(BEFORE)
    assert run(["migrate", str(file)]) == 0
    assert '+mcp = Server("shop")' in capfd.readouterr().out
    assert run(["migrate", "--check", str(file)]) == 1
    assert file.read_text() == BEFORE
    assert run(["migrate", str(file), "--write"]) == 0
    assert "from mcpkit import Server" in file.read_text()
    assert run(["migrate", "--check", str(file)]) == 0


@pytest.mark.parametrize(
    ("words", "status"), [(["--help"], 0), ([], 2), (["--nothing", "x.py"], 2), (["absent.py"], 2)]
)
def test_its_own_parser_says_what_there_is(
    words: list[str], status: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run(["migrate", *words]) == status
    said = capfd.readouterr()
    assert "mcpkit migrate" in said.out + said.err or "absent.py" in said.err
