"""The rounds of the stateless era: what a client carries from one to the next, and what runs in each."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable
from typing import Any

import pytest

from mcpkit import Context, Elicit, ProtocolError, Server
from mcpkit.testing import connect
from tests.helpers.asked import City, Person, outcome, tool
from tests.helpers.clock import Clock

pytestmark = pytest.mark.anyio


WHO = {"who": {"action": "accept", "content": {"value": "Ada"}}}


async def ask_name(ctx: Context) -> str:
    return (await ctx.elicit("Who?", str, key="who")).value


async def one_round(server: Server, name: str = "ask_name", **params: Any) -> dict[str, Any]:
    """Make one round of a call."""
    async with connect(server, capabilities={"elicitation": {}}) as client:
        return await client.request("tools/call", {"name": name, "arguments": {}, **params})


async def test_an_answer_may_come_with_the_first_call_and_what_is_unknown_is_ignored() -> None:
    result = await one_round(tool(ask_name), inputResponses={**WHO, "other": {"x": 1}})
    assert result["content"][0]["text"] == "Ada"
    result = await one_round(tool(ask_name), inputResponses={"other": {}})
    assert result["resultType"] == "input_required"
    assert list(result["inputRequests"]) == ["who"]


@pytest.mark.parametrize("responses", [5, [], "x", {"who": 5}, {"who": None}])
async def test_answers_of_another_form_are_refused(responses: Any) -> None:
    with pytest.raises(ProtocolError) as error:
        await one_round(tool(ask_name), inputResponses=responses)
    assert error.value.code == -32602


async def test_a_state_that_a_server_has_given_goes_on_in_another_process_with_its_secret() -> None:
    state = (await one_round(tool(ask_name)))["requestState"]
    result = await one_round(tool(ask_name), inputResponses=WHO, requestState=state)
    assert result["resultType"] == "complete"
    assert result["content"][0]["text"] == "Ada"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda state: state + "x", "none that this server has given"),
        (lambda state: ("B" if state[0] == "A" else "A") + state[1:], "none that this server has given"),
        (lambda state: "", "none that this server has given"),
        (lambda state: "ä", "none that this server has given"),
        (lambda state: 5, "expected the string"),
    ],
    ids=["longer", "another character", "empty", "not ASCII", "no string"],
)
async def test_a_state_that_a_server_has_not_given_is_refused(change: Callable[[str], Any], why: str) -> None:
    server = tool(ask_name)
    state = (await one_round(server))["requestState"]
    with pytest.raises(ProtocolError, match=why) as error:
        await one_round(server, inputResponses=WHO, requestState=change(state))
    assert error.value.code == -32602


async def test_a_state_of_a_server_with_another_secret_is_refused() -> None:
    state = (await one_round(tool(ask_name)))["requestState"]
    with pytest.raises(ProtocolError, match="none that this server has given"):
        await one_round(tool(ask_name, "another secret of the tests"), requestState=state)


@pytest.mark.parametrize("request_", [{"name": "other"}, {"arguments": {"x": 1}}])
async def test_a_state_is_good_for_its_request_alone(request_: dict[str, Any]) -> None:
    server = tool(ask_name)

    @server.tool
    async def other(x: int = 0) -> str:
        return "other"

    state = (await one_round(server))["requestState"]
    with pytest.raises(ProtocolError, match="another request") as error:
        await one_round(server, inputResponses=WHO, requestState=state, **request_)
    assert error.value.code == -32602


async def test_a_state_is_good_for_its_time_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    server = tool(ask_name)
    state = (await one_round(server))["requestState"]
    monkeypatch.setattr("mcpkit.calls.asking.multi_round.time.time", lambda: 4e9)
    with pytest.raises(ProtocolError, match="expired"):
        await one_round(server, inputResponses=WHO, requestState=state)


async def test_a_short_time_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    clock.now = 1000.9
    monkeypatch.setattr("mcpkit.calls.asking.multi_round.time.time", clock)
    server = Server("asking", question_timeout=0.5)
    server.tool(ask_name)
    state = (await one_round(server))["requestState"]
    clock.now = 1001.3
    result = await one_round(server, inputResponses=WHO, requestState=state)
    assert result["content"][0]["text"] == "Ada"
    clock.now = 1001.5
    with pytest.raises(ProtocolError, match="expired"):
        await one_round(server, inputResponses=WHO, requestState=state)


async def test_a_handler_that_asks_something_else_in_the_next_round_is_told_so() -> None:
    order = ["a", "b"]

    async def fickle(ctx: Context) -> str:
        order.reverse()
        return " ".join([(await ctx.elicit(each, str)).value for each in order])

    told = await outcome(tool(fickle), Person({"value": "1"}, {"value": "2"}), "2026-07-28")
    assert told.startswith("-32602: The handler is not deterministic: under '#1' it asked something else")


@pytest.mark.parametrize("is_swapped", [True, False])
async def test_the_log_says_what_a_handler_asks_instead_and_no_answers(
    is_swapped: bool, caplog: pytest.LogCaptureFixture
) -> None:
    rounds: list[int] = []

    async def fickle(ctx: Context) -> str:
        rounds.append(1)
        name = (await ctx.elicit("Who?", str)).value
        questions = [Elicit(f"Where does {name} live?", City), Elicit(f"How old is {name}?", int)]
        if len(rounds) == 3:
            questions = questions[::-1] if is_swapped else [Elicit("Where?", City), questions[1]]
        await ctx.ask(*questions)
        return ""

    person = Person({"value": "Ada L."}, {"name": "London", "days": 1}, {"value": 36})
    told = await outcome(tool(fickle), person, "2026-07-28")
    assert told.startswith("-32602: The handler is not deterministic: under '#2' it asked something else")
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    now = (
        "elicitation/create(value), was another one in an earlier round, in which '#3' was this one"
        if is_swapped
        else "elicitation/create(name, days), was another one in an earlier round, which did not have this one"
    )
    assert record.getMessage() == f"tools/call 'fickle' is not deterministic: the question '#2', now {now}"
    assert "in fickle" in str(record.stack_info)
    assert "Ada" not in caplog.text
    assert "London" not in caplog.text


async def test_keys_let_the_order_differ() -> None:
    order = ["a", "b"]

    async def fickle(ctx: Context) -> str:
        order.reverse()
        return " ".join(sorted([(await ctx.elicit(each, str, key=each)).value for each in order]))

    told = await outcome(tool(fickle), Person({"value": "1"}, {"value": "2"}), "2026-07-28")
    assert told == "1 2"


async def test_what_happens_once_happens_once_and_what_does_not_in_each_round() -> None:
    counts = {"once": 0, "each": 0}
    ids: list[str] = []

    async def order(ctx: Context) -> str:
        counts["each"] += 1
        ids.append(ctx.call_id)

        async def place() -> dict[str, int]:
            counts["once"] += 1
            return {"number": 7}

        placed = await ctx.once("order", place)
        size = (await ctx.elicit("Size?", int)).value
        colour = (await ctx.elicit("Colour?", str)).value
        return f"{placed['number']} {size} {colour}"

    assert await outcome(tool(order), Person({"value": 1}, {"value": "red"}), "2026-07-28") == "7 1 red"
    assert counts == {"once": 1, "each": 3}
    assert len(set(ids)) == 1


async def test_what_the_client_would_have_to_carry_is_bounded() -> None:
    async def much(ctx: Context) -> str:
        await ctx.once("much", lambda: "x" * 20_000)
        return (await ctx.elicit("Size?", str)).value

    assert (await outcome(tool(much), Person(), "2026-07-28")).startswith("-32603: Internal error (ref ")


async def test_lists_never_ask() -> None:
    async with connect(tool(ask_name), capabilities={"elicitation": {}}) as client:
        for method in ("tools/list", "server/discover"):
            result = await client.request(method, {"inputResponses": {}, "requestState": "x"})
            assert result["resultType"] == "complete"


async def test_the_state_is_readable_and_says_nothing_of_the_server() -> None:
    state = (await one_round(tool(ask_name)))["requestState"]
    told = json.loads(urlsafe_b64decode(state)[32:])
    assert sorted(told) == ["answered", "asked", "exp", "home", "id", "of", "once", "round", "until"]
