"""The options of one HTTP app, checked."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from ..._utils.exceptions import RegistrationError
from ..._utils.option_checks import unknown_option
from ...engine.engine import CustomRoute
from ...identity.principals_and_scopes import Principal
from ...options import FindPrincipal, HttpOptions, Limits, Timeouts, check_bool, check_group, check_path

DEFAULT_PATH = "/mcp"
"""Path of the MCP endpoint by default."""

SSE_PATH = "/sse"
MESSAGES_PATH = "/messages"
"""Paths of the HTTP+SSE transport of 2024-11-05."""

ASGI_OPTIONS = ("path", "public_url", "allowed_hosts", "allowed_origins", "stateless", "http")
"""The options of `Server.asgi`."""


class Settings:
    """The options of one app: those of `Server.asgi`, with the limits and timeouts of the server.

    Args:
        limits: Limits of the server.
        timeouts: Timeouts of the server.
        http: The option `http` of `Server.asgi`.
        options: Its other options.

    Attributes:
        endpoints: The option that sets each path of the protocol, by path without a slash at the end.
        probes: The same for the probes.
        sse_after: Seconds after which a response outside of sessions becomes an event stream.
        sse_after_in_session: The same in sessions.

    Raises:
        TypeError: There is no such option, or a value has the wrong type.
        ValueError: A value is out of range, or two options set one path.
    """

    path: str = DEFAULT_PATH
    public_url: str | None = None
    allowed_hosts: Collection[str] = ()
    allowed_origins: Collection[str] = ()
    stateless: bool = False

    def __init__(
        self,
        limits: Limits | None = None,
        timeouts: Timeouts | None = None,
        *,
        http: HttpOptions | None = None,
        **options: Any,
    ) -> None:
        for name, value in options.items():
            if name not in _CHECKS:
                raise TypeError(unknown(name))
            _CHECKS[name](name, value)
            setattr(self, name, value)
        self.limits = limits or Limits()
        self.timeouts = timeouts or Timeouts()
        self.http = http = HttpOptions() if http is None else http
        check_group("http", http, HttpOptions)
        principal = http.principal
        self.principal: FindPrincipal | None = (
            (lambda scope: principal) if isinstance(principal, Principal) else principal
        )
        self.sse_after = 10.0 if http.sse_after is None else http.sse_after
        self.sse_after_in_session = 1.0 if http.sse_after is None else http.sse_after
        self.endpoints = {self.path.rstrip("/"): f"path={self.path!r}"}
        for path in (SSE_PATH, MESSAGES_PATH) if http.sse else ():
            if path in self.endpoints:
                raise ValueError(
                    f"{self.endpoints[path]} is a path of the HTTP+SSE transport of 2024-11-05. Choose another path, "
                    "or pass http=HttpOptions(sse=False)"
                )
            self.endpoints[path] = "HttpOptions(sse=True)"
        self.probes: dict[str, str] = {}
        for name in ("readiness_path", "liveness_path"):
            if (probe := getattr(http, name)) is not None:
                path = probe.rstrip("/")
                if (taker := self.endpoints.get(path) or self.probes.get(path)) is not None:
                    raise ValueError(f"{name}={probe!r} is the path of {taker} too. Choose another path")
                self.probes[path] = f"HttpOptions({name}={probe!r})"

    def check_route(self, route: CustomRoute) -> None:
        """Check that no path of the app hides a custom route.

        Raises:
            RegistrationError: The path of the route is a path of the protocol or of a probe.
        """
        path = route.path.rstrip("/")
        is_read = route.methods is None or not {"GET", "HEAD"}.isdisjoint(map(str.upper, route.methods))
        taker = self.endpoints.get(path)
        if taker is None and is_read:
            taker = self.probes.get(path)
        if taker is not None:
            raise RegistrationError(
                f"@server.route({route.path!r}): {taker} of server.asgi(...) serves this path already. "
                "Choose another path"
            )


_OF_SERVER = {
    "auth": "auth",
    "scopes": "scopes",
    "secret": "secret_key",
    "secret_key": "secret_key",
    "storage": "storage",
    "limits": "limits",
    "timeouts": "timeouts",
}
_GROUPS: dict[str, Any] = {"limits": Limits, "timeouts": Timeouts, "http": HttpOptions}


def unknown(name: str, where: str = "server.asgi()", others: Collection[str] = ()) -> str:
    """Return the text of an error about an unknown option: where it belongs, or the option that is meant.

    Args:
        name: The option.
        where: What was called.
        others: Options beside those of `Server.asgi`.
    """
    if name in {"workers", "reload"}:
        return (
            f"{where} has no option {name!r}, as an app runs in one process. Write `app = server.asgi()` in a "
            f"module, and start `uvicorn module:app --{name}{' 4' if name == 'workers' else ''}`"
        )
    if name in _OF_SERVER:
        return f"{where} has no option {name!r}. Pass it to the server: Server({_OF_SERVER[name]}=...)"
    for option, group in _GROUPS.items():
        if name in group.__dataclass_fields__:
            owner = where.removesuffix("()") if option == "http" else "Server"
            return f"{where} has no option {name!r}. Write {owner}({option}={group.__name__}({name}=...))"
    return unknown_option(where, name, (*ASGI_OPTIONS, *others))


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
        raise TypeError(f"{name} must be a URL such as 'https://example.com/mcp', got {url!r}")
    from urllib.parse import urlsplit

    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise ValueError(
            f"{name}: {url!r} is not a URL ({error}). Write it like 'https://example.com/mcp'"
        ) from None


_CHECKS: dict[str, Callable[[str, Any], None]] = {
    "path": check_path,
    "public_url": _check_url,
    "allowed_hosts": _check_list,
    "allowed_origins": _check_list,
    "stateless": check_bool,
}
