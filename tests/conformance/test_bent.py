"""Bent messages to a server: each request ends in time, with a result or with an error that names the member."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from mcpkit import Context, Server
from mcpkit.engine.connection import Connection
from tests.helpers.bent import EXAMPLES, REVISIONS, Bent, Message, Schema, bend, schema_of
from tests.helpers.pipe import stateless_meta

pytestmark = pytest.mark.anyio

DEADLINE = 10.0
STATELESS = REVISIONS[-1]
ANSWERS = {"ElicitResult": "elicit", "CreateMessageResult": "sample", "ListRootsResult": "roots"}
"""Tools that ask the client, by the definitions of the answers."""
DECLARED = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}, "context": {}}, "roots": {}}


OTHER_REASONS = ("not found", "Unknown ", "before initialize", "no Mcp-Session-Id header", "requestState")
"""What is said of messages that are well-formed, and name what there is not or come too early."""


def make_server() -> Server:
    server = Server("bent")

    @server.tool
    async def add(first: int, second: int, ctx: Context) -> int:
        return first + second

    @server.tool
    async def elicit(ctx: Context) -> str:
        return str(await ctx.elicit("How many?", int))

    @server.tool
    async def sample(ctx: Context) -> str:
        return (await ctx.sample("Say something.", max_tokens=10)).text

    @server.tool
    async def roots(ctx: Context) -> str:
        return str(await ctx.list_roots())

    @server.resource("note://one")
    def note() -> str:
        return "one"

    @server.resource("note://{name}/more")
    def more(name: str) -> str:
        return name

    @server.prompt(complete={"name": lambda value: [value]})
    def greet(name: str) -> str:
        return name

    return server


class Case:
    """One bent message to a server, and what comes before it.

    Args:
        folder: The folder with the official schemas.
        number: The number of the case, from which all else follows.

    Attributes:
        revision: The revision that is spoken.
        before: Messages that are sent first: one more is sent in the wrong order now and then.
        tool: The tool whose question the message answers; None where it is a request or a notification.
        message: The message as it should be.
        bent: The message as it is sent.
    """

    def __init__(self, folder: Path, number: int) -> None:
        random = Random(number)
        self.revision = random.choice(REVISIONS)
        schema = schema_of(folder, self.revision)
        self.tool: str | None = None
        self.before: list[Message] = []
        is_stateless = self.revision == STATELESS
        if not is_stateless:
            self.before = [opening(self.revision), {"jsonrpc": "2.0", "method": "notifications/initialized"}]
        requests = [*schema.methods("Client", "Request")]
        known = [each for each in ANSWERS if each in schema.definitions]
        kind = random.randrange(10)
        within: tuple[str, ...] = ()
        if kind < 6:
            self.message = schema.call("Client", random.choice(requests), random, 7)
        elif kind < 8 and not is_stateless:
            notifications = [*schema.methods("Client", "Notification")]
            self.message = schema.call("Client", random.choice(notifications), random)
        else:
            definition = random.choice(known)
            self.tool = ANSWERS[definition]
            self.message = answer_to(schema, definition, random)
            if is_stateless:
                within = ("params",)
        if self.message.get("method") == "initialize":
            self.before = []
        if not self.tool and not is_stateless and random.random() < 0.2:  # out of order
            random.shuffle(self.before)
            self.before = self.before[: random.randrange(3)]
        self.bent: Bent = bend(self.message, random, within)

    def __repr__(self) -> str:
        return f"{self.revision} {self.bent.kind} {self.bent.path} {self.bent.text[:600]!r} after {len(self.before)}"


def opening(revision: str) -> Message:
    params = {
        "protocolVersion": revision,
        "capabilities": DECLARED,
        "clientInfo": {"name": "bent", "version": "1"},
    }
    return {"jsonrpc": "2.0", "id": "open", "method": "initialize", "params": params}


def answer_to(schema: Schema, definition: str, random: Random) -> Message:
    """Return a good answer to a question; in the stateless era the call that repeats it."""
    result = schema.result(definition, random)
    if definition == "ElicitResult":
        result |= {"action": "accept", "content": {"value": 3}}
    if definition == "CreateMessageResult":
        result |= {"role": "assistant", "content": {"type": "text", "text": "a"}}
    if definition == "ListRootsResult":
        result["roots"] = [{"uri": "file:///a", "name": "a"}]
    if schema.revision != STATELESS:
        return {"jsonrpc": "2.0", "id": "question", "result": result}
    params = {"name": ANSWERS[definition], "arguments": {}, "_meta": meta()}
    return {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": params | {"inputResponses": {"key": result}},
    }


def meta() -> Message:
    return stateless_meta() | {"io.modelcontextprotocol/clientCapabilities": DECLARED}


def expects_answer(text: bytes) -> bool:
    """Return whether a message is a request, or not readable as anything."""
    try:
        message = json.loads(text)
    except ValueError:
        return True
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return True
    if message.get("method") is None and ("result" in message or "error" in message):
        return False
    return "id" in message or type(message.get("method")) is not str


def problem_of(answer: Message) -> str | None:
    """Return what an answer says that is wrong; None where all is well."""
    if "error" in answer:
        return json.dumps(answer["error"])
    result = answer.get("result", {})
    return json.dumps(result["content"]) if result.get("isError") else None


def judge(case: Case, answers: list[Message]) -> str | None:
    """Return what is wrong with the answers to a bent message."""
    if expects_answer(case.bent.text) and not answers:
        return "no answer"
    for answer in answers:
        problem = problem_of(answer)
        if problem is not None and case.bent.kind == "good":
            return problem
        if problem is None or case.bent.is_named_in(problem):
            continue
        if not any(each in problem for each in OTHER_REASONS):
            return f"does not name the member: {problem}"
    return None


async def send_bent(server: Server, case: Case) -> str | None:
    """Send a bent message over a pipe; return what is wrong with what comes back."""
    received: list[Message] = []
    has_received = asyncio.Event()

    def receive(line: bytes) -> None:
        received.append(json.loads(line))
        has_received.set()

    connection = Connection(server, receive)

    async def until(condition: Callable[[], bool]) -> None:
        while not condition():
            has_received.clear()
            await asyncio.wait_for(has_received.wait(), DEADLINE)

    def questions() -> list[Message]:
        return [each for each in received if "method" in each and "id" in each]

    try:
        for message in case.before:
            connection.receive(json.dumps(message).encode())
        text = case.bent.text
        if case.tool is not None and case.revision != STATELESS:
            call = {"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {"name": case.tool}}
            connection.receive(json.dumps(call).encode())
            await until(lambda: bool(questions()))
            text = text.replace(b'"question"', json.dumps(questions()[0]["id"]).encode())
            connection.receive(text)
            await until(lambda: len(questions()) > 1 or any(each.get("id") == "call" for each in received))
            for again in questions()[1:]:  # the form has been sent again, with what was wrong
                answer = {"jsonrpc": "2.0", "id": again["id"], "result": {"action": "cancel"}}
                connection.receive(json.dumps(answer).encode())
            await until(lambda: any(each.get("id") == "call" for each in received))
            ended = next(each for each in received if each.get("id") == "call")
            problem = problem_of(ended)
            return judge(case, [ended]) if problem is not None else None
        if case.tool is not None:
            text = await with_state(case, text, connection, received, until)
        received.clear()
        connection.receive(text)
        await asyncio.wait_for(connection.drain(), DEADLINE)
        verdict = judge(case, [each for each in received if "method" not in each or "id" not in each])
        received.clear()
        connection.receive(json.dumps(probe()).encode())
        await until(lambda: any(each.get("id") == "probe" for each in received))
        return verdict
    except asyncio.TimeoutError:
        return "no end within the deadline"
    finally:
        await connection.aclose()


async def with_state(
    case: Case, text: bytes, connection: Connection, received: list[Message], until: Any
) -> bytes:
    """Return the bent call of the second round, with the key and the state that the first one has given."""
    params = {"name": case.tool, "arguments": {}, "_meta": meta()}
    connection.receive(
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    )
    await until(lambda: any(each.get("id") == 1 for each in received))
    [first] = [each["result"] for each in received if each.get("id") == 1]
    [key] = first["inputRequests"]
    state = json.dumps(first["requestState"]).encode()
    return text.replace(b'"key"', json.dumps(key).encode()).replace(
        b'"inputResponses"', b'"requestState": %b, "inputResponses"' % state, 1
    )


def probe() -> Message:
    return {"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": meta()}}


async def test_bent_message_is_answered_or_error_names_the_member(schema_dir: Path) -> None:
    server = make_server()
    faults: list[str] = []
    async with server.running():
        for number in range(EXAMPLES):
            case = Case(schema_dir, number)
            if (fault := await send_bent(server, case)) is not None:
                faults.append(f"case {number}: {fault}: {case}")
    assert not faults, f"{len(faults)} of {EXAMPLES}:\n" + "\n".join(faults[:20])
