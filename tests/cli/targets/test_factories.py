"""Servers that functions make: `FILE:FUNCTION`, or `FILE` alone."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcpkit.cli.statuses import CommandError
from mcpkit.cli.targets.served import Found, found
from mcpkit.common.start import mcpkit_command

HEAD = "from __future__ import annotations\nimport mcpkit\nfrom mcpkit import Server\n"
BODY = '''
    server = Server("shop", version="1.0.0")

    @server.tool
    def price() -> str:
        """Say what it costs."""
        return "tea"

    return server
'''
OTHER = """
from mcp.server.fastmcp import FastMCP

{async_}def create():
    mcp = FastMCP("shop")

    @mcp.tool()
    def price() -> str:
        return "tea"

    return mcp
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(source: str) -> str:
        file = tmp_path / f"served_{tmp_path.name}.py"
        file.write_text(source)
        return str(file)

    return write


@pytest.mark.parametrize("is_in_loop", [False, True], ids=["outside-a-loop", "in-a-loop"])
@pytest.mark.parametrize("annotation", ["", " -> Server", " -> mcpkit.Server"])
@pytest.mark.parametrize("keyword", ["def", "async def"])
def test_a_function_is_called_for_its_server(
    write: Callable[[str], str], keyword: str, annotation: str, is_in_loop: bool
) -> None:
    file = write(f"{HEAD}\n{keyword} create(prefix: str = ''){annotation}:{BODY}")

    async def found_in_loop(word: str) -> Found:
        return found(word)

    for word in [f"{file}:create", *([file] if annotation else [])]:
        named = asyncio.run(found_in_loop(word)) if is_in_loop else found(word)
        assert (named.name, named.server.engine.runtime.name) == ("create", "shop")


@pytest.mark.parametrize(
    ("source", "name", "message"),
    [
        (f"def create(name) -> Server:{BODY}", ":create", "create() has parameters without defaults. Name a"),
        ("def create(): return 'tea'", ":create", "create() returns a str, and not a Server"),
        ("async def create(): return None", ":create", "create() returns a NoneType, and not a Server"),
        ("def create(): raise OSError('no key')", ":create", "py:4: OSError: no key"),
        ("async def create(): raise OSError('no key')", ":create", "py:4: OSError: no key"),
        (f"def one() -> Server:{BODY}\ndef two() -> Server:{BODY}", "", "has 2 servers: write "),
        (f"def create():{BODY}", "", "has no Server in it"),
        (f"def create(name) -> Server:{BODY}", "", "has no Server in it"),
    ],
)
def test_a_function_that_makes_no_server_is_an_error(
    write: Callable[[str], str], source: str, name: str, message: str
) -> None:
    with pytest.raises(CommandError) as raised:
        found(write(HEAD + source) + name)
    assert message in str(raised.value)


def call(*words: str) -> str:
    done = subprocess.run(mcpkit_command("call", *words), capture_output=True, text=True, check=False)
    return done.stdout or done.stderr


def test_a_function_is_served(write: Callable[[str], str]) -> None:
    assert call(write(f"{HEAD}\nasync def create() -> Server:{BODY}"), "price") == "tea\n"


@pytest.mark.parametrize("async_", ["", "async "])
def test_a_function_is_served_that_makes_a_server_of_another_sdk(
    write: Callable[[str], str], async_: str
) -> None:
    run = mcpkit_command("run", "--compat", f"{write(OTHER.format(async_=async_))}:create")
    assert call(" ".join(run), "price") == "tea\n"


@pytest.mark.parametrize(
    ("keyword", "more", "name"),
    [
        ("def", "", "create"),
        ("async def", "", "create"),
        ("async def", "later = lambda: create()", "later"),
        ("async def", "class Shop: create = staticmethod(create)", "Shop.create"),
        ("def", "class Shop: server = create()", "Shop.server"),
    ],
)
def test_a_bundle_starts_the_server_that_a_name_leads_to(
    write: Callable[[str], str], keyword: str, more: str, name: str, tmp_path: Path
) -> None:
    file = write(f"{HEAD}\n{keyword} create() -> Server:{BODY}\n\n{more}\n")
    bundle = tmp_path / "shop.mcpb"
    subprocess.run(
        mcpkit_command("bundle", f"{file}:{name}", "-o", str(bundle)), check=True, capture_output=True
    )
    subprocess.run(
        [sys.executable, "-m", "zipfile", "-e", str(bundle), str(tmp_path / "unpacked")], check=True
    )
    assert call(f"{sys.executable} {tmp_path / 'unpacked' / 'mcpb_main.py'}", "price") == "tea\n"
