"""What an author may set about the HTTP app, and what is right when he sets nothing."""

from __future__ import annotations

from collections.abc import Collection

from typing_extensions import TypedDict


class HttpOptions(TypedDict, total=False):
    """The keyword arguments of `Server.asgi`."""

    path: str
    """The path of the MCP endpoint, `/mcp` by default."""
    sse: bool
    """Whether the transport of 2024-11-05 is served too, at `/sse` and `/messages`; True by default."""
    stateless: bool
    """Whether clients of the handshake revisions are served without sessions; False by default."""
    public_url: str | None
    """Where clients reach the endpoint, such as `https://example.com/mcp`: its host and origin are allowed."""
    allowed_hosts: Collection[str]
    """Hosts that requests may name: `example.com`, `example.com:8080`, `example.com:*`, or `*` for any."""
    allowed_origins: Collection[str]
    """Origins whose pages may send requests, such as `https://example.com`, or `*` for any."""
    cors: bool
    """Whether pages of the allowed origins may read what is answered; True by default."""
    health: str | None
    """The path that answers whether the server is ready; None, the default, for none."""
    max_body: int
    """The most bytes in the body of a request, 4 MiB by default."""
    body_timeout: float
    """The seconds in which a body must have arrived, 10 by default."""
    max_sessions: int
    """The most sessions of handshake clients in one process, 10,000 by default."""
    session_ttl: float
    """The seconds without a request after which a session ends, 3,600 by default."""
    session_max_age: float
    """The seconds after which a session ends in any case, 86,400 by default."""
    max_streams: int
    """The most event streams that listen for changes in one process, 10,000 by default."""
    stream_after: float | None
    """The seconds after which an answer becomes an event stream; None is 1 in sessions and 10 elsewhere."""
    keep_alive: float
    """The seconds of silence after which a comment is sent on an event stream, 15 by default."""
    grace: float | None
    """The seconds that running calls get when the process is told to end, 10 by default. Then it is
    ended; None waits for as long as whoever runs the app."""


class Settings:
    """The options of one app, checked.

    Raises:
        ValueError: One of them is out of range; the message names it.
    """

    def __init__(
        self,
        *,
        path: str = "/mcp",
        sse: bool = True,
        stateless: bool = False,
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        cors: bool = True,
        health: str | None = None,
        max_body: int = 4 * 1024 * 1024,
        body_timeout: float = 10.0,
        max_sessions: int = 10_000,
        session_ttl: float = 3600.0,
        session_max_age: float = 86_400.0,
        max_streams: int = 10_000,
        stream_after: float | None = None,
        keep_alive: float = 15.0,
        grace: float | None = 10.0,
    ) -> None:
        for name, value in (("path", path), ("health", health)):
            if value is not None and not value.startswith("/"):
                raise ValueError(f"{name} must begin with a slash, such as '/mcp', got {value!r}")
        counts = {"max_body": max_body, "max_sessions": max_sessions, "max_streams": max_streams}
        for name, count in counts.items():
            if count < 1:
                raise ValueError(f"{name} must be at least 1, got {count!r}")
        seconds = {
            "body_timeout": body_timeout,
            "session_ttl": session_ttl,
            "session_max_age": session_max_age,
            "keep_alive": keep_alive,
        }
        for name, each in seconds.items():
            if not each > 0:
                raise ValueError(f"{name} must be a number of seconds above 0, got {each!r}")
        for name, least in (("stream_after", stream_after), ("grace", grace)):
            if least is not None and not least >= 0:
                raise ValueError(f"{name} must be a number of seconds from 0, or None, got {least!r}")
        self.path = path
        self.sse = sse
        self.stateless = stateless
        self.public_url = public_url
        self.allowed_hosts = allowed_hosts
        self.allowed_origins = allowed_origins
        self.cors = cors
        self.health = health
        self.max_body = max_body
        self.body_timeout = body_timeout
        self.max_sessions = max_sessions
        self.session_ttl = session_ttl
        self.session_max_age = session_max_age
        self.max_streams = max_streams
        self.stream_after_in_session = 1.0 if stream_after is None else stream_after
        self.stream_after = 10.0 if stream_after is None else stream_after
        self.keep_alive = keep_alive
        self.grace = grace
