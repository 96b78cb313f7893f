"""Bent messages to a client: each request ends in time, with the result or an error that names the member."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from mcpkit import Client, FormRequest, InvalidResultError, ProtocolError, ToolError, TransportError
from mcpkit.client.link.transport import Receiver
from mcpkit.client.transports.http.streamable_http import HttpTransport
from mcpkit.protocol.client import Outgoing
from mcpkit.protocol.jsonrpc import is_id
from tests.helpers.bent import EXAMPLES
from tests.helpers.bent_server import OPERATIONS, STATELESS, BentServer

pytestmark = pytest.mark.anyio

DEADLINE = 10.0
ERRORS = (ProtocolError, TransportError, InvalidResultError, ToolError)


class Pipe:
    """A pipe whose other end is the server of a case."""

    def __init__(self, case: BentServer) -> None:
        self.case = case
        self.receiver: Receiver | None = None

    async def open(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def send(self, message: Outgoing) -> None:
        for line in self.case.lines(json.loads(message.line)):
            assert self.receiver is not None
            self.receiver.receive(line)

    async def close(self) -> None:
        pass


def way_to(case: BentServer) -> Any:
    """Return the transport to a server in this process."""
    return Pipe(case) if case.way == "pipe" else HttpTransport("http://bent.example/mcp", app=case.app)


def fill_in(form: FormRequest) -> object:
    return {}


def check_record(level: str, data: object, logger: str | None) -> None:
    assert isinstance(level, str)
    assert isinstance(logger, (str, type(None)))


async def run(case: BentServer, transport: Any = None) -> str | None:
    """Use a client of the server; return what is wrong with what the caller sees."""
    is_open = False
    problem: Exception | None = None
    try:
        async with Client(
            transport or way_to(case),
            revision=None if case.revision == STATELESS else case.revision,
            elicit=fill_in,
            elicit_url=lambda request: True,
            sample=lambda request: "a",
            roots=["/tmp"],
            log=check_record,
            log_level="info",
            notification=lambda *message: None,
            connect_timeout=2 * DEADLINE,
            tries=1,
            validate=False,
        ) as client:
            is_open = True
            assert isinstance(client.server_info, dict)
            assert isinstance(client.server_capabilities, dict)
            assert isinstance(client.instructions, (str, type(None)))
            operation = OPERATIONS.get(case.method, OPERATIONS["tools/list"])[1]
            try:
                await asyncio.wait_for(operation(client), DEADLINE)
            except ERRORS as error:
                problem = error
            await asyncio.wait_for(client.call("add", retry=True), DEADLINE)  # it goes on
            if case.kind == "request" and (fault := missing_reply(case)) is not None:
                return fault
    except (asyncio.TimeoutError, TimeoutError):
        return "no end within the deadline"
    except ERRORS as error:
        if is_open:
            return f"the client does not go on: {error!r}"
        problem = error
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    if (
        problem is None
        or case.bent is None
        or case.bent.is_named_in(f"{problem} {getattr(problem, 'data', '')} {problem.__cause__}")
    ):
        return None
    if case.kind == "error" and isinstance(problem, ProtocolError):
        return None  # the server's own words
    if case.kind == "rounds" and any(
        each in str(problem) for each in ("does not answer", "expected content")
    ):
        return (
            None  # another method, which is named; or no question any more, and so a result without content
        )
    return f"does not name the member: {problem!r}"


def missing_reply(case: BentServer) -> str | None:
    """Return a fault where a request of the server got no reply, though it has an id to reply under."""
    assert case.bent is not None
    if case.bent.kind in {"cut", "nan", "large", "half", "control", "bytes"}:
        return None
    message = json.loads(case.bent.text)
    id_ = message.get("id") if isinstance(message, dict) else None
    if not isinstance(message, dict) or message.get("method") is None or not is_id(id_):
        return None
    return (
        None
        if any(reply.get("id") == id_ for reply in case.replies)
        else f"no reply to {id_!r}: {case.replies}"
    )


async def test_every_request_ends_whatever_message_is_bent(schema_dir: Path) -> None:
    faults: list[str] = []
    for number in range(EXAMPLES):
        case = BentServer(schema_dir, number)
        fault = await run(case)
        if fault is not None:
            faults.append(f"case {number}: {fault}: {case}")
    assert not faults, f"{len(faults)} of {EXAMPLES}:\n" + "\n".join(faults[:20])
