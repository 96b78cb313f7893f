"""Requests of a server to its client: forms, pages, sampling and roots, in both eras, and malformed requests."""

from __future__ import annotations

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
from mcpkit.protocol.eras import CLIENT_CAPABILITIES
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized
from tests.helpers.scripted_transport import error as error_result
from tests.helpers.scripted_transport import text as text_result
from tests.helpers.waiting import LoopClock

pytestmark = pytest.mark.anyio

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
async def act(ctx: Context) -> str:
    tools = [{"name": "look", "inputSchema": {"type": "object"}}]
    output = await ctx.sample("Act!", max_tokens=50, tools=tools, tool_choice="required")
    return str(output.content[0]["name"])


@server.tool
async def places(ctx: Context) -> list[str]:
    return [f"{root.uri} {root.name}" for root in await ctx.list_roots()]


@server.tool
async def capabilities(ctx: Context) -> dict[str, Any]:
    return ctx.client.capabilities


@pytest.mark.parametrize("revision", REVISIONS)
async def test_elicit_form_has_fields_and_fills_in_defaults(revision: str) -> None:
    seen: list[FormRequest] = []

    async def fill_in(form: FormRequest) -> dict[str, Any]:
        seen.append(form)
        return {"city": "Rome", "days": 5}

    async with Client(server, protocol_version=revision, elicitation_handler=fill_in) as client:
        assert (await client.call_tool("plan")).text == "Rome 5 s False"
    (form,) = seen
    assert form.message == "Where to?"
    assert form.server["name"] == "asking"
    city, days, pace, guide = form.fields
    assert (city.name, city.title, city.description, city.kind, city.is_required) == (
        "city", "City", "Where to", "string", True,
    )  # fmt: skip
    assert city.schema["minLength"] == 2
    assert (days.kind, days.is_required, days.schema["maximum"]) == ("integer", False, 30)
    assert pace.kind == "choice"
    assert pace.choices == (FormChoice("s", "Slow"), FormChoice("f", "Fast"))
    assert guide.kind == "boolean"


class Tripped(BaseModel):
    city: str
    pace: Pace


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("answer", "reported"), [
    (Tripped(city="Oslo", pace=Pace.FAST), "Oslo 3 f False"),
    ({"city": "Oslo", "days": None}, "Oslo 3 s False"),
    (ElicitationResult("accept", {"city": "Oslo"}), "Oslo 3 s False"),
    (ElicitationResult("decline"), "decline"),
    (None, "cancel"),
])  # fmt: skip
async def test_elicit_handler_return_values_become_answers(
    revision: str, answer: object, reported: str
) -> None:
    async with Client(server, protocol_version=revision, elicitation_handler=lambda form: answer) as client:
        assert (await client.call_tool("plan")).text == reported


@pytest.mark.parametrize(("answer", "error", "problem"), [
    ({"city": "R"}, ValueError, "city: expected a string of at least 2 characters"),
    ({"city": "Rome", "days": 31}, ValueError, "days: expected an integer from 1 to 30, got 31"),
    ({"days": 2}, ValueError, "city: expected .* but it is missing"),
    ({"city": "Rome", "pase": "s"}, ValueError, 'pase: the form has no such field; did you mean "pace"'),
    ({"city": "Rome", "pace": "x"}, ValueError, 'pace: expected .*, got "x"'),
    ("Rome", TypeError, r"elicitation_handler must return a dict of the form's fields \(city, days, pace, guide\)"),
])  # fmt: skip
async def test_elicit_answer_not_fitting_form_is_not_sent(
    answer: object, error: type[Exception], problem: str
) -> None:
    async with Client(server, elicitation_handler=lambda form: answer) as client:
        with pytest.raises(error, match=problem):
            await client.call_tool("plan")
        assert (await client.call_tool("capabilities")).structured_content is not None


@pytest.mark.parametrize("revision", REVISIONS)
async def test_elicit_handler_error_is_raised_by_call(revision: str) -> None:
    def fail(form: FormRequest) -> None:
        raise LookupError("secret")

    async with Client(server, protocol_version=revision, elicitation_handler=fail) as client:
        with pytest.raises(LookupError, match="secret"):
            await client.call_tool("plan")


@pytest.mark.parametrize("revision", REVISIONS)
async def test_call_timeout_does_not_run_during_elicitation(revision: str) -> None:
    asked, reported = asyncio.Event(), asyncio.Event()

    async def think(form: FormRequest) -> str:
        asked.set()
        await reported.wait()
        return "Ada"

    async with Client(server, protocol_version=revision, elicitation_handler=think, timeout=5) as client:
        clock = LoopClock()
        call = asyncio.create_task(client.call_tool("name"))
        await asked.wait()
        for _ in range(20):
            clock.ahead += 6
            await asyncio.sleep(0)
        reported.set()
        assert (await call).text == "Ada"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_elicit_url_is_passed_to_handler(revision: str) -> None:
    seen: list[UrlRequest] = []

    def visit(page: UrlRequest) -> bool | None:
        seen.append(page)
        return [True, False, None][len(seen) - 1]

    async with Client(server, protocol_version=revision, url_elicitation_handler=visit) as client:
        reported = [(await client.call_tool("pay")).text for _ in range(3)]
    assert reported == ["accept", "decline", "cancel"]
    assert (seen[0].message, seen[0].url, seen[0].host) == (
        "Pay, please", "https://pay.example.com/1", "pay.example.com",
    )  # fmt: skip
    assert seen[0].server["name"] == "asking"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_sample_request_fields_and_text_answer(revision: str) -> None:
    seen: list[SampleRequest] = []

    async def speak(request: SampleRequest) -> str:
        seen.append(request)
        return "Hm."

    async with Client(server, protocol_version=revision, sampling_handler=speak) as client:
        assert (await client.call_tool("think")).text == "Hm. (unknown, endTurn)"
    (request,) = seen
    assert (request.text, request.max_tokens, request.system, request.temperature) == (
        "Think!", 50, "Be brief", 0.5,
    )  # fmt: skip
    assert request.server["name"] == "asking"
    assert request.messages[0]["role"] == "user"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_roots_accept_paths_uris_and_functions(revision: str, tmp_path: Path) -> None:
    async def find() -> list[str | Path | Root]:
        return [tmp_path, "file:///srv", Root("file:///home", "Home")]

    async with Client(server, protocol_version=revision, roots=find) as client:
        reported = (await client.call_tool("places")).raw["structuredContent"]
    found = reported["result"] if isinstance(reported, dict) else reported
    assert found == [f"{tmp_path.as_uri()} None", "file:///srv None", "file:///home Home"]


def declared_to(revision: str) -> ScriptedTransport:
    """Be a server of one revision."""

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if "id" not in message:
            return []
        if revision == "2026-07-28":
            return [discovered(message)]
        return [initialized(message, revision)]

    return ScriptedTransport(script)


@pytest.mark.parametrize("revision", ["2025-06-18", *REVISIONS])
async def test_capabilities_follow_from_handlers(revision: str) -> None:
    async def declared(**handlers: Any) -> Any:
        transport = declared_to(revision)
        async with Client(transport, protocol_version=revision, **handlers):
            params = transport.sent[0]["params"]
        is_stateless = revision == "2026-07-28"
        return params["_meta"][CLIENT_CAPABILITIES] if is_stateless else params["capabilities"]

    def speak(request: SampleRequest) -> str:
        return ""

    is_old = revision == "2025-06-18"
    both = {"elicitation_handler": FormRequest.cancel, "url_elicitation_handler": lambda page: False}
    assert await declared() == {}
    assert await declared(elicitation_handler=FormRequest.cancel) == {
        "elicitation": {} if is_old else {"form": {}}
    }
    assert await declared(url_elicitation_handler=lambda page: False) == (
        {} if is_old else {"elicitation": {"url": {}}}
    )
    assert await declared(**both) == {"elicitation": {} if is_old else {"form": {}, "url": {}}}
    assert await declared(sampling_handler=speak) == {"sampling": {}}
    assert await declared(sampling_handler=SamplingHandler(speak, tools=True, context=True)) == {
        "sampling": {} if is_old else {"tools": {}, "context": {}}
    }
    assert await declared(roots=[]) == {"roots": {} if revision == "2026-07-28" else {"listChanged": True}}


FORM: Message = {"type": "object", "properties": {"sure": {"type": "boolean"}}}
SURE: Message = {"method": "elicitation/create", "params": {"message": "Sure?", "requestedSchema": FORM}}


def asking(*answers: Message) -> ScriptedTransport:
    """Be a server of the stateless era that answers its calls with these results, one after the other."""
    left = list(answers)

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if message["method"] == "server/discover":
            return [discovered(message)]
        return [{"id": message["id"], "result": left.pop(0)}]

    return ScriptedTransport(script)


def asks(requests: Any = None, **members: Any) -> Message:
    asked = {} if requests is None else {"inputRequests": requests}
    return {"resultType": "input_required", **asked, **members}


DONE: Message = {"resultType": "complete", "content": []}


def sent(transport: ScriptedTransport) -> list[Message]:
    """Return what was sent after the discovery, without the `_meta`."""
    found = []
    for message in transport.sent[1:]:
        assert CLIENT_CAPABILITIES in message["params"]["_meta"]
        found.append({key: value for key, value in message["params"].items() if key != "_meta"})
    return found


async def test_input_required_state_is_returned_once_under_new_id() -> None:
    state = ' {"b":1,  "a":"\\u00e9é"}\n'
    transport = asking(asks({"k": SURE}, requestState=state), asks({"k": SURE}), DONE, DONE)
    async with Client(transport, elicitation_handler=lambda form: {"sure": True}) as client:
        await client.call_tool("bake", {"what": "bread"})
        await client.call_tool("eat")
    accepted = {"k": {"action": "accept", "content": {"sure": True}}}
    call = {"name": "bake", "arguments": {"what": "bread"}}
    assert sent(transport) == [
        call,
        {**call, "inputResponses": accepted, "requestState": state},
        {**call, "inputResponses": accepted},
        {"name": "eat", "arguments": {}},
    ]
    ids = [message["id"] for message in transport.sent]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(("answer", "problem"), [
    (asks(), "inputRequests or requestState"),
    (asks(requestState=5), "a string as requestState"),
    (asks([]), "an object as inputRequests"),
    (asks({"k": 1}), "requests with a method"),
    (asks({"k": {"params": {}}}), "requests with a method"),
    (asks({"k": {"method": "elicitation/create", "params": []}}), "requests with a method"),
])  # fmt: skip
async def test_input_required_malformed_is_protocol_error(answer: Message, problem: str) -> None:
    async with Client(asking(answer), elicitation_handler=FormRequest.cancel) as client:
        with pytest.raises(ProtocolError, match=f"answer to tools/call is malformed: expected .*{problem}"):
            await client.call_tool("bake")


@pytest.mark.parametrize(("params", "problem"), [
    ({"requestedSchema": FORM}, "message: expected a string"),
    ({"message": "Sure?"}, "requestedSchema: expected an object"),
    ({"message": "Sure?", "requestedSchema": {"type": "object"}}, "requestedSchema: expected an object"),
    ({"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "strng"}}}},
     "requestedSchema: unknown type 'strng'"),
    ({"message": "Sure?", "mode": "url", "url": "https://example.com"}, "elicitation in the mode 'url'"),
    ({"message": "Sure?", "mode": 5}, "elicitation in the mode 5"),
])  # fmt: skip
async def test_elicit_malformed_request_does_not_reach_handler(params: Message, problem: str) -> None:
    def fail(form: FormRequest) -> None:
        raise AssertionError

    transport = asking(asks({"k": {"method": "elicitation/create", "params": params}}))
    async with Client(transport, elicitation_handler=fail) as client:
        with pytest.raises(ProtocolError, match=problem) as raised:
            await client.call_tool("bake")
    assert raised.value.code == -32602
    assert len(transport.sent) == 2


@pytest.mark.parametrize("url", ["file:///etc/passwd", "https://[", "https://a\nb", 5])
async def test_elicit_url_not_http_is_refused(url: Any) -> None:
    def fail(page: UrlRequest) -> bool:
        raise AssertionError

    params = {"mode": "url", "message": "Look", "url": url}
    async with Client(
        asking(asks({"k": {"method": "elicitation/create", "params": params}})), url_elicitation_handler=fail
    ) as client:
        with pytest.raises(ProtocolError, match="url: expected an http or https URL"):
            await client.call_tool("bake")


@pytest.mark.parametrize("method", ["elicitation/create", "other/thing"])
async def test_request_without_handler_is_method_not_found(method: str) -> None:
    async with Client(asking(asks({"k": {"method": method}}))) as client:
        with pytest.raises(ProtocolError, match=f"this client does not answer {method}") as raised:
            await client.call_tool("bake")
    assert raised.value.code == -32601


PAGE: Message = {"mode": "url", "elicitationId": "e1", "url": "https://example.com/1", "message": "Sign in"}


def requiring(times: int, *, tells: bool, pages: Any = (PAGE,)) -> ScriptedTransport:
    """Be a server of the handshake era, whose user has to visit pages before so many calls."""
    left = times

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        nonlocal left
        if message["method"] == "initialize":
            return [initialized(message)]
        if message["method"] != "tools/call":
            return []
        left -= 1
        if left < 0:
            return [text_result(message, "done")]
        if tells:
            asyncio.get_running_loop().call_soon(transport.say, complete("other"))
            asyncio.get_running_loop().call_soon(transport.say, complete("e1"))
        return [error_result(message, -32042, "sign in first", {"elicitations": list(pages)})]

    return ScriptedTransport(script)


def complete(id_: str) -> Message:
    return {"method": "notifications/elicitation/complete", "params": {"elicitationId": id_}}


async def test_url_elicitation_required_repeats_call_after_completion() -> None:
    seen: list[UrlRequest] = []

    async def visit(page: UrlRequest) -> bool:
        seen.append(page)
        return True

    transport = requiring(1, tells=True)
    async with Client(transport, protocol_version="2025-11-25", url_elicitation_handler=visit) as client:
        assert (await client.call_tool("files")).text == "done"
    assert [(page.id, page.url) for page in seen] == [("e1", "https://example.com/1")]
    calls = [message for message in transport.sent if message["method"] == "tools/call"]
    assert calls[0]["params"] == calls[1]["params"]
    assert calls[0]["id"] != calls[1]["id"]
