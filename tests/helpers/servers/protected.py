"""A verifier with a table of tokens, and what it was asked."""

import time
from collections.abc import Collection
from typing import Any

from mcpkit import Principal
from mcpkit.auth import AccessToken, InvalidTokenError, TokenVerifier, VerifierUnavailableError
from mcpkit.identity.principals_and_scopes import user
from tests.helpers.raw_client import Answer, Client, Headers, Judge, Session, initialize

ISSUER = "https://id.example.com"


class Table(TokenVerifier):
    """Knows tokens of the form `NAME` or `NAME.SCOPE.SCOPE`, where a dash stands for the colon in a scope.

    `NAME~CLIENT` is the same user by another client, and `NAME/ANYTHING` another token.

    Args:
        issuers: Where clients log in.

    Attributes:
        asked: Each token and audience that it was asked for.
        is_down: Whether nothing can be verified.
        revoked: Tokens that are none any more.
        expires: When every grant expires, in Unix seconds.
        issued: When every token was issued.
        fresh: Seconds after which a token has to be verified again.
    """

    def __init__(self, *issuers: str) -> None:
        self.issuers = issuers
        self.asked: list[tuple[str, str]] = []
        self.is_down = False
        self.revoked: set[str] = set()
        self.expires: float | None = None
        self.issued: float | None = None
        self.fresh: float | None = None

    async def verify(self, token: str, audience: str) -> AccessToken:
        self.asked.append((token, audience))
        if self.is_down:
            raise VerifierUnavailableError("the table is locked", retry_after=7)
        if token in self.revoked or token.startswith("bad"):
            raise InvalidTokenError("The access token has expired")
        fresh_until = None if self.fresh is None else time.time() + self.fresh
        return AccessToken(principal_of(token), self.expires, self.issued, fresh_until)


def principal_of(token: str) -> Principal:
    """Return the principal of a token."""
    name, *scopes = token.split(".")
    name, _, client_id = name.partition("/")[0].partition("~")
    return user(ISSUER, name, {scope.replace("-", ":") for scope in scopes}, client_id=client_id or "client")


def bearer(name: str, scopes: Collection[str] = ()) -> dict[str, str]:
    """Return the header of a token."""
    return {"authorization": "Bearer " + ".".join((name, *(scope.replace(":", "-") for scope in scopes)))}


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
