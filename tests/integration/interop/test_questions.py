"""The same handlers ask the official clients and the in-memory client, in each protocol version."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple
from urllib.request import urlopen

import anyio
import pytest
from mcp import Client, InputRequiredRoundsExceededError, MCPError, StdioServerParameters, types
from mcp.client.sse import sse_client

from mcpkit import ProtocolError
from mcpkit.protocol.revisions import ALL
from mcpkit.protocol.revisions import HANDSHAKE as HANDSHAKE_VERSIONS
from mcpkit.testing import connect
from tests.integration.interop import questions_server
from tests.integration.interop.conftest import HANDSHAKE, STATELESS, TIMEOUT, Reach, Run

SERVER = "questions_server.py"
FORMS_SINCE = "2025-06-18"
URLS_SINCE = TOOL_USE_SINCE = "2025-11-25"

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated")

FORMS: dict[str, list[Any]] = {
    "Which city?": [{"name": "Paris"}],
    "How warm is Paris?": [{"value": 21.5}],
    "What would you like?": [{"value": "tea"}],
    "With sugar?": [{"value": True}],
    "Which colour?": [{"value": "blue"}],
    "Who sits on the left?": [{"value": "Ada"}],
    "Who sits on the right?": [{"value": "Bob"}],
    "Which table?": [{"value": 7}],
    "First?": [{"value": "1"}],
    "Second?": [{"value": "2"}],
    "How many, in pairs?": [{"value": 3}, {"value": 4}],
    "Your salary?": ["decline"],
    "Your shoe size?": ["cancel"],
    "Greet which user?": [{"value": "Ada"}],
    "How is Ada?": [{"value": "warmly"}],
    "Notes of which user?": [{"value": "Bob"}],
    "When did Bob write?": [{"value": "yesterday"}],
    **{f"Question {number}?": [{"value": str(number)}] for number in range(11)},
}
"""The entries of a form by its message; a string is another action. The last entry is repeated."""

SAMPLES: dict[str, Any] = {
    "21.5 degrees": "mild",
    "Say hello": "hello",
    "And goodbye": "goodbye",
    "What is the time?": {"type": "tool_use", "id": "use-1", "name": "clock", "input": {}},
    "noon": "it is noon",
}
"""The answer of the client's model to the last message: a text or a tool use."""

ROOTS = [{"uri": "file:///home/ada", "name": "home"}, {"uri": "file:///srv"}]


class Case(NamedTuple):
    """One handler and the exchange that a client must see.

    Attributes:
        kind: `tool`, `prompt` or `resource`.
        name: The handler's name or URI.
        text: A pattern of the result.
        questions: What the client is asked, in order; a set where several requests are sent at once.
        capability: What the handler needs.
        since: The first version that has the capability.
        mismatch: A pattern of the error in the stateless version, where a round differs from the one before.
    """

    kind: str
    name: str
    text: str
    questions: list[Any]
    capability: str = "elicitation"
    since: str = FORMS_SINCE
    mismatch: str = ""


ORDER = (r"tea with sugar, number \d+, ordered here 1 times", ["What would you like?", "With sugar?"])
SEATS = {"Who sits on the left?", "Who sits on the right?"}
UNSTABLE = "The handler is not deterministic: the request '.+' to the client was another one"
CASES = [
    Case("tool", "plan", "2 days in Paris, mild", ["Which city?", "How warm is Paris?", "21.5 degrees"]),
    Case("tool", "order", *ORDER),
    Case("tool", "order_once", *ORDER),
    Case("tool", "order_in_thread", *ORDER),
    Case("prompt", "greet", r"Greet Ada warmly\.", ["Greet which user?", "How is Ada?"]),
    Case(
        "resource",
        "notes://day",
        "day notes of Bob, yesterday",
        ["Notes of which user?", "When did Bob write?"],
    ),
    Case("tool", "survey", "blue; hello; file:///home/ada, file:///srv", [{"Which colour?", "Say hello", "roots"}]),
    Case("tool", "gather", "Ada and Bob, 7", [SEATS, "Which table?"]),
    Case("tool", "group", "Ada and Bob", [SEATS]),
    Case("tool", "unstable", "1 2", ["First?", "Second?"], mismatch=UNSTABLE),
    Case("tool", "attend", "table 7, True", ["Which table?", "With sugar?"]),
    Case("tool", "pair", "4 of them", ["How many, in pairs?", "How many, in pairs?"]),
    Case("tool", "refuse", "decline", ["Your salary?"]),
    Case("tool", "dismiss", "cancel", ["Your shoe size?"]),
    Case("tool", "insist", "error: .*declined.*", ["Your salary?"]),
    Case("tool", "pay", "accept, 1 payment", ["Please pay"], since=URLS_SINCE),
    Case("tool", "muse", r"hello, goodbye \(parrot\)", ["Say hello", "And goodbye"], "sampling", ""),
    Case("tool", "consult", "toolUse clock: it is noon", ["What is the time?", "noon"], "sampling", TOOL_USE_SINCE),
    Case("tool", "places", "home file:///home/ada, nameless file:///srv", ["roots"], "roots", ""),
]  # fmt: skip


def check(outcome: dict[str, Any], case: Case, version: str, *, is_able: bool) -> None:
    """Assert the outcome of one handler for a client that has declared all capabilities or none."""
    is_stateless = version not in HANDSHAKE_VERSIONS
    questions = outcome["asked"]
    if is_able and version >= case.since and is_stateless and case.mismatch:
        assert outcome["code"] == -32602
        assert re.search(case.mismatch, outcome["message"])
        assert questions == case.questions[:1]
    elif is_able and version >= case.since:
        assert re.fullmatch(case.text, outcome["text"]), outcome
        for expected in case.questions:
            at_once = expected if isinstance(expected, set) else {expected}
            assert {*questions[: len(at_once)]} == at_once
            questions = questions[len(at_once) :]
        assert questions == []
    else:
        assert questions == []
        if is_stateless:
            assert outcome["code"] == -32021
            assert case.capability in str(outcome["data"]["requiredCapabilities"])
        elif case.kind == "tool":
            assert re.match(f"error: .*{case.capability}", outcome["text"])
        else:
            assert outcome["code"] == -32602
            assert case.capability in outcome["message"]


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
        self.completed: list[bool] = []
        self._ids: list[str] = []
        self.start()

    def start(self) -> None:
        """Forget the requests before the next handler is used."""
        self.questions: list[str] = []

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
            is_text = isinstance(sample, str)
            more = {} if is_text else {"stopReason": "toolUse"}
            content = {"type": "text", "text": sample} if is_text else sample
            return {"role": "assistant", "model": "parrot", "content": content, **more}
        message = params["message"].partition("\n")[0]  # an error of the last entry follows
        self.questions.append(message)
        if params.get("mode") == "url":
            self._ids += [params["elicitationId"]] if params.get("elicitationId") else []
            await anyio.to_thread.run_sync(visit, params["url"])
            return {"action": "accept"}
        entries = FORMS[message]
        entry = entries[min(self.questions.count(message), len(entries)) - 1]
        return {"action": entry} if isinstance(entry, str) else {"action": "accept", "content": entry}

    async def elicit(self, _context: Any, params: Any) -> types.ElicitResult:
        answer = await self.answer("elicitation/create", params.model_dump(by_alias=True))
        return types.ElicitResult.model_validate(answer)

    async def sample(self, _context: Any, params: Any) -> Any:
        answer = await self.answer("sampling/createMessage", params.model_dump(by_alias=True))
        is_text = answer["content"]["type"] == "text"
        model = types.CreateMessageResult if is_text else types.CreateMessageResultWithTools
        return model.model_validate(answer)

    async def list_roots(self, _context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate(await self.answer("roots/list", {}))

    async def handle_message(self, message: Any) -> None:
        if isinstance(message, types.ElicitCompleteNotification):
            self.completed.append(message.params.elicitation_id in self._ids)


def visit(url: str) -> None:
    """Open a page, as a browser does."""
    with urlopen(url, timeout=TIMEOUT) as page:
        page.read()


Handlers = Sequence["tuple[str, str]"]
HANDLERS = [(case.kind, case.name) for case in CASES]


def python_client(transport: str, target: Sequence[str], mode: str, user: User | None) -> Client:
    """Return the official Python client."""
    address: Any = target[0]
    if transport == "stdio":
        address = StdioServerParameters(command=target[0], args=target[1:])
    elif transport == "sse":
        address = sse_client(address)
    options: dict[str, Any] = {"mode": mode, "cache": None}
    if user is not None:
        options |= {
            "elicitation_callback": user.elicit,
            "sampling_callback": user.sample,
            "sampling_capabilities": types.SamplingCapability(tools=types.SamplingToolsCapability()),
            "list_roots_callback": user.list_roots,
            "message_handler": user.handle_message,
        }
    return Client(address, **options)


async def run_handlers(
    use: Callable[[str, str], Awaitable[str]], handlers: Handlers, user: User | None
) -> dict[str, Any]:
    """Use handlers, and return the text or the error of each, and the requests to the user."""
    outcomes: dict[str, Any] = {}
    for kind, name in handlers:
        if user is not None:
            user.start()
        try:
            outcome: dict[str, Any] = {"text": await use(kind, name)}
        except InputRequiredRoundsExceededError as error:
            outcome = {"message": str(error)}
        except (MCPError, ProtocolError) as error:
            outcome = {"code": error.code, "message": str(error), "data": error.data}
        outcomes[name] = {**outcome, "asked": user.questions if user else []}
    return outcomes


async def run_in_python(client: Client, handlers: Handlers, user: User | None) -> dict[str, Any]:
    """Use handlers with the official Python client."""

    async def use(kind: str, name: str) -> str:
        if kind == "prompt":
            return (await client.get_prompt(name)).messages[0].content.text  # type: ignore[union-attr]  # a text
        if kind == "resource":
            return (await client.read_resource(name)).contents[0].text  # type: ignore[union-attr]  # a text
        result = await client.call_tool(name)
        return ("error: " if result.is_error else "") + result.content[0].text  # type: ignore[union-attr]  # a text

    with anyio.fail_after(TIMEOUT):
        async with client:
            outcomes = await run_handlers(use, handlers, user)
            version = client.protocol_version
    return {"handlers": outcomes, "completed": user.completed if user else [], "revision": version}


async def run_in_memory(version: str, handlers: Handlers, user: User | None) -> dict[str, Any]:
    """Use handlers with the in-memory client."""

    async def use(kind: str, name: str) -> str:
        if kind == "prompt":
            return str((await client.get_prompt(name))[0]["content"]["text"])
        if kind == "resource":
            return str((await client.read_resource(name))[0]["text"])
        result = await client.call_tool(name)
        return ("error: " if result.is_error else "") + result.text

    options: dict[str, Any] = {"capabilities": {}} if user is None else {"request_handler": user.answer}
    async with connect(questions_server.server, protocol_version=version, **options) as client:
        outcomes = await run_handlers(use, handlers, user)
        methods = [each["method"] for each in client.notifications]
    completed = [True] * methods.count("notifications/elicitation/complete")
    return {"handlers": outcomes, "completed": completed, "revision": version}


class Peer(NamedTuple):
    """A client, the mode in which it negotiates, its transport, and the version that results."""

    client: str
    mode: str
    transport: str
    version: str

    def run(
        self, request: pytest.FixtureRequest, handlers: Handlers, *, is_able: bool = True, target: Any = ()
    ) -> dict[str, Any]:
        """Use handlers, and return what the client has seen."""
        reach: Reach = request.getfixturevalue("reach")
        _, *usual = reach(self.transport)
        user = User() if is_able else None
        if self.client == "python":
            client = python_client(self.transport, target or usual, self.mode, user)
            return anyio.run(run_in_python, client, handlers, user)
        run_driver: Run = request.getfixturevalue("run_driver")
        answers = {"forms": FORMS, "words": SAMPLES, "roots": ROOTS} if is_able else None
        driver = (
            ["node/questions_2.mjs", self.mode] if self.client == "typescript 2" else ["node/questions_1.mjs"]
        )
        return run_driver(
            *driver, json.dumps(answers), json.dumps(handlers), self.transport, *(target or usual)
        )


PEERS = [
    Peer("python", "legacy", "stdio", HANDSHAKE),
    Peer("python", "auto", "http", STATELESS),
    Peer("python", STATELESS, "sse", STATELESS),
    Peer("python", "legacy", "http", HANDSHAKE),
    Peer("typescript 2", "legacy", "http", HANDSHAKE),
    Peer("typescript 2", "auto", "sse", STATELESS),
    Peer("typescript 2", STATELESS, "stdio", STATELESS),
    Peer("typescript 2", "legacy:2025-06-18", "stdio", "2025-06-18"),
    Peer("typescript 2", "legacy:2025-03-26", "http", "2025-03-26"),
    Peer("typescript 1", "", "stdio", HANDSHAKE),
    Peer("typescript 1", "", "http", HANDSHAKE),
    Peer("typescript 1", "", "sse", HANDSHAKE),
]
"""Each client with each transport, each client in each of its modes, and each mode with two transports."""


@pytest.mark.parametrize("version", ALL)
def test_question_in_memory_client_sees_expected_exchange(version: str) -> None:
    faults = faults_of(anyio.run(run_in_memory, version, HANDLERS, User()), version)
    report = anyio.run(run_in_memory, version, HANDLERS, None)
    faults += faults_of(report, version, is_able=False)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("peer", PEERS, ids=" ".join)
def test_question_official_client_sees_expected_exchange(request: pytest.FixtureRequest, peer: Peer) -> None:
    faults = faults_of(peer.run(request, HANDLERS), peer.version)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("peer", [peer for peer in PEERS if peer.transport == "http"], ids=" ".join)
def test_question_official_client_without_capabilities_gets_error(
    request: pytest.FixtureRequest, peer: Peer
) -> None:
    faults = faults_of(peer.run(request, HANDLERS, is_able=False), peer.version, is_able=False)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("peer", [PEERS[1], PEERS[4], PEERS[5]], ids=" ".join)
def test_eleven_rounds_only_stateless_client_stops_after_ten(
    request: pytest.FixtureRequest, peer: Peer
) -> None:
    outcome = peer.run(request, [("tool", "interview")])["handlers"]["interview"]
    if peer.version == STATELESS:
        assert "10 rounds" in outcome["message"] or "maxRounds" in outcome["message"], outcome
        assert len(outcome["asked"]) == 10
    else:
        assert outcome["text"] == "0 1 2 3 4 5 6 7 8 9 10"
