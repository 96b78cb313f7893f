"""A server written for fastmcp, on fastmcp 4 and on mcpkit: names, lists, answers and imports are the same."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import mcpkit
from mcpkit.compat.standalone import Client, FastMCP
from tests.helpers.serving import serving
from tests.integration.compat.standalone.requests import ASKED, CALLS, LISTS, PROMPTS, READ, named, told

ANSWERS = [
    *(named(*each) for each in CALLS),
    *(named("read", uri) for uri in READ),
    *(named(*each) for each in PROMPTS),
    *(named("complete", value) for value in "OX"),
    *(named("asks", kind) for kind in ASKED),
]


ADDED = ("resultType", "ttlMs", "cacheScope")


ONCE_PER_REQUEST = named("remembers", {"key": "k"})


def plain(answer: Any) -> Any:
    """Return an answer without what the stateless era adds to all."""
    result = answer.get("result", {})
    return {**answer, "result": {name: each for name, each in result.items() if name not in ADDED}}


HERE = Path(__file__).parent


NAMES = HERE / "fastmcp_names.json"


ROOT = HERE.parents[3]


REFERENCE = ROOT / ".servers/fastmcp/bin/python"
LAB = str(Path(__file__).with_name("lab.py"))


@pytest.fixture(scope="session")
def theirs() -> dict[str, Any]:
    """What fastmcp 4 tells."""
    if not REFERENCE.exists():
        pytest.skip("`make setup` makes the environment with fastmcp")
    return asyncio.run(told([str(REFERENCE), LAB], "2025-11-25"))


@pytest.fixture(scope="session", params=["2025-11-25", "2026-07-28"])
def ours(request: pytest.FixtureRequest) -> dict[str, Any]:
    """What mcpkit tells in its place, in either era."""
    os.environ.setdefault("PYTHONPATH", str(ROOT))
    return asyncio.run(told([sys.executable, "-m", "mcpkit.compat", LAB], request.param))


def test_components_are_listed_in_registration_order(theirs, ours):
    for member in LISTS:
        assert ours[f"names of {member}"] == theirs[f"names of {member}"]
        assert theirs[f"names of {member}"]


def deviation(case: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Any:
    """Return what differs between the two answers to a request, or None."""
    actual, expected = ours[case], theirs[case]
    is_stateless = "only errors" not in ours
    if case == ONCE_PER_REQUEST and is_stateless:
        [block] = actual["result"]["content"]
        return None if block["text"] == '[null,"object"]' else (case, block["text"], "there is no session")
    if case == named("tells", {}) and is_stateless:
        actual, expected = (
            [each for each in answer["said"] if each[0] == "progress"] for answer in (actual, expected)
        )
    elif case in ANSWERS:
        actual, expected = plain(actual), plain(expected)
    return None if actual == expected else (case, actual, expected)


def test_lists_and_answers_equal_those_of_fastmcp(theirs, ours):
    for method in LISTS.values():
        assert any(case.startswith(f"{method} ") for case in theirs), method
    cases = [case for case in theirs if case != "only errors"]
    assert set(ANSWERS) < set(cases)
    found = [deviation(case, ours, theirs) for case in cases]
    assert [each for each in found if each is not None] == []
    if "only errors" in ours:
        assert ours["only errors"]["said"][0][:2] == ["log", "error"]
        assert ours["only errors"] == theirs["only errors"]


def test_names_of_fastmcp_exist_or_are_rejected_by_name() -> None:
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


def test_names_equal_those_of_installed_fastmcp() -> None:
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
def test_mount_accepts_argument_orders_of_all_versions(mount: Any) -> None:
    assert names_after(mount) == ["x_add"]


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (lambda main, sub: main.mount(sub, "x", True), "as_proxy"),
        (lambda main, sub: main.mount(sub, "x", {"add": "plus"}), "tool_names"),
        (lambda main, sub: main.mount(sub, "x", None, None), "by name"),
        (lambda main, sub: main.mount("x", sub, tool_separator="/"), "tool_separator"),
        (lambda main, sub: main.mount("x", "y"), "takes a FastMCP and"),
        (lambda main, sub: main.mount(sub, 5), "and a string or None"),
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
def test_unsupported_arguments_are_rejected_with_message(use: Any, text: str) -> None:
    with pytest.raises((TypeError, ValueError, NotImplementedError, AttributeError), match=text):
        names_after(use)


UNSUPPORTED_IMPORTS = [
    ("from fastmcp.server.middleware import Middleware", "@server.middleware"),
    ("from fastmcp.server.auth import BearerAuthProvider", "Server(auth=...)"),
    ("from fastmcp.server.openapi import RouteMap", "HTTP client"),
    ("from fastmcp.server.proxy import ProxyClient", "mcpkit.Client"),
    ("from fastmcp.client.transports import StdioTransport", "mcpkit.Client"),
    ("from fastmcp.contrib.mcp_mixin import MCPMixin", "decorators"),
    ("from fastmcp import nonsense", "constructor, decorators"),
    ("import fastmcp; fastmcp.FastMCPApp()", "constructor, decorators"),
    ("from fastmcp.resources import HttpResource; HttpResource()", "@mcp.resource(uri)"),
    ("from fastmcp.tools import tool; tool(print)", "decorators"),
    ("import fastmcp_tasks", "task=True"),
    ("from fastmcp_tasks.client import ToolTask", "task=True"),
]


def test_unsupported_imports_raise_with_alternative() -> None:
    code = f"""
import mcpkit.compat
mcpkit.compat.install()
for statement in {[statement for statement, _ in UNSUPPORTED_IMPORTS]!r}:
    try:
        exec(statement)
        print("no error")
    except (ImportError, NotImplementedError) as error:
        print(repr(str(error)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    errors = zip(UNSUPPORTED_IMPORTS, done.stdout.splitlines(), strict=True)
    wrong = [(case, text) for case, text in errors if case[1] not in text or "fastmcp" not in text]
    assert wrong == []


@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["http", "streamable-http", "sse"])
async def test_run_serves_http_at_given_path(transport, tmp_path):
    source = f"""
import sys
from fastmcp import Context, FastMCP

mcp = FastMCP("told")

@mcp.tool
def where(ctx: Context) -> str:
    return str(ctx.transport)

mcp.run(transport={transport!r}, host="127.0.0.1", port=0, path="/there", show_banner=False, log_level="info")
"""
    (tmp_path / "told.py").write_text(source)
    with serving([sys.executable, "-m", "mcpkit.compat", str(tmp_path / "told.py")]) as served:
        found = re.search(r"running on (http://\S+)", served.notes)
        assert found is not None
        async with mcpkit.Client(f"{found[1]}/there") as client:
            answer = await client.call_tool("where", {})
    assert answer.text == ("sse" if transport == "sse" else "streamable-http")
