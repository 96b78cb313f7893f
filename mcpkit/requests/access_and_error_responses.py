"""Access checks of a request (scopes, challenges, tokens of the user elsewhere), and error responses."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from .._utils.exceptions import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    ArgumentsError,
    CallTimeoutError,
    ChallengeError,
    HandlerError,
    InputRequired,
    InsufficientScopeError,
    LoginNeededError,
    MissingCapabilityError,
    OutputError,
    ProcessEndedError,
    ProtocolError,
    RegistrationError,
    ResourceNotFoundError,
    exception_text,
)
from ..identity.principals_and_scopes import scope_names
from ..protocol import jsonrpc
from ..protocol.jsonrpc import Json
from .request_record import Call

if TYPE_CHECKING:
    from ..auth.verifier import VerifierContext
    from .request_record import Runtime

logger = logging.getLogger(__name__)


# Access


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


# Error responses


# Exceptions with a text for clients that are faults of the server.
_FAULTS = (CallTimeoutError, OutputError, ProcessEndedError)

# Responses


def error_response(call: Call, error: BaseException) -> bytes:
    """Return the error response for an exception. An unexpected exception is logged with a reference."""
    try:
        result: Json | None = None
        if call.dialogue is not None and is_input_required(error):
            result = call.dialogue.result()
        if result is None and call.method == "tools/call" and isinstance(error, asyncio.CancelledError):
            result = tool_error(call, error)  # its function has cancelled its own task
        if result is None:
            return jsonrpc.error(call.request_id, _protocol_error(call, error))
        return jsonrpc.result(call.request_id, call.render(result, is_complete=False))
    except Exception as failure:  # noqa: BLE001 - of the author's class or its `data`; every request is answered
        return jsonrpc.error(call.request_id, ProtocolError(INTERNAL_ERROR, internal(call, failure)))


def tool_error(call: Call, error: BaseException) -> dict[str, Any]:
    """Return the `CallToolResult` for an exception in a tool, which the model reads.

    The exception is stored in the call for middleware.
    """
    error, text = _explained(call, error)
    call.exception = single(error)
    if text is None:
        text = _unsent(call, error) if isinstance(error, OutputError) else internal(call, error)
    elif not text.isascii():
        text = readable(text)
    text = text or "The tool failed without an error message."
    result: Json = {"content": [{"type": "text", "text": text}], "isError": True}
    if isinstance(error, InsufficientScopeError):
        result["_meta"] = error.members
    return result


def _protocol_error(call: Call, error: BaseException) -> ProtocolError:
    """Return the JSON-RPC error for an exception."""
    error, text = _explained(call, error)
    data: Json | None = None
    if isinstance(error, ProtocolError):
        text, data = error.message, error.data
    elif isinstance(error, ResourceNotFoundError):
        return not_found(call, error.uri if error.uri is not None else str(call.params.get("uri", "")))
    elif text is None:
        text = _unsent(call, error) if isinstance(error, OutputError) else internal(call, error)
    elif isinstance(error, MissingCapabilityError):
        data = {"requiredCapabilities": error.required}
    elif isinstance(error, InsufficientScopeError):
        data = error.members
    return ProtocolError(
        code_of(call, error), readable(text) or "The request failed without an error message.", data
    )


def _explained(call: Call, error: BaseException) -> tuple[BaseException, str | None]:
    """Pass an unexpected exception to the error hooks of the server.

    Returns:
        The exception for the client, and its text if it is an exception with a text for clients.
    """
    text = exception_text(error) if isinstance(error, HandlerError) else None
    is_deliberate = text is not None or isinstance(error, ProtocolError)
    if not is_deliberate or isinstance(error, _FAULTS):
        error = call.runtime.explain(call, error)
        text = exception_text(error) if isinstance(error, HandlerError) else None
    return error, text


def code_of(call: Call, error: BaseException) -> int:
    """Return the JSON-RPC error code of an exception, if it becomes an error."""
    if isinstance(error, ProtocolError):
        return error.code
    if isinstance(error, ResourceNotFoundError):
        return call.envelope.not_found_code
    if isinstance(error, MissingCapabilityError):
        return call.envelope.missing_capability_code
    if isinstance(error, InsufficientScopeError):
        return INVALID_REQUEST
    return INVALID_PARAMS if isinstance(error, ArgumentsError) else INTERNAL_ERROR


def not_found(call: Call, uri: str) -> ProtocolError:
    """Return the error for a resource that does not exist: its code depends on the era."""
    uri = readable(uri)
    return ProtocolError(call.envelope.not_found_code, f"Resource not found: {uri[:200]}", {"uri": uri})


# Kinds of exceptions


def is_protocol_error(call: Call, error: BaseException) -> bool:
    """Return True if an exception of a tool becomes a response of its own in place of a tool result."""
    if call.dialogue is not None and call.dialogue.has_rounds and is_input_required(error):
        return True
    return isinstance(error, MissingCapabilityError) and call.era == "stateless"


def is_masked(error: BaseException) -> bool:
    """Return True if the client gets a reference to the log in place of the text of an exception."""
    if isinstance(error, HandlerError):
        return exception_text(error) is None
    return not isinstance(error, (OutputError, ProtocolError))


def is_unexpected(error: BaseException) -> bool:
    """Return True if an exception is a fault that a developer should examine, and not a deliberate response."""
    return is_masked(error) or isinstance(error, _FAULTS)


# Groups of exceptions, as task groups raise them


def is_input_required(error: BaseException) -> bool:
    """Return True if an exception is `InputRequired`, or a group of nothing else."""
    return all(isinstance(leaf, InputRequired) for leaf in _leaves(error))


def error_for_client(error: BaseException) -> BaseException:
    """Return the exception of a group that the client receives.

    Returns:
        The first exception with a text for the client, if the group has only such exceptions and `InputRequired`; else
        the error itself.
    """
    if not hasattr(error, "exceptions"):
        return error
    leaves = _leaves(error)
    with_text = [leaf for leaf in leaves if isinstance(leaf, (HandlerError, ProtocolError))]
    others = [leaf for leaf in leaves if isinstance(leaf, InputRequired)]
    return with_text[0] if with_text and len(with_text) + len(others) == len(leaves) else error


def single(error: BaseException) -> BaseException:
    """Return the exception in a group that has no other; else the error itself."""
    leaves = _leaves(error)
    return leaves[0] if len(leaves) == 1 else error


def _leaves(error: BaseException) -> list[BaseException]:
    """Return the exceptions of a group and of the groups in it; the error itself if it is not a group.

    A group is recognized by its attribute: Python 3.10 has no class for it, and other classes may have such an
    attribute.
    """
    members: tuple[Any, ...] | None = getattr(error, "exceptions", None)
    if not isinstance(members, tuple) or not members:
        return [error]
    if not all(isinstance(each, BaseException) for each in members):
        return [error]
    return [leaf for each in members for leaf in _leaves(each)]


# Texts


def internal(call: Call, error: BaseException) -> str:
    """Log an exception with its traceback, and return the text for the client.

    The text contains the reference of the log entry. With `mask_error_details=False`, for development, it contains the
    type and the text of the exception too. The traceback is not sent, because it reveals internals of the server.
    """
    ref = ref_of(call)
    logger.error("%s%s failed (ref %s)", call.method, _about(call), ref, exc_info=error)
    if call.runtime.mask_error_details:
        return f"Internal error (ref {ref})"
    import traceback

    text = "".join(traceback.format_exception_only(error)).strip()
    return f"{readable(text)} (ref {ref})"


_STEPS = {
    "tools/call": "the tool ran",
    "resources/read": "the resource was read",
    "prompts/get": "the prompt was made",
}


def _unsent(call: Call, error: OutputError) -> str:
    """Log that a function has run but its result cannot be sent, and return the error text for the client."""
    step = _STEPS.get(call.method, "the method ran")
    text = readable(f"{step}, but {error}")
    cause = error.__cause__
    if cause is not None and not call.runtime.mask_error_details:
        text += f" ({type(cause).__name__}: {readable(exception_text(cause) or 'its error message cannot be read')})"
    logger.error("%s%s: %s", call.method, _about(call), text, exc_info=error.__cause__)
    return text


def _about(call: Call) -> str:
    about = call.params.get("name") or call.params.get("uri") or call.params.get("ref")
    return f" {about!r}"[:200] if about else ""


def ref_of(call: Call) -> str:
    """Return the reference of a request's failure in the log, for clients and traces."""
    if call.ref is None:
        import secrets

        call.ref = secrets.token_hex(4)
    return call.ref


def readable(text: str) -> str:
    """Return a text that UTF-8 can carry: half of a surrogate pair becomes `?`."""
    return text if text.isascii() else text.encode(errors="replace").decode()
