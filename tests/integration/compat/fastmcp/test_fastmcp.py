"""A server written for fastmcp, on fastmcp 4 and on mcpkit: names, lists, responses and imports are the same."""

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
from mcpkit._utils.exceptions import ProtocolError
from tests.helpers.serving import serving
from tests.integration.compat.mcp1 import LISTS

HERE = Path(__file__).parent
NAMES = HERE / "fastmcp_names.json"
ROOT = HERE.parents[3]
REFERENCE = ROOT / ".servers/fastmcp/bin/python"
LAB = str(HERE / "lab.py")

POINT = {"x": 1, "y": "2.5"}
KINDS = {"when": "2020-01-02T03:04:05Z", "how_long": 60, "what": "12345678-1234-5678-1234-567812345678"}
CALLS: dict[str, list[dict[str, Any]]] = {
    "bare": [{"a": 1}, {"a": "1", "b": 2.0}, {}, {"a": "x", "c": 1}, {"a": None}],
    "called": [{"a": {"b": 1}}],
    "renamed": [{"a": "é"}, {"a": 1}],
    "google": [{"city": "Oslo", "units": "x"}],
    "described": [{"a": 1}, {"a": 1, "b": 11, "c": "b", "e": "z"}],
    "takes_models": [
        {"line": {"start": POINT, "end": POINT}, "shape": {"kind": "dog", "name": "a"}, "more": [POINT]},
        {"line": {"start": {}}, "shape": {}, "color": "green"},
        {"line": '{"start": {"x": 1}}', "shape": {"lives": 1}},
    ],
    "discriminated": [{"pet": {"kind": "cat", "lives": 9}}, {"pet": {"lives": 9}}],
    "takes_tree": [{"tree": {"value": 1, "children": [{"value": 2}]}}],
    "takes_kinds": [{**KINDS, "where": "/tmp"}],
    "asynchronous": [{"a": 1}],
    "fails": [{"how": how} for how in ("tool", "validation", "not found", "otherwise")],
    "injected": [{"a": 1}, {"a": 1, "who": "me"}],
    "in_context": [{}, {"ctx": 1}],
    "remembers": [{"key": "k", "value": "v"}, {"key": "k"}],
    "reads": [{"uri": "data://several"}, {"uri": "data://nowhere"}],
    "inner": [{}],
    "nowhere": [{}],
    "asks": [],
}
"""The arguments of calls; tools that are not here are called once without arguments."""
READ = [
    *(f"data://{name}" for name in ("plain", "said", "bytes", "several", "wrong", "object")),
    *(
        "data://fails/said",
        "data://fails/otherwise",
        "data://cities/New%20York/days/3",
        "data://cities/a/days/b",
    ),
    *("files://a/b.md", "files://a?upper=true&limit=3", "files://a?upper=maybe", "files://../etc"),
    *("data://sub/inner", "data://sub/inner/a%2Fb", "data://inner", "data://nowhere"),
]
PROMPTS: dict[str, list[dict[str, str]]] = {
    "simple": [{"topic": "rain"}, {}],
    "full": [{"a": "1", "names": '["x"]', "b": "2", "c": "null"}, {"a": "x", "names": "[]"}],
    **{name: [{}] for name in ("result", "wrong_prompt", "failing_prompt", "sub_inner_prompt", "nowhere")},
}
FORMS: dict[str, dict[str, Any]] = {
    **{kind: {"value": "b"} for kind in ("str", "choices", "titled", "literal")}, "int": {"value": 3},
    "bool": {"value": True}, "several": {"value": ["a"]}, "several titled": {"value": ["a", "b"]},
    "enum": {"value": "red"}, "form": {"name": "Ada"}, "list": {"value": ["a"]},
}  # fmt: skip
"""The entries of a form by its kind."""


async def exchange(command: list[str], revision: str) -> dict[str, Any]:
    """Return the introduction, the lists, and the responses to all requests with their notifications."""
    said: list[Any] = []
    content: Any = None

    def fill(request: Any) -> Any:
        said.append(["elicited", request.message, request.schema])
        return content

    def receive(method: str, params: object) -> None:
        if method != "notifications/message":
            said.append([method, params])

    async def request(method: str, **params: Any) -> dict[str, Any]:
        said.clear()
        try:
            result = await client.request(
                method, params, progress=lambda *done: said.append(["progress", *done])
            )
        except ProtocolError as error:
            return {"error": [error.code, str(error), error.data], "said": [*said]}
        (result.get("_meta") or {}).pop("io.modelcontextprotocol/serverInfo", None)
        if not result.get("_meta", True):
            del result["_meta"]
        return {"result": result, "said": [*said]}

    options: dict[str, Any] = {"protocol_version": revision, "validate_results": False, "cache": False}
    async with mcpkit.Client(
        command,
        elicitation_handler=fill,
        message_handler=receive,
        log_handler=lambda level, data, logger: said.append(["log", level, data, logger]),
        **options,
    ) as client:
        lists: dict[str, Any] = {
            "introduction": [client.server_capabilities, client.server_info, client.instructions]
        }
        for method, member in LISTS.items():
            lists[member] = (await request(method))["result"][member]
        calls = {tool["name"]: [{}] for tool in lists["tools"]} | CALLS
        responses = {}
        for name, arguments in ((name, each) for name, rows in calls.items() for each in rows):
            responses[f"{name} {arguments}"] = await request("tools/call", name=name, arguments=arguments)
        for uri in READ:
            responses[f"read {uri}"] = await request("resources/read", uri=uri)
        for name, arguments in ((name, each) for name, rows in PROMPTS.items() for each in rows):
            responses[f"{name} {arguments}"] = await request("prompts/get", name=name, arguments=arguments)
        for value in ("O", "X"):
            reference, argument = {"type": "ref/prompt", "name": "simple"}, {"name": "topic", "value": value}
            responses[f"complete {value}"] = await request(
                "completion/complete", ref=reference, argument=argument
            )
        for kind, content in FORMS.items():
            arguments = {"kind": kind, "title": "T" if kind in ("str", "choices") else None}
            responses[f"asks {kind}"] = await request("tools/call", name="asks", arguments=arguments)
        if revision != "2026-07-28":
            await request("logging/setLevel", level="error")
            responses["only errors"] = await request("tools/call", name="notifies", arguments={})
    return {"lists": lists, "responses": responses}


@pytest.fixture(scope="session")
def expected() -> dict[str, Any]:
    """The exchange with fastmcp 4."""
    if not REFERENCE.exists():
        pytest.skip("`make setup` makes the environment with fastmcp")
    return asyncio.run(exchange([str(REFERENCE), LAB], "2025-11-25"))


def test_lists_and_responses_equal_those_of_fastmcp(revision, expected, monkeypatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", str(ROOT)))
    found = asyncio.run(exchange([sys.executable, "-m", "mcpkit.compat", LAB], revision))
    assert all(expected["lists"].values())
    assert found["lists"] == expected["lists"]
    responses, others = (
        {name: plain(response) for name, response in each["responses"].items()} for each in (found, expected)
    )
    if revision == "2026-07-28":
        del others["only errors"]
        [block] = responses.pop("remembers {'key': 'k'}")["result"]["content"]
        assert block["text"] == '[null,"object"]', "there is no session"
        del others["remembers {'key': 'k'}"]
        for each in (responses, others):
            each["notifies {}"] = [note for note in each["notifies {}"]["said"] if note[0] == "progress"]
    else:
        assert responses["only errors"]["said"][0][:2] == ["log", "error"]
    assert responses.keys() == others.keys()
    assert {name: (responses[name], others[name]) for name in others if responses[name] != others[name]} == {}


def plain(response: dict[str, Any]) -> dict[str, Any]:
    """Return a response without the members that the stateless era adds to all results."""
    result = {
        name: each
        for name, each in response.get("result", {}).items()
        if name not in ("resultType", "ttlMs", "cacheScope")
    }
    return {**response, "result": result}


def run_script(*command: str | Path, timeout: float = 60) -> str:
    """Run Python code or a file in a process of its own, and return its standard output."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env={"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_names_of_fastmcp_exist_or_are_rejected_by_name() -> None:
    found: dict[str, Any] = json.loads(run_script(sys.executable, HERE / "names_here.py", NAMES))
    assert found["faults"] == []
    assert found["names"] > 900
    assert found["attributes"] > 300
    assert found["options"] > 300


def test_names_equal_those_of_installed_fastmcp() -> None:
    if not REFERENCE.exists():
        pytest.skip("`make setup` makes the environment with fastmcp")
    found = run_script(REFERENCE, HERE / "fastmcp_names.py", timeout=120)
    assert json.loads(found) == json.loads(NAMES.read_text())


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
    errors = zip(UNSUPPORTED_IMPORTS, run_script(sys.executable, "-c", code).splitlines(), strict=True)
    wrong = [(case, text) for case, text in errors if case[1] not in text or "fastmcp" not in text]
    assert wrong == []


@pytest.mark.parametrize("transport", ["http", "streamable-http", "sse"])
async def test_run_serves_http_at_path_option(transport, tmp_path):
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
