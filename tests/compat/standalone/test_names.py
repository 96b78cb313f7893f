"""All public names of `fastmcp` 4: each is there, or is refused by name with what to do instead."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpkit.compat.standalone import Client, FastMCP

HERE = Path(__file__).parent
NAMES = HERE / "fastmcp_names.json"
ROOT = HERE.parents[2]
REFERENCE = ROOT / ".servers/fastmcp/bin/python"


def test_each_name_of_fastmcp_is_there_or_refused_by_name() -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "names_here.py"), str(NAMES)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT)},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["faults"] == []
    assert found["names"] > 900
    assert found["attributes"] > 300
    assert found["options"] > 300


def test_the_names_are_those_of_the_installed_fastmcp() -> None:
    if not REFERENCE.exists():
        pytest.skip("`make setup` makes the environment with fastmcp")
    done = subprocess.run(
        [str(REFERENCE), str(HERE / "fastmcp_names.py")],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert json.loads(done.stdout) == json.loads(NAMES.read_text())


def names_after(mount: Any) -> list[str]:
    """Return the tools of a server after another has been mounted."""

    async def asked() -> list[str]:
        main, sub = FastMCP("main"), FastMCP("sub")

        @sub.tool
        def add(a: int, b: int) -> int:
            return a + b

        mounted = mount(main, sub)
        if mounted is not None:
            await mounted
        async with Client(main) as client:
            return [tool.name for tool in await client.list_tools()]

    return asyncio.run(asked())


@pytest.mark.parametrize(
    "mount",
    [
        lambda main, sub: main.mount(sub, "x"),
        lambda main, sub: main.mount("x", sub),
        lambda main, sub: main.mount(sub, prefix="x"),
        lambda main, sub: main.mount(prefix="x", server=sub),
        lambda main, sub: main.mount(sub, "x", False),
        lambda main, sub: main.mount("x", sub, tool_separator="_", resource_separator="+"),
        lambda main, sub: main.import_server("x", sub),
        lambda main, sub: main.import_server(sub, "x"),
        lambda main, sub: main.import_server(server=sub, prefix="x"),
    ],
)
def test_servers_are_mounted_in_the_orders_of_all_versions(mount: Any) -> None:
    assert names_after(mount) == ["x_add"]


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda main, sub: main.mount(sub, "x", True), "as_proxy"),
        (lambda main, sub: main.mount(sub, "x", {"add": "plus"}), "tool_names"),
        (lambda main, sub: main.mount(sub, "x", None, None), "by name"),
        (lambda main, sub: main.mount("x", sub, tool_separator="/"), "tool_separator"),
        (lambda main, sub: main.mount("x", "y"), "takes a FastMCP first"),
        (lambda main, sub: main.mount(sub, 5), "namespace as text"),
        (lambda main, sub: main.mount(main), "onto itself"),
        (lambda main, sub: main.tool("name", "description"), "description="),
        (lambda main, sub: main.prompt("name", "description"), "description="),
        (lambda main, sub: main.add_tool(len, "name"), "name="),
        (lambda main, sub: FastMCP("x", "y", None), "lifespan="),
        (lambda main, sub: main.run_sse_async("127.0.0.1", 1, 2, 3, 4, 5), "positional"),
        (lambda main, sub: main.run_http_async("http", "127.0.0.1"), "show_banner"),
        (lambda main, sub: FastMCP.from_openapi({}), "from_openapi.*mcpkit"),
        (lambda main, sub: FastMCP.as_proxy, "as_proxy.*mcpkit"),
        (lambda main, sub: FastMCP.no_such_thing, "type object 'FastMCP' has no attribute 'no_such_thing'"),
    ],
)
def test_other_orders_and_what_is_not_there_are_refused_in_words(use: Any, said: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError, AttributeError), match=said):
        names_after(use)
