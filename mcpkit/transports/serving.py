"""How a server is served: `run` and `asgi`, with all their options."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

from ..common.signatures import Described, runs

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..engine.engine import Engine
    from ..state.principal import Principal
    from .agent_sdk.sdk_server import SdkServer
    from .http.app import HttpApp
    from .http.options import FindPrincipal, OwnRoute

GRACE = Described("10, with stdio 5")
"""Stands for what `grace` of `run` is when it is left out."""


def _asgi(self: Serving, **options: Any) -> HttpApp:
    from .http.app import HttpApp
    from .http.options import Settings

    return HttpApp(self.engine, self.routes, Settings(**options))


def _run(self: Serving, transport: str = "stdio", **options: Any) -> None:
    if transport == "stdio":
        from .stdio import check_taken, run_stdio

        given: dict[str, Any] = {
            name: value for name, value in options.items() if value is not None or name == "grace"
        }
        check_taken(given)
        run_stdio(self, **given)
        return
    if transport not in {"http", "streamable-http", "sse"}:
        raise ValueError(f"transport must be 'stdio', 'http' or 'sse', got {transport!r}")
    if options.pop("max_line", None) is not None:
        raise ValueError(f'run("{transport}") has no max_line; the longest message is max_body')
    host, port = options.pop("host", None) or "127.0.0.1", options.pop("port", None)
    port = 8000 if port is None else port
    uvicorn: Mapping[str, object] = options.pop("uvicorn", None) or {}
    if transport == "sse":
        options["sse"] = True
    from .http.run import bound, run_app

    listening = None
    if self.engine.auth is not None and options.get("public_url") is None:
        listening, url = bound(host, port, uvicorn)
        options["public_url"] = None if url is None else url + options.get("path", "/mcp")
    app = self.asgi(**options)
    run_app(app, app.settings, host, port, uvicorn, listening)


class Serving:
    """What serves a server.

    Attributes:
        engine: What answers its requests.
        routes: The routes of the author's own.
    """

    engine: Engine
    routes: list[OwnRoute]

    @runs(_run)
    def run(
        self,
        transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        uvicorn: Mapping[str, Any] | None = None,
        max_line: int = 64 * 1024 * 1024,
        principal: Principal | FindPrincipal | None = None,
        grace: float | None = GRACE,
        path: str = "/mcp",
        sse: bool = True,
        stateless: bool = False,
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        cors: bool = True,
        health: str | None = None,
        live: str | None = None,
        max_body: int = 4 * 1024 * 1024,
        max_body_total: int = 256 * 1024 * 1024,
        body_timeout: float = 10.0,
        max_sessions: int = 10_000,
        session_ttl: float = 3600.0,
        session_max_age: float = 86_400.0,
        max_streams: int = 10_000,
        max_kept: int = 64 * 1024 * 1024,
        stream_after: float | None = None,
        keep_alive: float = 15.0,
    ) -> None:
        """Serve until the input ends or a signal comes.

        The options are for http and sse, but for `max_line`, which is for stdio, and `principal` and `grace`, which
        both have.

        Args:
            transport: `stdio` for a host that has started this process (`python server.py`,
                basic/transports/stdio); `http`, or `streamable-http`, and `sse` for clients that connect to a port,
                with uvicorn. Both serve the same app; `sse` does not do without the transport of 2024-11-05.
            host: The address to listen on.
            port: The port; 0 takes a free one.
            uvicorn: More options for `uvicorn.Config`.
            max_line: With stdio, the longest message in bytes; a longer one is answered with an error.
            principal: With stdio, the Principal that the host is; with http and sse, as `asgi` has it: one
                Principal for all, or a function of a request's ASGI scope, async or not.
            grace: The seconds that running calls get to finish when the process is told to end, or the input of
                stdio ends: 10, with stdio 5. With http and sse, None waits for as long as it takes.
            path: The path of the MCP endpoint.
            sse: Whether the transport of 2024-11-05 is served too, at `/sse` and `/messages`.
            stateless: Whether clients of the handshake revisions are served without sessions.
            public_url: Where clients reach the endpoint, such as `https://example.com/mcp`: its host and origin are
                allowed.
            allowed_hosts: Hosts that requests may name: `example.com`, `example.com:8080`, `example.com:*`, or `*` for
                any.
            allowed_origins: Origins whose pages may send requests, such as `https://example.com`, or `*` for any.
            cors: Whether pages of the allowed origins may read what is answered.
            health: The path that answers whether work may come here (503 while not: at the start, at the end, and while
                what is shared does not answer); None for none.
            live: The path that answers that the process is alive, whatever else there is; None for none.
            max_body: The most bytes in the body of a request.
            max_body_total: The most bytes of bodies that are on their way to one process at a time; one that comes
                alone is always read.
            body_timeout: The seconds in which a body must have arrived.
            max_sessions: The most sessions of handshake clients in one process.
            session_ttl: The seconds without a request after which a session ends.
            session_max_age: The seconds after which a session ends in any case.
            max_streams: The most event streams that listen for changes in one process.
            max_kept: The most bytes of events that are kept in one process for clients that come back to a stream
                (`Last-Event-ID`), a sixteenth of it for one session; 0 keeps none.
            stream_after: The seconds after which an answer becomes an event stream; None is 1 in sessions and 10
                elsewhere.
            keep_alive: The seconds of silence after which a comment is sent on an event stream.

        Raises:
            TypeError: An option is of another type; or with http and sse, there is none of that name.
            ValueError: The transport is not known or does without the option, or an option has not the form
                that it must have.
            RegistrationError: With stdio, type hints of a component cannot be resolved.
            RuntimeError: With stdio, an event loop is running in this thread already.
            SystemExit: With stdio, a signal ended it; the code is 128 plus the signal's number.
            BaseException: Whatever entering or leaving the lifespan raised.
        """
        raise NotImplementedError

    @runs(_asgi)
    def asgi(
        self,
        *,
        path: str = "/mcp",
        sse: bool = True,
        stateless: bool = False,
        principal: Principal | FindPrincipal | None = None,
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        cors: bool = True,
        health: str | None = None,
        live: str | None = None,
        max_body: int = 4 * 1024 * 1024,
        max_body_total: int = 256 * 1024 * 1024,
        body_timeout: float = 10.0,
        max_sessions: int = 10_000,
        session_ttl: float = 3600.0,
        session_max_age: float = 86_400.0,
        max_streams: int = 10_000,
        max_kept: int = 64 * 1024 * 1024,
        stream_after: float | None = None,
        keep_alive: float = 15.0,
        grace: float | None = 10.0,
    ) -> HttpApp:
        """Return the server as an ASGI app: `app = server.asgi()`, then `uvicorn server:app`.

        It serves every client of every revision at `/mcp`, and those of 2024-11-05 at `/sse` and `/messages` as well
        (basic/transports/streamable-http; basic/transports of the older revisions). It can be mounted anywhere in
        another app, with nothing to wire. Nothing of HTTP is imported before its first event.

        Args:
            path: The path of the MCP endpoint.
            sse: Whether the transport of 2024-11-05 is served too, at `/sse` and `/messages`.
            stateless: Whether clients of the handshake revisions are served without sessions.
            principal: Says who has sent a request: a function of its ASGI scope, async or not, which may raise a
                ChallengeError; or one Principal for all. None takes what Starlette's AuthenticationMiddleware
                before the app has left in `scope["user"]` and `scope["auth"]`.
            public_url: Where clients reach the endpoint, such as `https://example.com/mcp`: its host and origin are
                allowed.
            allowed_hosts: Hosts that requests may name: `example.com`, `example.com:8080`, `example.com:*`, or `*` for
                any.
            allowed_origins: Origins whose pages may send requests, such as `https://example.com`, or `*` for any.
            cors: Whether pages of the allowed origins may read what is answered.
            health: The path that answers whether work may come here (503 while not: at the start, at the end, and while
                what is shared does not answer); None for none.
            live: The path that answers that the process is alive, whatever else there is; None for none.
            max_body: The most bytes in the body of a request.
            max_body_total: The most bytes of bodies that are on their way to one process at a time; one that comes
                alone is always read.
            body_timeout: The seconds in which a body must have arrived.
            max_sessions: The most sessions of handshake clients in one process.
            session_ttl: The seconds without a request after which a session ends.
            session_max_age: The seconds after which a session ends in any case.
            max_streams: The most event streams that listen for changes in one process.
            max_kept: The most bytes of events that are kept in one process for clients that come back to a stream
                (`Last-Event-ID`), a sixteenth of it for one session; 0 keeps none.
            stream_after: The seconds after which an answer becomes an event stream; None is 1 in sessions and 10
                elsewhere.
            keep_alive: The seconds of silence after which a comment is sent on an event stream.
            grace: The seconds that running calls get when the process is told to end. Then it is ended; None waits
                for as long as whoever runs the app.

        Raises:
            TypeError: There is no such option, or it is of another type; the message says which.
            ValueError: An option has not the form that it must have; the message says what to write.
            RegistrationError: A route of the author's own has a path of the protocol's, or that of readiness.
        """
        raise NotImplementedError

    def as_sdk_server(self, *, principal: Principal | None = None) -> SdkServer[Self]:
        """Return the server as agent SDKs take one into their process, with no process or port of its own.

        It is what `claude-agent-sdk` and `qoder-agent-sdk` want as `instance`:

            weather = {"type": "sdk", "name": "weather", "instance": server.as_sdk_server()}
            options = ClaudeAgentOptions(mcp_servers={"weather": weather})  # or QoderAgentOptions

        Any number of agents may have it at a time, in any event loop of asyncio, one after the other and again. Agents
        of `claude-agent-sdk` have a session each (`run`). Those of `qoder-agent-sdk` open none: they call the functions
        in `request_handlers`, for tools alone, and the lifespan stays entered until their event loop ends, or until
        `await instance.aclose()` is called there.

        Neither SDK carries what a server says unasked: logs, progress and changes are dropped. Neither carries a
        question: one that a tool asks fails at once, with an error that says so.

        It needs the package `mcp`, which every such SDK brings, from 1.23 on; nothing of it is imported before an agent
        comes.

        Args:
            principal: Who the agent is; None for nobody in particular, who has no scopes.

        Returns:
            The object, in the shape of `mcp.server.Server` as far as the SDKs use it.

        Raises:
            TypeError: `principal` is no Principal.
        """
        from ..state.principal import ANYONE, checked_principal
        from .agent_sdk.sdk_server import SdkServer

        return SdkServer(self, ANYONE if principal is None else checked_principal(principal))
