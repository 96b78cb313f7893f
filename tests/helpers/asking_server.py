"""The server that the tests of questions over HTTP ask, and how they answer what it asks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcpkit import Context, Server
from tests.helpers.asgi_answer import Answer, Judge
from tests.helpers.asgi_client import Client, Session
from tests.helpers.official import official
from tests.helpers.session_server import SECRET
from tests.helpers.work import Work

CAPABILITIES: dict[str, dict[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
DECLARED = {"io.modelcontextprotocol/clientCapabilities": CAPABILITIES}


def make_server(work: Work, **options: Any) -> Server:
    server = Server("asking", version="1", secret=SECRET, **options)

    @server.tool
    async def name(ctx: Context) -> str:
        try:
            return (await ctx.elicit("Who?", str)).value
        finally:
            work.done.set()

    @server.tool
    async def names(ctx: Context) -> str:
        first = (await ctx.elicit("First name?", str)).value
        await ctx.info("half of it is known")
        return f"{first} {(await ctx.elicit('Last name?', str)).value}"

    @server.tool
    async def choose(ctx: Context) -> str:
        return "asks" if ctx.client.supports("elicitation.form") else "guesses"

    @server.tool
    async def pay(ctx: Context) -> str:
        answer = await ctx.elicit_url("Pay", "https://example.com/pay", done=lambda: True)
        return answer.action

    @server.prompt
    async def greet(ctx: Context) -> str:
        return f"Greet {(await ctx.elicit('Whom?', str)).value}"

    @server.resource("notes://{kind}")
    async def notes(kind: str, ctx: Context) -> str:
        return f"{kind} of {(await ctx.elicit('Whose?', str)).value}"

    return server


class AskingJudge(Judge):
    """Knows, too, what servers ask and what they answer instead of a result."""

    def __init__(self, folder: Path, revision: str) -> None:
        super().__init__(folder, revision)
        self._official = official(folder, revision)

    def check(self, message: Any) -> Any:
        if isinstance(message, list):
            super().check(message)
        elif "method" in message and "id" in message:
            assert message["jsonrpc"] == "2.0"
            assert message["method"] == "elicitation/create"
            # Before 2025-11-25 the schema of a request leaves out the envelope.
            members = self._official.definitions["ElicitRequest"]["properties"]
            self._official.check(
                "ElicitRequest", {name: message[name] for name in message if name in members}
            )
        elif message.get("result", {}).get("resultType") == "input_required":
            self._official.check("InputRequiredResult", message["result"])
        else:
            super().check(message)
        return message


async def asked(client: Client, revision: str = "2025-11-25") -> Session:
    """Open a session of a client that can be asked."""
    elicitation = CAPABILITIES["elicitation"] if revision == "2025-11-25" else {}
    session = await client.initialize(revision, capabilities={"elicitation": elicitation})
    session.judge = AskingJudge(client.folder, revision)
    return session


def accept(value: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": value}}


async def respond(session: Session, id_: Any, result: dict[str, Any]) -> Answer:
    """Post the answer to a question."""
    return await session.post({"jsonrpc": "2.0", "id": id_, "result": result}).whole()
