"""The environments in which agent SDKs are tried: each SDK with the versions of `mcp` that it takes.

Of the SDKs it is the code alone: the programs that they bring are 500 MB, and `make hosts` is there for them.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SDKS = ROOT / ".servers" / "agent-sdks"
SCRIPTS = "Scripts" if sys.platform == "win32" else "bin"
TIME_OUT = 120.0


@dataclass(frozen=True)
class Environment:
    """An SDK, in a Python that has one version of `mcp`."""

    sdk: str
    mcp: int

    def __str__(self) -> str:
        """Name it."""
        return f"{self.sdk}-mcp{self.mcp}"

    @property
    def python(self) -> Path:
        """The interpreter: this one, or that of the environment of `mcp` 1.x."""
        return Path(sys.executable) if self.mcp == 2 else ROOT / ".servers" / "mcp1" / SCRIPTS / "python"

    def outcomes(self, script: Path, *arguments: str) -> dict[str, Any]:
        """Run a script with the name of the SDK, once; return what it has printed, which is JSON."""
        return _outcomes(self, script, arguments)


@cache
def _outcomes(environment: Environment, script: Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    import pytest  # environments of agent SDKs, which import this too, have no pytest

    if os.environ.get("MCPKIT_TEST_NODE") == "0":
        pytest.skip("left out on purpose, with the other clients of others: MCPKIT_TEST_NODE=0")
    for needed in (SDKS / ".installed", environment.python):
        if not needed.exists():
            pytest.fail(f"{needed} is not there: run `make setup`", pytrace=False)
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    path = (ROOT, SDKS)
    finished = subprocess.run(
        [environment.python, script, environment.sdk, *arguments],
        capture_output=True,
        encoding="utf-8",
        env={**inherited, "PYTHONPATH": os.pathsep.join(map(str, path))},
        stdin=subprocess.DEVNULL,
        timeout=TIME_OUT,
    )
    assert finished.returncode == 0, finished.stderr
    outcomes: dict[str, Any] = json.loads(finished.stdout)
    return outcomes


AGENTS = [Environment("claude", 2), Environment("claude", 1), Environment("qoder", 1)]
"""The last does not take `mcp` 2.x."""


MCP = int(version("mcp").partition(".")[0])
"""The major version of the package `mcp`, which differs between environments."""


class Program:
    """Stands in for the program that an SDK starts: talks to servers in the SDK's process by its control protocol."""

    def __init__(self) -> None:
        self.output: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self.answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.ids = count(1)

    async def connect(self) -> None:
        pass

    async def write(self, data: str) -> None:
        message = json.loads(data)
        if message["type"] == "control_request":
            response = {"subtype": "success", "request_id": message["request_id"], "response": {}}
            self.output.put_nowait({"type": "control_response", "response": response})
        elif message["type"] == "control_response":
            response = message["response"]
            answer = self.answers.pop(response["request_id"])
            if not answer.done():
                answer.set_result(response)

    async def read_messages(self) -> AsyncIterator[dict[str, Any]]:
        while (message := await self.output.get()) is not None:
            yield message

    async def close(self) -> None:
        self.output.put_nowait(None)

    def is_ready(self) -> bool:
        return True

    async def end_input(self) -> None:
        pass

    def start(self, server: str, message: dict[str, Any]) -> tuple[str, asyncio.Future[dict[str, Any]]]:
        """Hand a message to a server; return the id of the control request, and its response to come."""
        id_ = f"request-{next(self.ids)}"
        answer = self.answers[id_] = asyncio.get_running_loop().create_future()
        request = {"subtype": "mcp_message", "server_name": server, "message": message}
        self.output.put_nowait({"type": "control_request", "request_id": id_, "request": request})
        return id_, answer


class Call:
    """A request that a server has been asked, and that may be given up."""

    def __init__(
        self, agent: Agent, id_: int, request_id: str, answer: asyncio.Future[dict[str, Any]]
    ) -> None:
        self._agent = agent
        self._id = id_
        self._request_id = request_id
        self.answer = answer

    async def cancel(self) -> None:
        """Cancel it, as the program of the SDK does."""
        if self._agent.sdk == "claude":
            await self._agent.notify("notifications/cancelled", requestId=self._id)
        else:
            self._agent.program.output.put_nowait(
                {"type": "control_cancel_request", "request_id": self._request_id}
            )

    async def response(self) -> dict[str, Any]:
        """Return the JSON-RPC response."""
        response = await asyncio.wait_for(self.answer, 20)
        if response["subtype"] == "error":
            raise RuntimeError(response["error"])
        return response["response"]["mcp_response"]


class Agent:
    """An agent that has one server in its process."""

    def __init__(self, sdk: str, program: Program) -> None:
        self.sdk = sdk
        self.program = program
        self._ids = count(100)

    def start(self, method: str, **params: Any) -> Call:
        """Ask the server something, and go on."""
        id_ = next(self._ids)
        message = {"jsonrpc": "2.0", "id": id_, "method": method, "params": params}
        return Call(self, id_, *self.program.start("here", message))

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the server something, and return its response."""
        return await self.start(method, **params).response()

    async def notify(self, method: str, **params: Any) -> None:
        """Send a notification."""
        _, answer = self.program.start("here", {"jsonrpc": "2.0", "method": method, "params": params})
        await answer

    async def begin(self, **capabilities: Any) -> dict[str, Any]:
        """Do the handshake."""
        response = await self.ask(
            "initialize",
            protocolVersion="2025-11-25",
            capabilities=capabilities,
            clientInfo={"name": "program", "version": "1"},
        )
        await self.notify("notifications/initialized")
        return response

    async def tools(self) -> list[dict[str, Any]]:
        """List the tools."""
        return (await self.ask("tools/list"))["result"]["tools"]

    async def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        """Call a tool, and return its result."""
        return (await self.ask("tools/call", name=name, arguments=arguments))["result"]


@asynccontextmanager
async def agent(sdk: str, config: Any) -> AsyncIterator[Agent]:
    """Connect a client of an SDK to the server `config`, or to the `instance` of one."""
    if not isinstance(config, dict):
        config = {"type": "sdk", "name": "here", "instance": config}
    program: Any = Program()
    if sdk == "claude":
        from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient

        client = ClaudeSDKClient(ClaudeAgentOptions(mcp_servers={"here": config}), transport=program)
    else:
        from qoder_agent_sdk import QoderAgentOptions, QoderSDKClient, qodercli_auth

        options = QoderAgentOptions(mcp_servers={"here": config}, auth=qodercli_auth())
        client = QoderSDKClient(options, transport=program)
    await client.connect()
    try:
        yield Agent(sdk, program)
    finally:
        await client.disconnect()
