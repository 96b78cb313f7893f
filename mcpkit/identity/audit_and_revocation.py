"""The audit log of logins, refusals, consents and the like, and revocations of principals."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from .._utils.concurrency import Listeners, call_in_loop
from .._utils.exceptions import ProtocolError
from .._utils.option_checks import check_hook
from ..protocol import jsonrpc
from .principals_and_scopes import Principal, digest_of

if TYPE_CHECKING:
    from ..storage.base import Storage
    from ..storage.encryption_keys import Keys

logger = logging.getLogger(__name__)


# Audit log


audit_logger = logging.getLogger("mcpkit.audit")

# Names of audit events; see `AuditEvent`
EventName = Literal[
    "login",
    "refusal",
    "step_up",
    "refresh",
    "revocation",
    "adoption",
    "cancellation",
    "consent",
    "registration",
]

# Unauthenticated clients can cause these events, so they are limited: for one principal or address, and in total.
_LIMITED = frozenset({"refusal", "registration"})
WINDOW = 60.0  # seconds
MAX_PER_SOURCE, MAX_TOTAL = 5, 100  # events in the window
_MAX_LENGTH = 200  # characters of a value from a client, to keep events readable


class AuditEvent(NamedTuple):
    """An audit event. It contains no token, argument, e-mail address or claim.

    Attributes:
        name: What happened: `login` (the first request of a principal with a token, or a login at an authorization
            server of this server), `refusal` (a request was refused), `step_up` (a refused principal returned with the
            missing scopes), `refresh` (a client redeemed a refresh token), `revocation` (access of a principal or a
            grant was revoked), `adoption` (an anonymous session was authenticated), `cancellation` (a principal
            cancelled a task), `consent` (a user answered the consent page; see `detail`), or `registration` (a client
            registered itself).
        principal: Name of the principal, as `server.on_audit.name_of` returns it; None for an anonymous request.
        client_id: The OAuth client ID.
        issuer: The issuer that identified the principal.
        status: HTTP status of a refusal; None where the refusal was an MCP result.
        reason: Why a request was refused: `no_token`, `invalid_request`, `invalid_token`, `insufficient_scope`,
            `too_many`, `unavailable` (the token could not be verified now), or `failed`.
        detail: The reason in words. For a cancellation, the tool of the task. For a consent, `allowed`, `denied` or
            `remembered` (the consent page was skipped), and the host of the redirect URI.
        scopes: The missing scopes of a refusal, or the granted ones.
        resource: The requested URL.
        caller: Address of a refused request or a registration, for IPv6 its network; None where only the address of a
            proxy is known.
        suppressed: Number of refusals and registrations before this one that were not reported, because of the rate
            limit.
    """

    name: EventName
    principal: str | None = None
    client_id: str | None = None
    issuer: str | None = None
    status: int | None = None
    reason: str | None = None
    detail: str | None = None
    scopes: tuple[str, ...] = ()
    resource: str | None = None
    caller: str | None = None
    suppressed: int = 0


AuditHook = Callable[[AuditEvent], object]
H = TypeVar("H", bound=AuditHook)


class AuditLog:
    """Audit log of a server, with hooks: `@server.on_audit`.

    It sends each event to the logger `mcpkit.audit` at level INFO, and to the hooks.

    A log record has the fields of the event as attributes: `mcp_event`, `mcp_principal`, `mcp_client_id`, `mcp_issuer`,
    `mcp_status`, `mcp_reason`, `mcp_detail`, `mcp_scopes`, `mcp_resource`, `mcp_caller`, `mcp_suppressed`.

    Unauthenticated clients can cause refusals and registrations. At most 5 refusals of one principal or address and 100
    in total are reported per minute, and as many registrations. The next event has the number of suppressed ones.

    Args:
        keys: Returns the keys that hash e-mail addresses in IDs; see `name_of`.
        clock: Returns the time in seconds.

    Attributes:
        hooks: The registered functions, in order of registration.
        meters: The meters that receive measurements.
        known_tokens: Number of requests with a token that was verified before.
        name_of: Function that returns the name of a principal in events, such as a hash of the ID. By default it
            returns the ID, with a keyed hash in place of anything that looks like an e-mail address. The hash is stable
            as long as the secret of the server is.
    """

    def __init__(self, keys: Callable[[], Keys], clock: Callable[[], float] = monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self.hooks: tuple[AuditHook, ...] = ()
        self.meters: tuple[AuditMeter, ...] = ()
        self.known_tokens = 0
        self.name_of: Callable[[Principal], str | None] = lambda principal: self._safe(principal.id)
        self._window_end = 0.0
        self._counts: Counter[tuple[EventName, str]] = Counter()  # in the window, by source
        self._totals: Counter[EventName] = Counter()  # in the window
        self._suppressed = 0

    def __call__(self, hook: H, /) -> H:
        """Register a hook: `@server.on_audit`.

        The hook is called where the event happens, usually in the event loop, so it must not block. Its exceptions are
        logged and have no other effect.

        Returns:
            The function unchanged.

        Raises:
            RegistrationError: The hook is not a function of one argument, or is async.
        """
        check_hook(hook, "on_audit", "AuditEvent", "the audit does not await it")
        self.hooks = (*self.hooks, hook)
        return hook

    def set_meters(self, meters: Collection[AuditMeter]) -> None:
        """Replace the meters that receive measurements.

        Args:
            meters: The meters. Each new one is attached first.
        """
        for each in meters:
            if each not in self.meters:
                each.attach(lambda: self.known_tokens)
        self.meters = tuple(meters)

    def emit(
        self,
        name: EventName,
        principal: Principal | None = None,
        *,
        status: int | None = None,
        reason: str | None = None,
        detail: str | None = None,
        scopes: Collection[str] = (),
        resource: str | None = None,
        caller: str | None = None,
    ) -> None:
        """Emit an event to the logger and the hooks.

        It returns at once if the logger is off and no hook is registered.

        Args:
            name: Name of the event.
            principal: The principal that the event is about.
            status: HTTP status of a refusal; None where the refusal is an MCP result.
            reason: Reason of a refusal; see `AuditEvent`.
            detail: The reason in words, without any part of a token.
            scopes: The missing scopes of a refusal, or the granted ones.
            resource: The requested URL.
            caller: Address of a refused request or a registration.
        """
        if name == "refusal":
            for meter in self.meters:
                meter.refused(status, reason or "failed")
        is_logged = audit_logger.isEnabledFor(logging.INFO)
        if not (is_logged or self.hooks):
            return
        principal_id = None if principal is None else principal.id
        suppressed = 0
        if name in _LIMITED:
            if not self._is_within_limits(name, principal_id or caller or ""):
                self._suppressed += 1
                return
            suppressed, self._suppressed = self._suppressed, 0
        event = AuditEvent(
            name,
            None if principal is None or principal_id is None else self._name_of(principal),
            None if principal is None else self._safe(principal.client_id),
            None if principal is None else principal.issuer,
            status,
            reason,
            None if detail is None else detail[:_MAX_LENGTH],
            tuple(sorted(scope[:_MAX_LENGTH] for scope in scopes)),
            resource,
            caller,
            suppressed,
        )
        if is_logged:
            fields = event._asdict()
            del fields["name"]
            # With repr, no value of a client can look like a log line of its own.
            text = "".join(f" {key}={value!r}" for key, value in fields.items() if value)
            extra = {f"mcp_{key}": value for key, value in fields.items()}
            audit_logger.info("%s%s", name, text, extra={"mcp_event": name, **extra})
        for hook in self.hooks:
            try:
                hook(event)
            except Exception:
                logger.exception(
                    "the audit hook %r raised an exception, so it missed an event. Correct the hook", hook
                )

    def _is_within_limits(self, name: EventName, source: str) -> bool:
        now = self._clock()
        if now >= self._window_end:
            self._window_end = now + WINDOW
            self._totals.clear()
            self._counts.clear()
        if self._counts[name, source] >= MAX_PER_SOURCE or self._totals[name] >= MAX_TOTAL:
            return False
        self._counts[name, source] += 1
        self._totals[name] += 1
        return True

    def _name_of(self, principal: Principal) -> str | None:
        try:
            return self.name_of(principal)
        except Exception:
            logger.exception(
                "the function given as name_of= of the audit raised an exception; the event is recorded "
                "without a name. Correct the function"
            )
            return None

    def _safe(self, text: str | None) -> str | None:
        """Return an ID for the log, with a keyed hash in place of an e-mail address or unprintable text."""
        if text is None or ("@" not in text and len(text) <= _MAX_LENGTH and text.isprintable()):
            return text
        issuer, mark, subject = text.partition("#sub=")
        if "@" in issuer or not mark:
            issuer, mark, subject = "", "", text
        digest = self._keys().sign("audit", subject.encode("utf-8", "surrogatepass"))[:8]
        return f"{issuer}{mark}~{digest.hex()}"


# Meters

# The meters of the request that is being authenticated, and of the tasks that it starts
measuring: ContextVar[tuple[AuditMeter, ...]] = ContextVar("measuring", default=())


class AuditMeter:
    """Base class of meters of authorization. Its methods do nothing.

    A middleware that derives from it receives the measurements, as `Telemetry` does. The methods are called in the
    event loop, so they must not block.
    """

    def attach(self, known_tokens: Callable[[], int]) -> None:
        """Attach the meter to a server, before its first measurement.

        Args:
            known_tokens: Returns the number of requests with a token that was verified before.
        """

    def verified(self, outcome: str, seconds: float) -> None:
        """Receive the duration of the verification of a new access token.

        Args:
            outcome: `verified`, `invalid`, `unavailable` (the token could not be verified now), or `failed`.
            seconds: Duration in seconds.
        """

    def fetched(self, kind: str, outcome: str, seconds: float) -> None:
        """Receive the duration of a request to an authorization server.

        Args:
            kind: `metadata`, `keys` or `introspection`.
            outcome: `fetched` or `failed`.
            seconds: Duration in seconds.
        """

    def refused(self, status: int | None, reason: str) -> None:
        """Receive a refused request.

        Args:
            status: HTTP status; None where the refusal was an MCP result.
            reason: The reason, as in `AuditEvent`.
        """


@contextmanager
def fetching(kind: str) -> Generator[None]:
    """Measure the duration of a fetch, as a context manager.

    Args:
        kind: Kind of fetch, as in `AuditMeter.fetched`.
    """
    started, outcome = perf_counter(), "failed"
    try:
        yield
        outcome = "fetched"
    finally:
        for meter in measuring.get():
            meter.fetched(kind, outcome, perf_counter() - started)


# Revocations


DEFAULT_TTL = 30 * 24 * 3600.0  # seconds: longer than the lifetime of access tokens
MAX_CACHED_REVOCATIONS = 10_000  # in each process, which reads older ones from the storage
_RETRY_DELAY = 1.0  # seconds until the storage is read again after a failure


class Revocation(NamedTuple):
    """Revocation of a principal.

    Attributes:
        digest: Digest of the principal's id; see `digest_of`.
        at: Time of the revocation, in Unix seconds.
        until: Time until which it is stored, in Unix seconds.
    """

    digest: str
    at: float
    until: float

    def means(self, principal: Principal) -> bool:
        """Return True if it concerns a principal, with any client."""
        return principal.id is not None and digest_of(principal.id) == self.digest

    def covers(self, principal: Principal, issued: float | None) -> bool:
        """Return True if it concerns a principal's token that was issued at that time; None counts as earlier."""
        return (issued is None or issued <= self.at) and self.means(principal)


class Revocations:
    """The revocations of one server, stored under a digest of the principal's id, and published to all processes.

    The verification of a token checks them, so processes that start later know them as well. Running processes receive
    new revocations and end sessions and requests. If messages were missed, they read all stored revocations. All
    methods except `covers`, `latest` and `listen` may be called in any thread.

    Args:
        storage: Storage of the server.
        name: Name of the server.
        clock: Returns the time in Unix seconds.
    """

    def __init__(self, storage: Storage, name: str, clock: Callable[[], float] = time.time) -> None:
        self._storage = storage
        self._topic = f"{name}/revoked"
        self._clock = clock
        self._cache: dict[str, Revocation] = {}  # by digest
        self._listeners: Listeners[[Revocation]] = Listeners()

    async def revoke(self, id_: str, seconds: float | None = None) -> None:
        """Revoke a principal: in this process at once, in others as soon as they receive the message.

        Args:
            id_: Id of the principal.
            seconds: Time for which the revocation is stored; None for 30 days.

        Raises:
            OSError: The storage does not answer. Other processes may not know the revocation.
        """
        seconds = DEFAULT_TTL if seconds is None else seconds
        now = self._clock()
        revocation = Revocation(digest_of(id_), now, now + seconds)
        data = jsonrpc.encode({"who": revocation.digest, "at": revocation.at, "until": revocation.until})
        key, version = f"{self._topic}/{revocation.digest}", None
        while version is None:
            before = await self._storage.get(key)
            before_version = None if before is None else before.version
            version = await self._storage.put(key, data, version=before_version, ttl=seconds)
        self._add(revocation)
        await self._storage.publish(self._topic, data.decode())

    async def latest(self, id_: str) -> float:
        """Return the time of a principal's latest revocation, in Unix seconds; minus infinity if there is none.

        Raises:
            OSError: The storage does not answer.
        """
        digest = digest_of(id_)
        stored = await self._storage.get(f"{self._topic}/{digest}")
        stored_at = -math.inf if stored is None else _read(stored.value).at
        cached = self._cache.get(digest)  # after the storage, because a message may arrive meanwhile
        return stored_at if cached is None or cached.until <= self._clock() else max(stored_at, cached.at)

    async def covers(self, principal: Principal, issued: float | None) -> bool:
        """Return True if an access token was issued before its principal was revoked.

        Args:
            principal: Principal of the token.
            issued: Time of issue in Unix seconds; None if unknown, which counts as earlier.

        Raises:
            OSError: The storage does not answer.
        """
        if principal.id is None:
            return False
        at = await self.latest(principal.id)
        return at > -math.inf and (issued is None or issued <= at)

    def covers_cached(self, principal: Principal, issued: float | None) -> bool:
        """Return the same from the revocations that this process has received, without the storage."""
        if not self._cache or principal.id is None:
            return False
        cached = self._cache.get(digest_of(principal.id))
        return cached is not None and cached.until > self._clock() and (issued is None or issued <= cached.at)

    def listen(self, listener: Callable[[Revocation], None]) -> Callable[[], None]:
        """Call a function with each revocation from now on, of any process, in any thread.

        Args:
            listener: Receives each revocation.

        Returns:
            A function that ends it.
        """
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()

        def read_all() -> None:
            task = loop.create_task(self._read_all())
            tasks.add(task)
            task.add_done_callback(tasks.discard)

        remove = self._listeners.add(listener)
        missed = partial(call_in_loop, loop, read_all)
        unsubscribe = self._storage.subscribe(self._topic, self._receive, missed)

        def end() -> None:
            remove()
            unsubscribe()
            for task in tasks:
                task.cancel()

        return end

    async def _read_all(self) -> None:
        """Read all stored revocations, after messages were missed."""
        while True:
            try:
                async for _, stored in self._storage.items(f"{self._topic}/"):
                    self._add(_read(stored.value))
            except OSError:
                logger.exception(
                    "the shared store does not answer: the list of revoked users could not be read; mcpkit tries again"
                )
                await asyncio.sleep(_RETRY_DELAY)
            else:
                return

    def _receive(self, message: str) -> None:
        try:
            revocation = _read(message.encode())
        except (ProtocolError, TypeError, KeyError, ValueError):
            logger.warning(
                "the shared store delivered a message that is not a revocation; it is ignored. Check "
                "that no other program writes to the store: %.200r",
                message,
            )
        else:
            self._add(revocation)

    def _add(self, revocation: Revocation) -> None:
        known = self._cache.get(revocation.digest)
        if known is not None and known.at >= revocation.at:
            return
        self._cache.pop(revocation.digest, None)  # the new one comes last, as the newest
        while len(self._cache) >= MAX_CACHED_REVOCATIONS:
            self._cache.pop(next(iter(self._cache)), None)
        self._cache[revocation.digest] = revocation
        self._listeners.notify(revocation)


def _read(data: bytes) -> Revocation:
    record = jsonrpc.decode(data)
    return Revocation(str(record["who"]), float(record["at"]), float(record["until"]))
