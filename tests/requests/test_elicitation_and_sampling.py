"""Questions to the client: forms, pages, sampling and roots, in both kinds of revisions."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import AfterValidator, Field

from mcpkit import Complete, Context, ProtocolError, RegistrationError, ResourceLink, Server, Timeouts, user
from mcpkit.elicitation import ElicitationResult, ElicitRequest, ListRootsRequest, SamplingRequest
from mcpkit.engine.message_dispatch import Connection
from mcpkit.exceptions import ClientResponseError
from mcpkit.requests.elicitation_and_sampling import file_path
from mcpkit.requests.requests_to_client import MAX_OPEN
from mcpkit.testing import connect
from tests.helpers.elicitation import (
    REVISIONS,
    City,
    ScriptedAnswers,
    call_tool,
    make_server,
    sampling_result,
)
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock, until

ALL_REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", *REVISIONS]
PAGE = "https://example.com/pay"
ACCEPTED = {"action": "accept"}


def check_name(name: str) -> str:
    if name == "Bob":
        raise ValueError("Bob is banned")
    return name


@dataclass
class Person:
    name: Annotated[str, AfterValidator(check_name)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of day; a page is looked at once for each acceptance."""
    clock = Clock()
    monkeypatch.setattr("time.time", clock)
    monkeypatch.setattr("mcpkit.requests.elicitation_and_sampling._POLLS", ())
    return clock


def handshake(server: Server, receive: Any) -> tuple[Connection, Any]:
    """Open a connection of 2025-11-25; return it and the function that sends it a message."""
    connection = Connection(server, receive)

    def send(method: str, params: dict[str, Any], **id_: int) -> None:
        connection.receive(json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **id_}).encode())

    info = {"clientInfo": {"name": "test", "version": "1"}, "capabilities": {"elicitation": {}}}
    send("initialize", {"protocolVersion": "2025-11-25", **info}, id=0)
    return connection, send


# Answers


async def test_questions_one_after_another_use_earlier_answers(revision: str) -> None:
    orders: list[str] = []
    keys: list[str] = []

    async def plan(ctx: Context) -> str:
        keys.append(ctx.idempotency_key)
        city = (await ctx.elicit("Which city?", City)).value
        number = await ctx.once("order", lambda: orders.append(city.name) or len(orders))
        warmth = (await ctx.elicit(f"How warm is it in {city.name}?", float)).value
        words = await ctx.sample([user(f"{warmth} degrees")], max_tokens=50, system="Be brief.")
        return f"{city.days} days in {city.name} at {warmth}: {words.text}, order {number}"

    answers = ScriptedAnswers({"name": "Paris", "days": 3}, {"value": 21.5}, sampling_result("mild"))
    assert await call_tool(make_server(plan), answers, revision) == "3 days in Paris at 21.5: mild, order 1"
    assert orders == ["Paris"]
    assert (len(keys), len(set(keys))) == (1 if revision == "2025-11-25" else 4, 1)
    assert [(method, params.get("message")) for method, params in answers.requests] == [
        ("elicitation/create", "Which city?"), ("elicitation/create", "How warm is it in Paris?"),
        ("sampling/createMessage", None),
    ]  # fmt: skip


async def test_sync_context_asks_from_a_thread(revision: str) -> None:
    orders: list[str] = []

    def plan(ctx: Context) -> str:
        city = ctx.sync.elicit("Which city?", City).value
        number = ctx.sync.once("order", lambda: orders.append(city.name) or len(orders))
        words, roots = ctx.sync.ask(SamplingRequest(city.name, max_tokens=5), ListRootsRequest())
        assert ctx.sync.list_roots(key="again") == []
        assert ctx.sync.sample("more", max_tokens=5).text == "more"
        assert not ctx.sync.elicit_url("Pay", "https://example.com")
        return f"{city.days} {number} {words.text} {len(roots)}"

    answers = ScriptedAnswers(
        {"name": "Paris", "days": 3}, sampling_result("fine"), *[{"roots": []}] * 2, sampling_result("more"),
        {"action": "decline"},
    )  # fmt: skip
    assert await call_tool(make_server(plan), answers, revision) == "3 1 fine 0"
    assert orders == ["Paris"]


async def list_roots(ctx: Context) -> str:
    return ", ".join(f"{root.uri} ({root.name})" for root in await ctx.list_roots())


async def days(ctx: Context) -> str:
    return str((await ctx.elicit("How long?", int)).value)


async def pay(ctx: Context) -> str:
    return (await ctx.elicit_url("Pay", PAGE)).action


async def ask_several(ctx: Context) -> str:
    city, words, roots = await ctx.ask(
        ElicitRequest("City?", City), SamplingRequest("Hello", max_tokens=5), ListRootsRequest()
    )
    return f"{city.value.name} {words.text} {len(roots)}"


async def sample(ctx: Context) -> str:
    try:
        return (await ctx.sample("Hello", max_tokens=5)).text
    except ClientResponseError as error:
        return f"{error} ({error.code})"


async def choose(ctx: Context) -> str:
    answer = await ctx.elicit("Red?", bool)
    return str(answer.value) if answer else answer.action


ROOTS = {"roots": [{"uri": "file:///a", "name": "A"}, {"uri": "file:///b"}]}
SEVERAL = [{"name": "Rome", "days": 1}, sampling_result("hi"), {"roots": []}]
NO_PAGE = (
    "The client does not support this request: protocol version 2025-06-18 has no elicitation by URL; 2025-11-25 "
    "introduced it"
)
NO_FORM = "The client does not declare the required capability elicitation.form"


@each_row(("function", "answers", "revisions", "text"), [
    (list_roots, [ROOTS], ALL_REVISIONS, "file:///a (A), file:///b (None)"),
    (ask_several, SEVERAL, ALL_REVISIONS[2:], "Rome hi 0"),
    (days, None, ALL_REVISIONS[:-1], f"error: {NO_FORM}"), (days, None, REVISIONS[1:], f"-32021: {NO_FORM}"),
    (days, [], ["2025-03-26"], f"error: {NO_FORM}"),
    (pay, [], ["2025-06-18"], f"error: {NO_PAGE}"),
    (choose, [{"action": "decline"}], REVISIONS, "decline"), (choose, [{"action": "cancel"}], REVISIONS, "cancel"),
    (choose, [{"value": False}], REVISIONS, "False"),
    (days, [{"action": "decline"}], REVISIONS, "error: The user declined"),
    (days, [{"action": "cancel"}], REVISIONS, "error: The user cancelled"),
    (sample, [ProtocolError(-1, "User rejected sampling request")], ["2024-11-05", "2025-11-25"],
     "The client returned an error: User rejected sampling request (-1)"),
])  # fmt: skip
async def test_question_by_revision_has_its_answer_or_names_the_missing_capability(
    function: Any, answers: list[Any] | None, revisions: list[str], text: str
) -> None:
    for revision in revisions:
        handler = None if answers is None else ScriptedAnswers(*answers)
        assert await call_tool(make_server(function), handler, revision) == text, revision


async def test_answer_that_is_malformed_is_an_error(revision: str) -> None:
    start = "-32602: inputResponses.#1: " if revision == "2026-07-28" else "error: "
    for answer in ({"action": "perhaps"}, {"action": "accept", "content": 5}, {"action": ["accept"]}):
        text = await call_tool(make_server(days), ScriptedAnswers(answer), revision)
        assert text.startswith(start), answer
        assert "The client's response is invalid: " in text, answer


async def test_prompts_and_resources_ask(revision: str) -> None:
    server = Server("asking", secret_key="a secret of the tests")

    @server.prompt
    async def greet(ctx: Context) -> str:
        return f"Greet {(await ctx.elicit('Whom?', str)).value}"

    @server.resource("notes://{kind}")
    async def notes(kind: str, ctx: Context) -> str:
        return f"{kind} of {(await ctx.elicit('Whose?', Literal['Ada', 'Bob'])).value}"

    answers = ScriptedAnswers({"value": "Ada"}, {"value": "Bob"})
    async with connect(server, protocol_version=revision, request_handler=answers) as client:
        assert (await client.get_prompt("greet"))[0]["content"]["text"] == "Greet Ada"
        assert (await client.read_resource("notes://day"))[0]["text"] == "day of Bob"


# Forms with entries that do not fit


@pytest.mark.parametrize("revision", ["2025-06-18", *REVISIONS])
async def test_elicit_invalid_entries_repeats_the_form_with_the_reason(revision: str) -> None:
    async def invite(ctx: Context) -> str:
        person, city = await ctx.ask(ElicitRequest("Who comes?", Person), ElicitRequest("Where from?", City))
        seats = (await ctx.elicit(f"How many seats for {person.value.name}?", int)).value
        return f"{seats} for {person.value.name} from {city.value.name}"

    answers = ScriptedAnswers(
        {"name": "Bob"}, {"name": "Rome", "days": 1}, {"nickname": "A"}, {"name": "Ada"}, {"value": "two"}, {"value": 2}
    )  # fmt: skip
    assert await call_tool(make_server(invite), answers, revision) == "2 for Ada from Rome"
    assert answers.messages == [
        "Who comes?", "Where from?", "Who comes?\n\nname: Bob is banned",
        "Who comes?\n\nname: expected a string, but it is missing", "How many seats for Ada?",
        'How many seats for Ada?\n\nvalue: expected an integer, got "two"',
    ]  # fmt: skip


# Clients that do not answer


async def test_question_timeout_fails_the_call() -> None:
    server = Server("slow", timeouts=Timeouts(client_request=0.01))
    messages: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    server.tool(days)

    receive = lambda line: messages.put_nowait(json.loads(line))  # noqa: E731
    connection, send = handshake(server, receive)
    send("tools/call", {"name": "days"}, id=1)
    received = []
    while not received or received[-1].get("id") != 1 or "method" in received[-1]:
        received.append(await asyncio.wait_for(messages.get(), 10))
    assert received[-1]["result"]["content"][0]["text"] == "The client did not answer within 0.01 s"
    methods = [message["method"] for message in received if "method" in message]
    assert methods == ["elicitation/create", "notifications/cancelled"]
    await connection.aclose()


async def test_cancelled_call_cancels_its_question() -> None:
    received = asyncio.Event()

    async def never(method: str, params: dict[str, Any]) -> dict[str, Any]:
        received.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with connect(make_server(days), protocol_version="2025-11-25", request_handler=never) as client:
        call = asyncio.ensure_future(client.call_tool("days"))
        await received.wait()
        call.cancel()
        assert (await client.notification("notifications/cancelled"))["requestId"] == "1"


async def test_open_questions_of_a_client_are_limited() -> None:
    sent: list[dict[str, Any]] = []
    receive = lambda line: sent.append(json.loads(line))  # noqa: E731
    connection, send = handshake(make_server(days), receive)

    def responses() -> dict[int, Any]:
        return {message["id"]: message for message in sent if message.keys() & {"result", "error"}}

    for number in range(1, MAX_OPEN + 2):
        send("tools/call", {"name": "days"}, id=number)
    await until(lambda: MAX_OPEN + 1 in responses())
    assert responses().keys() == {0, MAX_OPEN + 1}
    error = responses()[MAX_OPEN + 1]["error"]
    expected = f"Too many requests from server to client are unanswered ({MAX_OPEN})"
    assert (error["code"], error["message"].split(".")[0]) == (-32603, expected)
    send("notifications/cancelled", {"requestId": 1})
    await until(lambda: len(connection.questions) < MAX_OPEN)
    send("tools/call", {"name": "days"}, id=1000)
    await until(lambda: len(connection.questions) == MAX_OPEN)
    assert 1000 not in responses()
    await connection.aclose()


# Pages


async def test_elicit_url_is_repeated_until_done(revision: str, clock: Clock) -> None:
    done = [False, False, True, True]  # the last round of a stateless call looks again

    async def pay(ctx: Context) -> str:
        answer = await ctx.elicit_url("Pay", PAGE, done=lambda: done.pop(0))
        more = await ctx.elicit("A receipt?", bool)
        return f"{answer.action} {more.value}"

    answers = ScriptedAnswers(*[ACCEPTED] * 3, {"value": True})
    async with connect(make_server(pay), protocol_version=revision, request_handler=answers) as client:
        assert (await client.call_tool("pay")).text == "accept True"
        pages = [params for _, params in answers.requests[:3]]
        assert {params["url"] for params in pages} == {PAGE}
        if revision == "2025-11-25":
            completed = await client.notification("notifications/elicitation/complete")
            assert completed["elicitationId"] == pages[0]["elicitationId"]
        else:
            assert "elicitationId" not in pages[0]


async def test_elicit_url_never_done_fails_after_question_timeout(revision: str, clock: Clock) -> None:
    server = Server("till")

    def never() -> bool:
        clock.now += 100
        return False

    @server.tool
    async def pay(ctx: Context) -> str:
        await ctx.elicit_url("Pay", PAGE, done=never)
        return "paid"

    server.prompt(pay)
    answers = ScriptedAnswers(*[ACCEPTED] * 20)
    not_done = (
        "The user agreed to open the page, but did not complete the step there within 600 s. Complete it, then call "
        "again"
    )
    async with connect(server, protocol_version=revision, request_handler=answers) as client:
        result = await client.call_tool("pay")
        assert (result.is_error, result.text) == (True, not_done)
        assert (
            len(answers.requests) == 6
        )  # the time begins with the first acceptance, before `done` is called
        with pytest.raises(ProtocolError) as error:
            await client.get_prompt("pay")
        assert (error.value.code, error.value.message) == (-32603, not_done)


# Roots


async def test_list_roots_has_paths_of_files_only(tmp_path: Path, revision: str) -> None:
    (tmp_path / "my notes").mkdir()
    (tmp_path / "my notes" / "a.txt").write_text("a")

    async def files(ctx: Context) -> list[str]:
        paths = [root.path for root in await ctx.list_roots()]
        return [file.name for path in paths if path is not None for file in path.iterdir()]

    roots = [{"uri": (tmp_path / "my notes").as_uri()}, {"uri": "https://example.com"}]
    assert "a.txt" in await call_tool(make_server(files), ScriptedAnswers({"roots": roots}), revision)


WINDOWS = {
    "file:///C:/Users/ada": "C:/Users/ada", "file:///c%3A/Users/Ada%20L": "c:/Users/Ada L", "file:///C:": "C:/",
    "file:///C:/": "C:/", "file://localhost/C:/x": "C:/x", "file://server/share/x": "//server/share/x",
    "file:////server/share/x": "//server/share/x", "file:///srv/ada": None,
}  # fmt: skip
POSIX = {
    "file:///srv/ada": "/srv/ada", "file:///srv/ada/": "/srv/ada/", "FILE:///srv/ada": "/srv/ada",
    "file:/srv/ada": "/srv/ada", "file://localhost/srv/ada": "/srv/ada", "file:///srv/ada/été": "/srv/ada/été",
    "file:///srv/ada/my%20notes/100%25/%C3%A9t%C3%A9": "/srv/ada/my notes/100%/été", "file:///": "/",
    "file:///a%23b%3Fc": "/a#b?c", "file:///not%zzencoded": "/not%zzencoded", "file://server/share/x": None,
}  # fmt: skip
NOT_A_FILE = [
    "https://example.com/srv/ada", "git+ssh://example.com/x", "/srv/ada", "file:", "file:ada", "file://", "",
    "file:///srv/ada?version=1", "file:///srv/ada#L1", "file:///home/%00ada",
]  # fmt: skip


@each_row(("uri", "is_windows", "path"), [
    *[(uri, False, path) for uri, path in POSIX.items()], *[(uri, True, path) for uri, path in WINDOWS.items()],
    *[(uri, is_windows, None) for uri in NOT_A_FILE for is_windows in (False, True)],
])  # fmt: skip
def test_file_path_reads_posix_and_windows_uris(uri: str, is_windows: bool, path: str | None) -> None:
    assert file_path(uri, is_windows=is_windows) == path


async def test_completion_cannot_ask() -> None:
    failures: list[str] = []

    async def names(value: str, ctx: Context) -> list[str]:
        try:
            await ctx.elicit("Whom?", str)
        except RuntimeError as error:
            failures.append(str(error))
        return []

    server = Server("asking")

    async def greet(name: Any) -> str:
        return str(name)

    greet.__annotations__["name"] = Annotated[str, Complete(names)]
    server.prompt(greet)
    async with connect(server, request_handler=ScriptedAnswers()) as client:
        await client.complete("greet", "name", "A")
    assert "completion/complete cannot send requests to the client" in failures[0]


# Questions and keys that are written wrong: the error names the mistake and what to write instead


@dataclass
class Town:
    name: str


@dataclass
class Wishes:
    meals: list[Literal["lunch", "dinner"]]


async def error_of(function: Callable[[Context], Any], revision: str, *answers: Any) -> str:
    """Return the text of the error that a tool's function raises."""

    async def tool(ctx: Context) -> str:
        with pytest.raises((TypeError, ValueError)) as error:
            await function(ctx)
        return str(error.value)

    return await call_tool(make_server(tool), ScriptedAnswers(*answers), revision)


Form: Any = ElicitRequest
Sampling: Any = SamplingRequest
LONG_KEY = "key must be a string of 1 to 100 characters"


@each_row(("make", "error", "message"), [
    (lambda: Form("Which city?", Town("Rome")), RegistrationError,
     r"a form needs a type, such as a dataclass .*, got Town\(name='Rome'\)"),
    (lambda: Form("Which city?", Optional[Town]), RegistrationError,  # noqa: UP045 - as some write it
     "remove `None`: an `ElicitationResult` that was not accepted has no value"),
    (lambda: Form(str, "Which city?"), TypeError, "message must be a string, got"),
    (lambda: Form("A?", str, key=3), ValueError, LONG_KEY),
    (lambda: Form("A?", str, key="k" * 101), ValueError, LONG_KEY),
    (lambda: Form("Who?", str, key="#1"), ValueError,
     "key must not begin with #, which is reserved for generated keys"),
    (lambda: Sampling([user("Hello"), user({"a": object()})], max_tokens=5), ValueError,
     r"messages\[1\]\.content\.a cannot be converted to JSON: an object; return"),
    (lambda: Sampling(3, max_tokens=5), TypeError, "messages must be a string, or a list of user"),
    (lambda: Sampling([user(ResourceLink("notes://day", "day"))], max_tokens=5), TypeError,
     "the content of a sampling message must be text, image, audio, .*, got 'resource_link'"),
    (lambda: Sampling([{"role": "user", "content": "Hello"}], max_tokens=5), TypeError,
     "each message must be user"),
    (lambda: Sampling("Hello", max_tokens=5, tools=[print]), TypeError,
     "tools must be dicts in the form of a tools/list result"),
])  # fmt: skip
def test_question_constructor_invalid_argument_raises(make, error, message) -> None:
    with pytest.raises(error, match=message):
        make()


PATTERN = "protocol version 2026-07-28 has no `pattern` for a string"
CHOICE = "protocol version 2025-06-18 has no multiple choice"


@each_row(("type_", "revision", "lack", "advice"), [
    (Wishes, "2025-06-18", CHOICE, f"Wishes: the field 'meals' is not possible: {CHOICE}; use a single"),
    (Annotated[str, Field(pattern="^a")], "2026-07-28", PATTERN, f"{PATTERN}; describe the pattern in words"),
])  # fmt: skip
async def test_elicit_type_that_the_revision_lacks_is_named_and_logged(type_, revision, lack, advice, caplog):
    async def plan(ctx: Context) -> str:
        return (await ctx.elicit("What do you want?", type_)).action

    text = await call_tool(make_server(plan), ScriptedAnswers(), revision)
    assert text == f"error: The client does not support this request: {lack}"
    assert advice in caplog.text


ALL = "Write ctx.ask(ElicitRequest(...), UrlElicitRequest(...), SamplingRequest(...), ListRootsRequest())"


@each_row(("make", "problem"), [
    (lambda ctx: "A?", "a str. Write ctx.ask(ElicitRequest('A?', bool)), or another type in place of bool"),
    (lambda ctx: ctx.list_roots(),
     "a coroutine. Write ctx.ask(ListRootsRequest(...), ...), as ctx.list_roots(...) sends a request of its own"),
    (lambda ctx: [Form("A?", bool), Form("B?", bool)], "a list. Write ctx.ask(*questions)"),
    (lambda ctx: Form, f"the class ElicitRequest. {ALL}"),
    (lambda ctx: ElicitationResult("accept", "a password"), f"an ElicitationResult. {ALL}"),
])  # fmt: skip
async def test_ask_wrong_argument_names_what_to_write(revision, make, problem) -> None:
    async def ask(ctx: Context) -> None:
        # A coroutine that stays open would be warned of, which fails the test.
        await ctx.ask(Form("First?", bool), make(ctx), ctx.sample("Hello", max_tokens=5))  # type: ignore[arg-type]

    assert await error_of(ask, revision) == f"ctx.ask takes requests to the client, got {problem}"


async def is_paid() -> bool:
    return True


@each_row(("make", "kind"), [(lambda: True, "a bool"), (is_paid, "a coroutine")])
async def test_elicit_url_done_must_be_a_function(revision: str, make: Callable[[], Any], kind: str) -> None:
    async def pay(ctx: Context) -> None:
        await ctx.elicit_url("Pay", "https://example.com", done=make())

    assert await error_of(pay, revision) == (
        f"done= must be a function that returns whether the step is complete, got {kind}. Write done=is_paid, or "
        "done=lambda: ..."
    )


# Keys: each is used once in a run of the handler


async def ask_in_a_loop(ctx: Context) -> None:
    while (await ctx.elicit("Another?", bool, key="more")).value:
        pass


async def ask_at_once(ctx: Context) -> None:
    await ctx.ask(ElicitRequest("This?", bool, key="more"), ElicitRequest("That?", bool, key="more"))


async def ask_pages(ctx: Context) -> None:
    for _ in range(2):
        await ctx.elicit_url("Pay", "https://example.com", key="more")


ORDERS: list[int] = []


async def place_order() -> None:
    await asyncio.sleep(0)
    ORDERS.append(1)


async def order_twice(ctx: Context) -> None:
    for _ in range(2):
        await ctx.once("more", place_order)


async def order_concurrently(ctx: Context) -> None:
    await asyncio.gather(ctx.once("more", place_order), ctx.once("more", place_order))


@each_row(("function", "what", "answer"), [
    (ask_in_a_loop, "question", {"value": True}), (ask_at_once, "question", {}),
    (ask_pages, "question", {"action": "accept"}), (order_twice, "ctx.once", {}),
    (order_concurrently, "ctx.once", {}),
])  # fmt: skip
async def test_key_used_twice_raises(revision: str, function: Any, what: str, answer: dict[str, Any]) -> None:
    ORDERS.clear()
    assert await error_of(function, revision, answer) == (
        f"this call already has a {what} with the key 'more'. Give each its own key, in a loop for example "
        'f"more-{number}"'
    )
    assert len(ORDERS) == (what == "ctx.once")


# Values of `ctx.once`: those that come back in a later round as they are

LOOP: list[Any] = []
LOOP.append(LOOP)
NOT_JSON: list[tuple[Any, str]] = [
    ((1, 2), "a tuple"), (date(2026, 7, 28), "a date"), (Decimal("1.5"), "a Decimal"), ({1, 2}, "a set"),
    (Town("Rome"), "a Town"), (b"raw", "a bytes"), (object(), "an object"), ("\ud800", "a str"),
    (float("nan"), "a float"), ([1, (2, 3)], "a list with values of other types"),
    ({1: "one"}, "a dict with values of other types"), (LOOP, "a list with values of other types"),
]  # fmt: skip
JSON: list[Any] = [None, True, 0, 10**30, 1.5, "Ä\n😀", [], [1, [None]], {"a": {"b": [1.0]}}]


@each_row(("value", "kind"), NOT_JSON)
async def test_once_value_that_is_not_json_raises(value: Any, kind: str) -> None:
    for revision in REVISIONS:
        assert await error_of(lambda ctx: ctx.once("order", lambda: value), revision) == (
            f"the function of ctx.once('order', ...) returned {kind}, which does not survive a round trip through "
            "JSON. Return a string, number, boolean or None, or a list or dict with string keys of these"
        )


@each_row("key", [3, "", "k" * 101])
async def test_once_wrong_key_raises(key: Any) -> None:
    assert LONG_KEY in await error_of(lambda ctx: ctx.once(key, lambda: 7), REVISIONS[-1])


async def test_once_value_that_is_json_returns_unchanged_in_each_round(revision: str) -> None:
    calls: list[int] = []
    values: list[Any] = []

    async def order(ctx: Context) -> str:
        def place(value: Any) -> Any:
            calls.append(1)
            return value

        values.extend([await ctx.once(f"key {n}", lambda v=v: place(v)) for n, v in enumerate(JSON)])
        return (await ctx.elicit("Who?", str)).value

    assert await call_tool(make_server(order), ScriptedAnswers({"value": "Ada"}), revision) == "Ada"
    assert repr(values) == repr(JSON * (2 if revision == "2026-07-28" else 1))
    assert len(calls) == len(JSON)
