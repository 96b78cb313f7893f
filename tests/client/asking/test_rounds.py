"""Rounds of the stateless era as a server sees them, pages to be visited first, and servers that ask nonsense."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpkit import Client, FormRequest, ProtocolError, UrlRequest
from mcpkit.protocol.eras import CLIENT_CAPABILITIES
from tests.helpers.scripted_transport import Message, ScriptedTransport, discovered, error, initialized, text
from tests.helpers.waiting import LoopClock, until

pytestmark = pytest.mark.anyio

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


async def test_the_state_comes_back_as_it_was_under_a_new_id_and_goes_to_no_other_call() -> None:
    state = ' {"b":1,  "a":"\\u00e9é"}\n'
    transport = asking(asks({"k": SURE}, requestState=state), asks({"k": SURE}), DONE, DONE)
    async with Client(transport, elicit=lambda form: {"sure": True}) as client:
        await client.call("bake", {"what": "bread"})
        await client.call("eat")
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


async def test_a_state_without_questions_is_brought_back_after_a_moment() -> None:
    transport = asking(asks(requestState="later"), asks(requestState="soon"), DONE)
    async with Client(transport) as client:
        clock = LoopClock()
        call = asyncio.create_task(client.call("bake"))
        await until(lambda: len(transport.sent) == 2)
        for _ in range(2):
            clock.ahead += 1
            await asyncio.sleep(0)
        await call
    call_ = {"name": "bake", "arguments": {}}
    assert sent(transport) == [call_, {**call_, "requestState": "later"}, {**call_, "requestState": "soon"}]


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (asks(), "inputRequests or requestState"),
        (asks(requestState=5), "a string as requestState"),
        (asks([]), "an object as inputRequests"),
        (asks({"k": 1}), "requests with a method"),
        (asks({"k": {"params": {}}}), "requests with a method"),
        (asks({"k": {"method": "elicitation/create", "params": []}}), "requests with a method"),
    ],
)
async def test_a_server_that_asks_nonsense_is_told_of(answer: Message, problem: str) -> None:
    async with Client(asking(answer), elicit=FormRequest.cancel) as client:
        with pytest.raises(ProtocolError, match=f"answer to tools/call is malformed: expected .*{problem}"):
            await client.call("bake")


@pytest.mark.parametrize(
    ("params", "problem"),
    [
        ({"requestedSchema": FORM}, "message: expected a string"),
        ({"message": "Sure?"}, "requestedSchema: expected an object"),
        ({"message": "Sure?", "requestedSchema": {"type": "object"}}, "requestedSchema: expected an object"),
        (
            {"message": "?", "requestedSchema": {"type": "object", "properties": {"a": {"type": "strng"}}}},
            "requestedSchema: there is no type 'strng'",
        ),
        ({"message": "Sure?", "mode": "url", "url": "https://example.com"}, "elicitation in the mode 'url'"),
        ({"message": "Sure?", "mode": 5}, "elicitation in the mode 5"),
    ],
)
async def test_a_malformed_question_does_not_reach_the_handler(params: Message, problem: str) -> None:
    def fail(form: FormRequest) -> None:
        raise AssertionError

    transport = asking(asks({"k": {"method": "elicitation/create", "params": params}}))
    async with Client(transport, elicit=fail) as client:
        with pytest.raises(ProtocolError, match=problem) as raised:
            await client.call("bake")
    assert raised.value.code == -32602
    assert len(transport.sent) == 2


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "file:///etc/passwd", "https://[", "https://a\nb", "", 5]
)
async def test_what_is_no_page_is_not_shown(url: Any) -> None:
    def fail(page: UrlRequest) -> bool:
        raise AssertionError

    params = {"mode": "url", "message": "Look", "url": url}
    async with Client(
        asking(asks({"k": {"method": "elicitation/create", "params": params}})), elicit_url=fail
    ) as client:
        with pytest.raises(ProtocolError, match="url: expected an http or https URL"):
            await client.call("bake")


@pytest.mark.parametrize(
    "method", ["elicitation/create", "sampling/createMessage", "roots/list", "other/thing"]
)
async def test_what_nobody_answers_is_refused(method: str) -> None:
    async with Client(asking(asks({"k": {"method": method}}))) as client:
        with pytest.raises(ProtocolError, match=f"this client does not answer {method}") as raised:
            await client.call("bake")
    assert raised.value.code == -32601


async def test_a_completion_must_not_ask() -> None:
    async with Client(asking(asks({"k": SURE})), elicit=FormRequest.cancel) as client:
        with pytest.raises(ProtocolError, match="this method must not ask"):
            await client.complete("greet", "name", "A")


async def test_the_first_handler_that_fails_ends_the_others() -> None:
    ended = asyncio.Event()

    async def wait(form: FormRequest) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def fail() -> list[str]:
        raise LookupError("no roots")

    async with Client(
        asking(asks({"k": SURE, "r": {"method": "roots/list"}})), elicit=wait, roots=fail
    ) as client:
        with pytest.raises(LookupError, match="no roots"):
            await client.call("bake")
        assert ended.is_set()


async def test_a_call_that_is_cancelled_while_the_user_is_asked_ends_the_question() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def wait(form: FormRequest) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with Client(
        asking(asks({"k": SURE, "r": {"method": "roots/list"}})), elicit=wait, roots=[]
    ) as client:
        call = asyncio.create_task(client.call("bake"))
        await begun.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.is_set()


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
            return [text(message, "done")]
        if tells:
            asyncio.get_running_loop().call_soon(transport.say, complete("other"))
            asyncio.get_running_loop().call_soon(transport.say, complete("e1"))
        return [error(message, -32042, "sign in first", {"elicitations": list(pages)})]

    return ScriptedTransport(script)


def complete(id_: str) -> Message:
    return {"method": "notifications/elicitation/complete", "params": {"elicitationId": id_}}


async def test_a_page_that_must_be_visited_first_is_shown_and_the_call_made_again_when_that_is_done() -> None:
    seen: list[UrlRequest] = []

    async def visit(page: UrlRequest) -> bool:
        seen.append(page)
        return True

    transport = requiring(1, tells=True)
    async with Client(transport, revision="2025-11-25", elicit_url=visit) as client:
        assert (await client.call("files")).text == "done"
    assert [(page.id, page.url) for page in seen] == [("e1", "https://example.com/1")]
    calls = [message for message in transport.sent if message["method"] == "tools/call"]
    assert calls[0]["params"] == calls[1]["params"]
    assert calls[0]["id"] != calls[1]["id"]


async def test_a_server_that_does_not_tell_is_asked_again_a_few_times_and_the_user_once() -> None:
    seen: list[UrlRequest] = []

    def visit(page: UrlRequest) -> bool:
        seen.append(page)
        return True

    transport = requiring(100, tells=False)
    async with Client(transport, revision="2025-11-25", elicit_url=visit) as client:
        clock = LoopClock()
        call = asyncio.create_task(client.call("files"))
        while not call.done():
            clock.ahead += 1
            await asyncio.sleep(0)
        with pytest.raises(ProtocolError, match="sign in first"):
            await call
    assert len(seen) == 1
    assert transport.methods().count("tools/call") == 11


@pytest.mark.parametrize(
    ("handlers", "pages"),
    [
        ({"elicit_url": lambda page: False}, (PAGE,)),
        ({"elicit_url": lambda page: None}, (PAGE,)),
        ({}, (PAGE,)),
        ({"elicit_url": lambda page: True}, ()),
        ({"elicit_url": lambda page: True}, ("page",)),
        ({"elicit_url": lambda page: True}, ({**PAGE, "url": "file:///"},)),
    ],
)
async def test_a_page_that_is_not_visited_leaves_the_error(handlers: Any, pages: Any) -> None:
    transport = requiring(1, tells=True, pages=pages)
    async with Client(transport, revision="2025-11-25", **handlers) as client:
        with pytest.raises(ProtocolError, match="sign in first") as raised:
            await client.call("files")
    assert raised.value.code == -32042
    assert transport.methods().count("tools/call") == 1
