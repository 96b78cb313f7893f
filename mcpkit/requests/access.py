"""Access checks: the scopes that a request needs, and the challenge for a client that lacks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .._utils.errors import ChallengeError, InsufficientScopeError
from ..identity.scopes import scope_names

if TYPE_CHECKING:
    from .call import Call


class Guarded(Protocol):
    """A component with access rules."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scopes that the caller needs."""
        ...

    @property
    def optional_scopes(self) -> tuple[str, ...]:
        """Scopes that the handler may require while it runs."""
        ...

    @property
    def is_anonymous(self) -> bool:
        """True if the component is open to callers without an access token."""
        ...


def check_access(call: Call, guarded: Guarded) -> None:
    """Reject a request before it runs if its caller may not use the component.

    Raises:
        ChallengeError: The caller must authenticate, or needs more scopes.
        InsufficientScopeError: The caller needs more scopes, and no HTTP status can report it.
    """
    principal = call.channel.principal
    call.needs = guarded.scopes
    if not principal.scopes.issuperset(guarded.scopes):
        raise shortfall(call, guarded.scopes)
    if principal.id is None and call.runtime.is_protected and not guarded.is_anonymous:
        check_identified(call)
    # A channel of the author's own need not know of HTTP.
    if guarded.optional_scopes and (defer := getattr(call.channel, "defer_response", None)) is not None:
        defer()


def check_identified(call: Call) -> None:
    """Reject a request without an access token to a protected server, unless the channel has none.

    Raises:
        ChallengeError: The caller must authenticate.
    """
    channel = call.channel
    # A channel of the author's own, on which a call goes on alone, need not know of access tokens.
    if getattr(channel, "is_local", False):
        return
    raise _challenge(call, ()) or ChallengeError(401, "Bearer", "this request needs an access token")


def require(call: Call, scopes: Sequence[str]) -> None:
    """Raise an error unless the caller has been granted the scopes; see `Context.require_scopes`."""
    call.check_open()
    needed = scope_names("ctx.require_scopes", scopes)
    call.runtime.scopes.check("ctx.require_scopes needs", needed)
    if not call.channel.principal.scopes.issuperset(needed):
        raise shortfall(call, (*call.needs, *needed))


def shortfall(call: Call, scopes: Sequence[str]) -> Exception:
    """Return the error for missing scopes: a challenge, as long as the client may repeat the request."""
    needed = call.runtime.scopes.reduced(scopes)
    has_effects = call.dialogue is not None and call.dialogue.has_done
    challenge = None if has_effects else _challenge(call, needed)
    if challenge is not None:
        return challenge
    call.runtime.audit.emit("refusal", call.channel.principal, reason="insufficient_scope", scopes=needed)
    return InsufficientScopeError(needed, f'Bearer error="insufficient_scope", scope="{" ".join(needed)}"')


def _challenge(call: Call, scopes: Sequence[str]) -> ChallengeError | None:
    challenge = getattr(call.channel, "challenge", None)
    return None if challenge is None else challenge(scopes, call.revision)
