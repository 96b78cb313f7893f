"""Properties of `requestState` and of answers: only states that the server issued are accepted, no answer breaks it."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from mcpkit import Context, ProtocolError, Server, ServerOptions, Timeouts
from mcpkit.elicitation import ElicitRequest, ListRootsRequest, SamplingRequest
from mcpkit.state.keys import Keys
from mcpkit.testing import connect

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


class Issued(NamedTuple):
    """A state and the request that it was issued for."""

    request: Request
    state: str
    is_encrypted: bool = False


PLAN = Request("tools/call", {"name": "plan", "arguments": {}})
FIRST = {"city": {"action": "accept", "content": {"name": "Rome", "days": 3}}}
SECOND = {
    "warm": {"action": "accept", "content": {"value": True}},
    "words": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "mild"}},
    "roots": {"roots": [{"uri": "file:///a", "name": "A"}]},
}
REQUESTS = [
    PLAN,
    Request("tools/call", {"name": "plan", "arguments": {"why": ""}}),
    Request("tools/call", {"name": "plan", "arguments": {"why": None}}),
    Request("tools/call", {"name": "plan"}),
    Request("tools/call", {"name": "twin", "arguments": {}}),
    Request("prompts/get", {"name": "plan", "arguments": {}}),
    Request("prompts/get", {"name": "plan"}),
    Request("resources/read", {"uri": "plan://a"}),
    Request("resources/read", {"uri": "plan://b"}),
]


def make_server(
    runs: list[str],
    *,
    name: str = "rounds",
    secret_key: str = SECRET,
    options: ServerOptions = ServerOptions(),
) -> Server:
    """Make a server of which all handlers ask the same first question, and record that they run."""
    server = Server(
        name,
        secret_key=secret_key,
        timeouts=Timeouts(client_request=86_400),
        options=options,
    )

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
    async def twin(ctx: Context) -> str:
        return (await begin(ctx)).name

    @server.prompt(name="plan")
    async def plan_prompt(ctx: Context) -> str:
        return (await begin(ctx)).name

    @server.resource("plan://{which}")
    async def plan_resource(which: str, ctx: Context) -> str:
        return (await begin(ctx)).name

    return server


@contextmanager
def no_errors_logged() -> Iterator[None]:
    records: list[str] = []
    handler = logging.Handler(logging.ERROR)
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    loggers = [logging.getLogger("mcpkit"), logging.getLogger("asyncio")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    assert records == []


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

    with no_errors_logged():
        return asyncio.run(run())


def state_of(outcome: Outcome) -> str:
    assert outcome.result is not None, outcome.error
    assert outcome.result["resultType"] == "input_required"
    return str(outcome.result["requestState"])


@functools.cache
def issued(*, is_encrypted: bool = False) -> tuple[Issued, ...]:
    """Return a state for each request, and one of a second round."""
    options = {"options": ServerOptions(encrypt_state=is_encrypted)}
    states = [Issued(each, state_of(make_round(each, {}, **options)), is_encrypted) for each in REQUESTS]
    second = {"inputResponses": FIRST, "requestState": states[0].state}
    return (*states, Issued(PLAN, state_of(make_round(PLAN, second, **options)), is_encrypted))


@st.composite
def any_issued(draw: st.DrawFn, *, is_encrypted: bool | None = None) -> Issued:
    if is_encrypted is None:
        is_encrypted = draw(st.booleans())
    return draw(st.sampled_from(issued(is_encrypted=is_encrypted)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


# States


@given(any_issued(), st.data())
def test_state_is_accepted_with_its_request_in_any_order_and_meta(value: Issued, data: st.DataObject) -> None:
    names = data.draw(st.permutations(list(value.request.params)))
    request = Request(value.request.method, {name: value.request.params[name] for name in names})
    meta = data.draw(st.dictionaries(st.text("abc", min_size=1, max_size=5), json_values, max_size=2))
    more = {"requestState": value.state, "_meta": {"x/y": meta}}
    outcome = make_round(request, more, options=ServerOptions(encrypt_state=value.is_encrypted))
    assert state_of(outcome)
    assert outcome.runs == [value.request.method]


@st.composite
def damaged(draw: st.DrawFn) -> Issued:
    """An issued state of which the text was changed."""
    request, state, is_encrypted = draw(any_issued())
    at = draw(st.integers(0, len(state) - 1))
    end = draw(st.integers(at, min(at + 8, len(state))))
    packed = bytearray(urlsafe_b64decode(state))
    packed[draw(st.integers(0, len(packed) - 1))] ^= 1 << draw(st.integers(0, 7))
    other = draw(any_issued(is_encrypted=is_encrypted)).state
    character = draw(st.sampled_from("Aa0_-=+/ \n.\0é"))
    texts = [
        *(urlsafe_b64encode(packed).decode(), state[:at], state[at:], state[:at] + state[end:]),
        *(state[:at] + character + state[at:], state[:at] + character + state[at + 1 :]),
        *(state[:at] + other[at:], state + other, state * 2, state + "=", state.rstrip("="), state + "\n"),
        *(" " + state, state.swapcase(), state.replace("-", "+").replace("_", "/")),
    ]
    text = draw(st.sampled_from(texts))
    assume(text not in {each.state for each in issued(is_encrypted=is_encrypted)})
    return Issued(request, text, is_encrypted)


@st.composite
def forged(draw: st.DrawFn) -> Issued:
    """A state with other content, and each signature that others can make."""
    request, state, _ = draw(any_issued(is_encrypted=False))
    packed = urlsafe_b64decode(state)
    mac, content = packed[:MAC], json.loads(packed[MAC:])
    optional = {
        "exp": st.integers(0, 2**60),
        "id": st.text(max_size=30),
        "of": st.sampled_from([content["of"], "", "0" * 32]),
        "asked": st.dictionaries(st.sampled_from(["city", "warm"]), json_values, max_size=2),
        "answered": st.just({"city": ["x", FIRST["city"]]}) | json_values,
        "once": st.just({"number": 8}),
    }
    content |= draw(st.fixed_dictionaries({}, optional=optional))
    data = json.dumps(content, separators=(",", ":")).encode()
    assume(data != packed[MAC:])
    signatures = [
        *(mac, b"", bytes(MAC), draw(st.binary(min_size=MAC, max_size=MAC)), sha256(data).digest()),
        Keys(OTHER, "rounds").sign("requestState 1", data),
        Keys(SECRET, "other").sign("requestState 1", data),
        Keys(SECRET, "rounds").sign("Mcp-Session-Id", data),
        Keys(SECRET, "rounds").sign("requestState 1", packed[MAC:]),
    ]
    return Issued(request, urlsafe_b64encode(draw(st.sampled_from(signatures)) + data).decode())


invented = (
    st.text()
    | st.text("ABCabc019-_=")
    | st.binary(max_size=300).map(lambda data: urlsafe_b64encode(data).decode())
    | st.integers(10_000, 3_000_000).map(lambda size: "A" * (size // 4 * 4))
    | json_values.filter(lambda value: value is not None)
    | st.sampled_from(["", "=", "A" * 43 + "=", urlsafe_b64encode(bytes(MAC) + b"{}").decode()])
)


@given(damaged() | forged() | st.builds(Issued, st.just(PLAN), invented, st.booleans()))
def test_state_not_issued_is_refused(value: Issued) -> None:
    check_refused(value, value.request, {"options": ServerOptions(encrypt_state=value.is_encrypted)})


@given(any_issued(), st.sampled_from(REQUESTS), st.sampled_from(["secret_key", "name", "options", "request"]))
def test_state_of_another_server_or_request_is_refused(value: Issued, request: Request, differs: str) -> None:
    others = {
        "secret_key": OTHER,
        "name": "other",
        "options": ServerOptions(encrypt_state=not value.is_encrypted),
    }
    options = {"options": ServerOptions(encrypt_state=value.is_encrypted)}
    if differs == "request":
        assume(request != value.request)
    else:
        request = value.request
        options |= {differs: others[differs]}
    check_refused(value, request, options)


def check_refused(value: Issued, request: Request, options: dict[str, Any]) -> None:
    outcome = make_round(request, {"inputResponses": FIRST, "requestState": value.state}, **options)
    assert outcome.error is not None, outcome.result
    assert outcome.error.code == -32602
    assert outcome.error.message.startswith("requestState")
    assert outcome.runs == []


# Responses


responses = json_values | st.dictionaries(
    st.sampled_from([*FIRST, *SECOND]), json_values | st.sampled_from([*FIRST.values(), *SECOND.values()])
)


@given(responses, st.sampled_from([None, 0, -1]))
@example(FIRST, 0)
@example({**FIRST, "x" * 2_000_000: {}}, None)
@example({**FIRST, "other": {"x": "x" * 2_000_000}}, None)
@example({**FIRST, **SECOND, "words": {**SECOND["words"], "model": "x" * 2_000_000}}, None)
def test_responses_end_in_a_result_more_questions_or_invalid_params(
    responses: Any, which: int | None
) -> None:
    more = {"inputResponses": responses}
    if which is not None:
        more["requestState"] = issued()[which].state
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
        assert result["resultType"] == "complete"


@pytest.mark.parametrize(
    ("responses", "which"), [({**FIRST, **SECOND}, None), ({**FIRST, **SECOND}, 0), (SECOND, -1)]
)
def test_responses_that_fit_lead_to_the_result(responses: Any, which: int | None) -> None:
    """Otherwise the properties above could hold because no response is ever used."""
    more = {"inputResponses": responses}
    if which is not None:
        more["requestState"] = issued()[which].state
    result = make_round(PLAN, more).result
    assert result is not None
    assert result["content"][0]["text"] == "3 7 1"


def test_responses_too_long_for_the_next_state_are_refused() -> None:
    for size in (9_000, 50_000):
        long = {"city": {"action": "accept", "content": {"name": "x" * size}}}
        error = make_round(PLAN, {"inputResponses": long}).error
        assert error is not None, size
        assert (error.code, error.message[:33]) == (-32602, "inputResponses: expected at most "), size
