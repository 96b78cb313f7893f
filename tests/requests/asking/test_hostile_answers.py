"""Answers to questions that no client should give: each call ends once, with what fits or with a refusal in words."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from mcpkit import Context, Server
from mcpkit.engine.connection import Connection
from tests.helpers.pipe import META, settle, stateless_meta

CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


@dataclass
class Form:
    name: str
    age: int
    weight: float = 1.0
    kind: Literal["a", "b"] = "a"
    born: date | None = None
    is_new: bool = False


NAMES = st.sampled_from(
    [
        "name",
        "age",
        "weight",
        "kind",
        "born",
        "is_new",
        "__proto__",
        "constructor",
        "__class__",
        "__dict__",
        "self",
        "value",
    ]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.sampled_from([10**4000, 1e308, "", "a", "c", "x" * 300_000, "2020-02-30", "\x00", "\U0010ffff"])
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=8,
)
NESTED: Any = json.loads("[" * 150 + "]" * 150)
FITTING = {"name": "ada", "age": 36}
CONTENTS = (
    VALUES | st.just(NESTED) | st.dictionaries(NAMES, VALUES, max_size=6).map(lambda more: FITTING | more)
)
ANSWERS = (
    VALUES
    | st.builds(lambda content: {"action": "accept", "content": content}, CONTENTS)
    | st.builds(lambda action, content: {"action": action, "content": content}, VALUES, CONTENTS)
    | st.builds(lambda role, content: {"role": role, "content": content, "model": "m"}, VALUES, VALUES)
    | st.builds(lambda roots: {"roots": roots}, VALUES)
)
KINDS = st.sampled_from(["form", "url", "sample", "roots"])


class Asked:
    """A server that asks, and what it was answered."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.server = Server("asked", secret="secret " * 8)

        @self.server.tool
        async def ask(kind: str, ctx: Context) -> str:
            if kind == "form":
                self.values.append((await ctx.elicit("Who?", Form)).value)
            elif kind == "url":
                await ctx.elicit_url("Look", "https://example.com/")
            elif kind == "sample":
                assert isinstance((await ctx.sample("Say", max_tokens=5)).text, str)
            else:
                assert all(isinstance(root.uri, str) for root in await ctx.list_roots())
            return "asked"

    def check(self, response: dict[str, Any]) -> None:
        """Hold a response, and what the tool has seen, against what was promised to both."""
        text = json.dumps(response)
        assert "Internal error" not in text
        assert len(text) < 20_000, "what does not fit is not sent back whole"
        for value in self.values:
            assert type(value) is Form
            assert (type(value.name), type(value.age)) == (str, int)
            assert value.kind in {"a", "b"}
            assert isinstance(value.weight, float | int)
            assert value.born is None or type(value.born) is date


@contextmanager
def nothing_logged() -> Iterator[None]:
    """Fail where an error is logged."""
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


class Host:
    """Whoever asks the server, and is asked by it."""

    def __init__(self, server: Server) -> None:
        self.out: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.connection = Connection(server, lambda line: self.out.put_nowait(json.loads(line)))

    def send(self, **message: Any) -> None:
        self.connection.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    async def receive(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.out.get(), 10)

    async def request(self, id_: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.send(id=id_, method=method, params=params)
        while (message := await self.receive()).get("id") != id_:
            pass
        return message


def tried(attack: Callable[[Host, Asked], Awaitable[None]]) -> None:
    """Attack a server, which must log nothing, leave nothing, and serve on."""

    async def run() -> None:
        asked = Asked()
        async with asked.server.running():
            host = Host(asked.server)
            await attack(host, asked)
            meta = stateless_meta()
            assert "result" in await host.request(9, "tools/list", {"_meta": meta})
            assert host.out.empty()
            await host.connection.aclose()
        assert asked.server.engine.runtime.running.taken == 0

    with nothing_logged():
        asyncio.run(run())


@settings(max_examples=100)
@given(KINDS, st.lists(st.tuples(ANSWERS, st.sampled_from(["once", "twice", "other first"])), max_size=4))
def test_in_the_handshake_era(kind: str, answers: list[tuple[Any, str]]) -> None:
    async def attack(host: Host, asked: Asked) -> None:
        info = {"name": "host", "version": "1"}
        opening = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": info}
        await host.request(0, "initialize", opening)
        host.send(method="notifications/initialized")
        host.send(id=1, method="tools/call", params={"name": "ask", "arguments": {"kind": kind}})
        coming = iter(answers)
        questions: list[Any] = []
        while "method" in (message := await host.receive()):
            if "id" not in message:
                continue
            questions.append(message["id"])
            answer, how = next(coming, ({"action": "decline"}, "once"))
            if how == "other first":
                for other in (0, "x", None, f"{message['id']}x"):
                    host.send(id=other, result=answer)
            for _ in range(2 if how == "twice" else 1):
                host.send(id=message["id"], result=answer)
        asked.check(message)
        for id_ in questions:  # after the end
            host.send(id=id_, result={"action": "accept", "content": FITTING})
        await settle()

    tried(attack)


@settings(max_examples=100)
@given(KINDS, ANSWERS, st.none() | VALUES, st.booleans())
def test_in_the_stateless_era(kind: str, answer: Any, others: Any, is_right: bool) -> None:
    async def attack(host: Host, asked: Asked) -> None:
        meta = stateless_meta() | {META + "clientCapabilities": CAPABILITIES}
        params: dict[str, Any] = {"name": "ask", "arguments": {"kind": kind}, "_meta": meta}
        first = await host.request(1, "tools/call", params)
        assert first["result"]["resultType"] == "input_required"
        (key,) = first["result"]["inputRequests"]
        responses = {key: answer} if is_right else others
        if is_right and isinstance(others, dict):
            responses = others | responses
        params["inputResponses"] = responses
        # Without a state it is an answer to nothing.
        for more in ({"requestState": first["result"]["requestState"]}, {}):
            response = await host.request(2, "tools/call", params | more)
            asked.check(response)
            assert response.get("error", {"code": -32602})["code"] == -32602

    tried(attack)
