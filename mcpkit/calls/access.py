"""Who may use what: scopes that a request needs, and how whoever lacks them is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..common.errors import ChallengeError, InsufficientScopeError
from ..state.scopes import scope_names

if TYPE_CHECKING:
    from .call import Call


class Guarded(Protocol):
    """What not everybody may use."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """What whoever uses it must have been granted."""
        ...

    @property
    def optional_scopes(self) -> tuple[str, ...]:
        """What it may ask for in its midst."""
        ...

    @property
    def is_anonymous(self) -> bool:
        """Whether nobody need say who they are."""
        ...


def check_access(call: Call, guarded: Guarded) -> None:
    """Refuse whoever may not use what a request is about, before it runs.

    Raises:
        ChallengeError: They have to say who they are, or to be granted more.
        InsufficientScopeError: They have to be granted more, and that cannot be said by a status of HTTP.
    """
    principal = call.channel.principal
    call.needs = guarded.scopes
    if not principal.scopes.issuperset(guarded.scopes):
        raise shortfall(call, guarded.scopes)
    if principal.id is None and call.runtime.is_protected and not guarded.is_anonymous:
        check_identified(call)
    if guarded.optional_scopes and (hold := getattr(call.channel, "hold", None)) is not None:
        hold()


def check_identified(call: Call) -> None:
    """Refuse whoever does not say who they are, as far as the channel wants it; of a protected server's requests.

    Raises:
        ChallengeError: They have to.
    """
    channel = call.channel
    # A channel of the author's own, on which a call goes on alone, need not know of access tokens.
    if getattr(channel, "is_local", False):
        return
    raise _challenge(call, ()) or ChallengeError(401, "Bearer", "this request needs an access token")


def require(call: Call, scopes: Sequence[str]) -> None:
    """Refuse to go on unless whoever asks has been granted scopes; see `Context.require`."""
    call.check_open()
    needed = scope_names("ctx.require_scopes", scopes)
    call.runtime.scopes.check("ctx.require_scopes needs", needed)
    if not call.channel.principal.scopes.issuperset(needed):
        raise shortfall(call, (*call.needs, *needed))


def shortfall(call: Call, scopes: Sequence[str]) -> Exception:
    """Return what is raised where scopes lack: a challenge, as long as the client may repeat the request."""
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
