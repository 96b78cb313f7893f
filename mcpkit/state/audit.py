"""What somebody may have to account for: who logs in, is refused, gets more, is sent away, and cancels a task."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from time import monotonic
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from ..common.functions import check_hook
from .principal import Principal

if TYPE_CHECKING:
    from .keys import Keys
    from .meter import AuditMeter

logger = logging.getLogger("mcpkit.audit")

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
"""What happens: see `AuditEvent`."""

WINDOW = 60.0  # seconds
MOST_OF_ONE, MOST_OF_ALL = 5, 100
"""Maximum events per window that unauthenticated clients can cause: for one principal or address, and for all."""
_BY_ANYBODY = frozenset({"refusal", "registration"})

_LONGEST = 200
"""Maximum characters of a value from a client, to keep events readable."""


class AuditEvent(NamedTuple):
    """Something to account for, with neither a token, an argument, an e-mail address nor a claim.

    Attributes:
        name: What: `login` (a token of somebody who had none here yet, or an authorization server has let somebody in),
            `refusal` (a request was refused), `step_up` (somebody who had been refused came back with the scopes),
            `refresh` (a client got a new token for an old one), `revocation` (somebody was sent away), `adoption`
            (somebody who had not said who they are did so in the midst of a session), `cancellation` (whoever has a
            task cancelled it), `consent` (somebody at a browser has answered what a client asks: `detail` says how),
            or `registration` (a client has registered itself).
        principal: Who, as `server.on_audit.name_of` has it; None for nobody.
        client_id: The OAuth client.
        issuer: Who has said so.
        status: The status of a refusal over HTTP; None where it was a result.
        reason: Why a request was refused: `no_token`, `invalid_request`, `invalid_token`, `insufficient_scope`,
            `too_many`, `unavailable` where nobody could tell who asks, or `failed`.
        detail: The same in words; of a cancellation, of which tool the task was; of a consent, `allowed`,
            `denied` or `remembered` (they were not asked again), and to where the user is sent back.
        scopes: Those that were missing, or have been granted.
        resource: The URL that was asked for.
        caller: The address that a refused request, or a registration, came from, of IPv6 the network; None where only a
            proxy is known.
        untold: How many refusals and registrations before this one have been told nobody, since there were too many.
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
    untold: int = 0


_FACTS = tuple(AuditEvent.__annotations__)

AuditHook = Callable[[AuditEvent], object]
"""Receives an audit event."""

H = TypeVar("H", bound=AuditHook)


class AuditLog:
    """Tells of events: the logger `mcpkit.audit` at INFO, and whoever is under `@server.on_audit`.

    A record has what is in the event in its attributes as well: `mcp_event`, `mcp_principal`, `mcp_client_id`,
    `mcp_issuer`, `mcp_status`, `mcp_reason`, `mcp_detail`, `mcp_scopes`, `mcp_resource`, `mcp_caller`, `mcp_untold`.

    Of refusals, which anybody can cause, 5 of one principal or address and 100 of all are told in a minute, and as many
    registrations; the first one after them says how many there were besides.

    Args:
        keys: Returns what the ids of some are hidden with; see `name_of`.
        clock: The time, in seconds.

    Attributes:
        hooks: The functions, in the order of registration.
        meters: What measures.
        known_tokens: How many requests have come with a token that had been verified before.
        name_of: Returns how a principal is named in events, such as a hash of their id. By default that is the id; but
            what looks like an e-mail address in it is a keyed hash, the same as long as the server's secret is.
    """

    def __init__(self, keys: Callable[[], Keys], clock: Callable[[], float] = monotonic) -> None:
        self._keys = keys
        self._clock = clock
        self.hooks: tuple[AuditHook, ...] = ()
        self.meters: tuple[AuditMeter, ...] = ()
        self.known_tokens = 0
        self.name_of: Callable[[Principal], str | None] = lambda principal: self._safe(principal.id)
        self._window = 0.0  # when it ends
        self._told: dict[tuple[EventName, str], int] = {}
        self._told_in_all: dict[EventName, int] = {}
        self._untold = 0

    def __call__(self, hook: H, /) -> H:
        """Register a hook: `@server.on_audit`.

        It is called where the event happens, mostly in the event loop, so that it must not block. What it raises is
        logged, and changes nothing.

        Returns:
            The function unchanged.

        Raises:
            RegistrationError: It is no function of one argument, or it is async.
        """
        check_hook(hook, "on_audit", "AuditEvent", "the audit does not await it")
        self.hooks = (*self.hooks, hook)
        return hook

    def measure_by(self, meters: Collection[AuditMeter]) -> None:
        """Tell these of what takes time, and nobody else."""
        for each in meters:
            if each not in self.meters:
                each.attach(lambda: self.known_tokens)
        self.meters = tuple(meters)

    def tell(
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
        """Tell of an event; quick where nobody listens.

        Args:
            name: What happens.
            principal: Who.
            status: The status of a refusal; None where it is a result.
            reason: The kind of reason for a refusal; see `AuditEvent`.
            detail: Why in words, with nothing of a token in it.
            scopes: Those that were missing, or have been granted.
            resource: The URL that was asked for.
            caller: Where a refused request, or a registration, came from.
        """
        if name == "refusal":
            for meter in self.meters:
                meter.refused(status, reason or "failed")
        is_logged = logger.isEnabledFor(logging.INFO)
        if not (is_logged or self.hooks):
            return
        untold = 0
        if name in _BY_ANYBODY:
            source = caller if principal is None or principal.id is None else principal.id
            if not self._is_told(name, source or ""):
                return
            untold, self._untold = self._untold, 0
        event = AuditEvent(
            name,
            None if principal is None or principal.id is None else self._named(principal),
            None if principal is None else self._safe(principal.client_id),
            None if principal is None else principal.issuer,
            status,
            reason,
            None if detail is None else detail[:_LONGEST],
            tuple(sorted(scope[:_LONGEST] for scope in scopes)),
            resource,
            caller,
            untold,
        )
        if is_logged:
            facts = dict(zip(_FACTS, event, strict=True))
            # With repr, nothing that a client says can look like a line of its own.
            said = "".join(f" {key}={value!r}" for key, value in facts.items() if value and key != "name")
            extra = {f"mcp_{key}": value for key, value in facts.items() if key != "name"}
            logger.info("%s%s", name, said, extra={"mcp_event": name, **extra})
        for hook in self.hooks:
            try:
                hook(event)
            except Exception:
                logging.getLogger(__name__).exception("the audit hook %r raised an exception", hook)

    def _is_told(self, name: EventName, source: str) -> bool:
        now = self._clock()
        if now >= self._window:
            self._window = now + WINDOW
            self._told_in_all.clear()
            self._told.clear()
        count, in_all = self._told.get((name, source), 0), self._told_in_all.get(name, 0)
        if count >= MOST_OF_ONE or in_all >= MOST_OF_ALL:
            self._untold += 1
            return False
        self._told[name, source] = count + 1
        self._told_in_all[name] = in_all + 1
        return True

    def _named(self, principal: Principal) -> str | None:
        try:
            return self.name_of(principal)
        except Exception:
            logging.getLogger(__name__).exception(
                "the function given as name_of= of the audit raised an exception; the event is recorded "
                "without a name"
            )
            return None

    def _safe(self, text: str | None) -> str | None:
        """Return what names somebody; a hash in place of what may be an e-mail address, or cannot be read."""
        if text is None or ("@" not in text and len(text) <= _LONGEST and text.isprintable()):
            return text
        issuer, mark, subject = text.partition("#sub=")
        if "@" in issuer or not mark:
            issuer, mark, subject = "", "", text
        return (
            f"{issuer}{mark}~{self._keys().sign('audit', subject.encode('utf-8', 'surrogatepass'))[:8].hex()}"
        )
