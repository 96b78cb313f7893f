"""Source written for mcp 1.x, run by mcp 1.x and by mcpkit: schemas, results, errors and messages are the same."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.compat.auth import AccessToken, AuthSettings
from tests.compat.test_fastmcp import bakery
from tests.helpers.serving import Served, in_thread
from tests.integration.compat.fastmcp import judged
from tests.integration.compat.mcp1 import REFERENCE, Conversation, Message, python_of, run_source, source_for

pytestmark = pytest.mark.anyio

TABLES = Path(__file__).with_name("tables")


def lines(name: str) -> list[str]:
    """Return the lines of a table."""
    return (TABLES / f"{name}.txt").read_text("utf-8").splitlines()


def sections(name: str) -> dict[str, str]:
    """Return the code under each heading of a table."""
    found = re.split(r"^=== (.*)\n", (TABLES / f"{name}.txt").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


ARGUMENTS = [
    *(
        "text",
        "",
        "1",
        "1.5",
        "true",
        "null",
        "[1, 2]",
        '{"a": 1}',
        '["a"]',
        '"quoted"',
        " [1] ",
        "[1",
        "{",
        "nul",
    ),
    *(
        "red",
        "a",
        "2020-01-01",
        "2020-01-01T10:00:00Z",
        "PT1H",
        "00000000-0000-0000-0000-000000000001",
        "/tmp/x",
    ),
    *(0, 1, -3, 2.5, 1e400, True, None, 10**30, [], [1, "2"], ["a", "b"], [[1, "x"]], {}, {"a": 1}),
    *(
        {"a": "1", "b": None},
        {"name": "Ann", "age": "3"},
        '{"name": "Ann"}',
        {"value": 1, "children": [{"value": "2"}]},
    ),
    *({"name": 1, "age": 200, "address": {"street": "s", "zipCode": "x"}}, {"the x": 1}, {"x": 1, "z": 2}),
    *({"items": [1, "2"], "next": None}, {"kind": "cat"}, {"kind": "bird"}, [{"kind": "dog"}], {"n": 0}),
    *(
        {"width": 1, "label": "l"},
        {"x": 1, "y": "2"},
        {"type": "text", "text": "t"},
        "NaN",
        "\ufeff[1]",
        "[1e999]",
    ),
    *("http://example.org/a b", "12 MB"),
]
FUNCTION_CALLS = [
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
    """Return what `judged` takes."""
    return {"source": f"{later}{source}", "calls": calls, "options": options}


def told(declared: str, calls: list[dict[str, Any]], later: str = "") -> dict[str, Any]:
    """Return the case of a function that tells what it was given."""
    return case(TOLD.format(declared=declared), calls, later)


def returning(annotation: str, made: list[str], **options: object) -> dict[str, Any]:
    """Return the case of a function that returns one of some values."""
    source = RETURNING.format(
        made=", ".join(f"lambda: ({each})" for each in made), arrow=f" -> {annotation}" if annotation else ""
    )
    return case(source, [{"which": index} for index in range(len(made))], **options)


def results() -> dict[str, list[str]]:
    """Return the values that are returned under each annotation."""
    found: dict[str, list[str]] = {}
    for line in lines("results"):
        if line.startswith("    "):
            found[list(found)[-1]].append(line.strip())
        else:
            found[line] = []
    return found


GIVEN = [*({"x": value} for value in ARGUMENTS), {}, {"unknown": 1}, {"other": "o"}]
DEFAULTED = [{}, {"x": "1"}, {"x": None}, {"named": "n", "v": "v", "b": "b"}, {"unknown": 1}]
EVALUATED_LATER = ("no annotations", "keyword only", "optional context", "mutual models", "many", "context")

CASES = {
    **{f"x: {each}": told(each, GIVEN) for each in lines("annotations")},
    **{f"x: {each}, evaluated later": told(each, GIVEN[::4], LATER) for each in lines("annotations")[::5]},
    **{f"x: {each}": told(each, DEFAULTED) for each in lines("defaults")},
    **{f"-> {each}": returning(each, made) for each, made in results().items()},
    **{
        f"-> {each}, structured": returning(each, made[:1], structured_output=True)
        for each, made in results().items()
    },
    **{
        f"-> {each}, unstructured": returning(each, made[:1], structured_output=False)
        for each, made in list(results().items())[::3]
    },
    "no annotation": returning("", lines("values")),
    "no annotation, structured": returning("", ["1"], structured_output=True),
    **{
        name: case(f"{code}\nfunctions = [f]\n", FUNCTION_CALLS)
        for name, code in sections("functions").items()
    },
    **{
        f"{name}, evaluated later": case(
            f"{sections('functions')[name]}\nfunctions = [f]\n", FUNCTION_CALLS, LATER
        )
        for name in EVALUATED_LATER
    },
    **{
        f"options: {name}": case(
            f"def f(a: int = 1, b: str = 'x') -> str:\n    'Doc.'\n    return f'{{a}} {{b}}'\nfunctions = [f]\n{code}",
            FUNCTION_CALLS,
        )
        for name, code in sections("options").items()
    },
    **{
        f"afterwards: {name}": case(AFTERWARDS.format(body=re.sub("(?m)^", "    ", code)), [])
        for name, code in sections("afterwards").items()
    },
}


Cases = list[dict[str, Any]]


@pytest.fixture(scope="session")
def theirs() -> Iterator[Callable[[Cases], Callable[[], list[Any]]]]:
    """What becomes of cases in mcp 1.x: to be asked for, while it is busy with them."""
    if not REFERENCE.exists():
        pytest.skip("mcp 1.x is not there: `make setup` installs it")
    command = [str(REFERENCE), judged.__file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        if json.loads(process.stdout.readline()) != json.loads(json.dumps(judged.versions())):
            pytest.skip("mcp 1.x is there with another Python, or another pydantic")

        def ask(cases: Cases) -> Callable[[], list[Any]]:
            process.stdin.write(json.dumps(cases) + "\n")
            process.stdin.flush()
            return lambda: json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


@pytest.fixture(scope="session")
def ours() -> Callable[[Cases], list[Any]]:
    """What becomes of cases here."""
    return lambda cases: judged.judged(judged.OURS, cases)


def test_tool_of_each_function_equals_that_of_mcp_1(theirs, ours):
    expected = theirs(list(CASES.values()))
    actual = ours(list(CASES.values()))
    outcomes = zip(CASES, actual, expected(), strict=True)
    assert {name: (ours, theirs) for name, ours, theirs in outcomes if ours != theirs} == {}


CAPABILITIES = {"elicitation": {"form": {}, "url": {}}}


LISTS = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")


URIS = (
    "config://app",
    "config://text",
    "config://bytes",
    "config://nothing",
    "config://broken",
    "config://unknown",
    "greeting://Ada",
    "greeting://Ada%20Lovelace",
    "greeting://a/b",
    "sum://1/2",
    "sum://one/2",
    "sum://1/2/3",
    "broken://door",
    "plain://text",
    "plain://unnamed",
    "plain://bytes",
    "plain://lambda",
    "file:///notes",
    "file:///data",
    "file:///none",
    "no uri",
    "",
)


PROMPTS: tuple[tuple[str, Message | None], ...] = (
    ("review", {"code": "x = 1"}),
    ("review", {"code": "x = 1", "language": "perl"}),
    ("review", {}),
    ("review", None),
    ("review", {"language": "perl"}),
    ("review", {"code": "x", "more": "y"}),
    ("debug", {"error": "E"}),
    ("debug", {"error": "E", "line": "12"}),
    ("debug", {"error": "E", "line": "twelve"}),
    ("mixed", {}),
    ("odd", {"what": "number"}),
    ("odd", {"what": "none"}),
    ("odd", {"what": "list"}),
    ("odd", {"what": "tuple"}),
    ("odd", {"what": "dict"}),
    ("odd", {"what": "set"}),
    ("odd", {"what": "missing"}),
    ("counts", {"n": "1", "of": "a"}),
    ("counts", {"n": "-1", "of": "[]"}),
    ("counts", {"n": 1}),
    ("about", {"topic": "cats"}),
    ("unknown", {}),
    ("review", {"code": None}),
)


CALLS: tuple[tuple[str, Message], ...] = (
    ("speak", {"text": "hello", "times": 2}),
    ("speak", {"text": "hello", "times": "2", "unknown": 1}),
    ("speak", {}),
    ("ids", {}),
    ("ids", {"ctx": "mine"}),
    ("reread", {"uri": "config://app"}),
    ("reread", {"uri": "sum://3/4"}),
    ("reread", {"uri": "nowhere://"}),
    ("book", {}),
    ("nested", {}),
    ("visit", {}),
    ("named tool", {}),
    ("named tool", {"mode": "c", "n": 0}),
    ("fails", {"how": "tool"}),
    ("fails", {"how": "key"}),
    ("pictures", {}),
    ("unknown", {}),
)


COMPLETIONS: tuple[Message, ...] = (
    {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "language", "value": "p"}},
    {"ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "code", "value": "p"}},
    {
        "ref": {"type": "ref/resource", "uri": "sum://{a}/{b}"},
        "argument": {"name": "b", "value": ""},
        "context": {"arguments": {"a": "1"}},
    },
    {"ref": {"type": "ref/resource", "uri": "sum://{a}/{b}"}, "argument": {"name": "a", "value": ""}},
)


OTHERS_EVERYTHING: tuple[tuple[str, Message | None], ...] = (
    ("ping", None),
    ("tools/list", {"cursor": "x"}),
    ("logging/setLevel", {"level": "error"}),
    ("resources/subscribe", {"uri": "config://app"}),
    ("resources/read", {}),
    ("prompts/get", {}),
    ("prompts/get", {"name": 7}),
    ("tools/call", {"name": "speak", "arguments": []}),
    ("completion/complete", {}),
)


META = {"progressToken": "t", "client_id": "me", "x": 1}


REQUESTS: list[tuple[str, Message | None]] = [
    *((method, None) for method in LISTS),
    *(("resources/read", {"uri": uri}) for uri in URIS),
    *(
        ("prompts/get", {"name": name, "arguments": arguments} if arguments else {"name": name})
        for name, arguments in PROMPTS
    ),
    *(("tools/call", {"name": name, "arguments": arguments, "_meta": META}) for name, arguments in CALLS),
    ("tools/call", {"name": "speak", "arguments": {"text": "hello"}}),
    *(("completion/complete", params) for params in COMPLETIONS),
    *OTHERS_EVERYTHING,
]


def answer_forms(message: Message) -> Message:
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
            command = [python_of(library), str(source_for(library, "everything.py", tmp_path)), str(files)]
            connection = Conversation(command, {"elicitation/create": answer_forms})
            servers.append(stack.enter_context(connection))
        mcp, mcpkit = servers
        assert mcpkit.initialize(CAPABILITIES) == mcp.initialize(CAPABILITIES)
        deviations = []
        for method, params in REQUESTS:
            expected, actual = mcp.request(method, params), mcpkit.request(method, params)
            if actual != expected:
                deviations.append((method, params, actual, expected))
            if method in LISTS and params is None:
                assert "result" in expected[-1]
            if method == "tools/call" and params and "_meta" not in params and params["arguments"]:
                assert {each.get("method") for each in expected} == {"notifications/message", None}
        assert deviations == []
        assert mcp.request("no/such/method")[-1]["error"]["code"] == -32602
        assert mcpkit.request("no/such/method")[-1]["error"]["code"] == -32601, "as the protocol requires"
        assert [each.close() for each in servers] == [0, 0]


Account = dict[str, Any]


EXPLAINED = {"FastMCP(dependencies of another type)": ["invalid", "TypeError"]}


"""What is refused in another way, as it says more of what is wrong."""


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Account]:
    folder = tmp_path_factory.mktemp("direct")
    return {library: run_source(library, "direct.py", folder) for library in ("mcp", "mcpkit")}


def test_direct_method_results_equal_those_of_mcp_1(accounts: dict[str, Account]) -> None:
    mcp, mcpkit = accounts["mcp"], accounts["mcpkit"]
    assert list(mcpkit) == list(mcp)
    different = {name for name in mcp if mcpkit[name] != mcp[name]}
    assert {name: (mcp[name], mcpkit[name]) for name in different - EXPLAINED.keys()} == {}
    assert {name: [mcpkit[name][0], mcp[name][0]] for name in different} == EXPLAINED


EXPLAINED_OVER_HTTP = {
    **{
        f"{each} call with another token": "it is the token of the call"
        for each in ("strict", "loose", "bare")
    },
    "sse paths routes": "messages are taken below mount_path as well, where clients are told to send them",
    "sse mounted routes": "the same",
    "stateless initialize": "without sessions nobody could be told of changes",
    "stateless subscribe": "the error says why",
}


def test_http_app_responses_equal_those_of_mcp_1(tmp_path: Path) -> None:
    """Routes, sessions, mounts, middleware, custom routes, refusals and access tokens."""
    mcp, mcpkit = (run_source(library, "over_http.py", tmp_path) for library in ("mcp", "mcpkit"))
    assert list(mcpkit) == list(mcp)
    for each in ("strict", "loose", "bare"):
        (content,) = mcpkit[f"{each} call with another token"][1][0]["result"]["content"]
        assert json.loads(content["text"])[-1] == ["ada", ["read"]]
    different = {name for name in mcp if mcpkit[name] != mcp[name]}
    assert {name: (mcp[name], mcpkit[name]) for name in different - EXPLAINED_OVER_HTTP.keys()} == {}


SCRIPT = Path(__file__).with_name("installed.py")


SAID = [{"src": "a://b"}, {"readOnlyHint": True}]


TEXT = {"type": "text", "text": "hi"}


@pytest.fixture(scope="module", params=["1", "2"])
def outcome(request: pytest.FixtureRequest) -> dict[str, Any]:
    folders = [str(Path(__file__).parents[4])]
    if request.param == "1":
        found = list(REFERENCE.parents[1].glob("lib/python*/site-packages"))
        if not found or found[0].parent.name != "python{}.{}".format(*sys.version_info):
            pytest.skip("mcp 1.x is not there for this Python")
        folders += map(str, found)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    done = subprocess.run(
        [sys.executable, SCRIPT], env=environment, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_installed_mcp_context_is_accepted(outcome):
    for name in ("told", "perhaps"):
        context, said, structured = outcome[name]
        assert (context, structured) == ("ctx", {"result": "1 C"})
        assert said == [*SAID, {"type": "text", "text": "1 C"}]


REVISIONS = ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [sys.executable, str(source_for("mcpkit", "runs.py", tmp_path_factory.mktemp("runs")))]


async def used(client: Client, path: str) -> None:
    """Use all that there is."""
    heard: list[Any] = []
    assert [tool["name"] for tool in await client.list_tools()] == ["greet"]
    result = await client.call_tool("greet", progress=lambda *step: heard.append(step))
    assert result.text == f"Ada over {path}"
    assert [step[:2] for step in heard][:1] == [(1, 2)]
    (read,) = await client.read_resource("greeting://Ada")
    assert read["text"] == "Hello, Ada, from runs"
    (message,) = await client.get_prompt("ask", {"question": "Why?"})
    assert message["content"]["text"] == "Why?"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_run_stdio_serves_both_eras(command: list[str], revision: str) -> None:
    async with Client(
        command, protocol_version=revision, elicitation_handler=lambda form: {"name": "Ada"}
    ) as client:
        await used(client, "None")


@pytest.fixture(scope="module")
def streamable(command: list[str]) -> Any:
    with Served([*command, "streamable-http", "0"]) as served:
        yield served.origin
        served.signal(signal.SIGTERM)
        served.wait()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_run_streamable_http_serves_both_eras(streamable: str, revision: str) -> None:
    async with Client(
        f"{streamable}/mcp", protocol_version=revision, elicitation_handler=lambda form: {"name": "Ada"}
    ) as client:
        await used(client, "/mcp")


async def test_run_sse_serves_2024_11_05(command: list[str]) -> None:
    with Served([*command, "sse", "0"]) as served:
        async with Client(f"{served.origin}/sse", elicitation_handler=lambda form: {"name": "Ada"}) as client:
            await used(client, "/messages/")
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
