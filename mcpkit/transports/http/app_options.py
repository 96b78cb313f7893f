"""Options of one HTTP app, and the check of hosts and origins that they allow."""

from __future__ import annotations

import logging
import re
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from types import FrameType
from typing import Any

from ..._utils.exceptions import RegistrationError
from ..._utils.option_checks import unknown_option
from ...engine.engine import CustomRoute
from ...identity.principals_and_scopes import Principal
from ...options import FindPrincipal, HttpOptions, Limits, Timeouts, check_bool, check_group, check_path
from ...protocol import http_headers

DEFAULT_PATH = "/mcp"  # path of the MCP endpoint by default

SSE_PATH, MESSAGES_PATH = "/sse", "/messages"  # paths of the HTTP+SSE transport of 2024-11-05

# The options of `Server.asgi`.
ASGI_OPTIONS = ("path", "public_url", "allowed_hosts", "allowed_origins", "stateless", "http")


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
        found = http.principal
        self.principal: FindPrincipal | None = (lambda _: found) if isinstance(found, Principal) else found
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
                if (owner := self.endpoints.get(path) or self.probes.get(path)) is not None:
                    raise ValueError(f"{name}={probe!r} is the path of {owner} too. Choose another path")
                self.probes[path] = f"HttpOptions({name}={probe!r})"

    def check_route(self, route: CustomRoute) -> None:
        """Check that no path of the app hides a custom route.

        Raises:
            RegistrationError: The path of the route is a path of the protocol or of a probe.
        """
        path = route.path.rstrip("/")
        is_read = route.methods is None or not {"GET", "HEAD"}.isdisjoint(map(str.upper, route.methods))
        owner = self.endpoints.get(path)
        if owner is None and is_read:
            owner = self.probes.get(path)
        if owner is not None:
            raise RegistrationError(
                f"@server.route({route.path!r}): {owner} of server.asgi(...) serves this path already. "
                "Choose another path"
            )


_SERVER_OPTIONS = ("auth", "scopes", "secret", "secret_key", "storage", "limits", "timeouts")
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
    if name in _SERVER_OPTIONS:
        option = "secret_key" if name == "secret" else name
        return f"{where} has no option {name!r}. Pass it to the server: Server({option}=...)"
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
    "stateless": check_bool,
    **dict.fromkeys(("allowed_hosts", "allowed_origins"), _check_list),
}


# Check of the Host and Origin headers
#
# A web page can make its own name resolve to 127.0.0.1, and so send requests to a server on the machine of its reader
# (DNS rebinding). The name in `Host` and the page in `Origin` reveal it. Revision 2026-07-28, "Streamable HTTP",
# "Security & Endpoint"; revision 2025-11-25, "Transports", "Security Warning".

_ANY = "*"

# The ports of an entry: numbers, None for the default one, `_ANY` for each.
_Ports = frozenset[int | str | None]

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_PORTS = frozenset({None, 80, 443})

# Syntax of an entry of either list, and of a suggestion in a message.
_ENTRY = (
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?"
    r"(?P<name>\[[0-9a-f:.]+\]|(?:\*\.)?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?|\*)(?::(?P<port>[0-9]{1,5}|\*))?"
)
_ADDRESS = r"\*\.(?:.*\.)?[0-9]+\.?"
_LABELS = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?"

# Maximum length of names in DNS. Matching a name with thousands of labels would take seconds.
_MAX_HOST_LENGTH = 255

_WEB = ("http", "https", "ws", "wss")

# Origins without a host: of sandboxed frames, and of pages of a desktop application.
_BARE_ORIGINS = ("null", "file://")

# Together they limit the cache of the guard, which any client can fill, to half a megabyte.
_MAX_REMEMBERED = 1024
_MAX_REMEMBERED_LENGTH = 512


class Guard:
    """Check of the Host and Origin headers of requests.

    Localhost, 127.0.0.1 and [::1] are always allowed on any port, as hosts and as origins of pages.

    Args:
        public_url: Public URL of the server, such as "https://example.com/mcp". Its host and origin are allowed too.
        allowed_hosts: Additional hosts: "example.com" (on the default ports), "example.com:8000", "example.com:*" (on
            any port), "*.example.com" (its subdomains, at any depth), or "*" for all.
        allowed_origins: Additional origins of web pages: "https://example.com", "https://example.com:8000",
            "https://example.com:*", "https://*.example.com", "moz-extension://*", "null", or "*" for all.

    Attributes:
        allows_all_origins: Whether "*" is among the origins.
        passed: Values of Host and Origin that `refuse` has allowed, which need no further check.

    Raises:
        ValueError: An entry is not valid. The message contains the fix.
    """

    def __init__(
        self,
        public_url: str | None = None,
        allowed_hosts: Collection[str] = (),
        allowed_origins: Collection[str] = (),
    ) -> None:
        everywhere: _Ports = frozenset({_ANY})
        self._hosts: dict[str, _Ports] = dict.fromkeys(_LOOPBACK, everywhere)
        self._origins = {(scheme, name): everywhere for scheme in ("http", "https") for name in _LOOPBACK}
        self._bare_origins = frozenset(allowed_origins).intersection(_BARE_ORIGINS)
        self.allows_all_hosts, self.allows_all_origins = "*" in allowed_hosts, "*" in allowed_origins
        if public_url is not None:
            public = _public_origin(public_url)
            allowed_hosts = [*allowed_hosts, public.partition("://")[2]]
            allowed_origins = [*allowed_origins, public]
        for each in allowed_hosts:
            if each != "*":
                name, ports = _host_entry(each)
                self._hosts[name] = self._hosts.get(name, frozenset()) | ports
        for each in allowed_origins:
            if each != "*" and each not in _BARE_ORIGINS:
                key, ports = _origin_entry(each)
                self._origins[key] = self._origins.get(key, frozenset()) | ports
        self.passed: set[tuple[bytes | None, bytes | None]] = set()

    def refuse(self, host: bytes | None, origin: bytes | None) -> tuple[int, str] | None:
        """Check the headers of a request.

        Args:
            host: Value of `Host`; None if missing.
            origin: Value of `Origin`; None if missing.

        Returns:
            None for an allowed request, else the HTTP status (421 for the host, 403 for the origin) and a text for the
            body that names the option.
        """
        if (host, origin) in self.passed:
            return None
        if not (self.allows_all_hosts or (host is not None and self._allows_host(_decode(host)))):
            return 421, _misdirected(host)
        if origin is not None and not self.allows_origin(_decode(origin)):
            return 403, _foreign(origin)
        if len(host or b"") + len(origin or b"") <= _MAX_REMEMBERED_LENGTH:
            if len(self.passed) >= _MAX_REMEMBERED:
                self.passed.clear()
            self.passed.add((host, origin))
        return None

    def allows_origin(self, origin: str) -> bool:
        """Return True if pages of an origin are allowed.

        Args:
            origin: Value of `Origin`.
        """
        if self.allows_all_origins or origin in self._bare_origins:
            return True
        parsed = http_headers.origin(origin)
        if parsed is None:
            return False
        scheme, host, port = parsed
        names = (*_names(host), "*")
        return any(_fits(self._origins.get((scheme, name)), port) for name in names)

    def _allows_host(self, host: str) -> bool:
        parsed = http_headers.host(host)
        names = () if parsed is None else _names(parsed.name)
        return any(parsed is not None and _fits(self._hosts.get(name), parsed.port) for name in names)


def _decode(value: bytes) -> str:
    return value.decode("latin-1")


def _names(name: str) -> Iterator[str]:
    """Iterate over the entries that can match a host: its own name, and wildcards for one or more labels."""
    if "*" not in name:
        yield name
    if len(name) <= _MAX_HOST_LENGTH and re.fullmatch(_LABELS, name):
        while "." in name:
            name = name.partition(".")[2]
            yield f"*.{name}"


def _fits(ports: _Ports | None, port: int | None) -> bool:
    return ports is not None and (_ANY in ports or port in ports)


def _entry(text: str) -> tuple[str | None, str, int | str | None] | None:
    """Return scheme, name in the form of `Host`, and port of an entry; None if it is malformed."""
    found = re.fullmatch(_ENTRY, text.lower())
    if found is None or re.fullmatch(_ADDRESS, found["name"]):
        return None
    scheme, name, port = found.group("scheme", "name", "port")
    parsed = http_headers.host(f"{name}:{'' if port == _ANY else port or ''}")
    return None if parsed is None else (scheme, parsed.name, _ANY if port == _ANY else parsed.port)


def _host_entry(text: str) -> tuple[str, _Ports]:
    """Return name and ports of a host entry. Without a port, both 80 and 443 are meant."""
    scheme, name, port = _entry(text) or (None, _ANY, None)
    if scheme is not None or name == _ANY:
        raise ValueError(
            f"allowed_hosts: {text!r} is not a host. Write it like 'example.com' or '[2001:db8::1]' (a "
            "name with non-ASCII letters as 'xn--...'), with a port other than 80 and 443 or with ':*' "
            "for any port, '*.example.com' for all subdomains, or '*' for all hosts"
        )
    return name, _DEFAULT_PORTS if port in _DEFAULT_PORTS else frozenset({port})


def _origin_entry(text: str) -> tuple[tuple[str, str], _Ports]:
    """Return scheme, host and port of an origin entry."""
    scheme, name, port = _entry(text) or (None, _ANY, None)
    if scheme is None or (name == _ANY and port is not None):
        raise ValueError(
            f"allowed_origins: {text!r} is not an origin. Write it like 'https://example.com', without a "
            "path, with ':*' for any port, 'https://*.example.com' for all subdomains, "
            "'moz-extension://*' for all extensions, or '*' for all origins"
        )
    if name == _ANY and scheme in _WEB:
        raise ValueError(
            f"allowed_origins: {text!r} would allow the pages of all sites. Name a domain, as in "
            "'https://*.example.com', or write '*' for all origins"
        )
    if port != _ANY and (read := http_headers.origin(f"{scheme}://{name}:{port or ''}")):
        port = read.port  # None for the default port of the scheme
    return (scheme, name), frozenset({port})


def _public_origin(url: str) -> str:
    """Return the origin of the public URL of the server."""
    found = re.match(r"https?://[^/?#]+", url, re.IGNORECASE)
    entry = None if found is None else _entry(found[0])
    if found is None or entry is None or entry[2] == _ANY or "*" in entry[1]:
        raise ValueError(
            f"public_url: {url!r} is not the URL of a server. Write it like 'https://example.com/mcp'"
        )
    return found[0].lower()


def _misdirected(host: bytes | None) -> str:
    if host is None:
        return 'The request has no Host header. To allow such requests: server.asgi(allowed_hosts=["*"])'
    named = _suggestion(host, has_scheme=False) or "example.com"
    return (
        f"This server does not accept the Host header of this request. If {named} is its host: "
        f'server.asgi(allowed_hosts=["{named}"])'
    )


def _foreign(origin: bytes) -> str:
    named = _suggestion(origin, has_scheme=True) or "https://example.com"
    return (
        f"This server does not accept the Origin header of this request. To allow web pages of {named}: "
        f'server.asgi(allowed_origins=["{named}"])'
    )


def _suggestion(header: bytes, *, has_scheme: bool) -> str | None:
    """Return the value of a header if it is a good entry of the option."""
    text = _decode(header).lower()
    if has_scheme and text in _BARE_ORIGINS:
        return text
    found = re.fullmatch(_ENTRY, text) if len(text) <= _MAX_HOST_LENGTH and "*" not in text else None
    return text if found is not None and (found["scheme"] is not None) == has_scheme else None


# Several processes without shared storage

SHARING_ADVICE = (
    "run one process, use a proxy with sticky sessions, or share one engine, such as "
    'Server(storage=Sqlite("notes.db"))'
)

# Modules of process managers that run an app in several processes.
_PROCESS_MANAGERS = frozenset({"uvicorn.supervisors.multiprocess", "gunicorn.arbiter"})

_warning = threading.Lock()
_has_warned = False


def warn_of_workers(*, is_shared: bool, is_stateless: bool) -> None:
    """Log once for all workers that they share no storage, if there certainly are several.

    That is the case under `uvicorn --workers` and gunicorn, with a server that has sessions in memory.

    Args:
        is_shared: Whether the storage is shared.
        is_stateless: Whether there are no sessions.
    """
    global _has_warned  # noqa: PLW0603 - workers belong to the process, and so does this
    if is_shared or is_stateless or _PROCESS_MANAGERS.isdisjoint(sys.modules):
        return
    count, is_first = _workers()
    with _warning:
        if count < 2 or not is_first or _has_warned:
            return
        _has_warned = True
    logging.getLogger(__name__).warning(
        "%d worker processes serve clients without a shared engine. Answers of clients can reach a "
        "process that did not send the request, and changes, subscriptions and ends of sessions are only "
        "known to one process. To avoid this, %s",
        count,
        SHARING_ADVICE,
    )


def _workers() -> tuple[int, bool]:
    """Return the number of workers, and whether this is the first one, by the process manager on the call stack."""
    import inspect
    import multiprocessing

    frame: FrameType | None = inspect.currentframe()
    is_worker = False
    while frame is not None:
        module = frame.f_globals.get("__name__")
        is_worker = is_worker or module == "uvicorn.supervisors.multiprocess"
        if is_worker and module == "uvicorn._subprocess":
            config: Any = frame.f_locals.get("config")
            return getattr(config, "workers", 0) or 0, multiprocessing.current_process().name.endswith("-1")
        if module == "gunicorn.arbiter":
            arbiter: Any = frame.f_locals.get("self")
            return getattr(arbiter, "num_workers", 0), getattr(arbiter, "worker_age", 0) == 1
        frame = frame.f_back
    return 0, False
