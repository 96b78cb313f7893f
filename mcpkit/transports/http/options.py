"""What an author may set about the HTTP app, and what is right when he sets nothing."""

# No `from __future__ import annotations`: the hints are read here, and would have to be compiled for it.

from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, NamedTuple

from ...common.errors import RegistrationError
from ...common.nearest import nearest
from ...common.numbers import check_count, check_seconds
from ...state.principal import Principal

FindPrincipal = Callable[[MutableMapping[str, Any]], Principal | Awaitable[Principal | None] | None]
"""Says who has sent a request, from its ASGI scope; None where nobody knows. It may raise a ChallengeError."""

DEFAULT_PATH = "/mcp"
"""Where the MCP endpoint is, unless the author says otherwise."""

SSE_PATH = "/sse"
MESSAGES_PATH = "/messages"
"""Where the transport of 2024-11-05 is served."""


class OwnRoute(NamedTuple):
    """A route of the author's own in the HTTP app; see `Server.route`."""

    path: str
    function: Callable[..., Any]
    methods: Collection[str] | None
    name: str | None
    is_outside_mount: bool = False
    scopes: tuple[str, ...] | None = None


class Settings:
    """The options of one app, checked: of each its type, by which it is checked, and what it is by default.

    Args:
        options: As `Server.asgi` takes them.

    Attributes:
        endpoints: The paths of the protocol, without a slash at the end, and the option that has put each there.
        probes: The paths of readiness and life, in the same way.
        stream_after_in_session: What `stream_after` is in sessions.

    Raises:
        TypeError: There is no such option, or a value has the wrong type; the message says what to write.
        ValueError: A value is out of range, or two paths are one; the message names them.
    """

    path: str = DEFAULT_PATH
    sse: bool = True
    stateless: bool = False
    principal: FindPrincipal | None = None
    public_url: str | None = None
    allowed_hosts: Collection[str] = ()
    allowed_origins: Collection[str] = ()
    cors: bool = True
    health: str | None = None
    live: str | None = None
    max_body: int = 4 * 1024 * 1024
    max_body_total: int = 256 * 1024 * 1024
    body_timeout: float = 10.0
    max_sessions: int = 10_000
    session_ttl: float = 3600.0
    session_max_age: float = 86_400.0
    max_streams: int = 10_000
    max_kept: int = 64 * 1024 * 1024
    stream_after: float
    keep_alive: float = 15.0
    grace: float | None = 10.0

    def __init__(self, **options: Any) -> None:
        for name, value in options.items():
            if name not in OPTIONS:
                raise TypeError(_unknown(name))
            OPTIONS[name](name, value)
            setattr(self, name, value)
        if isinstance(principal := options.get("principal"), Principal):
            self.principal = lambda scope: principal
        stream_after = options.get("stream_after")
        self.stream_after = 10.0 if stream_after is None else stream_after
        self.stream_after_in_session = 1.0 if stream_after is None else stream_after
        self.endpoints = {self.path.rstrip("/"): f"path={self.path!r}"}
        for path in (SSE_PATH, MESSAGES_PATH) if self.sse else ():
            if path in self.endpoints:
                raise ValueError(
                    f"{self.endpoints[path]} is a path of sse=True, the transport of 2024-11-05: "
                    "choose another, or set sse=False"
                )
            self.endpoints[path] = "sse=True"
        self.probes: dict[str, str] = {}
        for name, probe in (("health", self.health), ("live", self.live)):
            if probe is not None:
                path = probe.rstrip("/")
                if (taker := self.endpoints.get(path) or self.probes.get(path)) is not None:
                    raise ValueError(
                        f"{name}={probe!r} would never be reached, as {taker} serves that path: choose another"
                    )
                self.probes[path] = f"{name}={probe!r}"

    def check_route(self, route: OwnRoute) -> None:
        """Refuse a route of the author's own that would never be reached.

        Raises:
            RegistrationError: Its path is one of the protocol's, or that of readiness or life.
        """
        path = route.path.rstrip("/")
        is_read = route.methods is None or not {"GET", "HEAD"}.isdisjoint(map(str.upper, route.methods))
        taker = self.endpoints.get(path)
        if taker is None and is_read:
            taker = self.probes.get(path)
        if taker is not None:
            raise RegistrationError(
                f"@server.route({route.path!r}) would never be reached, as server.asgi({taker}) "
                "serves that path: choose another"
            )


def _unknown(name: str) -> str:
    if name in {"workers", "reload"}:
        return (
            f"the HTTP app has no option {name!r}, as it serves in one process: write `app = server.asgi()` in a "
            f"module, and start `uvicorn module:app --{name}{' 4' if name == 'workers' else ''}`"
        )
    if name in {"auth", "scopes", "secret", "shared"}:
        return f"the HTTP app has no option {name!r}, as it is the server's: Server({name}=...)"
    guess = nearest(name, OPTIONS)
    hint = f"; did you mean {guess!r}?" if guess is not None else f"; there are {', '.join(OPTIONS)}"
    return f"the HTTP app has no option {name!r}{hint}"


def _check_path(name: str, path: Any) -> None:
    if path is None and name in {"health", "live"}:
        return
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a path such as '/{name}', got {path!r}")
    if not path.startswith("/"):
        raise ValueError(f"{name} must begin with a slash, such as '/mcp', got {path!r}")


def _check_switch(name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def _check_count(name: str, count: Any) -> None:
    is_size = name in {"max_body", "max_body_total", "max_kept"}
    example = " of bytes, such as 4 * 1024 * 1024" if is_size else " such as 10_000"
    check_count(name, count, least=0 if name == "max_kept" else 1, example=example)


def _check_seconds(name: str, seconds: Any) -> None:
    has_no_end = name in {"stream_after", "grace"}
    check_seconds(name, seconds, may_be_zero=has_no_end, may_be_none=has_no_end)


def _check_list(name: str, values: Collection[object] | None) -> None:
    example = "https://example.com" if name == "allowed_origins" else "example.com"
    if isinstance(values, str):
        raise ValueError(f"{name} must be a list such as [{(values or example)!r}], got {values!r}")  # noqa: TRY004
    if not isinstance(values, Collection):
        raise TypeError(f"{name} must be a list such as [{example!r}], got {values!r}")
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be a list of texts such as {example!r}, got {value!r} in it")


def _check_url(name: str, url: Any) -> None:
    if url is None:
        return
    if not isinstance(url, str):
        raise TypeError(f"{name} must be text such as 'https://example.com/mcp', got {url!r}")
    from urllib.parse import urlsplit

    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise ValueError(
            f"{name}: {url!r} is not where clients can reach a server ({error}); "
            "write it like 'https://example.com/mcp'"
        ) from None


def _check_principal(name: str, value: Any) -> None:
    if value is None or isinstance(value, Principal):
        return
    if not callable(value):
        raise TypeError(
            f"{name} must be a function of the ASGI scope that returns a Principal or None, or a Principal, "
            f"got {value!r}"
        )


_CHECKS: dict[Any, Callable[[str, Any], None]] = {
    bool: _check_switch,
    int: _check_count,
    float: _check_seconds,
    float | None: _check_seconds,
    str: _check_path,
    str | None: _check_path,
    Collection[str]: _check_list,
}
"""What checks an option, by its type."""

_OWN_CHECKS = {"principal": _check_principal, "public_url": _check_url}

OPTIONS = {name: _OWN_CHECKS.get(name) or _CHECKS[hint] for name, hint in Settings.__annotations__.items()}
"""What checks each option, by name."""
