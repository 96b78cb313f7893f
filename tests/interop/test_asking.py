"""The same handlers ask the official clients and the in-memory client, in either era."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.request import urlopen

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.types import CreateMessageResult, ElicitResult, ListRootsResult, Root, TextContent

from interop import asking_server
from interop.asking_journey import ANSWERS, COMMAND, FORMS, ROOTS, TOOLS, URL_REVISIONS, WORDS, check
from interop.journey import HANDSHAKE, STATELESS, TRANSPORTS
from mcpkit.testing import connect
from serving import serving

TIME_OUT = 60
Reach = Callable[[str], "list[str]"]


@pytest.fixture(scope="module")
def reach() -> Iterator[Reach]:
    """How to reach the server over a transport; what serves it meets no error of its own."""
    with serving([*COMMAND, "http"]) as http, serving([*COMMAND, "sse"]) as sse:
        targets = {"stdio": COMMAND, "http": [f"{http.origin}/mcp"], "sse": [f"{sse.origin}/sse"]}
        yield targets.__getitem__
    for served in (http, sse):
        assert "Traceback" not in served.notes


class Person:
    """Whoever answers the official Python client, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def elicit(self, _context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        if params.mode == "url":
            await anyio.to_thread.run_sync(visit, params.url)
            return ElicitResult(action="accept")
        content = FORMS[params.message]
        return ElicitResult(action="accept", content=content) if content else ElicitResult(action="decline")

    async def sample(self, _context: Any, params: Any) -> CreateMessageResult:
        text = params.messages[0].content.text
        self.asked.append(text)
        content = TextContent(type="text", text=WORDS[text])
        return CreateMessageResult(role="assistant", model="parrot", content=content)

    async def roots(self, _context: Any) -> ListRootsResult:
        self.asked.append("roots")
        return ListRootsResult(roots=[Root(uri=uri) for uri in ROOTS])


def visit(url: str) -> None:
    """Open a page, as a browser does."""
    with urlopen(url, timeout=TIME_OUT) as page:
        page.read()


async def journey(mode: str, transport: str, target: list[str]) -> dict[str, Any]:
    person = Person()
    seen: dict[str, Any] = {"asked": person.asked}
    way: Any = target[0]
    if transport == "stdio":
        way = StdioServerParameters(command=target[0], args=target[1:])
    elif transport == "sse":
        way = sse_client(way)
    client = Client(
        way,
        mode=mode,
        elicitation_callback=person.elicit,
        sampling_callback=person.sample,
        list_roots_callback=person.roots,
        cache=None,
    )
    with anyio.fail_after(TIME_OUT):
        async with client:
            seen["revision"] = client.protocol_version
            for name in TOOLS:
                [block] = (await client.call_tool(name)).content
                assert isinstance(block, TextContent)
                seen[name] = block.text
            seen["prompt"] = (await client.get_prompt("greet")).messages[0].content.text  # type: ignore[union-attr]  # a text
            seen["read"] = (await client.read_resource("notes://day")).contents[0].text  # type: ignore[union-attr]  # a text
    return seen


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("mode", "revision"), [("legacy", HANDSHAKE), ("auto", STATELESS), (STATELESS, STATELESS)]
)
def test_the_python_client_is_asked(reach: Reach, transport: str, mode: str, revision: str) -> None:
    check(anyio.run(journey, mode, transport, reach(transport)), revision)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    ("mode", "revision"), [("legacy", HANDSHAKE), ("auto", STATELESS), (STATELESS, STATELESS)]
)
def test_the_typescript_client_is_asked(
    run_driver: Any, reach: Reach, transport: str, mode: str, revision: str
) -> None:
    arguments = [mode, json.dumps(ANSWERS), json.dumps(TOOLS), transport, *reach(transport)]
    finished = run_driver("asking.mjs", *arguments)
    assert finished.returncode == 0, finished.stderr
    check(json.loads(finished.stdout), revision)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
@pytest.mark.anyio
async def test_the_client_in_memory_is_asked(revision: str) -> None:
    seen: dict[str, Any] = {"revision": revision, "asked": []}

    async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "roots/list":
            seen["asked"].append("roots")
            return {"roots": [{"uri": uri} for uri in ROOTS]}
        if method == "sampling/createMessage":
            text = params["messages"][0]["content"]["text"]
            seen["asked"].append(text)
            return {"role": "assistant", "model": "m", "content": {"type": "text", "text": WORDS[text]}}
        seen["asked"].append(params["message"])
        if params.get("mode") == "url":
            await asyncio.to_thread(visit, params["url"])
            return {"action": "accept"}
        content = FORMS[params["message"]]
        return {"action": "accept", "content": content} if content else {"action": "decline"}

    async with connect(asking_server.server, revision=revision, answers=answer) as client:
        for name in TOOLS:
            result = await client.call(name)
            seen[name] = result.text
            if revision not in URL_REVISIONS and name == "pay":
                assert result.is_error
                assert "no elicitation by URL" in result.text
        seen["prompt"] = (await client.get_prompt("greet"))[0]["content"]["text"]
        seen["read"] = (await client.read("notes://day"))[0]["text"]
    check(seen, revision)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26"])
@pytest.mark.anyio
async def test_revisions_without_forms_are_told_so(revision: str) -> None:
    async def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError(f"{method} was asked")

    async with connect(asking_server.server, revision=revision, answers=answer) as client:
        for name in TOOLS:
            result = await client.call(name)
            assert result.is_error
            assert "elicitation" in result.text
