"""Requests of a server to its client: forms, pages, sampling and roots, in both eras, and malformed requests."""

import asyncio
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from mcpkit import Client, Context, ProtocolError, Server
from mcpkit.client import FormChoice, FormRequest, SampleRequest, SamplingHandler, UrlRequest
from mcpkit.elicitation import ElicitationResult, Root
from mcpkit.protocol.revisions import CLIENT_CAPABILITIES
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized
from tests.helpers.scripted_transport import error as error_result
from tests.helpers.scripted_transport import text as text_result
from tests.helpers.tables import each_row
from tests.helpers.waiting import LoopClock

REVISIONS = ["2025-11-25", "2026-07-28"]


class Pace(Enum):
    SLOW = "s"
    FAST = "f"

    @property
    def label(self) -> str:
        return self.name.capitalize()


@dataclass
class Trip:
    city: Annotated[str, Field(title="City", description="Where to", min_length=2)]
    days: Annotated[int, Field(ge=1, le=30)] = 3
    pace: Pace = Pace.SLOW
    guide: bool = False


server = Server("asking")


@server.tool
async def plan(ctx: Context) -> str:
    trip = await ctx.elicit("Where to?", Trip)
    if not trip:
        return trip.action
    return f"{trip.value.city} {trip.value.days} {trip.value.pace.value} {trip.value.guide}"


@server.tool
async def name(ctx: Context) -> str:
    return (await ctx.elicit("Who?", str)).value


@server.tool
async def pay(ctx: Context) -> str:
    return (await ctx.elicit_url("Pay, please", "https://pay.example.com/1", done=lambda: True)).action


@server.tool
async def think(ctx: Context) -> str:
    output = await ctx.sample("Think!", max_tokens=50, system="Be brief", temperature=0.5)
    return f"{output.text} ({output.model}, {output.stop_reason})"


@server.tool
async def places(ctx: Context) -> list[str]:
    return [f"{root.uri} {root.name}" for root in await ctx.list_roots()]


async def call(tool: str, revision: str, **handlers: Any) -> str:
    """Call a tool of the server as a new client, and return the text of its result."""
    async with Client(server, protocol_version=revision, **handlers) as client:
        return (await client.call_tool(tool)).text


async def test_elicit_form_has_fields_and_fills_in_defaults(revision: str) -> None:
    seen: list[FormRequest] = []

    async def fill_in(form: FormRequest) -> dict[str, Any]:
        seen.append(form)
        return {"city": "Rome", "days": 5}

    assert await call("plan", revision, elicitation_handler=fill_in) == "Rome 5 s False"
    (form,) = seen
    assert form.message == "Where to?"
    assert form.server["name"] == "asking"
    city, days, pace, guide = form.fields
    assert (city.name, city.title, city.description, city.kind) == ("city", "City", "Where to", "string")
    assert (city.is_required, city.schema["minLength"]) == (True, 2)
    assert (days.kind, days.is_required, days.schema["maximum"]) == ("integer", False, 30)
    assert (pace.kind, guide.kind) == ("choice", "boolean")
    assert pace.choices == (FormChoice("s", "Slow"), FormChoice("f", "Fast"))


class Tripped(BaseModel):
    city: str
    pace: Pace


@each_row(("answer", "reported"), [
    (Tripped(city="Oslo", pace=Pace.FAST), "Oslo 3 f False"),
    ({"city": "Oslo", "days": None}, "Oslo 3 s False"),
    (ElicitationResult("accept", {"city": "Oslo"}), "Oslo 3 s False"),
    (ElicitationResult("decline"), "decline"),
    (None, "cancel"),
])  # fmt: skip
async def test_elicit_handler_return_values_become_answers(answer: object, reported: str) -> None:
    for revision in REVISIONS:
        assert await call("plan", revision, elicitation_handler=lambda form: answer) == reported


@pytest.mark.parametrize(("answer", "error", "problem"), [
    ({"city": "R"}, ValueError, "city: expected a string of at least 2 characters"),
    ({"city": "Rome", "days": 31}, ValueError, "days: expected an integer from 1 to 30, got 31"),
    ({"days": 2}, ValueError, "city: expected .* but it is missing"),
    ({"city": "Rome", "pase": "s"}, ValueError, 'pase: the form has no such field; did you mean "pace"'),
    ({"city": "Rome", "pace": "x"}, ValueError, 'pace: expected .*, got "x"'),
    (LookupError("no display"), LookupError, "no display"),
    ("Rome", TypeError, r"elicitation_handler must return a dict of the form's fields \(city, days, pace, guide\)"),
])  # fmt: skip
async def test_elicit_answer_not_fitting_form_is_not_sent(answer, error, problem) -> None:
    def respond(form: FormRequest) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with Client(server, elicitation_handler=respond) as client:
        with pytest.raises(error, match=problem):
            await client.call_tool("plan")
        assert await client.list_tools(), "the client is still open"


async def test_call_timeout_does_not_run_during_elicitation(revision: str) -> None:
    is_requested, is_answered = asyncio.Event(), asyncio.Event()

    async def think(form: FormRequest) -> str:
        is_requested.set()
        await is_answered.wait()
        return "Ada"

    async with Client(server, protocol_version=revision, elicitation_handler=think, timeout=5) as client:
        clock = LoopClock()
        call = asyncio.create_task(client.call_tool("name"))
        await is_requested.wait()
        for _ in range(20):
            clock.ahead += 6
            await asyncio.sleep(0)
        is_answered.set()
        assert (await call).text == "Ada"


async def test_elicit_url_is_passed_to_handler(revision: str) -> None:
    seen: list[UrlRequest] = []

    def visit(page: UrlRequest) -> bool | None:
        seen.append(page)
        return [True, False, None][len(seen) - 1]

    reported = [await call("pay", revision, url_elicitation_handler=visit) for _ in range(3)]
    assert reported == ["accept", "decline", "cancel"]
    page = seen[0]
    assert (page.message, page.host, page.server["name"]) == ("Pay, please", "pay.example.com", "asking")
    assert page.url == "https://pay.example.com/1"


async def test_sample_request_fields_and_text_answer(revision: str) -> None:
    seen: list[SampleRequest] = []

    async def speak(request: SampleRequest) -> str:
        seen.append(request)
        return "Hm."

    assert await call("think", revision, sampling_handler=speak) == "Hm. (unknown, endTurn)"
    (request,) = seen
    assert (request.text, request.system, request.temperature) == ("Think!", "Be brief", 0.5)
    assert (request.max_tokens, request.messages[0]["role"]) == (50, "user")
    assert request.server["name"] == "asking"


async def test_roots_accept_paths_uris_and_functions(revision: str, tmp_path: Path) -> None:
    async def find() -> list[str | Path | Root]:
        return [tmp_path, "file:///srv", Root("file:///home", "Home")]

    async with Client(server, protocol_version=revision, roots=find) as client:
        reported = (await client.call_tool("places")).raw["structuredContent"]
    found = reported["result"] if isinstance(reported, dict) else reported
    assert found == [f"{tmp_path.as_uri()} None", "file:///srv None", "file:///home Home"]


Handlers = dict[str, Any]
PAGES: Handlers = {"url_elicitation_handler": lambda page: False}
ROOTS: Message = {"roots": {"listChanged": True}}
FORMS: Handlers = {"elicitation_handler": FormRequest.cancel}


@each_row(("handlers", "expected", "expected_of_old"), [
    ({}, {}, {}),
    (FORMS, {"elicitation": {"form": {}}}, {"elicitation": {}}),
    (PAGES, {"elicitation": {"url": {}}}, {}),
    ({**FORMS, **PAGES}, {"elicitation": {"form": {}, "url": {}}}, {"elicitation": {}}),
    ({"sampling_handler": print}, {"sampling": {}}, {"sampling": {}}),
    ({"sampling_handler": SamplingHandler(print, tools=True, context=True)},
     {"sampling": {"tools": {}, "context": {}}}, {"sampling": {}}),
    ({"roots": []}, ROOTS, ROOTS),
])  # fmt: skip
async def test_capabilities_follow_from_handlers(handlers, expected, expected_of_old) -> None:
    for revision in ("2025-06-18", *REVISIONS):
        transport = scripted(revision=revision)
        async with Client(transport, protocol_version=revision, **handlers):
            params = transport.sent[0]["params"]
        if revision == "2026-07-28":
            assert params["_meta"][CLIENT_CAPABILITIES] == ({"roots": {}} if expected is ROOTS else expected)
        else:
            assert params["capabilities"] == (expected_of_old if revision == "2025-06-18" else expected)


FORM: Message = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
SURE: Message = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": FORM}}


def scripted(*answers: Message, revision: str = "2026-07-28") -> ScriptedTransport:
    """Be a server that answers its calls with these results, one after the other."""
    left = list(answers)

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] in ("server/discover", "initialize"):
            return [discovered(message) if revision == "2026-07-28" else initialized(message, revision)]
        return [{"id": message["id"], "result": left.pop(0)}] if "id" in message else []

    return ScriptedTransport(script)


def input_required(requests: Any = None, **members: Any) -> Message:
    requested = {} if requests is None else {"inputRequests": requests}
    return {"resultType": "input_required", **requested, **members}


DONE: Message = {"resultType": "complete", "content": []}


async def test_input_required_state_is_returned_once_under_new_id() -> None:
    state = ' {"b":1,  "a":"\\u00e9é"}\n'
    transport = scripted(
        input_required({"k": SURE}, requestState=state), input_required({"k": SURE}), DONE, DONE
    )
    async with Client(transport, elicitation_handler=lambda form: {"sure": True}) as client:
        await client.call_tool("bake", {"what": "bread"})
        await client.call_tool("eat")
    accepted = {"k": {"action": "accept", "content": {"sure": True}}}
    call = {"name": "bake", "arguments": {"what": "bread"}}
    meta = [message["params"].pop("_meta") for message in transport.sent]
    assert all(CLIENT_CAPABILITIES in each for each in meta)
    assert [message["params"] for message in transport.sent[1:]] == [
        call,
        {**call, "inputResponses": accepted, "requestState": state},
        {**call, "inputResponses": accepted},
        {"name": "eat", "arguments": {}},
    ]
    ids = [message["id"] for message in transport.sent]
    assert len(set(ids)) == len(ids)


@each_row(("answer", "problem"), [
    (input_required(), "inputRequests or requestState"),
    (input_required(requestState=5), "a string as requestState"),
    (input_required([]), "an object as inputRequests"),
    (input_required({"k": 1}), "requests with a method"),
    (input_required({"k": {"params": {}}}), "requests with a method"),
    (input_required({"k": {"method": "elicitation/create", "params": []}}), "requests with a method"),
])  # fmt: skip
async def test_input_required_malformed_is_protocol_error(answer: Message, problem: str) -> None:
    async with Client(scripted(answer), elicitation_handler=FormRequest.cancel) as client:
        with pytest.raises(ProtocolError, match=f"answer to tools/call is malformed: expected .*{problem}"):
            await client.call_tool("bake")


def refuse(request: FormRequest | UrlRequest) -> bool:
    raise AssertionError


def elicit(**params: Any) -> Message:
    return {"method": "elicitation/create", "params": params}


@each_row(("handler", "request_of_server", "code", "problem"), [
    ("elicitation_handler", elicit(requestedSchema=FORM), -32602, "message: expected a string"),
    ("elicitation_handler", elicit(message="Sure?"), -32602, "requestedSchema: expected an object"),
    ("elicitation_handler", elicit(message="Sure?", requestedSchema={"type": "object"}), -32602,
     "requestedSchema: expected an object"),
    ("elicitation_handler", elicit(message="?", requestedSchema={"type": "object", "properties": {"a": {"type": "x"}}}),
     -32602, "requestedSchema: unknown type 'x'"),
    ("elicitation_handler", elicit(message="Sure?", mode="url", url="https://a.b"), -32602, "in the mode 'url'"),
    ("elicitation_handler", elicit(message="Sure?", mode=5), -32602, "elicitation in the mode 5"),
    *[("url_elicitation_handler", elicit(mode="url", message="Look", url=url), -32602, "url: expected an http or https")
      for url in ("file:///etc/passwd", "https://[", "https://a\nb", 5)],
    ("sampling_handler", elicit(), -32601, "this client does not answer elicitation/create"),
    ("sampling_handler", {"method": "other/thing"}, -32601, "this client does not answer other/thing"),
])  # fmt: skip
async def test_request_malformed_or_unsupported_does_not_reach_handler(
    handler: str, request_of_server: Message, code: int, problem: str
) -> None:
    transport = scripted(input_required({"k": request_of_server}))
    async with Client(transport, **{handler: refuse}) as client:  # type: ignore[arg-type]
        with pytest.raises(ProtocolError, match=problem) as raised:
            await client.call_tool("bake")
    assert raised.value.code == code
    assert len(transport.sent) == 2


async def test_url_elicitation_required_repeats_call_after_completion() -> None:
    page = {"mode": "url", "elicitationId": "e1", "url": "https://example.com/1", "message": "Sign in"}
    calls: list[Message] = []
    seen: list[UrlRequest] = []
    completed: list[str] = []

    def complete(transport: ScriptedTransport, id_: str) -> None:
        completed.append(id_)
        transport.deliver({"method": "notifications/elicitation/complete", "params": {"elicitationId": id_}})

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "initialize":
            return [initialized(message)]
        if message["method"] != "tools/call":
            return []
        calls.append(message)
        if len(calls) == 2:
            return [text_result(message, "done" if completed == ["other", "e1"] else "too early")]
        for number, id_ in enumerate(("other", "e1")):
            asyncio.get_running_loop().call_later(number / 1000, complete, transport, id_)
        return [error_result(message, -32042, "sign in first", {"elicitations": [page]})]

    async def visit(page: UrlRequest) -> bool:
        seen.append(page)
        return True

    options = {"protocol_version": "2025-11-25", "url_elicitation_handler": visit}
    async with Client(ScriptedTransport(script), **options) as client:
        assert (await client.call_tool("files")).text == "done"
    assert [(page.id, page.url) for page in seen] == [("e1", "https://example.com/1")]
    assert calls[0]["params"] == calls[1]["params"]
    assert calls[0]["id"] != calls[1]["id"]
