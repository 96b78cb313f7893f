"""The same handlers ask the official clients and the in-memory client, in either era."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.request import urlopen

import anyio
import pytest
from mcp import Client, InputRequiredRoundsExceededError, MCPError, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.types import (
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitCompleteNotification,
    ElicitResult,
    ListRootsResult,
    Root,
    SamplingCapability,
    SamplingToolsCapability,
    TextContent,
    ToolUseContent,
)

from mcpkit import ProtocolError
from mcpkit.protocol.revisions import ALL
from mcpkit.testing import connect
from tests.helpers.serving import serving
from tests.interop import asking_server
from tests.interop.asking_journey import (
    ANSWERS,
    CASES,
    COMMAND,
    FORMS_SINCE,
    HANDLERS,
    ROOTS,
    URLS_SINCE,
    Answers,
    Case,
    check,
)
from tests.interop.journey import HANDSHAKE, STATELESS, TRANSPORTS

TIME_OUT = 90
Reach = Callable[[str], "list[str]"]
Handlers = Sequence["tuple[str, str]"]

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated")


class Way(NamedTuple):
    """A client, and how it connects.

    Attributes:
        client: `python`, `typescript 2`, `typescript 1` or `memory`.
        mode: How it negotiates; the revision alone in memory.
        transport: One of `TRANSPORTS`, or none.
        revision: What it must negotiate.
    """

    client: str
    mode: str
    transport: str
    revision: str

    def __str__(self) -> str:
        return " ".join(each for each in (self.client, self.mode, self.transport) if each)


NEGOTIATED = {"legacy": HANDSHAKE, "auto": STATELESS, STATELESS: STATELESS}
WAYS = [
    Way(client, mode, transport, revision)
    for client, modes in {
        "python": NEGOTIATED,
        "typescript 2": NEGOTIATED | {"legacy:2025-06-18": "2025-06-18", "legacy:2025-03-26": "2025-03-26"},
        "typescript 1": {"": HANDSHAKE},
    }.items()
    for mode, revision in modes.items()
    for transport in TRANSPORTS
]
IN_MEMORY = [Way("memory", revision, "", revision) for revision in ALL]


class Person(Answers):
    """Whoever answers the official Python client."""

    def __init__(self) -> None:
        super().__init__()
        self.completed: list[bool] = []
        self._ids: list[str] = []

    async def elicit(self, _context: Any, params: Any) -> ElicitResult:
        if params.mode == "url":
            self.asked.append(params.message)
            if (id_ := getattr(params, "elicitation_id", None)) is not None:
                self._ids.append(id_)
            await anyio.to_thread.run_sync(visit, params.url)
            return ElicitResult(action="accept")
        entry = self.entry(params.message)
        return (
            ElicitResult(action=entry)
            if isinstance(entry, str)
            else ElicitResult(action="accept", content=entry)
        )

    async def sample(self, _context: Any, params: Any) -> CreateMessageResult | CreateMessageResultWithTools:
        content = params.messages[-1].content
        block = content[-1] if isinstance(content, list) else content
        words = self.words(block.text if block.type == "text" else block.content[0].text)
        if isinstance(words, str):
            said = TextContent(type="text", text=words)
            return CreateMessageResult(role="assistant", model="parrot", content=said)
        use = ToolUseContent.model_validate(words)
        return CreateMessageResultWithTools(
            role="assistant", model="parrot", content=use, stop_reason="toolUse"
        )

    async def roots(self, _context: Any) -> ListRootsResult:
        self.asked.append("roots")
        return ListRootsResult(roots=[Root.model_validate(root) for root in ROOTS])

    async def hear(self, message: Any) -> None:
        if isinstance(message, ElicitCompleteNotification):
            self.completed.append(message.params.elicitation_id in self._ids)


def visit(url: str) -> None:
    """Open a page, as a browser does."""
    with urlopen(url, timeout=TIME_OUT) as page:
        page.read()


async def by_python(
    way: Way, target: Sequence[str], handlers: Handlers, person: Person | None
) -> dict[str, Any]:
    address: Any = target[0]
    if way.transport == "stdio":
        address = StdioServerParameters(command=target[0], args=target[1:])
    elif way.transport == "sse":
        address = sse_client(address)
    options: dict[str, Any] = {"mode": way.mode, "cache": None}
    if person is not None:
        options |= {
            "elicitation_callback": person.elicit,
            "sampling_callback": person.sample,
            "sampling_capabilities": SamplingCapability(tools=SamplingToolsCapability()),
            "list_roots_callback": person.roots,
            "message_handler": person.hear,
        }

    async def use(client: Client, kind: str, name: str) -> str:
        if kind == "prompt":
            return (await client.get_prompt(name)).messages[0].content.text  # type: ignore[union-attr]  # a text
        if kind == "resource":
            return (await client.read_resource(name)).contents[0].text  # type: ignore[union-attr]  # a text
        result = await client.call_tool(name)
        return ("error: " if result.is_error else "") + result.content[0].text  # type: ignore[union-attr]  # a text

    met: dict[str, Any] = {}
    with anyio.fail_after(TIME_OUT):
        async with Client(address, **options) as client:
            for kind, name in handlers:
                if person is not None:
                    person.start()
                try:
                    met[name] = {"text": await use(client, kind, name)}
                except InputRequiredRoundsExceededError as error:
                    met[name] = {"message": str(error)}
                except MCPError as error:
                    met[name] = {"code": error.code, "message": error.message, "data": error.data}
                met[name]["asked"] = person.asked if person else []
            revision = client.protocol_version
    return {"handlers": met, "completed": person.completed if person else [], "revision": revision}


async def in_memory(way: Way, handlers: Handlers, person: Person | None) -> dict[str, Any]:
    async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert person is not None
        if method == "roots/list":
            person.asked.append("roots")
            return {"roots": ROOTS}
        if method == "sampling/createMessage":
            content = params["messages"][-1]["content"]
            block = content[-1] if isinstance(content, list) else content
            words = person.words(block["text"] if block["type"] == "text" else block["content"][0]["text"])
            said = (
                {"content": {"type": "text", "text": words}}
                if isinstance(words, str)
                else {
                    "content": words,
                    "stopReason": "toolUse",
                }
            )
            return {"role": "assistant", "model": "parrot", **said}
        if params.get("mode") == "url":
            person.asked.append(params["message"])
            await asyncio.to_thread(visit, params["url"])
            return {"action": "accept"}
        entry = person.entry(params["message"])
        return {"action": entry} if isinstance(entry, str) else {"action": "accept", "content": entry}

    async def use(kind: str, name: str) -> str:
        if kind == "prompt":
            return str((await client.get_prompt(name))[0]["content"]["text"])
        if kind == "resource":
            return str((await client.read(name))[0]["text"])
        result = await client.call(name)
        return ("error: " if result.is_error else "") + result.text

    met: dict[str, Any] = {}
    options: dict[str, Any] = {"capabilities": {}} if person is None else {"answers": answer}
    async with connect(asking_server.server, revision=way.revision, **options) as client:
        for kind, name in handlers:
            if person is not None:
                person.start()
            try:
                met[name] = {"text": await use(kind, name)}
            except ProtocolError as error:
                met[name] = {"code": error.code, "message": str(error), "data": error.data}
            met[name]["asked"] = person.asked if person else []
        told = [each["method"] for each in client.notifications]
    completed = [True] * told.count("notifications/elicitation/complete")
    return {"handlers": met, "completed": completed, "revision": way.revision}


@pytest.fixture(scope="module")
def reach() -> Iterator[Reach]:
    """How to reach the server over a transport; what serves it meets no error of its own."""
    with serving([*COMMAND, "http"]) as http, serving([*COMMAND, "sse"]) as sse:
        targets = {"stdio": COMMAND, "http": [f"{http.origin}/mcp"], "sse": [f"{sse.origin}/sse"]}
        yield targets.__getitem__
    for served in (http, sse):
        assert "Traceback" not in served.notes


def travel(
    request: pytest.FixtureRequest, way: Way, handlers: Handlers, *, can: bool, target: Sequence[str] = ()
) -> dict[str, Any]:
    """Have a client use handlers, and return its account."""
    if way.client == "memory":
        return anyio.run(in_memory, way, handlers, Person() if can else None)
    target = target or request.getfixturevalue("reach")(way.transport)
    if way.client == "python":
        return anyio.run(by_python, way, target, handlers, Person() if can else None)
    driver = ["asking.mjs", way.mode] if way.client == "typescript 2" else ["asking_1.mjs"]
    arguments = [json.dumps(ANSWERS if can else None), json.dumps(handlers), way.transport, *target]
    finished = request.getfixturevalue("run_driver")(*driver, *arguments)
    assert finished.returncode == 0, finished.stderr
    return dict(json.loads(finished.stdout))


@pytest.fixture(scope="module", params=[*WAYS, *IN_MEMORY], ids=str)
def account(request: pytest.FixtureRequest) -> tuple[Way, dict[str, Any]]:
    """A client that answers whatever its revision can ask, and what it has met."""
    return request.param, travel(request, request.param, HANDLERS, can=True)


@pytest.fixture(
    scope="module", params=[way for way in [*WAYS, *IN_MEMORY] if way.transport != "sse"], ids=str
)
def account_without(request: pytest.FixtureRequest) -> tuple[Way, dict[str, Any]]:
    """A client that has declared no capability, and what it has met."""
    return request.param, travel(request, request.param, HANDLERS, can=False)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_asked_is_answered(account: tuple[Way, dict[str, Any]], case: Case) -> None:
    way, seen = account
    check(seen["handlers"][case.name], case, way.revision)


def test_the_revision_is_the_one_that_was_wanted(account: tuple[Way, dict[str, Any]]) -> None:
    way, seen = account
    assert seen["revision"] == way.revision


def test_a_visit_that_is_over_is_told_where_the_revision_can(account: tuple[Way, dict[str, Any]]) -> None:
    way, seen = account
    assert seen["completed"] == ([True] if way.revision == URLS_SINCE else [])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_client_that_cannot_be_asked_is_told_what_it_lacks(
    account_without: tuple[Way, dict[str, Any]], case: Case
) -> None:
    way, seen = account_without
    check(seen["handlers"][case.name], case, way.revision, can=False)


@pytest.mark.parametrize(
    "way", [way for way in WAYS if way.mode == "auto" and way.transport == "http"], ids=str
)
def test_an_encrypted_state_is_carried_like_any_other(request: pytest.FixtureRequest, way: Way) -> None:
    with serving([*COMMAND, "http"], ASKING_ENCRYPTS=1) as served:
        seen = travel(request, way, HANDLERS, can=True, target=[f"{served.origin}/mcp"])
    for case in CASES.values():
        check(seen["handlers"][case.name], case, way.revision)


INTERVIEW = ("tool", "interview")
PATIENT = "0 1 2 3 4 5 6 7 8 9 10"


@pytest.mark.parametrize("way", [way for way in WAYS if way.transport == "http"], ids=str)
def test_official_clients_give_up_after_ten_rounds_of_the_stateless_era(
    way: Way, request: pytest.FixtureRequest
) -> None:
    """Eleven questions one after the other: it is the client that counts, unless it is told not to."""
    if way.revision < FORMS_SINCE:
        pytest.skip("the revision has no forms")
    met = travel(request, way, [INTERVIEW], can=True)["handlers"]["interview"]
    if way.revision == STATELESS:
        assert "10 rounds" in met["message"] or "maxRounds" in met["message"], met
        assert len(met["asked"]) == 10
    else:
        assert met["text"] == PATIENT


def test_the_python_client_goes_on_for_as_long_as_it_is_told_to(reach: Reach) -> None:
    async def use() -> Any:
        (url,) = reach("http")
        async with Client(url, elicitation_callback=Person().elicit, input_required_max_rounds=11) as client:
            return (await client.call_tool("interview")).content

    (content,) = anyio.run(use)
    assert content.text == PATIENT
