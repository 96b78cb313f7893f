"""How a server is served: `run` and `asgi`, with their options."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import Unpack

from ..common.signatures import runs
from ..options import HttpOptions
from ..state.principal import ANYONE, Principal

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..engine.engine import Engine
    from .agent_sdk.sdk_server import SdkServer
    from .http.app import HttpApp
    from .http.uvicorn_options import UvicornOptions


def _asgi(self: Serving, **options: Any) -> HttpApp:
    from .http.app import HttpApp
    from .http.options import Settings

    runtime = self.engine.runtime
    return HttpApp(self.engine, Settings(runtime.limits, runtime.timeouts, **options))


def _run(self: Serving, transport: str = "stdio", **options: Any) -> None:
    if transport == "stdio":
        from .stdio import run_stdio

        run_stdio(self, principal=_host(options))
        return
    if transport not in {"http", "streamable-http", "sse"}:
        raise ValueError(f"transport must be 'stdio', 'http' or 'sse', got {transport!r}")
    from .http.options import ASGI_OPTIONS
    from .http.run import bound, check_uvicorn, reload_program, run_app

    app_options = {name: options.pop(name) for name in ASGI_OPTIONS if name in options}
    host, port = options.pop("host", "127.0.0.1"), options.pop("port", 8000)
    check_uvicorn(options)
    if options.pop("reload", False) and reload_program(options):
        return
    if transport == "sse":
        from dataclasses import replace

        app_options["http"] = replace(app_options.get("http", HttpOptions()), sse=True)
    listening = None
    if self.engine.auth is not None and app_options.get("public_url") is None:
        listening, url = bound(host, port, options)
        app_options["public_url"] = None if url is None else url + app_options.get("path", "/mcp")
    app = self.asgi(**app_options)
    run_app(app, app.settings, host, port, options, listening)


def _host(options: dict[str, Any]) -> Principal:
    """Return the user of the host among the options of `run("stdio")`.

    Raises:
        TypeError: There is another option.
    """
    for name in options:
        if name != "http":
            raise TypeError(
                f'run("stdio") has no option {name!r}, as it serves one host over standard input and output. To '
                f'serve clients at a port, write run("http", {name}=...)'
            )
    principal = options.get("http", HttpOptions()).principal
    if principal is not None and not isinstance(principal, Principal):
        raise TypeError(
            "over stdio there is one user: pass a Principal as HttpOptions(principal=...), not a function"
        )
    return ANYONE if principal is None else principal


class Serving:
    """What serves a server.

    Attributes:
        engine: What answers its requests.
    """

    engine: Engine

    @runs(_run)
    def run(
        self,
        transport: Literal["stdio", "http", "streamable-http", "sse"] = "stdio",
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        path: str = "/mcp",
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        stateless: bool = False,
        http: HttpOptions = HttpOptions(),  # noqa: B008 - frozen
        **uvicorn: Unpack[UvicornOptions],
    ) -> None:
        """Serve until standard input ends or a signal comes.

        Args:
            transport: `stdio` for a host that starts this process (`python server.py`, basic/transports/stdio);
                `http`, or `streamable-http`, for clients that connect to a port, with uvicorn; `sse` is the same,
                and turns `HttpOptions(sse=True)` on.
            host: Address to listen on. This and all that follow are for http and sse.
            port: Port to listen on; 0 takes a free one.
            path: See `asgi`, as for the next five.
            public_url: See `asgi`. On a protected server at this machine's own address, it is that address by default.
            allowed_hosts: See `asgi`.
            allowed_origins: See `asgi`.
            stateless: See `asgi`.
            http: See `asgi`. Over stdio, its `principal` is the user of the host.
            uvicorn: More options of `uvicorn.Config`, such as `log_level="warning"` or `ssl_certfile=...`.
                `reload=True` starts the program anew when one of its Python files is edited.

        Raises:
            TypeError: There is no such option for the transport, or it has the wrong type.
            ValueError: The transport is unknown, or an option does not have the form that it must have.
            RegistrationError: With stdio, type hints of a component cannot be resolved.
            RuntimeError: An event loop is running in this thread already.
            SystemExit: With stdio, a signal ended it; the code is 128 plus the signal's number.
            BaseException: What entering or leaving the lifespan raised.
        """
        raise NotImplementedError

    @runs(_asgi)
    def asgi(
        self,
        *,
        path: str = "/mcp",
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
        stateless: bool = False,
        http: HttpOptions = HttpOptions(),  # noqa: B008 - frozen
    ) -> HttpApp:
        """Return the server as an ASGI app: `app = server.asgi()`, then `uvicorn server:app`.

        It serves clients of every protocol version at `/mcp`, and those of 2024-11-05 at `/sse` and `/messages` too
        (basic/transports/streamable-http; basic/transports of the older versions). It can be mounted anywhere in
        another app, and needs no further wiring. Modules of HTTP are imported at its first event.

        Args:
            path: Path of the MCP endpoint.
            public_url: URL by which clients reach the endpoint, such as `https://example.com/mcp`: its host and origin
                are allowed.
            allowed_hosts: Values of the header `Host` that are accepted: `example.com`, `example.com:8080`,
                `example.com:*`, or `*` for any.
            allowed_origins: Values of the header `Origin` that are accepted, such as `https://example.com`, or `*` for
                any.
            stateless: Whether clients of versions with `initialize` are served without sessions.
            http: What few deployments change, see `HttpOptions`.

        Raises:
            TypeError: There is no such option, or it has the wrong type; the message says which.
            ValueError: An option does not have the form that it must have; the message says what to write.
            RegistrationError: A route of the author has a path of the protocol, or of a probe.
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
        from ..state.principal import checked_principal
        from .agent_sdk.sdk_server import SdkServer

        return SdkServer(self, ANYONE if principal is None else checked_principal(principal))
