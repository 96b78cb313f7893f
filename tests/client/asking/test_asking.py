"""What a server asks, answered by the client's handlers: alike in both eras."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from mcpkit import (
    Answer,
    Client,
    Context,
    Elicit,
    FormChoice,
    FormRequest,
    ListRoots,
    ProtocolError,
    Root,
    Sample,
    Sampled,
    Sampler,
    SampleRequest,
    Server,
    UrlRequest,
)
from mcpkit.protocol.eras import CLIENT_CAPABILITIES
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, initialized
from tests.helpers.waiting import LoopClock, until

pytestmark = pytest.mark.anyio

REVISIONS = ["2025-06-18", "2025-11-25", "2026-07-28"]
NEWER = REVISIONS[1:]


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
async def several(ctx: Context) -> str:
    first, second, said, roots = await ctx.ask(
        Elicit("First?", str), Elicit("Second?", str), Sample("Third?", max_tokens=9), ListRoots()
    )
    return f"{first.value} {second.value} {said.text} {[root.name for root in roots]}"


@server.tool
async def pay(ctx: Context) -> str:
    return (await ctx.elicit_url("Pay, please", "https://pay.example.com/1", done=lambda: True)).action


@server.tool
async def think(ctx: Context) -> str:
    said = await ctx.sample("Think!", max_tokens=50, system="Be brief", temperature=0.5)
    return f"{said.text} ({said.model}, {said.stop_reason})"


@server.tool
async def act(ctx: Context) -> str:
    tools = [{"name": "look", "inputSchema": {"type": "object"}}]
    said = await ctx.sample("Act!", max_tokens=50, tools=tools, tool_choice="required")
    return str(said.content[0]["name"])


@server.tool
async def places(ctx: Context) -> list[str]:
    return [f"{root.uri} {root.name}" for root in await ctx.list_roots()]


@server.tool
async def capabilities(ctx: Context) -> dict[str, Any]:
    return ctx.client.capabilities


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_form_is_filled_in_and_the_defaults_stand_in_for_what_is_left_out(revision: str) -> None:
    seen: list[FormRequest] = []

    async def fill_in(form: FormRequest) -> dict[str, Any]:
        seen.append(form)
        return {"city": "Rome", "days": 5}

    async with Client(server, revision=revision, elicit=fill_in) as client:
        assert (await client.call("plan")).text == "Rome 5 s False"
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
@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Tripped(city="Oslo", pace=Pace.FAST), "Oslo 3 f False"),
        ({"city": "Oslo", "days": None}, "Oslo 3 s False"),
        (Answer("accept", {"city": "Oslo"}), "Oslo 3 s False"),
        (Answer("decline"), "decline"),
        (None, "cancel"),
    ],
)
async def test_a_handler_returns_what_it_has(revision: str, answer: object, told: str) -> None:
    async with Client(server, revision=revision, elicit=lambda form: answer) as client:
        assert (await client.call("plan")).text == told


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_one_entry_of_a_form_stands_for_it(revision: str) -> None:
    async with Client(server, revision=revision, elicit=lambda form: "Ada") as client:
        assert (await client.call("name")).text == "Ada"
    async with Client(server, revision=revision, elicit=FormRequest.decline) as client:
        assert "declined" in (await client.call("name")).text


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("answer", "error", "problem"),
    [
        ({"city": "R"}, ValueError, "city: expected a string of at least 2 characters"),
        ({"city": "Rome", "days": 31}, ValueError, "days: expected an integer from 1 to 30, got 31"),
        ({"days": 2}, ValueError, "city: expected .* but it is missing"),
        ({"city": "Rome", "pase": "s"}, ValueError, 'pase: the form has no such field; did you mean "pace"'),
        ({"city": "Rome", "pace": "x"}, ValueError, 'pace: expected .*, got "x"'),
        ("Rome", TypeError, r"elicit= returns a dict of the form's fields \(city, days, pace, guide\)"),
    ],
)
async def test_what_does_not_fit_the_form_is_not_sent(
    revision: str, answer: object, error: type[Exception], problem: str
) -> None:
    async with Client(server, revision=revision, elicit=lambda form: answer) as client:
        with pytest.raises(error, match=problem):
            await client.call("plan")
        assert (await client.call("capabilities")).structured is not None


@pytest.mark.parametrize("revision", REVISIONS)
async def test_what_a_handler_raises_is_raised_by_the_call_and_not_told_to_the_server(revision: str) -> None:
    def fail(form: FormRequest) -> None:
        raise LookupError("secret")

    async with Client(server, revision=revision, elicit=fail) as client:
        with pytest.raises(LookupError, match="secret"):
            await client.call("plan")


async def test_a_server_hears_nothing_of_why_a_handler_has_failed() -> None:
    heard: list[str] = []
    curious = Server("curious")

    @curious.tool
    async def ask(ctx: Context) -> None:
        try:
            await ctx.elicit("Who?", str)
        except Exception as error:
            heard.append(str(error))
            raise

    def fail(form: FormRequest) -> None:
        raise LookupError("secret")

    async with Client(curious, revision="2025-11-25", elicit=fail) as client:
        with pytest.raises(LookupError):
            await client.call("ask")
        await until(lambda: len(heard) == 1)
    assert "secret" not in heard[0]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_the_time_of_a_call_does_not_run_out_while_the_user_thinks(revision: str) -> None:
    asked, told = asyncio.Event(), asyncio.Event()

    async def think(form: FormRequest) -> str:
        asked.set()
        await told.wait()
        return "Ada"

    async with Client(server, revision=revision, elicit=think, timeout=5) as client:
        clock = LoopClock()
        call = asyncio.create_task(client.call("name"))
        await asked.wait()
        for _ in range(20):
            clock.ahead += 6
            await asyncio.sleep(0)
        told.set()
        assert (await call).text == "Ada"


async def test_the_longest_time_of_a_call_holds_while_the_user_thinks() -> None:
    asked = asyncio.Event()

    async def think(form: FormRequest) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with Client(server, revision="2025-11-25", elicit=think, timeout=5, max_timeout=60) as client:
        clock = LoopClock()
        call = asyncio.create_task(client.call("name"))
        await asked.wait()
        while not call.done():
            clock.ahead += 6
            await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await call


@pytest.mark.parametrize("revision", NEWER)
async def test_a_page_is_shown_to_the_handler_and_opened_by_nobody_else(revision: str) -> None:
    seen: list[UrlRequest] = []

    def visit(page: UrlRequest) -> bool | None:
        seen.append(page)
        return [True, False, None][len(seen) - 1]

    async with Client(server, revision=revision, elicit_url=visit) as client:
        told = [(await client.call("pay")).text for _ in range(3)]
    assert told == ["accept", "decline", "cancel"]
    assert (seen[0].message, seen[0].url, seen[0].host) == (
        "Pay, please", "https://pay.example.com/1", "pay.example.com",
    )  # fmt: skip
    assert seen[0].server["name"] == "asking"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_model_speaks(revision: str) -> None:
    seen: list[SampleRequest] = []

    async def speak(request: SampleRequest) -> str:
        seen.append(request)
        return "Hm."

    async with Client(server, revision=revision, sample=speak) as client:
        assert (await client.call("think")).text == "Hm. (unknown, endTurn)"
    (request,) = seen
    assert (request.text, request.max_tokens, request.system, request.temperature) == (
        "Think!", 50, "Be brief", 0.5,
    )  # fmt: skip
    assert request.server["name"] == "asking"
    assert request.messages[0]["role"] == "user"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    "answer",
    [
        {"content": "Hm.", "model": "gpt", "stopReason": "endTurn"},
        {"content": [{"type": "text", "text": "Hm."}], "model": "gpt", "stopReason": "endTurn"},
        Sampled([{"type": "text", "text": "Hm."}], "assistant", "gpt", "endTurn"),
    ],
)
async def test_a_model_says_who_it_is(revision: str, answer: Any) -> None:
    async with Client(server, revision=revision, sample=lambda request: answer) as client:
        assert (await client.call("think")).text == "Hm. (gpt, endTurn)"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_model_that_has_said_what_is_no_message_is_an_error_of_the_handler(revision: str) -> None:
    async with Client(server, revision=revision, sample=lambda request: {"text": "Hm."}) as client:
        with pytest.raises(TypeError, match="sample= returns a string, a Sampled, or a dict with `content`"):
            await client.call("think")


@pytest.mark.parametrize("revision", NEWER)
async def test_a_model_uses_tools_where_its_handler_says_so(revision: str) -> None:
    def use(request: SampleRequest) -> dict[str, Any]:
        assert request.tool_choice == "required"
        block = {"type": "tool_use", "id": "1", "name": request.tools[0]["name"], "input": {}}
        return {"content": [block], "stopReason": "toolUse"}

    async with Client(server, revision=revision, sample=Sampler(use, tools=True)) as client:
        assert (await client.call("act")).text == "look"
    async with Client(server, revision=revision, sample=use) as client:
        with pytest.raises(ProtocolError) if revision == "2026-07-28" else pytest.raises(AssertionError):
            assert not (await client.call("act")).is_error


@pytest.mark.parametrize("revision", REVISIONS)
async def test_roots_are_paths_uris_and_functions(revision: str, tmp_path: Path) -> None:
    async def find() -> list[str | Path | Root]:
        return [tmp_path, "file:///srv", Root("file:///home", "Home")]

    async with Client(server, revision=revision, roots=find) as client:
        told = (await client.call("places")).data["structuredContent"]
    found = told["result"] if isinstance(told, dict) else told
    assert found == [f"{tmp_path.as_uri()} None", "file:///srv None", "file:///home Home"]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_roots_can_be_set_anew(revision: str) -> None:
    async with Client(server, revision=revision, roots=["/a"]) as client:
        client.roots = [Root("file:///b", "B")]
        assert (await client.call("places")).content[0]["text"] == '["file:///b B"]'


async def test_a_server_of_the_handshake_era_is_told_that_roots_have_changed() -> None:
    transport = declared_to("2025-11-25")
    async with Client(transport, revision="2025-11-25", roots=[]) as client:
        client.roots = ["/b"]
        await until(lambda: transport.methods()[-1] == "notifications/roots/list_changed")
    async with Client(declared_to("2025-11-25"), revision="2025-11-25") as client:
        with pytest.raises(ValueError, match=r"give the client roots=\[\] where they come later"):
            client.roots = ["/b"]
        assert client.roots is None


async def test_roots_that_come_later_are_declared_from_then_on_in_the_stateless_era() -> None:
    async with Client(server) as client:
        with pytest.raises(ProtocolError, match="roots"):
            await client.call("places")
        client.roots = [Root("file:///b", "B")]
        assert (await client.call("places")).structured == ["file:///b B"]


def declared_to(revision: str) -> ScriptedTransport:
    """Be a server of one revision."""

    def script(transport: ScriptedTransport, message: Message) -> list[Message]:
        if "id" not in message:
            return []
        if revision == "2026-07-28":
            return [discovered(message)]
        return [initialized(message, revision)]

    return ScriptedTransport(script)


@pytest.mark.parametrize("revision", REVISIONS)
async def test_capabilities_are_the_handlers(revision: str) -> None:
    async def declared(**handlers: Any) -> Any:
        transport = declared_to(revision)
        async with Client(transport, revision=revision, **handlers):
            params = transport.sent[0]["params"]
        is_stateless = revision == "2026-07-28"
        return params["_meta"][CLIENT_CAPABILITIES] if is_stateless else params["capabilities"]

    def speak(request: SampleRequest) -> str:
        return ""

    is_old = revision == "2025-06-18"
    both = {"elicit": FormRequest.cancel, "elicit_url": lambda page: False}
    assert await declared() == {}
    assert await declared(elicit=FormRequest.cancel) == {"elicitation": {} if is_old else {"form": {}}}
    assert await declared(elicit_url=lambda page: False) == ({} if is_old else {"elicitation": {"url": {}}})
    assert await declared(**both) == {"elicitation": {} if is_old else {"form": {}, "url": {}}}
    assert await declared(sample=speak) == {"sampling": {}}
    assert await declared(sample=Sampler(speak, tools=True, context=True)) == {
        "sampling": {} if is_old else {"tools": {}, "context": {}}
    }
    assert await declared(roots=[]) == {"roots": {} if revision == "2026-07-28" else {"listChanged": True}}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_several_questions_are_asked_at_once_and_the_user_one_thing_at_a_time(revision: str) -> None:
    shown = 0
    spoken = asyncio.Event()

    async def fill_in(form: FormRequest) -> str:
        nonlocal shown
        shown += 1
        if revision == "2026-07-28":
            assert shown == 1
        await spoken.wait()  # the model is asked while the user is
        shown -= 1
        return form.message[0]

    def speak(request: SampleRequest) -> str:
        spoken.set()
        return "T"

    async with Client(
        server, revision=revision, elicit=fill_in, sample=speak, roots=[Root("file:///", "all")]
    ) as client:
        assert (await client.call("several")).text == "F S T ['all']"


async def test_the_roots_of_several_servers_are_set_at_once() -> None:
    configuration = {"mcpServers": {name: {"command": "none"} for name in ("one", "two")}}
    client = Client(configuration, roots=["/a"])
    client.roots = ["/b"]
    assert client.roots == ["/b"]
    assert [each.roots for each in client.servers.values()] == [["/b"], ["/b"]]
