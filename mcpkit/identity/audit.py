"""Audit log of logins, refusals, token refreshes, consents, revocations and cancelled tasks, and its meters."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from .._utils.option_checks import check_hook
from .principals_and_scopes import Principal

if TYPE_CHECKING:
    from ..storage.encryption_keys import Keys

audit_logger = logging.getLogger("mcpkit.audit")
logger = logging.getLogger(__name__)

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
