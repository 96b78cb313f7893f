"""Clients of a protected server: their sessions, with whichever token each request has."""

from __future__ import annotations

from typing import Any

from tests.helpers.raw_client import Answer, Client, Headers, Judge, Session, initialize

REVISION = "2025-11-25"
PING = {"jsonrpc": "2.0", "id": "ping", "method": "ping"}


async def session_of(client: Client, token: Headers, revision: str = REVISION, **params: Any) -> Session:
    """Open a session by a token, or by none."""
    judge = Judge(client.folder, revision)
    opened = await client.post(initialize(revision, **params), token, judge=judge).whole()
    assert opened.status == 200, opened.body
    session = Session(client, revision, opened.headers["mcp-session-id"], judge)
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await session.post(ready, token).whole()).status == 202
    return session


async def status_of(session: Session, token: Headers) -> int | None:
    """Ask for nothing in a session, and return the status."""
    return (await session.post(PING, token).whole()).status


async def listening(session: Session, token: Headers) -> Answer:
    """Open a stream for what belongs to no call."""
    stream = await session.listen(headers=token).head()
    assert stream.status == 200, stream.body
    return stream


class Lenient(Judge):
    """Judges nothing: some methods are none of the specification's."""

    def __init__(self, client: Client) -> None:
        super().__init__(client.folder, "2026-07-28")

    def check(self, message: Any) -> Any:
        return message


class Old:
    """A client of HTTP with SSE: its stream, and where it posts."""

    def __init__(self, client: Client, stream: Answer, endpoint: str) -> None:
        self.client = client
        self.stream = stream
        self.endpoint = endpoint

    def post(self, message: Any, token: Headers) -> Answer:
        """Begin to post a message."""
        self.stream.judge.expect(message)
        return self.client.post(message, token, path=self.endpoint, judge=self.stream.judge)

    async def ask(self, method: str, params: dict[str, Any], token: Headers, id: Any = 1) -> Any:
        """Post a request, and return the next message of the stream."""
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        answer = await self.post(message, token).whole()
        assert answer.status == 202, answer.body
        return await self.stream.message()


async def old_of(client: Client, token: Headers) -> Old:
    """Open such a session by a token, or by none."""
    stream = client.open("GET", "/sse", headers={"accept": "text/event-stream", **token})
    stream.judge = Judge(client.folder, "2024-11-05")
    event = await stream.event()
    assert event is not None
    old = Old(client, stream, event.data or "")
    hello = initialize("2024-11-05")
    assert "result" in await old.ask("initialize", hello["params"], token, "initialize")
    await old.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, token).whole()
    return old
