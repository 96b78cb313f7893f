"""Options of a server in groups: limits, timeouts, HTTP, and options that few servers change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ._utils.option_checks import check_count, check_seconds, unknown_option
from .identity.principals_and_scopes import Principal
from .protocol.revisions import CACHEABLE, SERVER_CAPABILITIES, CacheHint

MIB = 1024 * 1024

FindPrincipal = Callable[[MutableMapping[str, Any]], Principal | Awaitable[Principal | None] | None]
"""Returns the principal of an HTTP request from its ASGI scope, or None; may raise a `ChallengeError`."""


class Options:
    """Base class of option groups. An unknown option is a `TypeError` that suggests the right one."""

    if not TYPE_CHECKING:

        def __new__(cls, *_: object, **options: object) -> Options:
            """Refuse options that the group does not have."""
            known = cls.__dataclass_fields__
            for name in options:
                if name not in known:
                    raise TypeError(unknown_option(f"{cls.__name__}()", name, known))
            return super().__new__(cls)

    # Written once: dataclasses would compile them for each class at every start.

    def __repr__(self) -> str:
        """Return the call that makes the same options."""
        return (
            f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
        )

    def __eq__(self, other: object) -> bool:
        """Compare the options with others of the same class."""
        return type(other) is type(self) and vars(other) == vars(self)

    def __hash__(self) -> int:
        """Hash the values."""
        return hash(tuple(vars(self).values()))


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Limits(Options):
    """Upper bounds of a server: `Server("notes", limits=Limits(concurrent_requests=4096))`.

    Attributes:
        worker_threads: Threads for functions that are not `async`.
        abandoned_threads: Threads that may still run functions after their calls were cancelled or timed out. With
            more, calls that need a thread are refused.
        worker_processes: Processes for functions with `run_in="process"`; None for one per processor.
        concurrent_requests: Requests that run at a time in one process. More are refused. Over HTTP one client (a
            principal, or an IP address) gets at most half of them.
        page_size: Entries in one page of a list; None sends a list in one page.
        max_message_size: Bytes of one message over stdio.
        max_request_body_size: Bytes in the body of one HTTP request.
        max_buffered_bytes: Bytes of HTTP request bodies that one process reads at a time. A body that arrives alone
            is always read.
        max_sessions: Open sessions in one process (protocol versions with `initialize`).
        max_streams: Open event streams for change notifications in one process.
        replay_buffer_bytes: Bytes of events that one process keeps for clients that resume a stream
            (`Last-Event-ID`), one sixteenth of them for each session; 0 keeps none.

    Raises:
        TypeError: There is no such option, or it is not a whole number.
        ValueError: A number is too small.
    """

    worker_threads: int = 40
    abandoned_threads: int = 40
    worker_processes: int | None = None
    concurrent_requests: int = 1024
    page_size: int | None = None
    max_message_size: int = 64 * MIB
    max_request_body_size: int = 4 * MIB
    max_buffered_bytes: int = 256 * MIB
    max_sessions: int = 10_000
    max_streams: int = 10_000
    replay_buffer_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value in vars(self).items():
            none = {"worker_processes": "one per processor", "page_size": "one page"}.get(name, "")
            is_size = name.endswith(("_size", "_bytes")) and name != "page_size"
            check_count(
                f"Limits({name}=...)",
                value,
                least=0 if name in {"abandoned_threads", "replay_buffer_bytes"} else 1,
                none=none,
                example=" of bytes, such as 4 * 1024 * 1024" if is_size else "",
            )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Timeouts(Options):
    """Time limits of a server, in seconds: `Server("notes", timeouts=Timeouts(call=30, shutdown=20))`.

    `timeouts=30` is short for `timeouts=Timeouts(call=30)`.

    Attributes:
        call: How long a call of a tool, resource or prompt may take that has no `timeout=` of its own; None for no
            limit.
        client_request: How long a client may take to answer a request of the server (elicitation, sampling, roots).
        startup: How long requests wait for the lifespan, which may register components; None for no limit. After it,
            clients get the components that exist, and a notification when the others are registered. Requests that
            need the state of the lifespan keep waiting.
        request_body: How long the body of an HTTP request may take to arrive.
        session_idle: How long a session lives without a request.
        session_max_age: How long a session lives in any case.
        shutdown: How long running calls may take when the process is stopped, or when standard input ends. Over
            HTTP, None waits without limit.

    Raises:
        TypeError: There is no such option, or it is not a number.
        ValueError: A number is negative, zero where that is not allowed, or not finite.
    """

    call: float | None = None
    client_request: float = 600
    startup: float | None = 5
    request_body: float = 10
    session_idle: float = 3600
    session_max_age: float = 86_400
    shutdown: float | None = 10

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, value in vars(self).items():
            check_seconds(
                f"Timeouts({name}=...)",
                value,
                may_be_zero=name in {"startup", "shutdown"},
                may_be_none=name in {"call", "startup", "shutdown"},
            )

    @classmethod
    def of(cls, value: Timeouts | float | None) -> Timeouts:
        """Return the value of the option `timeouts=`, where a number is the time limit of calls."""
        return value if isinstance(value, Timeouts) else Timeouts(call=value)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class HttpOptions(Options):
    """Options of the HTTP transport that few deployments change: `server.asgi(http=HttpOptions(sse=False))`.

    Attributes:
        sse: Whether the HTTP+SSE transport of 2024-11-05 is served too, at `/sse` and `/messages`.
        cors: Whether browsers may read responses, for pages of the allowed origins.
        readiness_path: Path of the readiness probe: 200, or 503 at start, at shutdown, and while the storage does not
            answer. None for no probe.
        liveness_path: Path of the liveness probe, which answers as long as the process lives. None for no probe.
        principal: The user of a request: a function of its ASGI scope, async or not, which may raise a
            `ChallengeError`; or one `Principal` for all requests. None takes `scope["user"]` and `scope["auth"]`, as
            Starlette's AuthenticationMiddleware in front of the app sets them. Over stdio, a `Principal` is the user
            of the host.
        sse_after: Seconds after which a response becomes an event stream. None is 1 in sessions, 10 without one.
        sse_ping_interval: Seconds without an event after which a comment is sent on an event stream.

    Raises:
        TypeError: There is no such option, or it has the wrong type.
        ValueError: A value is out of range, or a path does not begin with a slash.
    """

    sse: bool = True
    cors: bool = True
    readiness_path: str | None = None
    liveness_path: str | None = None
    principal: Principal | FindPrincipal | None = None
    sse_after: float | None = None
    sse_ping_interval: float = 15

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("sse", "cors"):
            check_bool(f"HttpOptions({name}=...)", getattr(self, name))
        for name in ("readiness_path", "liveness_path"):
            if (path := getattr(self, name)) is not None:
                check_path(f"HttpOptions({name}=...)", path)
        if not (self.principal is None or isinstance(self.principal, Principal) or callable(self.principal)):
            raise TypeError(
                "HttpOptions(principal=...) must be a function of the ASGI scope that returns a Principal or None, or "
                f"a Principal, got {self.principal!r}"
            )
        check_seconds("HttpOptions(sse_after=...)", self.sse_after, may_be_zero=True, may_be_none=True)
        check_seconds("HttpOptions(sse_ping_interval=...)", self.sse_ping_interval)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ServerOptions(Options):
    """Options of a server that few authors change: `Server("notes", options=ServerOptions(encrypt_state=True))`.

    Attributes:
        capabilities: Capabilities to declare before a component needs them: `tools`, `resources`, `prompts`,
            `completions`, `logging`. Those of registered components are always declared.
        cache: How long clients may reuse results, by method, such as `{"tools/list": CacheHint(ttl=300)}`
            (utilities/caching). By default lists are public, contents are private, and both are stale at once.
        encrypt_state: Whether the `requestState` that clients carry between requests is encrypted, and not only
            signed. Needs the extra `crypto`.
        single_use_state: Whether each `requestState` is accepted once. Several processes need `Server(storage=...)`
            for it.
        unknown_arguments: `forbid` refuses arguments that a tool does not have and names the right one; `ignore` drops
            them.
        on_duplicate: `error` refuses a second component of the same name or URI; `replace` lets it replace the first.

    Raises:
        TypeError: There is no such option, or it has the wrong type.
        ValueError: A value is unknown.
    """

    capabilities: Collection[str] = ()
    cache: Mapping[str, CacheHint] = field(default_factory=dict[str, CacheHint])
    encrypt_state: bool = False
    single_use_state: bool = False
    unknown_arguments: Literal["forbid", "ignore"] = "forbid"
    on_duplicate: Literal["error", "replace"] = "error"

    def __post_init__(self) -> None:
        """Check the values."""
        if isinstance(self.capabilities, str):
            raise TypeError(
                f"ServerOptions(capabilities=...) must be a set such as {{{self.capabilities!r}}}, "
                f"got {self.capabilities!r}"
            )
        _check_known("capabilities", self.capabilities, SERVER_CAPABILITIES)
        _check_known("cache", self.cache, sorted(CACHEABLE))
        for name in ("encrypt_state", "single_use_state"):
            check_bool(f"ServerOptions({name}=...)", getattr(self, name))
        _check_known("unknown_arguments", [self.unknown_arguments], ("forbid", "ignore"))
        _check_known("on_duplicate", [self.on_duplicate], ("error", "replace"))


class TaskOptions(NamedTuple):
    """Options of tasks: `Server(tasks=TaskOptions(by="workers", slots=4))`.

    Attributes:
        by: Processes that run tasks: `replicas`, each server process; or `workers`, only those that
            `mcpkit worker server:server` starts.
        slots: Number of tasks that one process runs at a time.
        lease: Seconds after which another process takes over the task of a process that ended.
        max_open_per_owner: Maximum number of open tasks of a principal; over HTTP without login, of an IP address.
        max_open: Maximum number of open tasks in all.
    """

    by: Literal["replicas", "workers"] = "replicas"
    slots: int = 8
    lease: float = 30.0
    max_open_per_owner: int = 100
    max_open: int = 10_000


def task_options(tasks: object) -> TaskOptions:
    """Return the checked value of `Server(tasks=...)`.

    Raises:
        TypeError: It has the wrong type.
        ValueError: An option is out of range.
    """
    if tasks is None:
        return TaskOptions()
    if tasks in ("workers", "replicas"):
        return TaskOptions(by="workers" if tasks == "workers" else "replicas")
    if not isinstance(tasks, TaskOptions):
        raise TypeError(f'tasks must be "workers", "replicas" or TaskOptions(...), got {tasks!r}')
    if tasks.by not in {"replicas", "workers"}:
        raise ValueError(f'TaskOptions(by=...) must be "replicas" or "workers", got {tasks.by!r}')
    check_count("TaskOptions(slots=...)", tasks.slots)
    check_seconds("TaskOptions(lease=...)", tasks.lease)
    check_count("TaskOptions(max_open_per_owner=...)", tasks.max_open_per_owner)
    check_count("TaskOptions(max_open=...)", tasks.max_open)
    return tasks


def check_group(name: str, value: object, group: type[Options]) -> None:
    """Check that an option is a group of options.

    Raises:
        TypeError: It is not an instance of the group.
    """
    if not isinstance(value, group):
        raise TypeError(f"{name} must be {group.__name__}(...), got {value!r}")


def check_bool(name: str, value: object) -> None:
    """Check a boolean option.

    Raises:
        TypeError: It is neither True nor False.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_path(name: str, path: object) -> None:
    """Check the path of a URL.

    Raises:
        TypeError: It is not a string.
        ValueError: It does not begin with a slash.
    """
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a path such as '/mcp', got {path!r}")
    if not path.startswith("/"):
        raise ValueError(f"{name} must begin with a slash, such as '/mcp', got {path!r}")


def _check_known(name: str, values: Collection[str], known: Collection[str]) -> None:
    for value in values:
        if value not in known:
            raise ValueError(
                f"ServerOptions({name}=...): unknown value {value!r}; expected one of {', '.join(known)}"
            )
