"""FastMCP servers of mcpkit.compat over stdio, HTTP and SSE: both eras, signals, mounts and tokens."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import pytest

from mcpkit import Client
from mcpkit.compat.auth import AccessToken, AuthSettings
from tests.compat.test_fastmcp import bakery
from tests.helpers.serving import Served, in_thread
from tests.integration.compat.fastmcp.told import Conversation, source_for

pytestmark = pytest.mark.anyio


REVISIONS = ("2025-11-25", "2026-07-28")


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [sys.executable, str(source_for("mcpkit", "runs.py", tmp_path_factory.mktemp("runs")))]


async def used(client: Client, path: str) -> None:
    """Use all that there is."""
    heard: list[Any] = []
    assert [tool["name"] for tool in await client.list_tools()][:2] == ["greet", "wait"]
    result = await client.call_tool("greet", progress=lambda *step: heard.append(step))
    assert result.text == f"Ada over {path}"
    assert [step[:2] for step in heard][:1] == [(1, 2)]
    (read,) = await client.read_resource("greeting://Ada")
    assert read["text"] == "Hello, Ada, from runs"
    (message,) = await client.get_prompt("ask", {"question": "Why?"})
    assert message["content"]["text"] == "Why?"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_run_stdio_serves_both_eras(command: list[str], revision: str) -> None:
    async with Client(
        command, protocol_version=revision, elicitation_handler=lambda form: {"name": "Ada"}
    ) as client:
        await used(client, "None")


@pytest.fixture(scope="module")
def streamable(command: list[str]) -> Any:
    with Served([*command, "streamable-http", "0"]) as served:
        yield served.origin
        served.signal(signal.SIGTERM)
        served.wait()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_run_streamable_http_serves_both_eras(streamable: str, revision: str) -> None:
    async with Client(
        f"{streamable}/mcp", protocol_version=revision, elicitation_handler=lambda form: {"name": "Ada"}
    ) as client:
        await used(client, "/mcp")


async def test_run_sse_serves_2024_11_05(command: list[str]) -> None:
    with Served([*command, "sse", "0"]) as served:
        async with Client(f"{served.origin}/sse", elicitation_handler=lambda form: {"name": "Ada"}) as client:
            await used(client, "/messages/")
        served.stop()


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
async def test_run_http_sigterm_answers_running_calls(command: list[str], transport: str) -> None:
    with Served([*command, transport, "0"]) as served:
        url = served.origin + ("/mcp" if transport == "streamable-http" else "/sse")
        async with Client(url) as client:
            call = asyncio.create_task(client.call_tool("wait"))
            await asyncio.to_thread(served.wait_for, "waiting")
            served.signal(signal.SIGTERM)
            assert (await call).text == "done"
        await asyncio.to_thread(served.wait)
    assert "Traceback" not in served.notes


def test_run_stdio_end_of_input_answers_running_calls(command: list[str]) -> None:
    with Conversation(command, {}) as talk:
        talk.begin({})
        talk.send({"id": 7, "method": "tools/call", "params": {"name": "wait", "arguments": {}}})
        talk.close()
        assert talk.read()["result"]["content"] == [{"type": "text", "text": "done"}]
        assert talk.wait() == 0
        assert talk.notes().endswith("over\n")


class Bakers:
    async def verify_token(self, token: str) -> AccessToken | None:
        return AccessToken(token=token, client_id=token, scopes=[]) if token in {"ada", "bob"} else None


async def test_sse_call_has_token_of_its_own_request() -> None:
    auth = AuthSettings(issuer_url="https://issuer.example.com", resource_server_url=None)  # type: ignore[arg-type]
    mcp = bakery(auth=auth, token_verifier=Bakers())
    with in_thread(mcp.sse_app()) as url:
        async with Client(f"{url}/sse", headers={"Authorization": "Bearer ada"}) as client:
            assert (await client.call_tool("bake", {"kind": "rye"})).text == "rye for ada"
        for token in ("eve", "ADA"):
            with pytest.raises(Exception, match="401"):
                async with Client(f"{url}/sse", headers={"Authorization": f"Bearer {token}"}):
                    pass
