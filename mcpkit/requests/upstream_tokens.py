"""Access tokens of users for other services, from the provider of their login."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._utils.errors import ChallengeError, LoginNeededError, RegistrationError

if TYPE_CHECKING:
    from ..auth.verifier import VerifierContext
    from .call import Call
    from .runtime import Runtime


async def token_for(call: Call, provider: str) -> str:
    """Return the access token of the caller at a provider; see `Context.upstream_token`."""
    call.check_open()
    auth = call.runtime.auth
    if auth is None or provider not in auth.providers:
        raise RegistrationError(_unknown(provider, () if auth is None else auth.providers))
    if call.principal.id is None:
        raise LoginNeededError(provider)
    try:
        return await auth.token_for(call.principal, provider, ground_of(call.runtime))
    except LoginNeededError as error:
        raise (_dismissal(call) if error.has_ended else None) or error from None


def _dismissal(call: Call) -> ChallengeError | None:
    """Return the challenge to log in again and repeat the request; None if the request cannot be repeated."""
    dismissal = getattr(call.channel, "dismissal", None)  # a channel of an author's own need not know
    has_effects = call.dialogue is not None and call.dialogue.has_done
    return None if dismissal is None or has_effects else dismissal()


def ground_of(runtime: Runtime) -> VerifierContext:
    """Return the name, keys, storage and audit log of a server, for its token verifier."""
    from ..auth.verifier import VerifierContext

    return VerifierContext(runtime.name, runtime.keys, runtime.storage, runtime.audit)


def _unknown(provider: str, providers: tuple[str, ...]) -> str:
    if not providers:
        return (
            f"ctx.upstream_token({provider!r}): this server stores no tokens of an upstream provider. Log users in "
            "through one, for example Server(auth=OAuthProxy(UpstreamProvider.github(...)))"
        )
    known = " or ".join(map(repr, providers))
    return f"ctx.upstream_token({provider!r}): unknown provider. Users of this server log in with {known}"
