"""Requests to the official clients and to the in-memory client, by the same handlers, in each protocol version."""

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import anyio
import httpx2
import mcp
import pytest
from mcp import types
from mcp.client.sse import sse_client

from mcpkit import ProtocolError
from mcpkit.protocol.revisions import ALL
from mcpkit.protocol.revisions import HANDSHAKE as HANDSHAKE_VERSIONS
from mcpkit.testing import connect
from tests.integration.interop import questions_server
from tests.integration.interop.conftest import HANDSHAKE, STATELESS, TIMEOUT, Run

SERVER = "questions_server.py"
FORMS_SINCE = "2025-06-18"
URLS_SINCE = TOOL_USE_SINCE = "2025-11-25"

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated")

FORMS: dict[str, list[Any]] = {
    "Which city?": [{"name": "Paris"}], "How warm is Paris?": [{"value": 21.5}],
    "Which table?": [{"value": 7}], "With sugar?": [{"value": True}], "Which colour?": [{"value": "blue"}],
    "Who sits on the left?": [{"value": "Ada"}], "Who sits on the right?": [{"value": "Bob"}],
    "How many, in pairs?": [{"value": 3}, {"value": 4}], "Your salary?": ["decline"],
    "Your shoe size?": ["cancel"], "Greet which user?": [{"value": "Ada"}],
    "How is Ada?": [{"value": "warmly"}], "Notes of which user?": [{"value": "Bob"}],
}  # fmt: skip
"""The entries of a form by its message; a string is another action. The last entry is repeated."""

SAMPLES: dict[str, Any] = {
    "21.5 degrees": "mild",
    "Say hello": "hello",
    "What is the time?": {"type": "tool_use", "id": "use-1", "name": "clock", "input": {}},
    "noon": "it is noon",
}
"""The answer of the client's model to the last message: a text or a tool use."""

ROOTS = [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///srv"}]


class Case(NamedTuple):
    """One handler and the exchange that a client must see.

    Attributes:
        kind: `tool`, `prompt` or `resource`.
        name: The name or URI of the handler.
        text: The text of the result.
        questions: The requests to the client, in order; a set where several are sent at once.
        capability: The capability that the handler needs.
        since: The first version that has the capability.
    """

    kind: str
    name: str
    text: str
    questions: list[Any]
    capability: str = "elicitation"
    since: str = FORMS_SINCE


SEATS = {"Who sits on the left?", "Who sits on the right?"}
CASES = [
    Case("tool", "plan", "2 days in Paris, mild", ["Which city?", "How warm is Paris?", "21.5 degrees"]),
    Case("tool", "order", "tea number 1 for table 7, sweet: True", ["Which table?", "With sugar?"]),
    Case("prompt", "greet", "Greet Ada warmly.", ["Greet which user?", "How is Ada?"]),
    Case("resource", "notes://day", "day notes of Bob", ["Notes of which user?"]),
    Case("tool", "survey", "blue; hello (parrot); ['home', None]", [{"Which colour?", "Say hello", "roots"}]),
    Case("tool", "gather", "Ada and Bob, 7", [SEATS, "Which table?"]),
    Case("tool", "group", "Ada and Bob", [SEATS]),
    Case("tool", "pair", "4 of them", ["How many, in pairs?", "How many, in pairs?"]),
    Case("tool", "refuse", "decline, cancel", ["Your salary?", "Your shoe size?"]),
    Case("tool", "pay", "accept, 1 payment", ["Please pay"], since=URLS_SINCE),
    Case("tool", "consult", "toolUse clock: it is noon", ["What is the time?", "noon"], "sampling", TOOL_USE_SINCE),
    Case("tool", "places", "home file:///home/ada, nameless file:///srv", ["roots"], "roots", ""),
]  # fmt: skip


def check(outcome: dict[str, Any], case: Case, version: str, *, is_able: bool) -> None:
    """Assert the outcome of one handler for a client that has declared all capabilities or none."""
    questions = outcome["asked"]
    if is_able and version >= case.since:
        assert outcome["text"] == case.text
        for expected in case.questions:
            at_once = expected if isinstance(expected, set) else {expected}
            assert {*questions[: len(at_once)]} == at_once
            questions = questions[len(at_once) :]
    elif version not in HANDSHAKE_VERSIONS:
        assert outcome["code"] == -32021
        assert case.capability in str(outcome["data"]["requiredCapabilities"])
    elif case.kind == "tool":
        assert re.match(f"error: .*{case.capability}", outcome["text"])
    else:
        assert outcome["code"] == -32602
        assert case.capability in outcome["message"]
    assert questions == []


def faults_of(report: dict[str, Any], version: str, *, is_able: bool = True) -> list[str]:
    """Return everything that is wrong with what a client has seen of all handlers."""
    faults = [] if report["revision"] == version else [f"negotiated {report['revision']}"]
    if report["completed"] != ([True] if is_able and version == URLS_SINCE else []):
        faults.append(f"notifications/elicitation/complete: {report['completed']}")
    for case in CASES:
        try:
            check(report["handlers"][case.name], case, version, is_able=is_able)
        except (AssertionError, KeyError) as error:
            faults.append(f"{case.name}: {error!r} in {report['handlers'][case.name]}")
    return faults


class User:
    """Answers the requests of a server for one client, and records them."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.completed: list[bool] = []
        self._ids: list[str] = []

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request in its JSON form."""
        if method == "roots/list":
            self.questions.append("roots")
            return {"roots": ROOTS}
        if method == "sampling/createMessage":
            content = params["messages"][-1]["content"]
            block = content[-1] if isinstance(content, list) else content
            self.questions.append(block["text"] if block["type"] == "text" else block["content"][0]["text"])
            sample = SAMPLES[self.questions[-1]]
            message = {"role": "assistant", "model": "parrot"}
            if isinstance(sample, str):
                return {**message, "content": {"type": "text", "text": sample}}
            return {**message, "content": sample, "stopReason": "toolUse"}
        message = params["message"].partition("\n")[0]  # an error of the last entry follows
        self.questions.append(message)
        if params.get("mode") == "url":
            self._ids += [params["elicitationId"]] if params.get("elicitationId") else []
            async with httpx2.AsyncClient(timeout=TIMEOUT) as browser:
                await browser.get(params["url"])
            return {"action": "accept"}
        entries = FORMS[message]
        entry = entries[min(self.questions.count(message), len(entries)) - 1]
        return {"action": entry} if isinstance(entry, str) else {"action": "accept", "content": entry}

    def callback(self, method: str, model: Any) -> Any:
        """Return a callback of the official client, which takes and returns models."""

        async def answer(_context: Any, params: Any = None) -> Any:
            result = await self.answer(method, params.model_dump(by_alias=True) if params else {})
            is_tool_use = result.get("stopReason") == "toolUse"
            return (types.CreateMessageResultWithTools if is_tool_use else model).model_validate(result)

        return answer

    async def handle_message(self, message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            self.completed.append(message.params.elicitation_id in self._ids)


HANDLERS = [(case.kind, case.name) for case in CASES]


def python_client(transport: str, target: Sequence[str], mode: str, user: User | None) -> mcp.Client:
    """Return the official Python client."""
    address: Any = target[0]
    if transport == "stdio":
        address = mcp.StdioServerParameters(command=target[0], args=target[1:])
    elif transport == "sse":
        address = sse_client(address)
    options: dict[str, Any] = {"mode": mode, "cache": None}
    if user is not None:
        options |= {
            "elicitation_callback": user.callback("elicitation/create", types.ElicitResult),
            "sampling_callback": user.callback("sampling/createMessage", types.CreateMessageResult),
            "sampling_capabilities": types.SamplingCapability(tools=types.SamplingToolsCapability()),
            "list_roots_callback": user.callback("roots/list", types.ListRootsResult),
            "message_handler": user.handle_message,
        }
    return mcp.Client(address, **options)


async def outcomes_of(use: Callable[[str, str], Awaitable[str]], user: User | None) -> dict[str, Any]:
    """Use all handlers, and return the text or the error of each, and the requests to the user."""
    outcomes: dict[str, Any] = {}
    for kind, name in HANDLERS:
        if user is not None:
            user.questions = []
        try:
            outcome: dict[str, Any] = {"text": await use(kind, name)}
        except (mcp.MCPError, ProtocolError) as error:
            outcome = {"code": error.code, "message": str(error), "data": error.data}
        outcomes[name] = {**outcome, "asked": user.questions if user else []}
    return outcomes


async def run_in_python(client: Any, user: User | None) -> dict[str, Any]:
    """Use all handlers with the official Python client."""

    async def use(kind: str, name: str) -> str:
        if kind == "prompt":
            return (await client.get_prompt(name)).messages[0].content.text
        if kind == "resource":
            return (await client.read_resource(name)).contents[0].text
        result = await client.call_tool(name)
        return ("error: " if result.is_error else "") + result.content[0].text

    with anyio.fail_after(TIMEOUT):
        async with client:
            report = {"handlers": await outcomes_of(use, user), "revision": client.protocol_version}
    return {**report, "completed": user.completed if user else []}


async def run_in_memory(version: str, user: User | None) -> dict[str, Any]:
    """Use all handlers with the in-memory client."""

    async def use(kind: str, name: str) -> str:
        if kind == "prompt":
            return str((await client.get_prompt(name))[0]["content"]["text"])
        if kind == "resource":
            return str((await client.read_resource(name))[0]["text"])
        result = await client.call_tool(name)
        return ("error: " if result.is_error else "") + result.text

    options: dict[str, Any] = {"request_handler": user.answer} if user else {"capabilities": {}}
    async with connect(questions_server.server, protocol_version=version, **options) as client:
        report = {"handlers": await outcomes_of(use, user), "revision": version}
        methods = [each["method"] for each in client.notifications]
    return {**report, "completed": [True] * methods.count("notifications/elicitation/complete")}


PEERS = [
    ("python", "legacy", "stdio", HANDSHAKE), ("python", "auto", "http", STATELESS),
    ("python", STATELESS, "sse", STATELESS), ("typescript 2", "legacy", "http", HANDSHAKE),
    ("typescript 2", "auto", "sse", STATELESS), ("typescript 2", STATELESS, "stdio", STATELESS),
    ("typescript 2", "legacy:2025-06-18", "stdio", "2025-06-18"),
    ("typescript 2", "legacy:2025-03-26", "http", "2025-03-26"), ("typescript 1", "", "http", HANDSHAKE),
    ("typescript 1", "", "sse", HANDSHAKE),
]  # fmt: skip
"""Client, mode of negotiation, transport, and the version that results."""


@pytest.mark.parametrize("version", ALL)
def test_question_in_memory_client_sees_expected_exchange(version: str) -> None:
    faults = faults_of(anyio.run(run_in_memory, version, User()), version)
    faults += faults_of(anyio.run(run_in_memory, version, None), version, is_able=False)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(("client", "mode", "transport", "version"), PEERS, ids=map(" ".join, PEERS))
def test_question_official_client_sees_expected_exchange(request, reach, client, mode, transport, version):
    """A client that declares all capabilities; over HTTP one that declares none, too."""
    faults = []
    _, *target = reach(transport)
    for is_able in (True, False) if transport == "http" else (True,):
        if client == "python":
            user = User() if is_able else None
            report = anyio.run(run_in_python, python_client(transport, target, mode, user), user)
        else:
            run_driver: Run = request.getfixturevalue("run_driver")
            driver = ["node/questions_1.mjs"] if client == "typescript 1" else ["node/questions_2.mjs", mode]
            answers = {"forms": FORMS, "words": SAMPLES, "roots": ROOTS} if is_able else None
            report = run_driver(*driver, json.dumps(answers), json.dumps(HANDLERS), transport, *target)
        faults += faults_of(report, version, is_able=is_able)
    assert not faults, "\n".join(faults)
