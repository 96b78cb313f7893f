"""What is asked of the laboratory, and what it tells: by either package, in either era."""

from __future__ import annotations

from typing import Any

from mcpkit import Client
from mcpkit.common.errors import ProtocolError

LISTS = {
    "tools": "tools/list",
    "resources": "resources/list",
    "resourceTemplates": "resources/templates/list",
    "prompts": "prompts/list",
}
POINT = {"x": 1, "y": "2.5"}
WORDS = ["none", "text", "number", "nan", "true", "list", "empty", "tuple", "dict", "bytes", "latin", "model"]
WORDS += ["date", "image", "audio", "file", "binary", "mixed", "set"]
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("bare", {"a": 1}),
    ("bare", {"a": "1", "b": 2.0}),
    ("bare", {}),
    ("bare", {"a": "x", "c": 1}),
    ("bare", {"a": None}),
    ("called", {"a": {"b": 1}}),
    ("renamed", {"a": "é"}),
    ("renamed", {"a": 1}),
    ("given_name", {}),
    ("said", {}),
    ("hinted", {}),
    ("google", {"city": "Oslo", "units": "x"}),
    ("described", {"a": 1}),
    ("described", {"a": 1, "b": 11, "c": "b", "e": "z"}),
    (
        "takes_models",
        {"line": {"start": POINT, "end": POINT}, "shape": {"kind": "dog", "name": "a"}, "more": [POINT]},
    ),
    ("takes_models", {"line": {"start": {}}, "shape": {}, "color": "green"}),
    ("takes_models", {"line": '{"start": {"x": 1}}', "shape": {"lives": 1}}),
    ("discriminated", {"pet": {"kind": "cat", "lives": 9}}),
    ("discriminated", {"pet": {"lives": 9}}),
    ("takes_tree", {"tree": {"value": 1, "children": [{"value": 2}]}}),
    (
        "takes_kinds",
        {
            "when": "2020-01-02T03:04:05Z",
            "how_long": 60,
            "what": "12345678-1234-5678-1234-567812345678",
            "where": "/tmp",
        },
    ),
    *(
        (name, {})
        for name in ("returns_model", "returns_models", "returns_tree", "returns_row", "returns_person")
    ),
    *((name, {}) for name in ("returns_dict", "returns_dict_of", "returns_untyped", "returns_list")),
    *(("returns_any", {"what": word}) for word in WORDS),
    *(
        (name, {})
        for name in ("returns_strings", "returns_tuple", "returns_enum", "returns_date", "returns_bytes")
    ),
    *((name, {}) for name in ("returns_image", "returns_none", "returns_sequence", "returns_discriminated")),
    ("returns_optional", {"there": True}),
    ("returns_optional", {"there": False}),
    ("returns_union", {"number": True}),
    ("returns_union", {"number": False}),
    ("returns_result", {}),
    ("returns_result", {"error": True}),
    *((name, {}) for name in ("returns_structured", "own_schema", "no_schema", "wrong_type", "generates")),
    ("returns_coroutine", {"a": 1}),
    ("asynchronous", {"a": 1}),
    *(("fails", {"how": how}) for how in ("tool", "validation", "not found", "otherwise")),
    ("slow", {}),
    ("injected", {"a": 1}),
    ("injected", {"a": 1, "who": "me"}),
    ("in_context", {}),
    ("in_context", {"ctx": 1}),
    ("sync_context", {}),
    ("loose", {}),
    ("in_loop", {}),
    ("tells", {}),
    ("remembers", {"key": "k", "value": "v"}),
    ("remembers", {"key": "k"}),
    ("reads", {"uri": "data://several"}),
    ("reads", {"uri": "data://nowhere"}),
    ("sub_inner", {}),
    ("inner", {}),
    ("nowhere", {}),
]
READ = [
    *(
        "data://plain",
        "data://said",
        "data://bytes",
        "data://list",
        "data://several",
        "data://wrong",
        "data://object",
    ),
    *(
        "data://fails/said",
        "data://fails/otherwise",
        "data://cities/New%20York/days/3",
        "data://cities/a/days/b",
    ),
    *("files://a/b.md", "files://a?upper=true&limit=3", "files://a?upper=maybe", "files://../etc"),
    *("data://sub/inner", "data://sub/inner/a%2Fb", "data://inner", "data://nowhere"),
]
PROMPTS: list[tuple[str, dict[str, str]]] = [
    ("simple", {"topic": "rain"}),
    ("simple", {}),
    ("full", {"a": "1", "names": '["x"]', "b": "2", "c": "null"}),
    ("full", {"a": "x", "names": "[]"}),
    ("result", {}),
    ("wrong_prompt", {}),
    ("failing_prompt", {}),
    ("sub_inner_prompt", {}),
    ("nowhere", {}),
]
ASKED: dict[str, dict[str, Any]] = {
    "str": {"value": "a"},
    "int": {"value": 3},
    "bool": {"value": True},
    "choices": {"value": "b"},
    "titled": {"value": "a"},
    "several": {"value": ["a"]},
    "several titled": {"value": ["a", "b"]},
    "literal": {"value": "b"},
    "enum": {"value": "red"},
    "form": {"name": "Ada"},
    "list": {"value": ["a"]},
}


def named(case: str, details: object) -> str:
    return f"{case} {details}"


class Asking:
    """One client of the laboratory, which keeps what it is told and asked."""

    def __init__(self, target: Any, revision: str) -> None:
        self.said: list[Any] = []
        self.content: Any = None
        self.client = Client(
            target,
            protocol_version=revision,
            elicitation_handler=self.fill,
            message_handler=self.hear,
            log_handler=lambda level, data, logger: self.said.append(["log", level, data, logger]),
            validate_results=False,
            cache=False,
        )

    def hear(self, method: str, params: object) -> None:
        if method != "notifications/message":
            self.said.append([method, params])

    def fill(self, request: Any) -> Any:
        self.said.append(["asked", request.message, request.schema])
        return self.content

    async def ask(self, method: str, params: dict[str, Any] | None = None) -> Any:
        self.said = []
        try:
            result = await self.client.request(
                method, params or {}, progress=lambda *done: self.said.append(["progress", *done])
            )
        except ProtocolError as error:
            return {"error": [error.code, str(error), error.data], "said": self.said}
        (result.get("_meta") or {}).pop("io.modelcontextprotocol/serverInfo", None)
        if not result.get("_meta", True):
            del result["_meta"]
        return {"result": result, "said": self.said}


async def told(target: Any, revision: str) -> dict[str, Any]:
    """Return what is told for each case, by its name."""
    answers: dict[str, Any] = {}
    asking = Asking(target, revision)
    async with asking.client as client:
        answers["introduction"] = [client.server_capabilities, client.server_info, client.instructions]
        for member, method in LISTS.items():
            result = (await asking.ask(method))["result"]
            answers[f"names of {member}"] = [each.get("name") for each in result[member]]
            for each in result[member]:
                answers[named(method, each.get("uriTemplate") or each.get("uri") or each["name"])] = each
        for name, arguments in CALLS:
            answers[named(name, arguments)] = await asking.ask(
                "tools/call", {"name": name, "arguments": arguments}
            )
        for uri in READ:
            answers[named("read", uri)] = await asking.ask("resources/read", {"uri": uri})
        for name, arguments in PROMPTS:
            answers[named(name, arguments)] = await asking.ask(
                "prompts/get", {"name": name, "arguments": arguments}
            )
        for value in ("O", "X"):
            argument = {"name": "topic", "value": value}
            params = {"ref": {"type": "ref/prompt", "name": "simple"}, "argument": argument}
            answers[named("complete", value)] = await asking.ask("completion/complete", params)
        for kind, content in ASKED.items():
            asking.content = content
            asked = {
                "name": "asks",
                "arguments": {"kind": kind, "title": "T" if kind in ("str", "choices") else None},
            }
            answers[named("asks", kind)] = await asking.ask("tools/call", asked)
        if revision != "2026-07-28":
            await asking.ask("logging/setLevel", {"level": "error"})
            answers["only errors"] = await asking.ask("tools/call", {"name": "tells", "arguments": {}})
    return answers
