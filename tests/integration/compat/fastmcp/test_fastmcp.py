"""Source written for mcp 1.x, run by mcp 1.x and by mcpkit: schemas, results, errors and messages are the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.integration.compat.fastmcp.cases import CASES
from tests.integration.compat.fastmcp.conftest import PYTHON
from tests.integration.compat.fastmcp.told import Conversation, Message, account, python_of, source_for


def test_tool_of_each_function_equals_that_of_mcp_1(theirs, ours):
    expected = theirs(list(CASES.values()))
    actual = ours(list(CASES.values()))
    outcomes = zip(CASES, actual, expected(), strict=True)
    assert {name: (ours, theirs) for name, ours, theirs in outcomes if ours != theirs} == {}


PLAIN = ["int", "str", "float", "bool", "Any", "list", "dict", "bytes", "None", "Literal['a', 1]"]


OTHERS = [
    "Person",
    "Color",
    "Path",
    "date",
    "Key",
    "Box",
    "Tree",
    "Page[int]",
    "types.TextContent",
    "Decimal",
]


DEFAULTS = ["None", "1", "'x'", "[]", "{'a': 1}", "Field(description='q')", "Field(1, ge=0)", "Color.RED"]


NAMES = ["a", "value", "json", "copy", "camelCase", "x_y", "schema", "名"]


def around(types: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("list[{}]".format, types),
        st.builds("dict[str, {}]".format, types),
        st.builds("Optional[{}]".format, types),
        st.builds("Union[{}, {}]".format, types, types),
        st.builds("tuple[{}, {}]".format, types, types),
        st.builds("Annotated[{}, Field(description='d')]".format, types),
    )


TYPES = st.recursive(st.sampled_from(PLAIN + OTHERS), around, max_leaves=4)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "a", "1", "null", "[1]", '{"name": "x"}', "red", "2020-01-01", "true", "{"])
    | st.just({"name": "x", "age": "3"})
    | st.just({"a": 1}),
    lambda values: st.lists(values, max_size=2) | st.dictionaries(st.sampled_from("ab"), values, max_size=2),
    max_leaves=4,
)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    parameters = []
    for name in names:
        default = draw(st.none() | st.sampled_from(DEFAULTS))
        annotation = draw(st.just("") | TYPES.map(": {}".format))
        parameters.append(f"{name}{annotation}" + (f" = {default}" if default else ""))
    returned = draw(st.just("") | TYPES.map(" -> {}".format))
    value = draw(st.sampled_from([*names, "None", "Person(name='n')", "[1, 'x']", "{'a': 1}"]))
    is_async = draw(st.sampled_from(["", "async "]))
    declared = ", ".join(["*", *parameters] if parameters else [])
    source = f"{is_async}def f({declared}){returned}:\n    return {value}\nfunctions = [f]\n"
    calls = st.lists(st.dictionaries(st.sampled_from([*NAMES, "z"]), VALUES, max_size=3), max_size=4)
    structured = draw(st.sampled_from([None, None, True, False]))
    return {"source": source, "calls": draw(calls), "options": {"structured_output": structured}}


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
        assert mcpkit.begin(CAPABILITIES) == mcp.begin(CAPABILITIES)
        deviations = []
        for method, params in REQUESTS:
            expected, actual = mcp.ask(method, params), mcpkit.ask(method, params)
            if actual != expected:
                deviations.append((method, params, actual, expected))
            if method in LISTS and params is None:
                assert "result" in expected[-1]
            if method == "tools/call" and params and "_meta" not in params and params["arguments"]:
                assert {each.get("method") for each in expected} == {"notifications/message", None}
        assert deviations == []
        assert mcp.ask("no/such/method")[-1]["error"]["code"] == -32602
        assert mcpkit.ask("no/such/method")[-1]["error"]["code"] == -32601, "as the protocol requires"
        for each in servers:
            each.close()
        assert {each.wait() for each in servers} == {0}


Account = dict[str, Any]


EXPLAINED = {"FastMCP(dependencies of another type)": ["invalid", "TypeError"]}


"""What is refused in another way, as it says more of what is wrong."""


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Account]:
    folder = tmp_path_factory.mktemp("direct")
    return {library: account(library, "direct.py", folder) for library in ("mcp", "mcpkit")}


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
    mcp, mcpkit = (account(library, "over_http.py", tmp_path) for library in ("mcp", "mcpkit"))
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
        found = list(PYTHON.parents[1].glob("lib/python*/site-packages"))
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
