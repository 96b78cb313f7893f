"""The classes of `mcp.types` beside those of mcp 1.x itself."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mcpkit.compat import types
from tests.integration.compat.mcp1 import REFERENCE
from tests.integration.compat.type_facts import facts

IMPORTED = {*("Any", "ConfigDict", "Final", "RootModel", "datetime", "deprecated")}
"""What `mcp.types` imports for itself, and no server takes from there."""

LEFT_OUT = IMPORTED | {
    *("TaskExecutionMode", "TaskStatus", "RelatedTaskMetadata", "Task", "CreateTaskResult"),
    *(f"TASK_{name}" for name in ("FORBIDDEN", "OPTIONAL", "REQUIRED")),
    *(f"TASK_STATUS_{name}" for name in ("WORKING", "INPUT_REQUIRED", "COMPLETED", "FAILED", "CANCELLED")),
    *(
        f"Tasks{name}Capability"
        for name in ("List", "Cancel", "CreateMessage", "Sampling", "CreateElicitation")
    ),
    *(f"Tasks{name}Capability" for name in ("Elicitation", "Call", "Tools")),
    *(f"{side}Tasks{name}" for side in ("Client", "Server") for name in ("Capability", "RequestsCapability")),
    *(f"{name}Task{part}" for name in ("Get", "Cancel") for part in ("Request", "RequestParams", "Result")),
    *(f"GetTaskPayload{part}" for part in ("Request", "RequestParams", "Result")),
    *("ListTasksRequest", "ListTasksResult", "TaskStatusNotificationParams", "TaskStatusNotification"),
}
"""Deliberately not there: experimental tasks, which a server asks mcpkit for otherwise."""

DESCRIBED = [
    *("Annotations", "Icon", "Resource", "ResourceContents", "TextResourceContents", "BlobResourceContents"),
    *("TextContent", "ImageContent", "AudioContent", "EmbeddedResource", "ResourceLink", "BaseMetadata"),
]
"""The classes with docstrings that clients read: in the output schema of a tool that returns them."""

TEXT = {"type": "text", "text": "é"}
MODELS: dict[str, list[Any]] = {
    "TextContent": [
        {**TEXT, "_meta": {"a": 1}, "annotations": {"audience": ["user"], "priority": 0.5, "x": 1}},
        {"type": "image", "text": 3},
    ],
    "ImageContent": [{"type": "image", "data": "AA==", "mimeType": "image/png", "more": [None]}],
    "EmbeddedResource": [
        {"type": "resource", "resource": {"uri": "memo://x", "blob": "AA=="}},
        {"type": "resource", "resource": {"uri": "no uri", "text": ""}},
    ],
    "ResourceLink": [{"type": "resource_link", "name": "n", "uri": "https://example.org", "size": 3}],
    "Resource": [{"name": "n", "uri": "http://EXAMPLE.org/é", "icons": [{"src": "i", "sizes": ["any"]}]}],
    "Tool": [
        {"name": "n", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "n", "title": "N", "inputSchema": {}, "execution": {"taskSupport": "optional"}, "_meta": {}},
        {"name": 1},
    ],
    "CallToolResult": [{"content": [TEXT], "structuredContent": {"a": None}, "extra": 1, "_meta": {"b": 2}}],
    "CallToolRequest": [
        {"params": {"name": "n", "arguments": {"a": 1}, "_meta": {"progressToken": "t", "k": 1}}},
        {"method": "tools/list", "params": {}},
    ],
    "ServerCapabilities": [{"tools": {"listChanged": False}, "experimental": {"a": {"b": 1}}, "logging": {}}],
    "ServerResult": [{"content": [TEXT]}, {}, {"tools": [], "nextCursor": "c"}],
    "ClientRequest": [{"method": "resources/read", "params": {"uri": "memo://x"}}, {"method": "nothing"}],
    "JSONRPCMessage": [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "a", "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m", "data": {"a": 1}}},
        {"jsonrpc": "1.0", "id": 1.5},
    ],
    "SamplingMessage": [{"role": "user", "content": [TEXT, {"type": "tool_result", "toolUseId": "1"}]}],
    "ElicitResult": [{"action": "accept", "content": {"a": 1, "b": "x", "c": True, "d": ["y"], "e": 0.5}}],
    "ElicitRequest": [
        {"params": {"mode": "url", "message": "m", "url": "u", "elicitationId": "1"}},
        {"params": {"message": "m", "requestedSchema": {}}},
    ],
    "Root": [{"uri": "file:///tmp", "name": "t", "_meta": {"a": 1}}, {"uri": "https://example.org"}],
    "CompleteRequest": [{"params": {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a"}}}],
    "CancelledNotification": [{"params": {"requestId": True}}],
}
SAMPLES = [(model, sample) for model, samples in MODELS.items() for sample in samples]


OURS_ALONE = {
    *("BaseModel", "Callable", "Incomplete", "Json", "Model", "ModuleType", "Spoken", "TYPE_CHECKING", "Url"),
    *("Whole", "annotations"),
}
NAMES = [name for name in dir(types) if name.isidentifier() and name not in OURS_ALONE]


@pytest.fixture(scope="module")
def theirs():
    if not REFERENCE.exists():
        pytest.skip("mcp 1.x is not installed here: `make setup` puts it into .servers")
    request = json.dumps({"names": NAMES, "samples": SAMPLES})
    command = [REFERENCE, Path(__file__).with_name("type_facts.py")]
    done = subprocess.run(command, input=request, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def ours():
    return json.loads(json.dumps(facts(types, NAMES, SAMPLES)))


def common(schema):
    """The schema without descriptions of classes, and without experimental tasks."""
    if isinstance(schema, list):
        references = [each.get("$ref", "") if isinstance(each, dict) else "" for each in schema]
        kept = [each for each, name in zip(schema, references, strict=True) if name[8:] not in LEFT_OUT]
        return [common(each) for each in kept]
    if not isinstance(schema, dict):
        return schema
    return {
        key: common(value)
        for key, value in schema.items()
        if not (key == "description" and isinstance(value, str)) and key not in LEFT_OUT | {"tasks"}
    }


def test_public_names_exist_or_are_omitted_on_purpose(theirs):
    parametrized = {name for name in theirs["public"] if "[" in name}
    assert set(theirs["public"]) - parametrized - set(dir(types)) == LEFT_OUT


def test_schemas_equal_those_of_mcp_1(theirs, ours):
    assert len(ours["schemas"]) > 110
    for side in (ours, theirs):
        for schema in side["schemas"]["ServerRequest"].values():
            schema["$defs"].pop("PaginatedRequestParams", None)  # of tasks/list alone
    assert common(ours["schemas"]) == common(theirs["schemas"])


def test_fields_and_descriptions_equal_those_of_mcp_1(theirs, ours):
    assert ours["fields"] == theirs["fields"]
    for name in DESCRIBED:
        described, expected = (
            side["schemas"][name]["validation"].get("description") for side in (ours, theirs)
        )
        assert described == expected, name


def test_constants_and_unions_equal_those_of_mcp_1(theirs, ours):
    kept = {
        name: [each for each in value if each.strip("'") not in LEFT_OUT]
        if isinstance(value, list)
        else value
        for name, value in theirs["values"].items()
    }
    assert ours["values"] == kept | {"AnyFunction": ["Ellipsis", "<class 'object'>"]}


def test_samples_are_parsed_and_serialized_as_by_mcp_1(theirs, ours):
    deviations = []
    for sample, actual, expected in zip(SAMPLES, ours["samples"], theirs["samples"], strict=True):
        if isinstance(expected, list):  # the errors of each branch of a union
            expected = [error for error in expected if error[1][0] not in LEFT_OUT]
        if actual != expected:
            deviations.append((sample, actual, expected))
    assert deviations == []


def test_missing_name_raises_import_error():
    assert not hasattr(types, "CallToolRequests")
    with pytest.raises(ImportError, match="cannot import name 'GetTaskRequests'"):
        from mcpkit.compat.types import GetTaskRequests  # noqa: F401
