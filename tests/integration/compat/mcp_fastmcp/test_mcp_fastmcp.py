"""Source written for mcp 1.x, run by mcp 1.x and by mcpkit: schemas, results, errors and messages are the same."""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.compat.shared_models_and_settings import AccessToken, AuthSettings
from tests.compat.test_mcp_fastmcp import bakery
from tests.helpers.serving import Served, in_thread
from tests.integration.compat import mcp1
from tests.integration.compat.mcp_fastmcp import judged

TABLES = Path(__file__).with_name("tables")


def lines(name: str) -> list[str]:
    """Return the lines of a table."""
    return (TABLES / f"{name}.txt").read_text("utf-8").splitlines()


def sections(name: str) -> dict[str, str]:
    """Return the code under each heading of a table."""
    found = re.split(r"^=== (.*)\n", (TABLES / f"{name}.txt").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


ARGUMENTS: list[Any] = [
    *("text", "", "1", "1.5", "true", "null", "[1, 2]", '{"a": 1}', '["a"]', '"quoted"', " [1] ", "[1", "{"),
    *("nul", "red", "a", "2020-01-01", "2020-01-01T10:00:00Z", "PT1H", "/tmp/x", "12 MB", "NaN", "[1e999]"),
    *("00000000-0000-0000-0000-000000000001", "http://example.org/a b", "\ufeff[1]", '{"name": "Ann"}'),
    *(0, 1, -3, 2.5, 1e400, True, None, 10**30, [], [1, "2"], ["a", "b"], [[1, "x"]], {}, {"a": 1}),
    *({"a": "1", "b": None}, {"name": "Ann", "age": "3"}, {"value": 1, "children": [{"value": "2"}]}),
    *({"name": 1, "age": 200, "address": {"street": "s", "zipCode": "x"}}, {"the x": 1}, {"x": 1, "z": 2}),
    *({"items": [1, "2"], "next": None}, {"kind": "cat"}, {"kind": "bird"}, [{"kind": "dog"}], {"n": 0}),
    *({"width": 1, "label": "l"}, {"x": 1, "y": "2"}, {"type": "text", "text": "t"}),
]
FUNCTION_CALLS: list[dict[str, Any]] = [
    *({}, {"a": 1}, {"a": "1", "b": "2"}, {"a": 1, "b": 2, "c": 3, "d": 4}, {"ctx": "mine", "a": 5}),
    {"self": 1, "a": 1},
]
LATER = "from __future__ import annotations\n"
TOLD = """
def told(x: {declared}):
    return f"{{sorted(x, key=str) if isinstance(x, (set, frozenset)) else x!r}} {{type(x).__name__}}"
functions = [told]
"""
RETURNING = """
MADE = [{made}]
def tool(which: int){arrow}:
    return MADE[which]()
functions = [tool]
"""
AFTERWARDS = """
import json
async def say(tool, **arguments):
    try:
        return str(await tool.run(arguments, convert_result=True))
    except ToolError as error:
        return [str(error), type(error.__cause__).__name__]
def f(a: int, b: str = 'x') -> str:
    'Doc.'
    return f'{{a}} {{b}}'
functions = [f]
async def more(tool):
{body}
"""


def case(source: str, calls: list[dict[str, Any]], later: str = "", **options: object) -> dict[str, Any]:
    """Return a case of `judged`."""
    return {"source": f"{later}{source}", "calls": calls, "options": options}


def told(declared: str, calls: list[dict[str, Any]], later: str = "") -> dict[str, Any]:
    """Return the case of a function that returns the text of its argument."""
    return case(TOLD.format(declared=declared), calls, later)


def returning(annotation: str, made: list[str], **options: object) -> dict[str, Any]:
    """Return the case of a function that returns one of some values."""
    arrow, values = f" -> {annotation}" if annotation else "", ", ".join(f"lambda: ({each})" for each in made)
    calls = [{"which": index} for index in range(len(made))]
    return case(RETURNING.format(made=values, arrow=arrow), calls, **options)


def results() -> dict[str, list[str]]:
    """Return the values that are returned under each annotation."""
    parts = re.split(r"^(\S.*)\n", (TABLES / "results.txt").read_text("utf-8"), flags=re.MULTILINE)
    return {
        name: [line.strip() for line in text.splitlines()]
        for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


GIVEN = [*({"x": value} for value in ARGUMENTS), {}, {"unknown": 1}, {"other": "o"}]
DEFAULTED = [{}, {"x": "1"}, {"x": None}, {"named": "n", "v": "v", "b": "b"}, {"unknown": 1}]
EVALUATED_LATER = ("no annotations", "keyword only", "optional context", "mutual models", "many", "context")

OPTIONS = """
def f(a: int = 1, b: str = 'x') -> str:
    'Doc.'
    return f'{{a}} {{b}}'
functions = [f]
{code}
"""
ANNOTATIONS, RESULTS, FUNCTIONS = lines("annotations"), results(), sections("functions")
FUNCTION = "{code}\nfunctions = [f]\n"

CASES = {
    **{f"x: {each}": told(each, GIVEN) for each in ANNOTATIONS},
    **{f"x: {each}, evaluated later": told(each, GIVEN[::4], LATER) for each in ANNOTATIONS[::5]},
    **{f"x: {each}": told(each, DEFAULTED) for each in lines("defaults")},
    **{f"-> {each}": returning(each, made) for each, made in RESULTS.items()},
    **{
        f"-> {each}, structured": returning(each, made[:1], structured_output=True)
        for each, made in RESULTS.items()
    },
    **{
        f"-> {each}, unstructured": returning(each, RESULTS[each][:1], structured_output=False)
        for each in list(RESULTS)[::3]
    },
    "no annotation": returning("", lines("values")),
    "no annotation, structured": returning("", ["1"], structured_output=True),
    **{name: case(FUNCTION.format(code=code), FUNCTION_CALLS) for name, code in FUNCTIONS.items()},
    **{
        f"{name}, evaluated later": case(FUNCTION.format(code=FUNCTIONS[name]), FUNCTION_CALLS, LATER)
        for name in EVALUATED_LATER
    },
    **{
        f"options: {name}": case(OPTIONS.format(code=code), FUNCTION_CALLS)
        for name, code in sections("options").items()
    },
    **{
        f"afterwards: {name}": case(AFTERWARDS.format(body=re.sub("(?m)^", "    ", code)), [])
        for name, code in sections("afterwards").items()
    },
}


def test_tool_of_each_function_equals_that_of_mcp_1() -> None:
    cases = list(CASES.values())
    command = mcp1.command_of("mcp", Path(judged.__file__))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if json.loads(process.stdout.readline()) != json.loads(json.dumps(judged.versions())):
            pytest.skip("mcp 1.x is there with another Python, or another pydantic")
        process.stdin.write(json.dumps(cases) + "\n")
        process.stdin.close()
        actual = judged.judged(judged.OURS, cases)
        expected = json.loads(process.stdout.readline())
    outcomes = zip(CASES, actual, expected, strict=True)
    assert {name: (ours, theirs) for name, ours, theirs in outcomes if ours != theirs} == {}


CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}


URIS = [
    *(f"config://{name}" for name in ("app", "text", "bytes", "nothing", "broken", "unknown")),
    *(
        "greeting://Ada", "greeting://Ada%20Lovelace", "greeting://a/b", "sum://1/2", "sum://one/2",
        "sum://1/2/3",
    ),
    *("broken://door", *(f"plain://{name}" for name in ("text", "unnamed", "bytes", "lambda"))),
    *("file:///notes", "file:///data", "file:///none", "no uri", ""),
]  # fmt: skip


PROMPTS: dict[str, list[mcp1.Message]] = {
    "review": [
        *({"code": "x = 1"}, {"code": "x = 1", "language": "perl"}, {}, {"language": "perl"}),
        *({"code": "x", "more": "y"}, {"code": None}),
    ],
    "debug": [{"error": "E"}, {"error": "E", "line": "12"}, {"error": "E", "line": "twelve"}],
    "mixed": [{}],
    "odd": [{"what": what} for what in ("number", "none", "list", "tuple", "dict", "set", "missing")],
    "counts": [{"n": "1", "of": "a"}, {"n": "-1", "of": "[]"}, {"n": 1}],
    "about": [{"topic": "cats"}],
    "unknown": [{}],
}


CALLS: dict[str, list[mcp1.Message]] = {
    "speak": [{"text": "hello", "times": 2}, {"text": "hello", "times": "2", "unknown": 1}, {}],
    "ids": [{}, {"ctx": "mine"}],
    "reread": [{"uri": uri} for uri in ("config://app", "sum://3/4", "nowhere://")],
    **{name: [{}] for name in ("book", "nested", "visit", "pictures", "unknown")},
    "named tool": [{}, {"mode": "c", "n": 0}],
    "fails": [{"how": "tool"}, {"how": "key"}],
}


def completion(kind: str, target: str, argument: str, value: str, **more: Any) -> mcp1.Message:
    ref = {"type": f"ref/{kind}", "name" if kind == "prompt" else "uri": target}
    return {"ref": ref, "argument": {"name": argument, "value": value}, **more}


META = {"progressToken": "t", "client_id": "me", "x": 1}


REQUESTS: list[tuple[str, mcp1.Message | None]] = [
    *((method, None) for method in mcp1.LISTS),
    *(("resources/read", {"uri": uri}) for uri in URIS),
    *(
        ("prompts/get", {"name": name, "arguments": arguments} if arguments else {"name": name})
        for name, rows in PROMPTS.items()
        for arguments in rows
    ),
    *(
        ("tools/call", {"name": name, "arguments": arguments, "_meta": META})
        for name, rows in CALLS.items()
        for arguments in rows
    ),
    ("tools/call", {"name": "speak", "arguments": {"text": "hello"}}),
    ("completion/complete", completion("prompt", "review", "language", "p")),
    ("completion/complete", completion("prompt", "review", "code", "p")),
    (
        "completion/complete",
        completion("resource", "sum://{a}/{b}", "b", "", context={"arguments": {"a": "1"}}),
    ),
    ("completion/complete", completion("resource", "sum://{a}/{b}", "a", "")),
    ("ping", None),
    ("tools/list", {"cursor": "x"}),
    ("logging/setLevel", {"level": "error"}),
    ("resources/subscribe", {"uri": "config://app"}),
    ("resources/read", {}),
    ("prompts/get", {}),
    ("prompts/get", {"name": 7}),
    ("tools/call", {"name": "speak", "arguments": []}),
    ("completion/complete", {}),
]


def answer_forms(message: mcp1.Message) -> mcp1.Message:
    if message["params"].get("mode") == "url":
        return {"action": "decline"}
    return {"action": "accept", "content": {"day": "Monday", "extras": ["quiet"]}}


def test_responses_over_stdio_equal_those_of_mcp_1(tmp_path: Path) -> None:
    (files := tmp_path / "files").mkdir()
    (files / "notes.txt").write_text("some notes")
    (files / "data.bin").write_bytes(b"\x00\x01")
    with ExitStack() as stack:
        servers = []
        for library in ("mcp", "mcpkit"):
            command = mcp1.command_of(library, mcp1.SOURCES / "everything.py", str(files))
            connection = mcp1.Conversation(command, {"elicitation/create": answer_forms})
            servers.append(stack.enter_context(connection))
        mcp, mcpkit = servers
        assert mcpkit.initialize(CAPABILITIES) == mcp.initialize(CAPABILITIES)
        deviations = []
        for method, params in REQUESTS:
            expected, actual = mcp.request(method, params), mcpkit.request(method, params)
            if actual != expected:
                deviations.append((method, params, actual, expected))
            if method in mcp1.LISTS and params is None:
                assert "result" in expected[-1]
            if method == "tools/call" and params and "_meta" not in params and params["arguments"]:
                assert {each.get("method") for each in expected} == {"notifications/message", None}
        assert deviations == []
        assert mcp.request("no/such/method")[-1]["error"]["code"] == -32602
        assert mcpkit.request("no/such/method")[-1]["error"]["code"] == -32601, "as the protocol requires"
        assert [each.close() for each in servers] == [0, 0]


EXPLAINED = {"FastMCP(dependencies of another type)": ["invalid", "TypeError"]}
"""Errors of another type, with more details."""


def test_direct_method_results_equal_those_of_mcp_1(tmp_path: Path) -> None:
    mcp, mcpkit = (mcp1.run_source(library, "direct.py", tmp_path) for library in ("mcp", "mcpkit"))
    assert list(mcpkit) == list(mcp)
    different = {name for name in mcp if mcpkit[name] != mcp[name]}
    assert {name: (mcp[name], mcpkit[name]) for name in different - EXPLAINED.keys()} == {}
    assert {name: [mcpkit[name][0], mcp[name][0]] for name in different} == EXPLAINED


EXPLAINED_OVER_HTTP = {
    **{
        f"{each} call with another token": "it is the token of the call"
        for each in ("strict", "loose", "bare")
    },
    "sse paths routes": "messages are accepted below mount_path as well, the path that clients get",
    "sse mounted routes": "the same",
    "stateless initialize": "without sessions no client could be notified of changes",
    "stateless subscribe": "the error has the reason",
}


def test_http_app_responses_equal_those_of_mcp_1(tmp_path: Path) -> None:
    """Routes, sessions, mounts, middleware, custom routes, refusals and access tokens."""
    mcp, mcpkit = (mcp1.run_source(library, "over_http.py", tmp_path) for library in ("mcp", "mcpkit"))
    assert list(mcpkit) == list(mcp)
    for each in ("strict", "loose", "bare"):
        (content,) = mcpkit[f"{each} call with another token"][1][0]["result"]["content"]
        assert json.loads(content["text"])[-1] == ["ada", ["read"]]
    different = {name for name in mcp if mcpkit[name] != mcp[name]}
    assert {name: (mcp[name], mcpkit[name]) for name in different - EXPLAINED_OVER_HTTP.keys()} == {}


@pytest.mark.parametrize("version", ["1", "2"])
def test_installed_mcp_classes_are_accepted(version: str) -> None:
    """Tools may use the classes of an installed `mcp`, of 1.x or 2.x."""
    folders = [str(Path(__file__).parents[4])]
    if version == "1":
        found = list(mcp1.REFERENCE.parents[1].glob("lib/python*/site-packages"))
        if not found or found[0].parent.name != "python{}.{}".format(*sys.version_info):
            pytest.skip("mcp 1.x is not there for this Python")
        folders += map(str, found)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("installed.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    for name in ("with_context", "optional_context"):
        context, dumped, structured = outcome[name]
        assert (context, structured) == ("ctx", {"result": "1 C"})
        assert dumped == [{"src": "a://b"}, {"readOnlyHint": True}, {"type": "text", "text": "1 C"}]


REVISIONS = ("2025-11-25", "2026-07-28")


async def use(target: Any, path: str | None, **options: Any) -> None:
    """Use components of each kind once."""
    progress: list[Any] = []
    async with Client(target, elicitation_handler=lambda form: {"day": "Monday"}, **options) as client:
        assert len(await client.list_tools()) == 9
        await client.call_tool("speak", {"text": "hello"}, progress=lambda *step: progress.append(step))
        assert progress[0] == (1, 1, "1 of 1")
        assert (await client.call_tool("ids")).structured_content["path"] == path
        assert (await client.call_tool("book")).text.startswith("accept Booking(day='Monday'")
        (read,) = await client.read_resource("greeting://Ada")
        assert read["text"] == "Hello, Ada!"
        (message,) = await client.get_prompt("about", {"topic": "cats"})
        assert message["content"]["text"] == "About cats"


async def test_run_serves_both_eras_over_each_transport(tmp_path: Path) -> None:
    command = mcp1.command_of("mcpkit", mcp1.SOURCES / "everything.py")
    for revision in REVISIONS:
        await use([*command, str(tmp_path)], None, protocol_version=revision)
    with Served([*command, "streamable-http", str(tmp_path)]) as served:
        for revision in REVISIONS:
            await use(f"{served.origin}/mcp", "/mcp", protocol_version=revision)
        served.stop()
    with Served([*command, "sse", str(tmp_path)]) as served:
        await use(f"{served.origin}/sse", "/messages/")
        served.stop()


class Bakers:
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id=token, scopes=[]) if token in {"ada", "bob"} else None


async def test_sse_call_has_token_of_its_own_request() -> None:
    auth = AuthSettings(issuer_url="https://issuer.example.com", resource_server_url=None)  # type: ignore[arg-type]
    mcp = bakery(auth=auth, token_verifier=Bakers())
    with in_thread(mcp.sse_app()) as url:
        async with Client(f"{url}/sse", headers={"Authorization": "Bearer ada"}) as client:
            assert (await client.call_tool("bake", {"kind": "rye"})).text == "rye for ada"
        for token in ("eve", "ADA"):
            with pytest.raises(Exception, match="401"):
                async with Client(f"{url}/sse", headers={"Authorization": f"Bearer {token}"}):
                    pass
