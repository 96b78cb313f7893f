"""Properties of `requestState` and of answers: only states that the server issued are accepted, no answer breaks it."""

import asyncio
import functools
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import pytest

from mcpkit import Context, ProtocolError, Server, ServerOptions, Timeouts
from mcpkit.elicitation import ElicitRequest, ListRootsRequest, SamplingRequest
from mcpkit.storage.encryption_keys import Keys
from mcpkit.testing import connect
from tests.helpers.tables import each_row

SECRET = "a secret of sixteen bytes and more"
OTHER = "another secret of many bytes"
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
MAC = 32


@dataclass
class City:
    name: str
    days: int = 1


class Request(NamedTuple):
    method: str
    params: dict[str, Any]


PLAN = Request("tools/call", {"name": "plan", "arguments": {}})
FIRST = {"city": {"action": "accept", "content": {"name": "Rome", "days": 3}}}
SECOND = {
    "warm": {"action": "accept", "content": {"value": True}},
    "words": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "mild"}},
    "roots": {"roots": [{"uri": "file:///a", "name": "A"}]},
}
REQUESTS = [
    PLAN, Request("tools/call", {"name": "plan", "arguments": {"why": ""}}),
    Request("tools/call", {"name": "plan", "arguments": {"why": None}}), Request("tools/call", {"name": "plan"}),
    Request("tools/call", {"name": "double", "arguments": {}}),
    Request("prompts/get", {"name": "plan", "arguments": {}}), Request("prompts/get", {"name": "plan"}),
    Request("resources/read", {"uri": "plan://a"}), Request("resources/read", {"uri": "plan://b"}),
]  # fmt: skip


def make_server(runs: list[str], *, name: str = "rounds", secret_key: str = SECRET, **options: Any) -> Server:
    """Make a server of which all handlers ask the same first question, and record that they run."""
    timeouts = Timeouts(client_request=86_400)
    server = Server(name, secret_key=secret_key, timeouts=timeouts, options=ServerOptions(**options))

    async def begin(ctx: Context) -> City:
        runs.append(ctx.method)
        city = (await ctx.elicit("Which city?", City, key="city")).value
        assert (type(city.name), type(city.days)) == (str, int)
        return city

    @server.tool
    async def plan(ctx: Context, why: str | None = None) -> str:
        city = await begin(ctx)
        number = await ctx.once("number", lambda: 7)
        warm, words, roots = await ctx.ask(
            ElicitRequest(f"Is {city.name} warm?", bool, key="warm"),
            SamplingRequest("Say hello", max_tokens=9, key="words"),
            ListRootsRequest(key="roots"),
        )
        assert (type(warm.value), type(words.text)) == (bool, str)
        return f"{city.days} {number} {len(roots)}"

    @server.tool
    @server.prompt(name="plan")
    async def double(ctx: Context) -> str:
        return (await begin(ctx)).name

    @server.resource("plan://{which}")
    async def plan_resource(which: str, ctx: Context) -> str:
        return (await begin(ctx)).name

    return server


class Outcome(NamedTuple):
    """Result or error of a round, and the handlers that ran."""

    result: dict[str, Any] | None
    error: ProtocolError | None
    runs: list[str]


def make_round(request: Request, more: Mapping[str, Any], **options: Any) -> Outcome:
    runs: list[str] = []

    async def run() -> Outcome:
        async with connect(make_server(runs, **options), capabilities=CAPABILITIES) as client:
            try:
                result = await client.request(request.method, {**request.params, **more})
            except ProtocolError as error:
                return Outcome(None, error, runs)
            return Outcome(result, None, runs)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def no_errors_logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record for record in caplog.get_records("call") if record.levelname == "ERROR"] == []


def state_of(outcome: Outcome) -> str:
    assert outcome.result is not None, outcome.error
    assert outcome.result["resultType"] == "input_required"
    return str(outcome.result["requestState"])


@functools.cache
def issued(*, is_encrypted: bool = False) -> tuple[str, ...]:
    """Return a state for each request, and one of a second round of the first request."""
    options = {"encrypt_state": is_encrypted}
    states = [state_of(make_round(each, {}, **options)) for each in REQUESTS]
    second = {"inputResponses": FIRST, "requestState": states[0]}
    return (*states, state_of(make_round(PLAN, second, **options)))


# States


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_state_is_accepted_with_its_request_in_any_order_and_meta(is_encrypted: bool) -> None:
    for request, state in zip([*REQUESTS, PLAN], issued(is_encrypted=is_encrypted), strict=True):
        reordered = Request(request.method, dict(reversed(request.params.items())))
        more = {"requestState": state, "_meta": {"x/y": {"a": [1, None]}}}
        outcome = make_round(reordered, more, encrypt_state=is_encrypted)
        assert state_of(outcome)
        assert outcome.runs == [request.method]


def damaged(state: str) -> list[str]:
    """Return texts that differ from an issued state."""
    packed = urlsafe_b64decode(state)
    flipped = [bytearray(packed) for _ in range(8)]
    for number, each in enumerate(flipped):
        each[number * (len(packed) - 1) // 7] ^= 1 << number
    half = len(state) // 2
    texts = [
        *(urlsafe_b64encode(each).decode() for each in flipped),
        *(state[:half], state[half:], state[:-8], state[: half - 4] + state[half:], state * 2, state.swapcase()),
        *(state[:half] + character + state[half:] for character in "A=+/ \n.\0é"), state + "=", " " + state,
    ]  # fmt: skip
    return [text for text in texts if text != state]


def forged(state: str) -> list[str]:
    """Return states with other content and each signature that others can make."""
    packed = urlsafe_b64decode(state)
    mac, content = packed[:MAC], json.loads(packed[MAC:])
    changes: list[dict[str, Any]] = [
        {"exp": 2**60}, {"of": ""}, {"once": {"number": 8}}, {"answered": {"city": ["x", FIRST["city"]]}},
    ]  # fmt: skip
    states = []
    for change in changes:
        data = json.dumps(content | change, separators=(",", ":")).encode()
        signatures = [
            *(mac, b"", bytes(MAC), sha256(data).digest()),
            Keys(OTHER, "rounds").sign("requestState 1", data),
            Keys(SECRET, "other").sign("requestState 1", data),
            Keys(SECRET, "rounds").sign("Mcp-Session-Id", data),
            Keys(SECRET, "rounds").sign("requestState 1", packed[MAC:]),
        ]
        states += [urlsafe_b64encode(each + data).decode() for each in signatures]
    return states


INVENTED: list[Any] = [
    "x", "=", "A" * 43 + "=", "A" * 3_000_000, urlsafe_b64encode(bytes(MAC) + b"{}").decode(),
    urlsafe_b64encode(b"\xff" * 300).decode(), 5, 1.5, True, [], {"a": 1},
]  # fmt: skip


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_state_not_issued_is_refused(is_encrypted: bool) -> None:
    first, *_, last = issued(is_encrypted=is_encrypted)
    states = [*damaged(first), *INVENTED, *([] if is_encrypted else forged(last))]
    check_refused(states, PLAN, encrypt_state=is_encrypted)


@pytest.mark.parametrize("is_encrypted", [True, False])
def test_state_of_another_server_or_request_is_refused(is_encrypted: bool) -> None:
    same: dict[str, Any] = {"encrypt_state": is_encrypted}
    first, *_, last = issued(is_encrypted=is_encrypted)
    for other in ({"secret_key": OTHER}, {"name": "other"}, {"encrypt_state": not is_encrypted}):
        check_refused([first, last], PLAN, **(same | other))
    for request in REQUESTS[1:]:
        check_refused([first, last], request, **same)


def check_refused(states: list[Any], request: Request, **options: Any) -> None:
    runs: list[str] = []

    async def run() -> None:
        async with connect(make_server(runs, **options), capabilities=CAPABILITIES) as client:
            for state in states:
                params = {**request.params, "inputResponses": FIRST, "requestState": state}
                with pytest.raises(ProtocolError, match=r"^requestState") as error:
                    await client.request(request.method, params)
                assert error.value.code == -32602, state

    asyncio.run(run())
    assert runs == []


# Responses


LONG = "x" * 2_000_000
RESPONSES: list[Any] = [
    FIRST, SECOND, {**FIRST, **SECOND}, None, 5, "x", [], {}, {"city": None}, {"city": 5}, {"city": {}},
    {"city": SECOND["words"]}, {"city": {"action": "decline"}}, {"city": {"action": "cancel"}},
    {**FIRST, "warm": 1, "words": {}, "roots": []}, {**FIRST, **SECOND, "roots": FIRST["city"]},
    {**FIRST, LONG: {}}, {**FIRST, "other": {"x": LONG}},
    {**FIRST, **SECOND, "words": {**SECOND["words"], "model": LONG}},
]  # fmt: skip


@pytest.mark.parametrize("which", [None, 0, -1])
@each_row("responses", RESPONSES)
def test_responses_end_in_a_result_questions_or_invalid_params(responses: Any, which: int | None) -> None:
    more = {"inputResponses": responses}
    if which is not None:
        more["requestState"] = issued()[which]
    result, error, _ = make_round(PLAN, more)
    if error is not None:
        assert error.code == -32602
        return
    assert result is not None
    if result["resultType"] == "input_required":
        assert set(result["inputRequests"]) <= {"city", "warm", "words", "roots"}
        assert result["inputRequests"]
    elif result.get("isError"):
        assert result["content"][0]["text"] in {"The user declined", "The user cancelled"}
    else:
        assert (result["resultType"], result["content"][0]["text"]) == ("complete", "3 7 1")


def test_responses_too_long_for_the_next_state_are_refused() -> None:
    for size in (9_000, 50_000):
        long = {"city": {"action": "accept", "content": {"name": "x" * size}}}
        error = make_round(PLAN, {"inputResponses": long}).error
        assert error is not None, size
        assert (error.code, error.message[:33]) == (-32602, "inputResponses: expected at most "), size
