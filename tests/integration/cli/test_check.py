"""mcpkit check and mcpkit lock: rules, findings, the lockfile, and the estimate of tokens."""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mcpkit.cli import inspect
from mcpkit.cli.check.rule_form_and_host_limits import CheckInputs
from mcpkit.cli.check.rules_and_settings import RULES, findings
from mcpkit.cli.inspect import count_tokens
from mcpkit.lockfile.lockfile import Change, Surface, changes, contract_of
from mcpkit.lockfile.schema_changes import Effect
from tests.helpers.tables import each_row

Run = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).parents[3]

CITY = {"type": "string", "description": "Where."}


def tool(name: str = "forecast", description: str = "Say the weather.", **more: Any) -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": schema(city=CITY), **more}


def schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def argument(**keywords: Any) -> dict[str, Any]:
    return tool(inputSchema=schema(city={"description": "Where.", **keywords}))


CLEAN = Surface(
    "weather",
    instructions="Coordinates are in degrees.",
    tools=[tool(), tool("delete_alarm", "Delete an alarm.", annotations={"destructiveHint": True})],
    resources=[
        {"uri": "weather://states", "name": "states", "description": "All.", "mimeType": "text/plain"}
    ],
    templates=[
        {"uriTemplate": "weather://{state}", "name": "state", "description": "One.", "mimeType": "text/plain"}
    ],
    prompts=[
        {"name": "trip", "description": "Plan.", "arguments": [{"name": "to", "description": "Where."}]}
    ],
)


def with_tools(*tools: dict[str, Any]) -> CheckInputs:
    return CheckInputs([replace(CLEAN, tools=list(tools))])


def with_template(uri: str) -> CheckInputs:
    return CheckInputs([replace(CLEAN, templates=[{**CLEAN.templates[0], "uriTemplate": uri}])])


def with_source(folder: Path, *lines: str, head: str = "import time, requests, subprocess") -> CheckInputs:
    path = folder / "server.py"
    path.write_text("\n".join([head, "async def slow(item):", *(f"    {line}" for line in lines)]))
    return CheckInputs([CLEAN], [path])


def changed(effect: Effect) -> CheckInputs:
    return CheckInputs([CLEAN], changes=[Change("tool forecast", "it is gone", effect)])


def nested(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string", "description": "Where."}
    for _ in range(levels - 1):
        inner = {**schema(city=inner), "description": "Where."}
    return schema(city=inner)


TREE = schema(city={"$ref": "#/$defs/tree", "description": "Where."}) | {
    "$defs": {"tree": schema(sub={"type": "array", "items": {"$ref": "#/$defs/tree"}})}
}
OLD = replace(CLEAN, revision="2025-11-25")

PLANTED: dict[str, list[CheckInputs]] = {
    "name-not-specified": [with_tools(tool(name)) for name in ("get weather", "", "wetter/ä")],
    "name-letters": [with_tools(tool("weather.forecast"))],
    "name-begins-oddly": [with_tools(tool("4cast"))],
    "name-too-long": [with_tools(tool("f" * length)) for length in (64, 51)],  # mcp__weather__ is 14 characters
    "argument-name": [with_tools(tool(inputSchema=schema(**{name: CITY}))) for name in ("the city", "c" * 65)],
    "names-alike": [
        with_tools(tool("get_user"), tool("getUser", "Other.")),
        CheckInputs([replace(CLEAN, prompts=[CLEAN.prompts[0], {**CLEAN.prompts[0], "name": "Trip"}])]),
    ],
    "name-repeated": [with_tools(tool(), tool())],
    "name-of-several-servers": [CheckInputs([CLEAN, replace(CLEAN, server="climate")])],
    "prompt-named-as-tool": [CheckInputs([replace(CLEAN, prompts=[{**CLEAN.prompts[0], "name": "Forecast"}])])],
    "description-missing": [
        with_tools(tool(description=" ")),
        CheckInputs([replace(CLEAN, resources=[{**CLEAN.resources[0], "description": None}])]),
    ],
    "description-too-long": [with_tools(tool(description="x" * 2_049))],
    "description-repeated": [with_tools(tool(), tool("report"))],
    "argument-undescribed": [with_tools(tool(inputSchema=schema(place={"type": "string"})))],
    "prompt-argument-undescribed": [
        CheckInputs([replace(CLEAN, prompts=[{**CLEAN.prompts[0], "arguments": [{"name": "to", "required": True}]}])])
    ],
    "instructions-too-long": [CheckInputs([replace(CLEAN, instructions="x" * 2_049)])],
    "schema-invalid": [with_tools(argument(type="text")),
                       with_tools(tool(outputSchema={"type": "object", "required": 1}))],
    "input-not-object": [with_tools(tool(inputSchema={"type": "string"})), with_tools(tool(inputSchema={}))],
    "output-not-object": [CheckInputs([replace(OLD, tools=[tool(outputSchema={"type": "array"})])])],
    "union-at-top": [with_tools(tool(inputSchema={**schema(city=CITY), "anyOf": [{"required": ["city"]}]}))],
    "default-invalid": [
        with_tools(argument(type="string", default=5)),
        with_tools(tool(inputSchema={**schema(city={**CITY, "$ref": "#/$defs/c", "default": "x"}),
                                     "$defs": {"c": {"type": "integer"}}})),
    ],
    "example-invalid": [with_tools(argument(type="string", examples=["Oslo", 5]))],
    "reference-elsewhere": [with_tools(argument(**{"$ref": "https://example.com/a.json"})),
                            with_tools(argument(**{"$ref": "#/$defs/absent"})),
                            with_tools(argument(type="object", properties={"default": {"$ref": "#/$defs/absent"}})),
                            with_tools(argument(anyOf=[{"properties": {"enum": {"items": {"$ref": "#/required"}}}}]))],
    "schema-recursive": [with_tools(tool(inputSchema=TREE))],
    "keyword-dropped": [
        with_tools(tool(inputSchema={"$schema": "https://json-schema.org/draft/2020-12/schema", **schema(city=CITY)})),
        with_tools(argument(type="object", patternProperties={"^a": {"type": "string"}})),
    ],
    "map-dropped": [with_tools(argument(type="object", additionalProperties={"type": "integer"}))],
    "default-dropped": [with_tools(argument(anyOf=[{"type": "string"}, {"type": "null"}], default="Oslo"))],
    "enum-not-texts": [with_tools(argument(enum=[1, 2])), with_tools(argument(const=True))],
    "types-cut": [with_tools(argument(type=["string", "integer"])),
                  with_tools(argument(type="array", prefixItems=[CITY]))],
    "one-of": [with_tools(argument(oneOf=[{"type": "string"}, {"type": "integer"}]))],
    "schema-too-large": [
        with_tools(tool(inputSchema=nested(11))),
        with_tools(argument(enum=[str(number) for number in range(1_001)])),
    ],
    "strict-mode": [
        replace(CheckInputs([CLEAN]), strict_hosts=["openai-strict"]),
        replace(with_tools(argument(type="integer", minimum=1)), strict_hosts=["anthropic-strict"]),
        replace(with_tools(tool(inputSchema=TREE)), strict_hosts=["anthropic-strict"]),
    ],
    "annotations-contradict": [with_tools(tool(annotations={"readOnlyHint": True, "destructiveHint": True}))],
    "name-contradicts": [
        with_tools(tool(name, annotations={hint: value}))
        for name, hint, value in (
            ("delete_user", "readOnlyHint", True),
            ("removeUser", "destructiveHint", False),
            ("get-user", "destructiveHint", True),
        )
    ],
    "uri-not-absolute": [with_template("states/{state}")],
    "template-variables": [with_template(f"weather://{uri}") for uri in ("{}", "{a}/{a}", "{a-b}", "all", "{a")],
    "tool-over-budget": [with_tools(tool(description="word " * 400), tool("c", "rain " * 1_200))],
    "total-over-budget": [replace(CheckInputs([CLEAN]), budget=50)],
    "contract-broken": [changed(Effect.BREAKING)],
    "contract-untold": [changed(Effect.UNKNOWN)],
    "contract-changed": [changed(Effect.COMPATIBLE)],
}  # fmt: skip
"""Each rule's faults; those of `blocks-the-loop`, which are in files, are below."""

BLOCKING = [
    ("time.sleep(1)", "import time"), ("pause(1)", "from time import sleep as pause"),
    ("requests.get(item)", "import requests"), ("r.post(item)", "import requests as r"),
    ("subprocess.run(['ls'])", "import subprocess"), ("return open(item).read()", ""),
    ("with open(item) as file: return file.read()", ""),
    ("for _ in range(3): urllib.request.urlopen(item)", "import urllib.request"),
    ("return input('who?')", ""),
]  # fmt: skip
NOT_BLOCKING = [
    ("await asyncio.sleep(1)", "import asyncio"),
    ("await asyncio.to_thread(time.sleep, 1)", "import asyncio, time"),
    ("def later(): time.sleep(1)", "import time"), ("sleep(1)", "from trio import sleep"),
    ("return item.read()", ""), ("requests = item; requests.get(1)", ""),
]  # fmt: skip


def test_findings_of_clean_server_are_empty() -> None:
    assert findings(CheckInputs([CLEAN])) == []


def test_rules_have_a_planted_fault_each_and_are_on_the_page() -> None:
    assert {*PLANTED, "blocks-the-loop"} == set(RULES)
    page = (ROOT / "docs" / "cli" / "check.md").read_text()
    rows = {code: f"| `{code}` | {rule.severity} | {rule.summary} |" for code, rule in RULES.items()}
    assert [code for code, row in rows.items() if row not in page] == []


@each_row(("code", "surface"), [(code, each) for code, planted in PLANTED.items() for each in planted])
def test_rule_finds_its_planted_fault_unless_ignored(code: str, surface: CheckInputs) -> None:
    found = findings(surface)
    assert code in {finding.code for finding in found}
    assert code not in {finding.code for finding in findings(surface, ignored=[code])}
    assert all(finding.place and finding.message and finding.cure for finding in found)
    assert all(finding.severity == RULES[finding.code].severity for finding in found)


@each_row(("line", "head"), BLOCKING)
def test_blocking_call_is_found_with_its_line(line: str, head: str, tmp_path: Path) -> None:
    [finding] = findings(with_source(tmp_path, line, head=head))
    assert (finding.code, finding.place) == ("blocks-the-loop", "server.py:3 slow")


@each_row(("line", "head"), NOT_BLOCKING)
def test_call_that_does_not_block_the_loop_is_not_found(line: str, head: str, tmp_path: Path) -> None:
    assert findings(with_source(tmp_path, line, head=head)) == []
    (tmp_path / "server.py").write_text("import time\n\ndef slow():\n    time.sleep(1)\n")
    assert findings(CheckInputs([CLEAN], [tmp_path / "server.py"])) == [], "the function runs in a thread"


NAMES = """
type properties required items prefixItems enum const anyOf oneOf allOf not if then $ref $defs default examples
additionalProperties patternProperties minimum maximum multipleOf minLength maxItems minProperties pattern format
uniqueItems a name description inputSchema outputSchema annotations readOnlyHint execution arguments
"""
VALUES: list[Any] = [None, True, 5, 2.5, "", "object", "#/$defs/a", "(", [], [[]], [5], ["a"], {}]
VALUES += [{"a": 5}, {"a": {"type": []}}, [{"type": "integer"}, {"$ref": "#"}]]


@each_row("key", NAMES.split())
def test_findings_of_malformed_surfaces_do_not_raise(key: str) -> None:
    valid = {"type": "object", "properties": {"a": {"type": "string"}}, "minProperties": 1}
    inner = {"type": "object", "properties": {f"a{index}": {key: each} for index, each in enumerate(VALUES)}}
    for schema, value in ((inner, {}), *((valid | {key: each}, each) for each in VALUES[::3])):
        surfaces = [
            Surface(
                tools=[{key: value, "inputSchema": each, "outputSchema": each, "name": "t"}],
                prompts=[{key: value, "name": "p"}],
                templates=[{key: value, "uriTemplate": "{a}"}],
            )
            for each in (schema, valid)
        ]
        for old, new in (surfaces, surfaces[::-1]):
            changed = changes(contract_of([old]), contract_of([new]))
            assert findings(
                CheckInputs([old], changes=changed, strict_hosts=["openai-strict", "anthropic-strict"])
            )


@each_row(("text", "count"), [
    ("", 0), ("hello world", 2), ('{"type": "object", "properties": {"city": {"type": "string"}}}', 19),
    ("Ärzte für 東京", 5), ("<|endoftext|>", 7), ("\ud800", 1),
])  # fmt: skip
def test_tokens_equal_o200k_base(text: str, count: int) -> None:
    assert count_tokens(text) == count


def test_tokens_without_tokenizer_are_a_quarter_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    inspect._tokenizer.cache_clear()
    try:
        assert [count_tokens(text) for text in ("", "a", "hello world", "é" * 4)] == [0, 1, 3, 2]
    finally:
        inspect._tokenizer.cache_clear()


# Commands


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command_of(*tools: dict[str, Any], name: str = "tools") -> list[str]:
    """Return the command of a server with these tools; a later call with the same name replaces them."""
    Path(f"{name}.json").write_text(json.dumps(tools))
    return [sys.executable, "-S", str(Path(__file__).with_name("faulty_process.py")), f"tools={name}.json"]


@pytest.mark.parametrize(
    "example", ["weather/server.py", "quickstart/weather_on_mcpkit.py", "notes/server.py"]
)
def test_check_examples_find_nothing(mcpkit: Run, example: str) -> None:
    assert mcpkit("check", str(ROOT / "examples" / example), "--strict")[:2] == (0, "no findings\n")


def test_check_process_finds_planted_faults(folder: Path, mcpkit: Run) -> None:
    codes = ["annotations-contradict", "default-invalid", "map-dropped", "description-missing"]
    planted = [{**PLANTED[code][0].surfaces[0].tools[0], "name": f"tool{code[0]}"} for code in codes]
    check = ("check", shlex.join(command_of(tool("a.b", "1.", outputSchema={"type": "array"}), *planted)))
    status, out, _ = mcpkit(*check, "--json")
    found = {each["code"] for each in json.loads(out)["findings"]}
    assert status == 6
    assert found >= {*codes, "name-letters", "output-not-object"}

    ignored = [part for code in found for part in ("--ignore", code)]
    assert mcpkit(*check, *ignored)[:2] == (0, "no findings\n")
    status, _, err = mcpkit(*check, "--ignore", "name-leters")
    assert (status, "no such rule: name-leters; did you mean name-letters?" in err) == (1, True)
    settings = f"[tool.mcpkit.check]\nignore = {sorted(found)}\nhosts = ['openai-strict']\n"
    (folder / "pyproject.toml").write_text(settings)
    status, out, _ = mcpkit(*check)
    assert status == 6
    assert "OpenAI's strict mode requires each property to be required\n" in out


@pytest.mark.usefixtures("folder")
def test_check_and_lock_several_servers_of_configuration(mcpkit: Run) -> None:
    servers: dict[str, Any] = {}
    for name in ("one", "two"):
        program, *arguments = command_of(tool("get_it"), tool(f"{name}.x", "Other."), name=name)
        servers[name] = {"command": program, "args": arguments}
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}))
    status, out, _ = mcpkit("check", "mcp.json")
    assert status == 6
    assert (
        "warning name-of-several-servers: tool get_it: one and two have it, and some hosts show one\n" in out
    )
    assert "warning name-letters: one: tool one.x: OpenAI and Anthropic accept" in out
    assert mcpkit("lock", "mcp.json")[0] == 0
    assert json.loads(Path("mcp.lock.json").read_text())["servers"].keys() == {"one", "two"}
    assert mcpkit("lock", "mcp.json")[0] == 0


def test_lock_writes_compares_and_updates(folder: Path, mcpkit: Run) -> None:
    target = shlex.join(command_of(tool()))
    assert mcpkit("lock", target) == (0, "", "wrote mcp.lock.json\n")
    first = (folder / "mcp.lock.json").read_bytes()
    assert mcpkit("check", target)[0] == 0

    command_of(tool(), tool("report", "Say more."))
    status, out, _ = mcpkit("check", target)
    assert (status, "advice contract-changed: tool report: it was added\n" in out) == (0, True)
    assert mcpkit("check", target, "--strict")[0] == 6

    command_of(tool(inputSchema=schema(city={**CITY, "maxLength": 3})))
    status, out, _ = mcpkit("check", target)
    assert status == 6
    assert "error contract-broken: tool forecast: argument city: it must have at most 3 characters" in out
    status, out, err = mcpkit("lock", target)
    assert (status, "contract-broken: " in out) == (6, True)
    assert "mcp.lock.json is unchanged" in err
    assert (folder / "mcp.lock.json").read_bytes() == first
    assert mcpkit("lock", target, "--update")[0] == 0
    assert (folder / "mcp.lock.json").read_bytes() != first
    assert mcpkit("check", target)[0] == 0

    assert mcpkit("check", target, "--lock", "other.json")[0] == 2
    assert mcpkit("check", target, "--lock", "other.json", "--update")[0] == 0
    assert (folder / "other.json").read_bytes() == (folder / "mcp.lock.json").read_bytes()
    (folder / "mcp.lock.json").write_text("{}")
    status, _, err = mcpkit("check", target)
    assert (status, "mcp.lock.json is not a lockfile of mcpkit" in err) == (1, True)
