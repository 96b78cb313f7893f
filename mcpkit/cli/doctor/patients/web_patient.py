"""A server at a URL that is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....protocol.jsonrpc import is_object
from ....protocol.revisions import LATEST_HANDSHAKE
from .conversation import Answer, answer_of, opening
from .patient import Patient, there
from .web import ACCEPTED, Reply, Web
from .web_conversation import SseConversation, WebConversation


@dataclass
class WebPatient(Patient):
    """A server at a URL that is looked at.

    Attributes:
        url: The URL, where redirects have led to.
        headers: What goes along with each request.
        is_sse: Whether it is asked by HTTP with SSE alone.
        first: The answer to the first request.
        session: The session that is asked; None where there is none.
        sse: The stream of HTTP with SSE; None where that is not spoken.
        told: How the first notification was answered.
    """

    url: str = field(kw_only=True)
    headers: Mapping[str, str] = field(kw_only=True)
    is_sse: bool = False
    first: Reply = field(default_factory=Reply)
    session: WebConversation | None = None
    sse: SseConversation | None = None
    told: Reply = field(default_factory=Reply)
    _webs: list[Web] = field(default_factory=list[Web])

    @property
    def web(self) -> Web:
        """What sends requests to the URL."""
        if not self._webs or self._webs[-1].url != self.url:
            self._webs.append(Web(self.url, self.headers, self.patience))
        return self._webs[-1]

    @property
    def session_id(self) -> str | None:
        """The id of the session; None where there is none."""
        return None if self.session is None else self.session.headers.get("Mcp-Session-Id")

    @property
    def says_who_asks(self) -> bool:
        """Whether a token goes along."""
        return any(name.lower() == "authorization" for name in self.headers)

    async def initialize(
        self,
        revision: str = LATEST_HANDSHAKE,
        more: Mapping[str, str] | None = None,
        *,
        is_kept: bool = False,
    ) -> Reply:
        """Open a session, and end it at once where it is not kept.

        Args:
            revision: The revision that is asked for.
            more: More headers.
            is_kept: Whether the session goes on.
        """
        body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening(revision)}
        seconds = self.first_patience if is_kept else None
        headers = {**ACCEPTED, **(more or {})}
        reply = await self.web.send(
            "POST", headers, body, is_wanted=lambda each: "method" not in each, seconds=seconds
        )
        session = reply.headers.get("mcp-session-id")
        if session is not None and not is_kept:
            await self.web.send("DELETE", {"Mcp-Session-Id": session, **(more or {})})
        return reply

    async def initialized(self, revision: str) -> Answer:
        """Return what a client is answered that asks for a revision."""
        reply = await self.initialize(revision)
        if reply.message is None:
            return Answer(problem=str(reply), status=reply.status)
        return answer_of(reply.message, reply.seconds, reply.status)

    async def send_in_session(
        self, method: str, headers: Mapping[str, str], seconds: float | None = None
    ) -> Reply:
        """Send a request of the session that has no body, again where it reaches an instance that does not know it.

        Args:
            method: The HTTP method.
            headers: What goes along beside those of the session.
            seconds: How long to wait.
        """
        session = there(self.session)
        reply = Reply()
        for _ in range(session.tries):
            reply = await self.web.send(method, {**headers, **session.headers}, seconds=seconds)
            if reply.status != 404:
                break
        return reply

    async def enter(self, reply: Reply) -> None:
        """Take the session that an answer to `initialize` has opened."""
        result = None if reply.message is None else reply.message.get("result")
        if not is_object(result):
            return
        self.opened = result
        headers: dict[str, str] = {}
        version = result.get("protocolVersion")
        if isinstance(version, str) and version >= "2025-06-18":
            headers["MCP-Protocol-Version"] = version
        if (session := reply.headers.get("mcp-session-id")) is not None and session.isascii():
            headers["Mcp-Session-Id"] = session
        self.session = WebConversation(self.web, headers)
        self.told = await self.session.told("notifications/initialized")
        self.conversation = self.session

    async def close(self) -> None:
        """Close all connections."""
        if self.sse is not None:
            await self.sse.close()
        for web in self._webs:
            await web.close()
