"""What holds for every `requestState` and all `inputResponses`: what we did not make is none, and nothing breaks.

States are signed, or with `encrypt_state=True` encrypted.
"""

from __future__ import annotations

import asyncio
import functools
import json
import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from mcpkit import Context, Elicit, ListRoots, ProtocolError, Sample, Server
from mcpkit.state.keys import Keys
from mcpkit.testing import connect

SECRET = "a secret of sixteen bytes and more"
OTHER = "another secret of many bytes"
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
MAC = 32

bounded = settings(max_examples=150, deadline=None)


@dataclass
class City:
    name: str
    days: int = 1


class Request(NamedTuple):
    """What is asked, apart from its rounds."""

    method: str
    params: dict[str, Any]


class Issued(NamedTuple):
    """A state that was given to a client, and the request that it belongs to."""

    request: Request
    state: str
    is_secret: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """The options of the server that has given it."""
        return {"encrypt_state": self.is_secret}


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
    Request("tools/call", {"name": "plan", "arguments": {"why": "fun"}}),
    Request("tools/call", {"name": "plan"}),
    Request("tools/call", {"name": "twin", "arguments": {}}),
    Request("prompts/get", {"name": "plan", "arguments": {}}),
    Request("prompts/get", {"name": "plan"}),
    Request("resources/read", {"uri": "plan://a"}),
    Request("resources/read", {"uri": "plan://b"}),
]


def make_server(
    runs: list[str], *, name: str = "rounds", secret: str = SECRET, encrypt_state: bool = False
) -> Server:
    """Make a server all of whose handlers ask the same first question, and note that they run."""
    server = Server(name, secret=secret, question_timeout=86_400, encrypt_state=encrypt_state)

    async def begin(ctx: Context) -> City:
        runs.append(ctx.method)
        city = (await ctx.elicit("Which city?", City, key="city")).value
        assert type(city.name) is str
        assert type(city.days) is int
        return city

    @server.tool
    async def plan(ctx: Context, why: str | None = None) -> str:
        city = await begin(ctx)
        number = await ctx.once("number", lambda: 7)
        warm, words, roots = await ctx.ask(
            Elicit(f"Is {city.name} warm?", bool, key="warm"),
            Sample("Say hello", max_tokens=9, key="words"),
            ListRoots(key="roots"),
        )
        assert type(warm.value) is bool
        assert type(words.text) is str
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


class Errors(logging.Handler):
    """Keeps what the server has logged as errors: what it did not expect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class Outcome(NamedTuple):
    """What became of a round: a result or an error, and the handlers that ran."""

    result: dict[str, Any] | None
    error: ProtocolError | None
    runs: list[str]


def round_of(request: Request, more: Mapping[str, Any], **options: Any) -> Outcome:
    """Make one round of a request; the server meets nothing that it did not expect."""
    runs: list[str] = []
    errors = Errors()

    async def run() -> Outcome:
        server = make_server(runs, **options)
        async with connect(server, capabilities=CAPABILITIES) as client:
            try:
                result = await client.request(request.method, {**request.params, **more})
            except ProtocolError as error:
                return Outcome(None, error, runs)
            return Outcome(result, None, runs)

    logger = logging.getLogger("mcpkit")
    logger.addHandler(errors)
    try:
        outcome = asyncio.run(run())
    finally:
        logger.removeHandler(errors)
    assert [record.getMessage() for record in errors.records] == []
    return outcome


def assert_refused(outcome: Outcome) -> None:
    """Assert that a state was not taken, and that no handler has run."""
    assert outcome.error is not None, outcome.result
    assert outcome.error.code == -32602
    assert outcome.error.message.startswith("requestState")
    assert outcome.runs == []


def state_of(outcome: Outcome) -> str:
    assert outcome.result is not None, outcome.error
    assert outcome.result["resultType"] == "input_required"
    return str(outcome.result["requestState"])


@functools.cache
def issued(*, is_secret: bool = False) -> tuple[Issued, ...]:
    """The states that were given: one for each request, and one of a second round."""
    options = {"encrypt_state": is_secret}
    states = [Issued(request, state_of(round_of(request, {}, **options)), is_secret) for request in REQUESTS]
    second = {"inputResponses": FIRST, "requestState": states[0].state}
    return (*states, Issued(PLAN, state_of(round_of(PLAN, second, **options)), is_secret))


@st.composite
def any_issued(draw: st.DrawFn, *, is_secret: bool | None = None) -> Issued:
    if is_secret is None:
        is_secret = draw(st.booleans())
    return draw(st.sampled_from(issued(is_secret=is_secret)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


# States that were given


@bounded
@given(any_issued(), st.data())
def test_a_state_is_taken_with_its_own_request_whatever_the_order_and_the_meta(
    given_: Issued, data: st.DataObject
) -> None:
    names = data.draw(st.permutations(list(given_.request.params)))
    params = {name: given_.request.params[name] for name in names}
    meta = data.draw(st.dictionaries(st.text("abc", min_size=1, max_size=5), json_values, max_size=2))
    outcome = round_of(
        Request(given_.request.method, params),
        {"requestState": given_.state, "_meta": {"x/y": meta}},
        **given_.options,
    )
    assert state_of(outcome)
    assert outcome.runs == [given_.request.method]


@bounded
@given(any_issued(), st.sampled_from(REQUESTS))
def test_a_state_is_refused_with_any_other_request(given_: Issued, request: Request) -> None:
    assume(request != given_.request)
    more = {"inputResponses": FIRST, "requestState": given_.state}
    assert_refused(round_of(request, more, **given_.options))


@bounded
@given(any_issued(), st.sampled_from([{"secret": OTHER}, {"name": "other"}]))
def test_a_state_is_refused_by_servers_with_another_secret_or_name(
    given_: Issued, options: dict[str, Any]
) -> None:
    assert_refused(round_of(given_.request, {"requestState": given_.state}, **given_.options, **options))


@bounded
@given(any_issued())
def test_a_state_is_refused_where_the_other_kind_is_given(given_: Issued) -> None:
    more = {"inputResponses": FIRST, "requestState": given_.state}
    assert_refused(round_of(given_.request, more, encrypt_state=not given_.is_secret))


# States that were not


@st.composite
def damaged(draw: st.DrawFn) -> Issued:
    """A state that was given, with something done to its text."""
    request, state, is_secret = draw(any_issued())
    at = draw(st.integers(0, len(state) - 1))
    end = draw(st.integers(at, min(at + 8, len(state))))
    packed = bytearray(urlsafe_b64decode(state))
    packed[draw(st.integers(0, len(packed) - 1))] ^= 1 << draw(st.integers(0, 7))
    other = draw(any_issued(is_secret=is_secret)).state
    character = draw(st.sampled_from("Aa0_-=+/ \n.\0é"))
    text = draw(
        st.sampled_from(
            [
                urlsafe_b64encode(packed).decode(),
                state[:at],
                state[at:],
                state[:at] + state[end:],
                state[:at] + character + state[at:],
                state[:at] + character + state[at + 1 :],
                state[:at] + other[at:],
                state + other,
                state * 2,
                state + "=",
                state.rstrip("="),
                state + "\n",
                " " + state,
                state.swapcase(),
                state.replace("-", "+").replace("_", "/"),
            ]
        )
    )
    assume(text not in {each.state for each in issued(is_secret=is_secret)})
    return Issued(request, text, is_secret)


@settings(bounded, max_examples=400)
@given(damaged())
def test_a_state_that_was_changed_is_refused(given_: Issued) -> None:
    more = {"inputResponses": FIRST, "requestState": given_.state}
    assert_refused(round_of(given_.request, more, **given_.options))


@st.composite
def forged(draw: st.DrawFn) -> Issued:
    """A state that says something else, with each signature that others can make."""
    request, state, _ = draw(any_issued(is_secret=False))
    packed = urlsafe_b64decode(state)
    mac, content = packed[:MAC], json.loads(packed[MAC:])
    content |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "exp": st.integers(0, 2**60),
                "id": st.text(max_size=30),
                "of": st.sampled_from([content["of"], "", "0" * 32]),
                "asked": st.dictionaries(st.sampled_from(["city", "warm"]), json_values, max_size=2),
                "answered": st.just({"city": ["x", FIRST["city"]]}) | json_values,
                "once": st.just({"number": 8}),
            },
        )
    )
    data = json.dumps(content, separators=(",", ":")).encode()
    assume(data != packed[MAC:])
    signature = draw(
        st.sampled_from(
            [
                mac,
                b"",
                bytes(MAC),
                draw(st.binary(min_size=MAC, max_size=MAC)),
                sha256(data).digest(),
                Keys(OTHER, "rounds").sign("requestState 1", data),
                Keys(SECRET, "other").sign("requestState 1", data),
                Keys(SECRET, "rounds").sign("Mcp-Session-Id", data),
                Keys(SECRET, "rounds").sign("requestState 1", packed[MAC:]),
            ]
        )
    )
    return Issued(request, urlsafe_b64encode(signature + data).decode())


@settings(bounded, max_examples=400)
@given(forged())
def test_a_state_that_somebody_else_has_signed_is_refused(given_: Issued) -> None:
    assert_refused(round_of(given_.request, {"inputResponses": FIRST, "requestState": given_.state}))


@bounded
@given(
    st.text()
    | st.text("ABCabc019-_=")
    | st.binary(max_size=300).map(lambda data: urlsafe_b64encode(data).decode())
    | st.integers(10_000, 3_000_000).map(lambda size: "A" * (size // 4 * 4))
    | json_values.filter(lambda value: value is not None),
    st.booleans(),
)
@example("", False)
@example("=", True)
@example("A" * 43 + "=", True)
@example(urlsafe_b64encode(bytes(MAC)).decode(), False)
@example(urlsafe_b64encode(bytes(MAC) + b"{}").decode(), True)
def test_any_other_value_is_refused(state: Any, is_secret: bool) -> None:
    more = {"inputResponses": FIRST, "requestState": state}
    assert_refused(round_of(PLAN, more, encrypt_state=is_secret))


# Answers


@st.composite
def changed(draw: st.DrawFn, value: Any) -> Any:
    """A JSON value with one of its members left out, put in or replaced, at any depth."""
    if isinstance(value, dict) and value and draw(st.booleans()):
        name = draw(st.sampled_from(sorted(value)))
        how: Literal["drop", "add", "change"] = draw(st.sampled_from(["drop", "add", "change"]))
        if how == "drop":
            return {key: each for key, each in value.items() if key != name}
        if how == "add":
            return {**value, draw(st.text(max_size=8)): draw(json_values)}
        return {**value, name: draw(changed(value[name]))}
    if isinstance(value, list) and value and draw(st.booleans()):
        return [draw(changed(value[0])), *value[1:], draw(json_values)]
    return draw(st.just(value) | json_values | st.sampled_from(["accept", "decline", "cancel", "Rome", 3]))


answers = st.sampled_from([FIRST, SECOND, {**FIRST, **SECOND}]).flatmap(changed) | json_values


def assert_sound(outcome: Outcome) -> None:
    """Assert that a round ends with a refusal, more questions, a result, or an answer that says no."""
    if outcome.error is not None:
        assert outcome.error.code == -32602
    else:
        assert outcome.result is not None
        if outcome.result["resultType"] == "input_required":
            assert set(outcome.result["inputRequests"]) <= {"city", "warm", "words", "roots"}
            assert outcome.result["inputRequests"]
        elif outcome.result.get("isError"):
            [block] = outcome.result["content"]
            assert block["text"] in {"The user declined", "The user cancelled"}
        else:
            assert outcome.result["resultType"] == "complete"


@settings(bounded, max_examples=400)
@given(answers, st.sampled_from([None, 0, -1]))
@example({**FIRST, **SECOND}, None)
@example(FIRST, 0)
@example(SECOND, -1)
def test_no_answers_break_anything(responses: Any, which: int | None) -> None:
    more = {"inputResponses": responses}
    if which is not None:
        more["requestState"] = issued()[which].state
    assert_sound(round_of(PLAN, more))


@pytest.mark.parametrize(
    ("responses", "which"), [({**FIRST, **SECOND}, None), ({**FIRST, **SECOND}, 0), (SECOND, -1)]
)
def test_the_right_answers_lead_to_the_result(responses: Any, which: int | None) -> None:
    """Else the properties above could hold because nothing is ever taken."""
    more = {"inputResponses": responses}
    if which is not None:
        more["requestState"] = issued()[which].state
    result = round_of(PLAN, more).result
    assert result is not None
    assert result["content"][0]["text"] == "3 7 1"


@settings(bounded, max_examples=20)
@given(st.integers(20_000, 2_000_000), st.sampled_from(["key", "unknown", "text"]))
def test_huge_answers_are_taken_or_refused(size: int, where: str) -> None:
    huge: dict[str, Any] = {
        "key": {**FIRST, "x" * size: {}},
        "unknown": {**FIRST, "other": {"x": "x" * size}},
        "text": {**FIRST, **SECOND, "words": {**SECOND["words"], "model": "x" * size}},
    }[where]
    outcome = round_of(PLAN, {"inputResponses": huge})
    assert_sound(outcome)
    assert outcome.error is None


@pytest.mark.parametrize("size", [9_000, 50_000])
def test_huge_answers_that_the_next_round_would_bring_again_are_refused(size: int) -> None:
    huge = {"city": {"action": "accept", "content": {"name": "x" * size}}}
    error = round_of(PLAN, {"inputResponses": huge}).error
    assert error is not None
    assert error.code == -32602
    assert error.message.startswith("inputResponses: expected at most")


@settings(bounded, max_examples=40)
@given(st.sampled_from(REQUESTS), answers, st.text(max_size=40))
def test_what_never_asks_never_minds(request: Request, responses: Any, state: str) -> None:
    """Lists have no rounds, so that they look at neither."""
    lists = {"tools/call": "tools/list", "prompts/get": "prompts/list", "resources/read": "resources/list"}
    more = {"inputResponses": responses, "requestState": state}
    outcome = round_of(Request(lists[request.method], {}), more)
    assert outcome.result is not None
    assert outcome.result["resultType"] == "complete"
    assert outcome.runs == []
