"""The official wire schemas as judges of what the server sends."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

# What authors put into these is theirs, so unknown members are welcome there.
OPEN = {"_meta", "inputSchema", "outputSchema", "experimental", "data", "structuredContent", "arguments"}

RESULT_OF = {
    "ping": "EmptyResult",
    "logging/setLevel": "EmptyResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "subscriptions/listen": "SubscriptionsListenResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "tasks/get": "GetTaskResult",
    "tasks/list": "ListTasksResult",
    "tasks/cancel": "CancelTaskResult",
    "tasks/result": "CallToolResult",  # of which tasks are made; the schema would let anything pass
}

ERROR_OF = {-32021: "MissingRequiredClientCapabilityError", -32022: "UnsupportedProtocolVersionError"}


@functools.cache
def official(folder: Path, revision: str) -> Official:
    """Return the judge of one revision."""
    return Official(folder, revision)


class Official:
    """Checks messages against the schema of one revision.

    Stricter than the schema: a member that the revision does not name is refused wherever the
    schema lists members, apart from the places that are open by design.
    """

    def __init__(self, folder: Path, revision: str) -> None:
        schema = json.loads((folder / revision / "schema.json").read_text())
        self.revision = revision
        self.key = "$defs" if "$defs" in schema else "definitions"
        self.definitions = schema[self.key]
        strict = copy.deepcopy(self.definitions)
        for name, definition in strict.items():
            if "allOf" in definition:
                strict[name] = _merged(definition, strict)
        for name, definition in strict.items():
            if not name.endswith("MetaObject"):  # `_meta` is open by design
                _close(definition)
        self.strict = strict
        self.validators: dict[str, list[Draft202012Validator]] = {}
        self.notifications = {
            definition["properties"]["method"]["const"]: name
            for name, definition in self.definitions.items()
            if name.endswith("Notification") and "const" in definition.get("properties", {}).get("method", {})
        }
        self.requests = {
            definition["properties"]["method"]["const"]: name
            for name, definition in self.definitions.items()
            if name.endswith("Request") and "const" in definition.get("properties", {}).get("method", {})
        }

    def check(self, name: str, value: Any) -> None:
        """Raise when `value` is not what the schema calls `name`."""
        assert name in self.definitions, f"{self.revision} has no {name}"
        if name not in self.validators:
            self.validators[name] = [
                Draft202012Validator({self.key: definitions, "$ref": f"#/{self.key}/{name}"})
                for definitions in (self.definitions, self.strict)
            ]
        for validator in self.validators[name]:
            errors = sorted(validator.iter_errors(value), key=lambda error: list(error.path))
            assert not errors, (
                f"{self.revision} {name}: {errors[0].message} at {list(errors[0].path)} in {value}"
            )

    def result(self, method: str, message: dict[str, Any]) -> None:
        """Check a response to a request."""
        if "error" in message:
            self.error(message)
            return
        name = "JSONRPCResultResponse" if "JSONRPCResultResponse" in self.definitions else "JSONRPCResponse"
        self.envelope(name, message)
        name = RESULT_OF[method]
        if method == "tools/call" and "task" in message["result"]:
            name = "CreateTaskResult"
        self.check(name, message["result"])
        for block in _blocks(message["result"]):
            self.block(block)

    def block(self, block: dict[str, Any]) -> None:
        """Check a content block against the definition of its own kind: a union hides extra members."""
        names = {
            "text": "TextContent",
            "image": "ImageContent",
            "audio": "AudioContent",
            "resource_link": "ResourceLink",
            "resource": "EmbeddedResource",
        }
        self.check(names[block["type"]], block)

    def error(self, message: dict[str, Any]) -> None:
        """Check an error response; one with a null id is exempt, as older schemas have no place for it."""
        if message.get("id", 0) is None:
            assert self.revision < "2025-11-25"
            message = {**message, "id": 0}
        name = "JSONRPCErrorResponse" if "JSONRPCErrorResponse" in self.definitions else "JSONRPCError"
        self.envelope(name, message)
        specific = ERROR_OF.get(message["error"]["code"])
        if specific is not None:
            self.check(specific, message)

    def notification(self, message: dict[str, Any]) -> None:
        """Check a notification; older schemas leave out the member `jsonrpc`, which all must have."""
        assert message["jsonrpc"] == "2.0"
        name = self.notifications[message["method"]]
        if "jsonrpc" not in self.definitions[name]["properties"]:
            message = {key: value for key, value in message.items() if key != "jsonrpc"}
        self.check(name, message)

    def request(self, message: dict[str, Any]) -> None:
        """Check a request of the server's."""
        assert message["jsonrpc"] == "2.0"
        self.check(self.requests[message["method"]], message)

    def envelope(self, name: str, message: dict[str, Any]) -> None:
        """Check the JSON-RPC members."""
        assert message["jsonrpc"] == "2.0"
        root = {self.key: self.definitions, "$ref": f"#/{self.key}/{name}"}
        assert not [*Draft202012Validator(root).iter_errors(message)], f"{self.revision} {name}: {message}"
        assert set(message) <= {"jsonrpc", "id", "result", "error"}


def _blocks(result: dict[str, Any]) -> list[dict[str, Any]]:
    if "content" in result:
        return result["content"]
    return [message["content"] for message in result.get("messages", [])]


def _merged(definition: Any, definitions: dict[str, Any]) -> Any:
    """Return what is all of several others as one that names the members of all."""
    parts = [definitions[part["$ref"].rpartition("/")[2]] for part in definition["allOf"] if "$ref" in part]
    properties = {name: member for part in parts for name, member in part.get("properties", {}).items()}
    required = [name for part in parts for name in part.get("required", ())]
    return {"type": "object", "properties": properties, "required": required}


def _close(schema: Any) -> None:
    if isinstance(schema, list):
        for item in schema:
            _close(item)
    if not isinstance(schema, dict):
        return
    if "properties" in schema and schema.get("type") == "object":
        # Results say `additionalProperties: {}`, which would let everything pass.
        if schema.get("additionalProperties") in (None, {}):
            schema["additionalProperties"] = False
        for name, member in schema["properties"].items():
            if name not in OPEN:
                _close(member)
        return
    for key, member in schema.items():
        if key not in {"additionalProperties", "allOf"}:  # each part of an allOf knows its own members only
            _close(member)
