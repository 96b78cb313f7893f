"""The official wire schemas as judges of what the server sends."""

from __future__ import annotations

import copy
import functools
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

# What authors put into these is theirs, so unknown members are welcome there.
OPEN = {"_meta", "inputSchema", "outputSchema", "experimental", "data", "structuredContent", "arguments"}

_EMPTY = ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe")

RESULT_OF = {
    **dict.fromkeys(_EMPTY, "EmptyResult"),
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

META = "io.modelcontextprotocol/"
STATELESS = "2026-07-28"

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
        self.notifications, self.requests = (
            {
                definition["properties"]["method"]["const"]: name
                for name, definition in self.definitions.items()
                if name.endswith(kind) and "const" in definition.get("properties", {}).get("method", {})
            }
            for kind in ("Notification", "Request")
        )

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
        if method not in RESULT_OF:  # of an extension
            return
        name = RESULT_OF[method]
        if method == "tools/call" and "task" in message["result"]:
            name = "CreateTaskResult"
        if message["result"].get("resultType") == "input_required":
            name = "InputRequiredResult"
        self.check(name, message["result"])
        for block in _blocks(message["result"]):
            self.block(block)

    def block(self, block: dict[str, Any]) -> None:
        """Check a content block against the definition of its own kind: a union hides extra members."""
        names = {"resource_link": "ResourceLink", "resource": "EmbeddedResource"}
        self.check(names.get(block["type"], f"{block['type'].title()}Content"), block)

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
        """Check a request of the server's; older schemas leave out its envelope."""
        assert message["jsonrpc"] == "2.0"
        name = self.requests[message["method"]]
        members = self.definitions[name]["properties"]
        self.check(name, {key: value for key, value in message.items() if key in members})

    def envelope(self, name: str, message: dict[str, Any]) -> None:
        """Check the JSON-RPC members."""
        assert message["jsonrpc"] == "2.0"
        root = {self.key: self.definitions, "$ref": f"#/{self.key}/{name}"}
        assert not [*Draft202012Validator(root).iter_errors(message)], f"{self.revision} {name}: {message}"
        assert set(message) <= {"jsonrpc", "id", "result", "error"}


class Judge:
    """Checks the messages of a server by the schema of one revision and by the requests that were sent.

    Requests with the metadata of the stateless revision, and what answers them, are judged by its schema.
    """

    def __init__(self, folder: Path, revision: str) -> None:
        self.folder = folder
        self.revision = revision
        self.methods: dict[Any, list[tuple[str, str]]] = {}
        """Methods and revisions by id: where two requests have one id, either may be the one that is answered."""

    def expect(self, message: Any) -> None:
        """Register a message that is sent."""
        if isinstance(message, bytes):
            try:
                message = json.loads(message)
            except (ValueError, RecursionError):
                return
        for each in message if isinstance(message, list) else [message]:
            if isinstance(each, dict) and isinstance(each.get("id"), (str, int)):
                params = each.get("params")
                meta = params.get("_meta") if isinstance(params, dict) else None
                is_stateless = isinstance(meta, dict) and META + "protocolVersion" in meta
                revision = STATELESS if is_stateless else self.revision
                self.methods.setdefault(each["id"], []).append((str(each.get("method")), revision))

    def check(self, message: Any) -> Any:
        """Return a valid message; raise for any other."""
        for each in message if isinstance(message, list) else [message]:
            self._check(each)
        return message

    def _check(self, message: dict[str, Any]) -> None:
        schema, id_ = official(self.folder, self.revision), message.get("id")
        if "method" in message:
            is_subscription = META + "subscriptionId" in message.get("params", {}).get("_meta", {})
            schema = official(self.folder, STATELESS) if is_subscription else schema
            (schema.request if "id" in message else schema.notification)(message)
        elif "id" not in message:
            # The transport pages of all versions allow errors without an id, the older schemas do not.
            official(self.folder, max(self.revision, "2025-11-25")).error(message)
        elif id_ not in self.methods:
            assert "error" in message, f"response without a request: {message}"
            schema.error(message)
        else:
            *others, (method, revision) = self.methods[id_]
            for other, version in others:
                with suppress(AssertionError):
                    official(self.folder, version).result(other, message)
                    return
            official(self.folder, revision).result(method, message)


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
