"""Bent messages to a server: each request ends in time, with a result or with an error that names the member."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random

import pytest

from mcpkit import Context, Server
from mcpkit.engine.connection import Connection
from tests.helpers.bent import EXAMPLES, REVISIONS, Message, bend, schema_of
from tests.helpers.pipe import initialize, message, stateless_meta

pytestmark = pytest.mark.anyio

DEADLINE = 10.0
PROBE = message("server/discover", {"_meta": stateless_meta()}, "probe")
OTHER_REASONS = ("not found", "Unknown ", "before initialize", "no Mcp-Session-Id header", "requestState")
"""What is said of messages that are well-formed, and name what there is not or come too early."""


def make_server() -> Server:
    server = Server("bent")

    @server.tool
    async def add(first: int, second: int, ctx: Context) -> int:
        return first + second

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
        before: Messages that are sent first, now and then in the wrong order.
        bent: The message as it is sent.
    """

    def __init__(self, folder: Path, number: int) -> None:
        random = Random(number)
        self.revision = random.choice(REVISIONS)
        schema = schema_of(folder, self.revision)
        is_stateless = self.revision == REVISIONS[-1]
        opening = [initialize(self.revision), message("notifications/initialized", None, None)]
        self.before = [] if is_stateless else opening
        if is_stateless or random.random() < 0.8:
            sent = schema.call("Client", random.choice([*schema.methods("Client", "Request")]), random, 7)
        else:
            sent = schema.call("Client", random.choice([*schema.methods("Client", "Notification")]), random)
        if sent["method"] == "initialize":
            self.before = []
        if random.random() < 0.2:
            random.shuffle(self.before)
            self.before = self.before[: random.randrange(3)]
        self.bent = bend(sent, random)

    def __repr__(self) -> str:
        return f"{self.revision} {self.bent.kind} {self.bent.path} {self.bent.text[:600]!r} after {len(self.before)}"


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


def judge(case: Case, answers: list[Message]) -> str | None:
    """Return what is wrong with the answers to a bent message."""
    if expects_answer(case.bent.text) and not answers:
        return "no answer"
    for answer in answers:
        result = answer.get("result", {})
        problem = json.dumps(answer.get("error") or (result["content"] if result.get("isError") else ""))
        is_named = problem == '""' or case.bent.is_named_in(problem)
        if not is_named and not any(each in problem for each in OTHER_REASONS):
            return f"does not name the member: {problem}"
    return None


async def send_bent(server: Server, case: Case) -> str | None:
    """Send a bent message over a pipe; return what is wrong with what comes back."""
    received: list[Message] = []
    has_answered = asyncio.Event()

    def receive(line: bytes) -> None:
        received.append(json.loads(line))
        if received[-1].get("id") == "probe":
            has_answered.set()

    connection = Connection(server, receive)
    try:
        for each in case.before:
            connection.receive(json.dumps(each).encode())
        received.clear()
        connection.receive(case.bent.text)
        await asyncio.wait_for(connection.drain(), DEADLINE)
        verdict = judge(case, [each for each in received if "method" not in each or "id" not in each])
        connection.receive(json.dumps(PROBE).encode())
        await asyncio.wait_for(has_answered.wait(), DEADLINE)
        return verdict
    except asyncio.TimeoutError:
        return "no end within the deadline"
    finally:
        await connection.aclose()


async def test_bent_message_is_answered_or_error_names_the_member(schema_dir: Path) -> None:
    server = make_server()
    faults: list[str] = []
    async with server.running():
        for number in range(EXAMPLES):
            case = Case(schema_dir, number)
            if (fault := await send_bent(server, case)) is not None:
                faults.append(f"case {number}: {fault}: {case}")
    assert not faults, f"{len(faults)} of {EXAMPLES}:\n" + "\n".join(faults[:20])
