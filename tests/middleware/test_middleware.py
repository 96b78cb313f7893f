"""Middleware: which requests pass through it, in which order, and what it may change, answer and raise."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Principal, ProtocolError, RegistrationError, Server, ToolError
from mcpkit.middleware import CallNext, CallTool, RateLimit, Request, Result, ToolCall, ToolCallResult
from mcpkit.middleware.base import is_handle
from mcpkit.storage import Memory, Redis
from mcpkit.testing import TestClient, connect
from tests.helpers.engines import ENGINES, REPLICAS, Engine, engines, replicas
from tests.helpers.raw_client import Client, serving
from tests.helpers.redis_server import RedisServer
from tests.helpers.servers.middleware import REVISIONS, Recorder, make_failing_server, make_server
from tests.helpers.tables import each_row
from tests.helpers.waiting import Clock, Work, over, until

ADD = {"a": 1, "b": 2}


@pytest.fixture
def server() -> Server:
    return make_server()


async def test_middleware_sees_every_request_with_its_result(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())
    requests = [
        ("tools/list", {}), ("tools/call", {"name": "add", "arguments": ADD}), ("resources/list", {}),
        ("resources/read", {"uri": "wrapped://known"}), ("prompts/get", {"name": "greet", "arguments": {"name": "A"}}),
    ]  # fmt: skip
    async with connect(server, protocol_version=revision) as client:
        results = [(method, await client.request(method, params)) for method, params in requests]
    assert recorder.seen[0][0] in {"initialize", "server/discover"}
    assert recorder.seen[1:] == results


async def test_middleware_sees_refused_requests(server: Server) -> None:
    recorder = server.middleware(Recorder())
    refused = [
        ("no/such", {}, "ProtocolError"), ("tools/call", {"name": "none"}, "ProtocolError"),
        ("tools/call", {}, "MalformedError"), ("resources/read", {"uri": "wrapped://lost"}, "ResourceNotFoundError"),
    ]  # fmt: skip
    async with connect(server, protocol_version="2025-11-25") as client:
        for method, params, _ in refused:
            with pytest.raises(ProtocolError):
                await client.request(method, params)
    assert recorder.seen[1:] == [(method, error) for method, _, error in refused]


async def test_middleware_registered_first_is_outermost(server: Server) -> None:
    order: list[str] = []

    def record(name: str, register: Callable[[Any], Any]) -> None:
        async def middleware(request: Request, call_next: CallNext) -> Result:
            order.append(f"{name} in")
            result = await call_next(request)
            order.append(f"{name} out")
            return result

        register(middleware)

    record("first", server.middleware)
    record("second", server.middleware("tools/call"))
    record("third", server.middleware)
    async with connect(server) as client:
        order.clear()
        await client.call_tool("add", ADD)
        await client.list_prompts()
    assert order[:6] == ["first in", "second in", "third in", "third out", "second out", "first out"]
    assert order[6:] == ["first in", "third in", "third out", "first out"]


async def test_middleware_sees_rounds_with_questions(server: Server, revision: str) -> None:
    recorder = server.middleware(Recorder())
    answer: Any = {"action": "accept", "content": {"value": "Rome"}}
    async with connect(server, protocol_version=revision, request_handler=lambda *_: answer) as client:
        assert (await client.call_tool("ask")).text == "mcpkit-testing said Rome"
    ends = [end if isinstance(end, str) else "result" for _, end in recorder.seen[1:]]
    assert ends == (["InputRequired", "result"] if revision == REVISIONS[-1] else ["result"])


async def test_cancellation_reaches_middleware_and_handler(server: Server) -> None:
    work = Work()
    server.tool(work.wait)
    recorder = server.middleware(Recorder())
    async with connect(server) as client:
        call = asyncio.ensure_future(client.call_tool("wait"))
        await work.started.wait()
        await over(call)
        await client.list_prompts()
    assert work.cancelled.is_set()
    assert ("tools/call", "CancelledError") in recorder.seen


async def test_middleware_of_an_included_server_does_not_run(server: Server) -> None:
    inner = server.middleware(Recorder())
    outer_server = Server("outer")
    outer_server.include(server)
    outer = outer_server.middleware(Recorder())
    async with connect(outer_server) as client:
        assert (await client.call_tool("add", ADD)).text == "3"
    assert inner.seen == []
    assert [method for method, _ in outer.seen] == ["server/discover", "tools/call"]


def plain(request: Request, call_next: CallNext) -> None: ...


async def without_call_next(request: Request) -> Result: ...  # type: ignore[empty-body]  # never called


WRONG_FUNCTION = "a middleware must be an async function of a request and call_next"
UNKNOWN = "unknown method '{}' for a middleware. Supported are .*initialize"


@each_row(("hook", "message"), [
    *[(hook, WRONG_FUNCTION) for hook in (plain, without_call_next, 7)],
    *[(method, UNKNOWN.format(method)) for method in ("ping", "subscriptions/listen", "tools")],
])  # fmt: skip
def test_middleware_wrong_function_or_method_is_refused(hook: Any, message: str) -> None:
    with pytest.raises(RegistrationError, match=message):
        make_server().middleware(hook)


# What a middleware changes, answers and raises


async def test_middleware_may_change_arguments_and_result(server: Server, revision: str) -> None:
    @server.middleware("tools/call")
    async def double(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        before = dict(request.arguments)
        result = await call_next(request.with_arguments({**request.arguments, "a": 20}))
        assert request.arguments == before == {"a": 1, "b": 2}
        result["_meta"] = {**result.get("_meta", {}), "name": request.name}
        return result

    async with connect(server, protocol_version=revision) as client:
        result = await client.call_tool("add", ADD)
    assert result.text == "22"
    assert result.meta["name"] == "add"


async def test_middleware_may_respond_itself(server: Server, revision: str) -> None:
    @server.middleware
    async def answer(request: Request, call_next: CallNext) -> Any:
        if request.target != "add":
            return await call_next(request)
        return {"content": [{"type": "text", "text": "kept"}], "structuredContent": {"kept": True}}

    async with connect(server, protocol_version=revision) as client:
        result = await client.request("tools/call", {"name": "add"})
        assert (await client.call_tool("count")).text == "done"
    assert result["content"] == [{"type": "text", "text": "kept"}]
    assert result["structuredContent"] == {"kept": True}
    assert result.get("resultType") == ("complete" if revision == REVISIONS[-1] else None)
    assert ("_meta" in result) is (revision == REVISIONS[-1])


@each_row(("method", "own", "problem"), [
    *[("tools/call", own, "without content blocks")
      for own in ({}, {"content": "kept"}, {"content": [{"text": "kept"}]}, {"content": None})],
    ("prompts/list", None, "returned NoneType. Return the result of call_next"),
])  # fmt: skip
async def test_middleware_invalid_answer_is_an_internal_error_that_names_it(method, own, problem, caplog):
    caplog.clear()
    server = make_server()

    @server.middleware(method)
    async def forgetful(request: Request, call_next: CallNext) -> Any:
        return own

    async with connect(server) as client:
        with pytest.raises(ProtocolError, match=r"^Internal error \(ref [0-9a-f]{8}\)$") as refused:
            await client.request(method, {"name": "add", "arguments": ADD} if own is not None else None)
    assert refused.value.code == -32603
    assert "the middleware <function" in caplog.text
    assert "forgetful" in caplog.text
    assert problem in caplog.text


async def test_middleware_may_retry(server: Server) -> None:
    outcomes = iter([ToolError("not yet"), ToolError("not yet"), None])

    @server.tool
    async def flaky() -> str:
        if (error := next(outcomes)) is not None:
            raise error
        return "now"

    @server.middleware("tools/call")
    async def again(request: ToolCall, call_next: CallTool) -> ToolCallResult:
        while (result := await call_next(request)).is_error:
            assert result.text == "not yet"
        return result

    async with connect(server) as client:
        assert (await client.call_tool("flaky")).text == "now"


async def test_middleware_exception_is_handled_like_one_of_the_handler(server: Server, revision: str) -> None:
    problem: list[Exception] = []

    @server.middleware
    async def refuse(request: Request, call_next: CallNext) -> Result:
        if problem:
            raise problem[0]
        return await call_next(request)

    async with connect(server, protocol_version=revision) as client:
        problem[:] = [ToolError("ask the boss")]
        refused = await client.call_tool("add", ADD)
        assert (refused.is_error, refused.text) == (True, "ask the boss")
        with pytest.raises(ProtocolError, match="ask the boss") as caught:
            await client.read_resource("wrapped://known")
        assert caught.value.code == -32603
        problem[:] = [ProtocolError(-1, "not today", {"tomorrow": True})]
        with pytest.raises(ProtocolError, match="not today") as sent:
            await client.call_tool("add", ADD)
        assert (sent.value.code, sent.value.data) == (-1, {"tomorrow": True})
        problem[:] = [KeyError("secret")]
        with pytest.raises(ProtocolError, match=r"Internal error \(ref \w+\)$"):
            await client.list_tools()


async def test_middleware_may_refuse_initialize(server: Server) -> None:
    @server.middleware("initialize")
    async def refuse(request: Request, call_next: CallNext) -> Result:
        raise ProtocolError(-1, f"not for {request.ctx.client.info['name']}")

    with pytest.raises(ProtocolError, match="not for mcpkit-testing"):
        async with connect(server, protocol_version="2025-11-25"):
            pytest.fail("it is refused")


@pytest.mark.parametrize("tool", ["tool", "in_thread"])
@pytest.mark.parametrize("error", [KeyError("secret"), ToolError("no")], ids=["unexpected", "expected"])
async def test_middleware_result_has_the_exception_of_the_tool(tool: str, error: Exception) -> None:
    server = make_failing_server(error)
    results: list[ToolCallResult] = []

    @server.middleware("tools/call")
    async def observe(call: ToolCall, call_next: CallTool) -> ToolCallResult:
        results.append(await call_next(call))
        return results[-1]

    async with connect(server) as client:
        text = (await client.call_tool(tool)).text
    assert results[0].exception is error
    assert text == ("no" if results[0].ref is None else f"Internal error (ref {results[0].ref})")
    assert (results[0].ref is None) == isinstance(error, ToolError)


def test_is_handle_reads_members() -> None:
    assert is_handle({"task": {}})
    for other in ({}, {"task": {}, "content": []}, {"task": {}, "resultType": "task"}):
        assert not is_handle(other)


# `RateLimit`: requests per client, in one process and shared by replicas


SLOW = 0.001
"""A rate at which no token returns during a test."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()

    monkeypatch.setattr("mcpkit.middleware.rate_and_size_limits.monotonic", clock)
    return clock


def make(limit: RateLimit, storage: Any = None) -> Server:
    server = Server("limited", secret_key="a secret of some length", storage=storage)
    server.middleware(limit)
    server.tool(lambda: "done", name="work", run_in="loop")
    return server


async def allowed(client: TestClient, tries: int) -> int:
    """Return the number of calls that are not refused."""
    count = 0
    for _ in range(tries):
        try:
            await client.call_tool("work")
        except ProtocolError as error:
            assert "Rate limit exceeded" in str(error)  # noqa: PT017 - other errors fail the test, too
        else:
            count += 1
    return count


async def status(client: Client, host: str) -> int | None:
    """Call the tool over HTTP from an address."""
    return (await client.call_tool("work", client=(host, 50000)).whole()).status


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_rate_limit_allows_a_burst_and_then_the_rate(revision: str, clock: Clock) -> None:
    async with connect(make(RateLimit(2, burst=5)), protocol_version=revision) as client:
        for seconds, count in [(0, 5), (1, 2), (3600, 5)]:
            clock.now += seconds
            assert await allowed(client, 8) == count


async def test_rate_limit_error_has_the_rate_and_retry_after(clock: Clock) -> None:
    async with connect(make(RateLimit(0.1, burst=1))) as client:
        await client.call_tool("work")
        clock.now += 2.5
        with pytest.raises(ProtocolError) as refused:
            await client.call_tool("work")
    assert refused.value.code == -32603
    assert refused.value.message == "Rate limit exceeded (one every 10 seconds). Try again in 8 seconds"
    assert refused.value.data == {"retryAfterSeconds": 8}


async def test_rate_limit_counts_sessions_apart_and_connections_of_a_principal_in_sum(clock: Clock) -> None:
    server = make(RateLimit(1, burst=2))
    for revision in REVISIONS:
        for name, count in [("ada", 2), ("ada", 0), ("bob", 2), ("bob", 0)]:
            principal = Principal(name + revision)
            async with connect(server, protocol_version=revision, principal=principal) as client:
                assert await allowed(client, 3) == count
    async with connect(server, protocol_version="2025-11-25") as one:
        assert await allowed(one, 3) == 2
        async with connect(server, protocol_version="2025-11-25") as two:
            assert await allowed(two, 3) == 2


async def test_rate_limit_counts_http_clients_by_address_or_key(clock: Clock, schema_dir: Path) -> None:
    async with serving(make(RateLimit(1, burst=2)), schema_dir) as client:
        for host in ("203.0.113.7", "203.0.113.8", "127.0.0.1"):
            assert [await status(client, host) for _ in range(3)] == [200, 200, 503]
        assert await status(client, "127.0.0.2") == 503  # of this machine, as 127.0.0.1 is
    limit = RateLimit(0.5, burst=1, key=lambda ctx: ctx.headers["x-user"])
    async with serving(make(limit), schema_dir) as client:
        for user, expected in [("ada", (200, None)), ("ada", (503, "2")), ("bob", (200, None))]:
            answer = await client.call_tool("work", headers={"x-user": user}).whole()
            assert (answer.status, answer.headers.get("retry-after")) == expected


async def test_rate_limit_stores_max_clients_buckets(clock: Clock) -> None:
    names = iter(range(100))
    limit = RateLimit(1, key=lambda ctx: next(names), max_clients=10)
    async with connect(make(limit)) as client:
        assert await allowed(client, 100) == 100
    assert len(limit._local) == 10


NOT_LIMITED = "is not a method that can be limited. Supported are initialize"


@each_row(("rate", "options", "message"), [
    (0, {}, "rate must be a finite number of requests per second above 0, got 0"),
    (1, {"burst": 0}, "burst must be at least 1, got 0"),
    (1, {"methods": ["tools/cal"]}, f"'tools/cal' {NOT_LIMITED}"),
    (1, {"methods": ["subscriptions/listen"]}, f"methods: 'subscriptions/listen' {NOT_LIMITED}"),
])  # fmt: skip
def test_rate_limit_wrong_option_is_refused(rate: float, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RateLimit(rate, **options)


# Shared by replicas


@pytest.fixture(params=ENGINES)
def shares(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Engine]]:
    """One storage engine, as each replica opens it."""
    with engines(request.param, tmp_path) as made:
        yield made


async def test_rate_limit_is_shared_by_replicas(shares: list[Any], schema_dir: Path, monkeypatch) -> None:
    # A busy machine may take long to answer, and without an answer each replica would count for itself.
    monkeypatch.setattr("mcpkit.middleware.rate_and_size_limits._TIMEOUT", 600)
    servers = [make(RateLimit(SLOW, burst=4), each) for each in shares]
    async with replicas(servers, schema_dir) as clients:
        for host in ("203.0.113.7", "203.0.113.8", "127.0.0.1"):
            statuses = [await status(clients[turn % REPLICAS], host) for turn in range(9)]
            assert statuses == [200] * 4 + [503] * 5
    counts = []
    for server, revision in zip(servers, [*REVISIONS, REVISIONS[0]], strict=True):
        async with connect(server, protocol_version=revision, principal=Principal("ada")) as client:
            counts.append(await allowed(client, 3))
    assert counts == [3, 1, 0]


@pytest.mark.parametrize("key", [object(), ("acme", frozenset({"a"})), Principal("ada")])
async def test_rate_limit_key_of_one_process_is_counted_locally_with_one_warning(shares, key, caplog) -> None:
    for each in shares:
        async with connect(make(RateLimit(SLOW, burst=4, key=lambda ctx: key), each)) as client:
            assert await allowed(client, 6) == 4
    assert len(warnings(caplog)) == REPLICAS
    assert all("Return a string, a number or a tuple of these" in each for each in warnings(caplog))


class FailingMemory(Memory):
    """Storage with requests that fail or hang.

    Attributes:
        mode: `up`, `down` or `hanging`.
        keys: The keys of all requests.
    """

    def __init__(self) -> None:
        super().__init__()
        self.mode = "up"
        self.keys: list[str] = []

    async def take_tokens(self, key: str, **options: Any) -> float:
        self.keys.append(key)
        if self.mode == "down":
            raise ConnectionError("the engine is down: a reason")
        if self.mode == "hanging":
            await asyncio.Event().wait()
        return await super().take_tokens(key, **options)


@pytest.mark.limit("wait of a `RateLimit` for the shared store")
@pytest.mark.parametrize("mode", ["down", "hanging"])
async def test_rate_limit_without_its_storage_counts_locally_until_it_returns(
    mode: str, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpkit.middleware.rate_and_size_limits._TIMEOUT", 0.02)
    storage = FailingMemory()
    async with connect(make(RateLimit(SLOW, burst=4), storage), principal=Principal("ada")) as client:
        assert await allowed(client, 2) == 2
        storage.mode = mode
        assert await allowed(client, 9) == 4  # a local bucket, which is full
        assert len(storage.keys) == 3, "calls must not each wait for a storage that is down"
        clock.now += 1
        assert await allowed(client, 1) == 0  # the retry runs in the background
        await until(lambda: len(storage.keys) == 4)
        storage.mode = "up"
        clock.now += 1
        assert await allowed(client, 1) == 0
        await until(lambda: len(warnings(caplog)) == 2)
        assert await allowed(client, 9) == 1  # of four: two before, and one by the retry
        storage.mode = "down"
        assert await allowed(client, 9) == 0, "the local bucket must not be a new one each time"
    assert {key.startswith("limited/limit/") and "ada" not in key for key in storage.keys} == {True}
    first, second, _ = warnings(caplog)
    assert first.startswith("the shared store does not answer (")
    assert second.startswith("the shared store answers again")


async def test_rate_limit_with_redis_costs_one_round_trip(tmp_path: Path) -> None:
    with RedisServer(tmp_path) as redis, closing(Redis(redis.url)) as shared:
        async with connect(make(RateLimit(SLOW, burst=10), shared), principal=Principal("ada")) as client:
            await allowed(client, 1)
            before = redis.calls()
            assert await allowed(client, 20) == 9
            after = redis.calls()
    changed = {name: after[name] - before.get(name, 0) for name in after if after[name] != before.get(name)}
    assert changed.pop("evalsha") == 20
    assert changed.keys() <= {"time", "get", "set", "info"}  # by the script, and `info` by this test
