"""Access of a request: the scopes that it needs, challenges for its client, and tokens of the user elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from .._utils.exceptions import ChallengeError, InsufficientScopeError, LoginNeededError, RegistrationError
from ..identity.principals_and_scopes import scope_names

if TYPE_CHECKING:
    from ..auth.verifier import VerifierContext
    from .request_record import Call, Runtime


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
    # A channel for `Request.detach` may be a class of the author's, without the members for HTTP.
    if guarded.optional_scopes and (defer := getattr(call.channel, "defer_response", None)) is not None:
        defer()


def check_identified(call: Call) -> None:
    """Reject a request without an access token to a protected server, unless the channel has none.

    Raises:
        ChallengeError: The caller must authenticate.
    """
    if not getattr(call.channel, "is_local", False):  # see `check_access`
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
    challenge = None if _has_effects(call) else _challenge(call, needed)
    if challenge is not None:
        return challenge
    call.runtime.audit.emit("refusal", call.channel.principal, reason="insufficient_scope", scopes=needed)
    return InsufficientScopeError(needed, f'Bearer error="insufficient_scope", scope="{" ".join(needed)}"')


def _has_effects(call: Call) -> bool:
    return call.dialogue is not None and call.dialogue.has_done


def _challenge(call: Call, scopes: Sequence[str]) -> ChallengeError | None:
    challenge = getattr(call.channel, "challenge", None)
    return None if challenge is None else challenge(scopes, call.revision)


# Access tokens of users for other services, from the provider of their login


async def token_for(call: Call, provider: str) -> str:
    """Return the access token of the caller at a provider; see `Context.upstream_token`."""
    call.check_open()
    auth = call.runtime.auth
    if auth is None or not auth.providers:
        raise RegistrationError(
            f"ctx.upstream_token({provider!r}): this server stores no tokens of an upstream provider. Log users in "
            "through one, for example Server(auth=OAuthProxy(UpstreamProvider.github(...)))"
        )
    if provider not in auth.providers:
        known = " or ".join(map(repr, auth.providers))
        raise RegistrationError(
            f"ctx.upstream_token({provider!r}): unknown provider. Users of this server log in with {known}"
        )
    if call.principal.id is None:
        raise LoginNeededError(provider)
    try:
        return await auth.token_for(call.principal, provider, verifier_context(call.runtime))
    except LoginNeededError as error:
        # The challenge makes the client log in again and repeat the request, if it can be repeated.
        dismissal = getattr(call.channel, "dismissal", None)
        if not error.has_ended or dismissal is None or _has_effects(call):
            raise error from None
        raise dismissal() or error from None


def verifier_context(runtime: Runtime) -> VerifierContext:
    """Return the name, keys, storage and audit log of a server, for its token verifier."""
    from ..auth.verifier import VerifierContext

    return VerifierContext(runtime.name, runtime.keys, runtime.storage, runtime.audit)
